"""Components and their pairs against a search, and how components that are too large are thinned."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.engine import naive
from vber_cli.engine import graph as module
from vber_cli.engine.block_model import block_model, exact_evidence
from vber_cli.engine.graph import build_graph, thin
from vber_cli.engine.learn import log_odds_of, split_pairs, with_levels
from vber_cli.engine.partition_kernels import MAX_EXACT
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records


def random_edges(rng, n, m):
    pairs = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(m)}
    shuffled = rng.permutation(sorted(pairs)) if pairs else np.empty((0, 2))
    return tuple(shuffled.T.astype(np.int32))


def parts(ptr, values):
    return [np.asarray(values)[lo:hi].tolist() for lo, hi in itertools.pairwise(ptr)]


@pytest.mark.parametrize(
    ("n", "m"), [(1, 0), (5, 0), (2, 1), (30, 8), (30, 20), (60, 45), (60, 59), (12, 66), (200, 110)]
)
def test_components_and_their_pairs(rng, n, m):
    for _ in range(5):
        a, b = random_edges(rng, n, m) if n > 1 else (np.empty(0, np.int32), np.empty(0, np.int32))
        graph = build_graph(a, b, n)
        groups = sorted(naive.connected(n, a, b), key=lambda group: (len(group), group))
        assert parts(graph.comp_ptr, graph.comp_record) == groups
        assert graph.n_components == len(groups)
        assert graph.n_small == sum(len(group) <= MAX_EXACT for group in groups)
        assert graph.n_alone == n - sum(map(len, groups))
        assert graph.n_records == n
        edges = list(zip(a.tolist(), b.tolist(), strict=True))
        pairs = list(zip(parts(graph.pair_ptr, graph.pair_a), parts(graph.pair_ptr, graph.pair_b), strict=True))
        assert len(pairs) == len(groups)
        for c, (group, (first, second)) in enumerate(zip(groups, pairs, strict=True)):
            found = list(zip(first, second, strict=True))
            if c < graph.n_small:
                assert found == list(itertools.combinations(group, 2))
            else:
                assert found == [edge for edge in edges if edge[0] in group]
        for array in (graph.comp_record, graph.pair_a, graph.pair_b):
            assert array.dtype == np.int32
        for array in (graph.comp_ptr, graph.pair_ptr):
            assert array.dtype == np.int64


def test_a_chain_of_one_more_than_can_be_summed_is_large():
    for size in (MAX_EXACT, MAX_EXACT + 1):
        a = np.arange(size - 1, dtype=np.int32)
        graph = build_graph(a, a + 1, size)
        assert graph.n_small == (size == MAX_EXACT)
        assert len(graph.pair_a) == (size * (size - 1) // 2 if size == MAX_EXACT else size - 1)


def test_records_can_be_renumbered(rng):
    n = 80
    a, b = random_edges(rng, n, 60)
    rename = rng.permutation(n).astype(np.int32)
    x, y = rename[a], rename[b]
    one, two = build_graph(a, b, n), build_graph(np.minimum(x, y), np.maximum(x, y), n)
    renamed = sorted(sorted(rename[group].tolist()) for group in parts(one.comp_ptr, one.comp_record))
    assert renamed == sorted(parts(two.comp_ptr, two.comp_record))
    pairs = {tuple(sorted(pair)) for pair in zip(rename[one.pair_a].tolist(), rename[one.pair_b].tolist(), strict=True)}
    assert pairs == set(zip(two.pair_a.tolist(), two.pair_b.tolist(), strict=True))


def sizes(a, b, n):
    return [len(group) for group in naive.connected(n, a, b)]


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_thinning_bounds_the_components_and_leaves_small_ones_alone(rng, monkeypatch):
    monkeypatch.setattr(module, "MAX_COMPONENT", 20)
    n = 400
    a, b = random_edges(rng, n, 260)
    strength = rng.normal(size=len(a))
    keep = thin(a, b, strength, n)
    assert max(sizes(a, b, n)) > 20
    assert 5 < max(sizes(a[keep], b[keep], n)) <= 20
    small = {r for group in naive.connected(n, a, b) if len(group) <= 20 for r in group}
    assert len(small) > 100
    assert all(keep[e] for e in range(len(a)) if a[e] in small)
    np.testing.assert_array_equal(keep, thin(a, b, strength, n))


def naive_thin(a, b, strength, n, largest):
    """Drop the weaker half, rounded up, of the edges of every component that is too large, until there is none."""
    keep = set(range(len(a)))
    while True:
        kept = sorted(keep)
        groups = naive.connected(n, a[kept], b[kept])
        too_large = [set(group) for group in groups if len(group) > largest]
        if not too_large:
            return np.array([e in keep for e in range(len(a))])
        for group in too_large:
            inside = sorted((e for e in keep if a[e] in group), key=lambda e: (strength[e], e))
            keep -= set(inside[: (len(inside) + 1) // 2])


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize(("n", "m"), [(60, 200), (200, 400), (3, 3), (40, 30)])
def test_thinning_drops_the_weaker_half_again_and_again(rng, n, m, monkeypatch):
    monkeypatch.setattr(module, "MAX_COMPONENT", 12)
    a, b = random_edges(rng, n, m)
    for strength in (rng.normal(size=len(a)), rng.integers(0, 3, len(a)).astype(float)):
        np.testing.assert_array_equal(thin(a, b, strength, n), naive_thin(a, b, strength, n, 12))


def test_thinning_keeps_strong_edges_between_weak_ones(rng):
    """A hundred clear triples, chained by weak edges: the triples stay whole, the chain goes."""
    n = 300
    triples = np.arange(0, n, 3)
    a = np.concatenate([triples, triples, triples + 1, triples[:-1] + 2]).astype(np.int32)
    b = np.concatenate([triples + 1, triples + 2, triples + 2, triples[1:]]).astype(np.int32)
    strong = np.arange(len(a)) < n
    assert sizes(a, b, n) == [n]
    assert n > module.MAX_COMPONENT
    order = rng.permutation(len(a))
    strength = np.where(strong, rng.uniform(5, 9, len(a)), rng.uniform(-3, 0, len(a)))
    keep = np.empty(len(a), bool)
    keep[order] = thin(a[order], b[order], strength[order], n)
    assert max(sizes(a[keep], b[keep], n)) <= module.MAX_COMPONENT
    assert keep[np.argsort(-strength)[: len(a) // 8]].all()
    assert keep[strong].mean() > 2 * keep[~strong].mean()


def test_nothing_to_thin():
    none = np.empty(0, np.int32)
    assert thin(none, none, np.empty(0), 5).tolist() == []


@pytest.mark.parametrize("tilt", [-6.0, -1.0, None])
def test_pairs_of_records_with_far_better_partners_join_nothing_in_clean_databases(tilt):
    # 0 and 2 of one database, 1 and 3 of the other: 0-1 and 2-3 agree on all, 0-3 on one field; 4-5 only on that
    codes = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 0], [2, 3, 1], [4, 5, 1]], np.int32)
    records = Records(codes, np.array([0, 1, 0, 1, 0, 1], np.int32), np.array([9, 9, 9]))
    prior = make_prior(records, "uniform", 1e-6)
    evidence = replace(exact_evidence(prior, 3), tilt=np.zeros(0) if tilt is None else np.full(2, tilt))
    model = block_model(records, evidence)
    pairs = with_levels(model, (np.array([0, 0, 2, 4], np.int32), np.array([1, 3, 3, 5], np.int32)))
    log_new = float(log_odds_of(model, pairs, 0.0)[3]) + 1.0  # 4-5 is a strong enough edge, and so is 0-3
    split = split_pairs(model, pairs, log_new)
    assert split.graph.n_components == (3 if tilt == -6.0 else 2)
