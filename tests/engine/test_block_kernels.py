"""Gibbs sampling with split–merge proposals against sums over all partitions; components against a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import naive
from vber_cli.engine import block_kernels as kernels
from vber_cli.engine.graph import build_graph
from vber_cli.engine.partition_kernels import BINS, DEPTH
from vber_cli.engine.posterior import Chains, expect
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.types import Records

N_BATCHES = 40


def sparse_edges(rng, n, extra):
    """A random tree over 0..n-1 and a few more edges: (a, b) with a < b, each once."""
    order = rng.permutation(n)
    edges = {tuple(sorted((int(order[i]), int(order[rng.integers(i)])))) for i in range(1, n)}
    for _ in range(extra):
        edges.add(tuple(sorted(rng.choice(n, 2, replace=False).tolist())))
    return tuple(np.array(side, np.int32) for side in zip(*sorted(edges), strict=True))


def all_edges(n):
    return tuple(side.astype(np.int32) for side in np.triu_indices(n, 1))


class Sampler:
    """The kernel itself on one component that holds all records, whatever its size."""

    def __init__(self, records, theta, noise, log_new, edges, label):
        n = records.n_records
        self.a, self.b = edges
        ends = np.concatenate(edges)
        order = np.argsort(ends, kind="stable")
        self.nbr = np.concatenate(edges[::-1])[order].astype(np.int32)
        self.nbr_ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)
        self.label = label.copy()
        self.given = (records.codes, theta, noise.concentration, noise.share, log_new)
        self.shape = (noise.n_classes, 2, records.n_fields, DEPTH, BINS)

    def batch(self, n_burn, n_keep, seed):
        """Means over one batch of sweeps: edges together, records alone, number of blocks; and the last statistics."""
        n = len(self.label)
        lists = [np.zeros(n, np.int32) for _ in range(3)]
        together, alone, blocks = np.zeros(len(self.a)), np.zeros(n), np.zeros(n_keep)
        stats, class_weight, repeats = np.zeros(self.shape), np.zeros(self.shape[0]), np.zeros((n, self.shape[2]))
        kernels.gibbs_kernel(
            0, 1, np.array([0, n]), np.arange(n, dtype=np.int32), np.array([0, len(self.a)]), self.a, self.b,
            self.nbr_ptr, self.nbr, *self.given, n_burn, n_keep, np.uint64(seed), self.label, *lists,
            1 / n_keep, together, alone, repeats, stats, class_weight, blocks,
        )  # fmt: skip
        return np.concatenate([together, alone, [blocks.mean(), (blocks**2).mean()]]), (stats, class_weight, repeats)


def assert_within_monte_carlo_error(batches, expected, variance, n_sweeps):
    """Batch means against the truth: within four of their standard errors, never less than of independent sweeps."""
    batches = np.asarray(batches)
    error = 4 * batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    away = np.abs(batches.mean(axis=0) - expected)
    assert np.all(away <= np.maximum(error, naive.four_errors(variance, n_sweeps)))


def summary_of(expected, edges):
    """What a batch estimates, and the variance of each of it in one draw."""
    n_blocks, p = expected.n_blocks, expected.probability
    mean, second = p @ n_blocks, p @ n_blocks**2
    share = np.concatenate([expected.pair[edges], expected.alone])
    values = np.concatenate([share, [mean, second]])
    variance = np.concatenate([share * (1 - share), [second - mean**2, p @ n_blocks**4 - second**2]])
    return values, np.maximum(variance, 0.0)


SMALL = [
    # kind, records, noise classes, edges (None: all), log_new
    ("people", 7, 1, None, 1.0),
    ("people", 7, 1, 0, 2.5),
    ("people", 7, 3, None, 1.5),
    ("people", 6, 2, 1, 0.5),
    ("missing", 6, 1, 2, -0.5),
    ("missing", 6, 2, 0, 0.3),
    ("tied", 5, 1, 0, 1.0),
    ("tied", 6, 2, None, 2.0),
    ("constant", 5, 2, 0, 3.0),
    ("blank", 5, 1, 1, 0.7),
    ("random", 2, 2, None, -0.5),
]


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize(("kind", "n", "n_classes", "extra", "log_new"), SMALL)
def test_gibbs_meets_enumeration_on_few_records(rng, kind, n, n_classes, extra, log_new):
    records, prior, noise = naive.make_case(rng, n, kind, n_classes)
    theta = naive.own_theta(records, prior)
    edges = all_edges(n) if extra is None else sparse_edges(rng, n, extra)
    sampler = Sampler(records, theta, noise, log_new, edges, np.arange(n, dtype=np.int32))
    seed, n_keep = int(rng.integers(1 << 30)), 250
    batches = [sampler.batch(20, n_keep, seed + i)[0] for i in range(N_BATCHES)]
    expected = naive.posterior(records.codes, theta, noise, log_new * np.arange(n + 1))
    assert_within_monte_carlo_error(batches, *summary_of(expected, edges), N_BATCHES * n_keep)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_the_start_is_forgotten(rng, n_classes):
    n, log_new = 6, 1.0
    records, prior, noise = naive.make_case(rng, n, "people", n_classes)
    theta = naive.own_theta(records, prior)
    edges = sparse_edges(rng, n, 0)
    expected = naive.posterior(records.codes, theta, noise, log_new * np.arange(n + 1))
    for start in (np.zeros(n, np.int32), np.array([3, 3, 3, 3, 4, 4], np.int32)):
        sampler = Sampler(records, theta, noise, log_new, edges, start)
        batches = [sampler.batch(20, 400, 50 + i)[0] for i in range(N_BATCHES)]
        assert_within_monte_carlo_error(batches, *summary_of(expected, edges), N_BATCHES * 400)


def test_split_merge_alone_keeps_the_posterior(rng):
    """From exact draws, one sweep must return exact draws: no burn-in can hide a wrong acceptance ratio."""
    n, log_new, n_draws = 5, 1.0, 6000
    records, prior, noise = naive.make_case(rng, n, "people", 2)
    theta = naive.own_theta(records, prior)
    edges = sparse_edges(rng, n, 1)
    expected = naive.posterior(records.codes, theta, noise, log_new * np.arange(n + 1))
    at = rng.choice(len(expected.labels), n_draws, p=expected.probability)
    args = (records.codes, theta, noise.concentration, noise.share, log_new)
    index = {tuple(label): i for i, label in enumerate(expected.labels.tolist())}
    everyone = np.arange(n, dtype=np.int32)
    head, follow, size, members, one, two = (np.zeros(n, np.int32) for _ in range(6))
    stream, work = np.array([7], np.uint64), np.empty((3, 3))
    after = np.zeros(len(expected.labels))
    moved = 0
    for i in at:
        label = expected.labels[i].astype(np.int32)
        kernels._link(everyone, label, head, follow, size)
        for _ in range(4):
            e = rng.integers(len(edges[0]))
            a, b = (edges[0][e], edges[1][e]) if rng.random() < 0.5 else (edges[1][e], edges[0][e])
            kernels._split_merge(a, b, everyone, e, *args, label, head, follow, size, stream, members, one, two, work)
        first = [int(np.flatnonzero(label == k)[0]) for k in label]
        after[index[tuple(first)]] += 1
        moved += index[tuple(first)] != i
    p = expected.probability
    assert moved > n_draws / 5
    assert np.all(np.abs(after / n_draws - p) <= naive.four_errors(p * (1 - p), n_draws))


@pytest.mark.parametrize("n_classes", [1, 2])
def test_the_statistics_are_those_of_the_last_partition(rng, n_classes):
    n = 7
    records, prior, noise = naive.make_case(rng, n, "people", n_classes)
    theta = naive.own_theta(records, prior)
    sampler = Sampler(records, theta, noise, 1.0, all_edges(n), np.arange(n, dtype=np.int32))
    for seed in range(5):
        _, found = sampler.batch(3, 8, seed)
        blocks = naive.blocks_of(sampler.label)
        assert len(blocks) < n
        parts = [naive.block_statistics(records.codes, theta, noise, block) for block in blocks]
        for ours, theirs in zip(found, zip(*parts, strict=True), strict=True):
            np.testing.assert_allclose(ours, sum(theirs), rtol=0, atol=1e-11)
        assert set(sampler.label.tolist()) <= set(range(n))


def expect_in_batches(records, prior, noise, log_new, graph, n_sweeps, seed):
    """Batch means of the pairs of large components, records alone and E[n], from chains that go on."""
    n = records.n_records
    chains = Chains(graph, 2, np.zeros(n, np.int32))
    out = []
    for i in range(N_BATCHES):
        found = expect(
            records, prior, noise, log_new, graph, chains, seed=seed + i, draw=False, n_sweeps=n_sweeps, threads=1
        )
        assert found.chain_pairs.shape == (2, graph.pair_ptr[-1] - graph.pair_ptr[graph.n_small])
        assert found.chain_n.shape == (2, n_sweeps * 2 // 3)
        np.testing.assert_allclose(found.chain_pairs.mean(axis=0), found.pair_probability, rtol=0, atol=1e-12)
        assert found.n_variance == pytest.approx(found.chain_n.var())
        out.append(np.concatenate([found.pair_probability, found.alone, [found.n_mean, (found.chain_n**2).mean()]]))
    return out


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize(
    ("kind", "n_classes", "extra", "log_new"),
    [("people", 1, None, 1.5), ("people", 1, 3, 2.0), ("people", 3, 0, 1.0), ("missing", 1, 0, 1.0)],
)
def test_large_components_meet_enumeration(rng, kind, n_classes, extra, log_new):
    n, n_sweeps = 9, 150
    records, prior, noise = naive.make_case(rng, n, kind, n_classes)
    edges = all_edges(n) if extra is None else sparse_edges(rng, n, extra)
    graph = build_graph(*edges, n)
    assert (graph.n_components, graph.n_small) == (1, 0)
    batches = expect_in_batches(records, prior, noise, log_new, graph, n_sweeps, int(rng.integers(1 << 20)))
    expected = naive.posterior(records.codes, naive.own_theta(records, prior), noise, log_new * np.arange(n + 1))
    values, variance = summary_of(expected, (graph.pair_a, graph.pair_b))
    assert_within_monte_carlo_error(batches, values, variance, N_BATCHES * 2 * (n_sweeps * 2 // 3))


GROUPS, SIZE = 5, 6


def groups_that_cannot_mix(rng, n_classes, log_new):
    """Thirty records in five groups, and the posterior of each: together they are a product over the groups."""
    n = GROUPS * SIZE
    parts = [naive.make_codes(rng, SIZE, "people") for _ in range(GROUPS)]
    # four fields more that agree within a group only: at concentration 1e-6 each costs 14 nats where it differs
    apart = np.repeat(np.arange(GROUPS), SIZE)[:, None].repeat(4, axis=1)
    codes = np.ascontiguousarray(np.concatenate([np.concatenate(parts), apart], axis=1), dtype=np.int32)
    n_values = np.array([*naive.N_VALUES, *[GROUPS] * 4])
    _, prior, noise = naive.make_case(rng, 2, "random", n_classes)
    noise = Noise(np.concatenate([noise.concentration, np.full((n_classes, 4), 1e-6)], axis=1), noise.share)
    base = np.concatenate([prior.base, np.full(4 * GROUPS, 1 / GROUPS)])
    records = Records(codes, np.zeros(n, np.int32), n_values)
    theta = naive.own_theta(records, Prior(np.concatenate([[0], np.cumsum(n_values)]), base, noise.concentration[0]))
    log_h = log_new * np.arange(SIZE + 1)
    rows = [slice(g * SIZE, (g + 1) * SIZE) for g in range(GROUPS)]
    return records, theta, noise, [naive.posterior(codes[part], theta[part], noise, log_h) for part in rows]


def product_summary(parts, edges):
    """What a batch estimates (without the square of n), and the variance of each of it in one draw."""
    a, b = edges
    pair = np.zeros((GROUPS * SIZE, GROUPS * SIZE))
    for g, part in enumerate(parts):
        pair[g * SIZE : (g + 1) * SIZE, g * SIZE : (g + 1) * SIZE] = part.pair
    share = np.concatenate([pair[a, b], *(part.alone for part in parts)])
    mean, variance = np.sum([part.moments for part in parts], axis=0)
    return np.append(share, mean), np.append(np.maximum(share * (1 - share), 0), variance)


def edges_with_bridges(within):
    """The groups' own edges, and one from each group to the next."""
    a = [*(e[0] + g * SIZE for g, e in enumerate(within)), np.arange(GROUPS - 1) * SIZE]
    b = [*(e[1] + g * SIZE for g, e in enumerate(within)), np.arange(1, GROUPS) * SIZE + 2]
    edges = tuple(np.concatenate(side).astype(np.int32) for side in (a, b))
    assert naive.connected(GROUPS * SIZE, *edges) == [list(range(GROUPS * SIZE))]
    assert GROUPS * SIZE > kernels._ALL_BLOCKS_UP_TO
    return edges


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_where_records_join_neighbours_only_exact_draws_stay_exact(rng, n_classes):
    """However few edges there are and however slowly the chain would mix, its sweeps keep the posterior."""
    log_new, n_draws = 1.0, 2500
    records, theta, noise, parts = groups_that_cannot_mix(rng, n_classes, log_new)
    edges = edges_with_bridges([sparse_edges(rng, SIZE, 1) for _ in range(GROUPS)])
    drawn = [part.labels[rng.choice(len(part.labels), n_draws, p=part.probability)] for part in parts]
    starts = np.concatenate([label + g * SIZE for g, label in enumerate(drawn)], axis=1).astype(np.int32)
    sampler = Sampler(records, theta, noise, log_new, edges, starts[0])
    after, moved = [], 0
    for i, start in enumerate(starts):
        sampler.label = start.copy()
        after.append(sampler.batch(1, 1, int(rng.integers(1 << 40)) + i)[0][:-1])
        moved += naive.blocks_of(sampler.label) != naive.blocks_of(start)
    assert moved > n_draws / 10
    values, variance = product_summary(parts, edges)
    assert np.all(np.abs(np.mean(after, axis=0) - values) <= naive.four_errors(variance, n_draws))


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_where_records_join_neighbours_only_the_chain_meets_enumeration(rng, n_classes):
    """Here, as in a run, every pair of some weight is an edge."""
    log_new, n_keep = 1.0, 200
    records, theta, noise, parts = groups_that_cannot_mix(rng, n_classes, log_new)
    within = []
    for g in range(GROUPS):
        a, b = all_edges(SIZE)
        tree = set(zip(*sparse_edges(rng, SIZE, 0), strict=True))
        keep = np.zeros(len(a), bool)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            weight = naive.block_weight(records.codes, theta, noise, [x + g * SIZE, y + g * SIZE])
            keep[i] = weight - log_new > -3.0 or (x, y) in tree
        within.append((a[keep], b[keep]))
    edges = edges_with_bridges(within)
    sampler = Sampler(records, theta, noise, log_new, edges, np.arange(GROUPS * SIZE, dtype=np.int32))
    sampler.batch(500, 1, 1)
    batches = np.array([sampler.batch(0, n_keep, 100 + i)[0] for i in range(N_BATCHES)])
    assert_within_monte_carlo_error(batches[:, :-1], *product_summary(parts, edges), N_BATCHES * n_keep)


def test_components_meet_a_search(rng):
    for n, m in itertools.product((1, 2, 9, 60), (0, 1, 5, 40)):
        a, b = (rng.integers(0, n, m).astype(np.int32) for _ in range(2))
        root = kernels.components_kernel(a, b, n)
        expected = np.arange(n)
        for group in naive.connected(n, a, b):
            expected[group] = group[0]
        np.testing.assert_array_equal(root, expected)
