"""One pass over many components: what is summed up over them, threads, and the order of the records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import exact
from tests.engine import built, naive
from vber_cli.engine import posterior
from vber_cli.engine.graph import build_graph
from vber_cli.engine.moves import greedy_labels
from vber_cli.engine.posterior import Chains, component_parts, expect
from vber_cli.model.noise import Noise
from vber_cli.model.types import Records


def one_pass(case, graph, chains=None, *, count=True, seed=3, threads=1, log_new=1.2):
    model = built.model_of(case)
    return expect(model, log_new, graph, chains, seed=seed, count=count, n_sweeps=60, threads=threads)


def edges_within(groups):
    pairs = [pair for group in groups for pair in itertools.pairwise(group)]
    return tuple(np.array(side, np.int32) for side in zip(*sorted(map(sorted, pairs)), strict=True))


@pytest.fixture(params=["exact", "full"])
def thirty(rng, request):
    """Thirty records: components of 2 to 6 records, and five records without an edge."""
    case = naive.make_case(rng, 30, "people", *((1, ()) if request.param == "exact" else (2, naive.FULL)))
    order = rng.permutation(30)
    groups = [sorted(part.tolist()) for part in np.split(order[:25], [2, 4, 7, 10, 14, 19])]
    return case, groups, build_graph(*edges_within(groups), 30)


def same(one, two):
    for name in vars(one):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


def test_components_do_not_touch_each_other(thirty):
    case, groups, graph = thirty
    found = one_pass(case, graph)
    pair, alone, moments = np.zeros((30, 30)), np.ones(30), np.zeros(2)
    for group in groups:
        part = naive.posterior(case, 1.2 * np.arange(len(group) + 1), group)
        pair[np.ix_(group, group)] = part.pair
        alone[group] = part.alone
        moments += part.moments
    np.testing.assert_allclose(found.pair_probability, pair[graph.pair_a, graph.pair_b], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.alone, alone, rtol=0, atol=1e-9)
    assert found.n_mean == pytest.approx(moments[0] + 5, abs=1e-9)
    assert found.n_variance == pytest.approx(moments[1], abs=1e-9)
    assert found.class_weight.sum() == pytest.approx(30 - found.n_mean, abs=1e-9)
    assert found.chain_pairs.shape == found.chain_n.shape == (0, 0)


def test_the_product_of_components_is_one_sum_over_all_partitions(rng):
    """Components 0-2 and 3-5 that share no value: enumerated apart they are what all six records give together."""
    case = naive.make_case(rng, 6, "people")
    codes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [3, 2, 6], [3, 2, 5], [3, 2, 6]], np.int32)
    prior = case.prior.with_concentration(np.full(3, 1e-4))
    records = Records(codes, case.records.db_of_record, case.records.n_values)
    case = case.of(records=records, prior=prior, noise=Noise.single(prior.concentration))
    graph = build_graph(np.array([0, 1, 3, 4], np.int32), np.array([1, 2, 4, 5], np.int32), 6)
    found = one_pass(case, graph)
    pair, blocks = exact.partition_posterior(codes, case.alpha_by_field, 1.2 * np.arange(7))
    np.testing.assert_allclose(found.pair_probability, pair[graph.pair_a, graph.pair_b], rtol=0, atol=1e-9)
    assert found.n_mean == pytest.approx(blocks @ np.arange(7), abs=1e-9)


def test_no_edges_at_all(rng):
    case = naive.make_case(rng, 4, "random")
    found = one_pass(case, build_graph(np.empty(0, np.int32), np.empty(0, np.int32), 4))
    assert (found.n_mean, found.n_variance, len(found.pair_probability)) == (4.0, 0.0, 0)
    assert found.alone.tolist() == [1.0] * 4
    assert found.stats.sum() == found.repeats.sum() == 0.0


@pytest.mark.parametrize("count", [False, True])
def test_threads_do_not_change_a_bit(thirty, count):
    case, _, graph = thirty
    same(*(one_pass(case, graph, count=count, threads=t) for t in (1, 2)))


def test_threads_do_not_change_a_bit_of_the_chains(rng):
    case = naive.make_case(rng, 60, "people", 2, naive.FULL)
    graph = build_graph(*edges_within([range(10), range(10, 22), range(22, 40), range(40, 44)]), 60)
    assert (graph.n_small, graph.n_components) == (1, 4)
    runs = []
    for threads in (1, 2):
        model = built.model_of(case)
        chains = Chains(model, graph, 3, greedy_labels(model, 1.2, graph, threads), threads)
        first = one_pass(case, graph, chains, threads=threads)
        runs.append((first, one_pass(case, graph, chains, threads=threads), chains))
    for i in (0, 1):
        same(runs[0][i], runs[1][i])
    np.testing.assert_array_equal(runs[0][2].labels, runs[1][2].labels)
    assert runs[0][2].n_calls == 2
    first, second, chains = runs[0]
    assert not np.array_equal(first.chain_pairs, second.chain_pairs)
    assert first.chain_pairs.shape == (3, 9 + 11 + 17)
    # every record is in a block of its own component, statistics count every record that is not the first of its block
    blocks = [len(np.unique(label)) for label in chains.labels]
    small = second.pair_probability[: graph.pair_ptr[1]]
    alone = one_pass(case, build_graph(*edges_within([range(40, 44)]), 60))
    np.testing.assert_allclose(small, alone.pair_probability, rtol=0, atol=1e-12)
    expected = np.mean([60 - n for n in blocks]) + alone.class_weight.sum()
    assert second.class_weight.sum() == pytest.approx(expected)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_renumbering_the_records_renames_the_result(rng):
    case = naive.make_case(rng, 24, "people")
    groups = [sorted(part.tolist()) for part in np.split(rng.permutation(24)[:20], [3, 9, 13])]
    new = rng.permutation(24)  # record r becomes new[r]
    codes = np.empty_like(case.codes)
    codes[new] = case.codes
    moved = case.of(records=Records(codes, case.records.db_of_record, case.records.n_values))
    one = one_pass(case, g := build_graph(*edges_within(groups), 24))
    two = one_pass(moved, h := build_graph(*edges_within([new[group].tolist() for group in groups]), 24))
    at = {
        frozenset(pair): p for *pair, p in zip(h.pair_a.tolist(), h.pair_b.tolist(), two.pair_probability, strict=True)
    }
    theirs = [at[frozenset((new[x], new[y]))] for x, y in zip(g.pair_a, g.pair_b, strict=True)]
    np.testing.assert_allclose(one.pair_probability, theirs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.alone, two.alone[new], rtol=0, atol=1e-9)
    # which of two equal values is the copy depends on the order; how many copies there are does not
    assert (one.n_mean, one.n_variance) == (pytest.approx(two.n_mean), pytest.approx(two.n_variance))
    assert one.class_weight.sum() == pytest.approx(two.class_weight.sum())


def test_parts_cover_every_component_once(monkeypatch):
    a = np.arange(0, 400, 2, dtype=np.int32)
    graph = build_graph(a, a + 1, 400)
    for n_parts in (1, 3, 64, 1000):
        monkeypatch.setattr(posterior, "_PARTS", n_parts)
        for least in (1, 7, 500):
            monkeypatch.setattr(posterior, "_LEAST", least)
            for lo, hi in ((0, 200), (17, 180), (5, 6), (9, 9)):
                covered = [c for begin, end in component_parts(graph, lo, hi) for c in range(begin, end)]
                assert covered == list(range(lo, hi))
    assert len(component_parts(graph, 0, 200)) == 1  # where there is little work it is not divided
    monkeypatch.setattr(posterior, "_LEAST", 1)
    assert len(component_parts(graph, 0, 200)) > 100


def test_large_blocks_crowd_the_sweeps(rng):
    """Chains go in turn from the partition given and from every record alone: one crowded, one not."""
    case = naive.make_case(rng, 60, "people", 1, ())
    graph = build_graph(*edges_within([range(40), range(40, 44)]), 60)
    model = built.model_of(case)
    together = np.where(np.arange(60) < 40, 0, np.arange(60)).astype(np.int32)
    assert Chains(model, graph, 2, together).crowding(graph) == pytest.approx((40 / 8 + 1) / 2)
    apart = np.arange(60, dtype=np.int32)
    assert Chains(model, graph, 2, apart).crowding(graph) == 1.0
