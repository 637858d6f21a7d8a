"""Components and their pairs against a search, and how components that are too large are thinned."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.engine import naive
from vber_cli.engine import graph as module
from vber_cli.engine.block_model import block_model, exact_evidence
from vber_cli.engine.candidate_pairs import log_odds_of, split_pairs, with_levels
from vber_cli.engine.graph import build_graph, thin, with_inner
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
@pytest.mark.parametrize(("n", "m"), [(60, 200), (200, 300)])
def test_the_inner_pairs_of_large_components(rng, n, m, monkeypatch):
    monkeypatch.setattr(module, "MAX_LISTED", 30)
    graph = build_graph(*random_edges(rng, n, m // 3), n)
    of = graph.component_of()
    groups = parts(graph.comp_ptr, graph.comp_record)
    assert of.tolist() == [next((c for c, group in enumerate(groups) if r in group), -1) for r in range(n)]
    more = random_edges(rng, n, m)
    found = with_inner(graph, *more)
    sizes = []
    for c, group in enumerate(groups):
        lo, hi = graph.pair_ptr[c], graph.pair_ptr[c + 1]
        edges = set(zip(graph.pair_a[lo:hi].tolist(), graph.pair_b[lo:hi].tolist(), strict=True))
        lo, hi = found.inner_ptr[c], found.inner_ptr[c + 1]
        inner = list(zip(found.inner_a[lo:hi].tolist(), found.inner_b[lo:hi].tolist(), strict=True))
        among = set(itertools.combinations(group, 2))
        if len(group) > 30:
            among &= set(zip(*(side.tolist() for side in more), strict=True))
        expected = among - edges if c >= graph.n_small else set()
        assert inner == sorted(expected)
        sizes.append(len(inner))
    assert sum(sizes) == len(found.inner_a) > 0
    assert (found.inner_a.dtype, found.inner_b.dtype, found.inner_ptr.dtype) == (np.int32, np.int32, np.int64)


def naive_thin(a, b, strength, n, largest):
    """The strongest edges first, none that would make a component too large; only in those that are."""
    groups = naive.connected(n, a, b)
    too_large = {r for group in groups if len(group) > largest for r in group}
    of = {r: {r} for r in range(n)}
    keep = np.ones(len(a), bool)
    for e in sorted((e for e in range(len(a)) if a[e] in too_large), key=lambda e: (-strength[e], e)):
        x, y = of[a[e]], of[b[e]]
        if x is y:
            continue
        keep[e] = len(x) + len(y) <= largest
        if keep[e]:
            x |= y
            of.update(dict.fromkeys(x, x))
    return keep


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize(("n", "m"), [(60, 200), (200, 400), (3, 3), (40, 30)])
def test_thinning_keeps_the_strongest_edges(rng, n, m, monkeypatch):
    monkeypatch.setattr(module, "MAX_LISTED", 12)
    monkeypatch.setattr(module, "MAX_SQUARES", 0)
    a, b = random_edges(rng, n, m)
    for strength in (rng.normal(size=len(a)), rng.integers(0, 3, len(a)).astype(float)):
        keep = thin(a, b, strength, n)
        np.testing.assert_array_equal(keep, naive_thin(a, b, strength, n, 12))
        assert max(sizes(a[keep], b[keep], n)) <= 12


def test_edges_that_are_needed_stay(monkeypatch):
    monkeypatch.setattr(module, "MAX_LISTED", 3)
    monkeypatch.setattr(module, "MAX_SQUARES", 0)
    a = np.arange(5, dtype=np.int32)
    needed = np.array([True, True, True, False, False])
    keep = thin(a, a + 1, np.array([0.0, 0.0, 0.0, 9.0, 9.0]), 6, needed)
    assert keep.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("sizes", "cap"),
    [([], 80), ([5, 80], 80), ([1000], 1000), ([2000], 2000), ([2001], 1000), ([1000] * 5, 500), ([100] * 2000, 80)],
)
def test_components_may_be_as_large_as_the_work_allows(sizes, cap):
    sizes = np.array(sizes, np.int64)
    assert module.largest_component(sizes) == cap
    large = sizes[sizes > module.MAX_LISTED]
    assert cap == module.MAX_LISTED or np.sum(large * np.minimum(large, cap)) <= module.MAX_SQUARES


def test_a_component_within_the_limit_is_left_whole(rng):
    n = 1500
    a = np.arange(n - 1, dtype=np.int32)
    assert thin(a, a + 1, rng.normal(size=n - 1), n).all()


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
