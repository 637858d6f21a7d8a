"""Gibbs sampling with split–merge proposals against sums over all partitions; components against a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import built, naive
from tests.engine.steps import labels_after_a_step
from vber_cli.engine import block_kernels as kernels
from vber_cli.engine import component_kernels
from vber_cli.engine.graph import build_graph, with_inner
from vber_cli.engine.local_kernels import N_STATS
from vber_cli.engine.posterior import Chains, expect
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.relations import Relations
from vber_cli.model.types import Records

N_BATCHES = 40


def sparse_edges(rng, n, extra):
    """A random tree over 0..n-1 and a few more edges: (a, b) with a < b, each once."""
    order = rng.permutation(n)
    edges = {tuple(sorted((int(order[i]), int(order[rng.integers(i)])))) for i in range(1, n)}
    for _ in range(extra):
        edges.add(tuple(sorted(rng.choice(n, 2, replace=False).tolist())))
    return tuple(np.array(side, np.int32) for side in zip(*sorted(edges), strict=True))


class Sampler:
    """The kernel itself on one component that holds all records, whatever its size."""

    def __init__(self, case, log_new, edges, label):
        self.n = case.n
        self.a, self.b = edges
        self.label = label.copy()
        self.model, self.log_new = built.model_of(case), log_new

    def batch(self, n_burn, n_keep, seed):
        """Means over one batch of sweeps: edges together, records alone, number of blocks; and the last statistics."""
        n, (n_classes, n_fields) = self.n, self.model.alpha.shape
        together, alone, blocks = np.zeros(len(self.a)), np.zeros(n), np.zeros(n_keep)
        stats, class_weight = np.zeros((n_classes, n_fields, N_STATS)), np.zeros(n_classes)
        repeats = np.zeros((n, n_fields))
        ptr, nobody = np.array([0, len(self.a)]), np.empty(0, np.int32)
        comps = component_kernels.Compared(
            np.array([0, n]), np.arange(n, dtype=np.int32), ptr, self.a, self.b, np.zeros(2, np.int64), nobody, nobody,
            np.array([0, n * n]), np.zeros((n * n, n_fields), np.int8),
        )  # fmt: skip
        component_kernels.compare_components_kernel(0, 1, comps, self.model)
        kernels.gibbs_kernel(
            0, 1, comps, self.model, self.log_new, n_burn, n_keep, np.uint64(seed), True, self.label,
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
    at = np.arange(len(expected.n))
    mean, second = expected.n @ at, expected.n @ at**2
    share = np.concatenate([expected.pair[edges], expected.alone])
    values = np.concatenate([share, [mean, second]])
    variance = np.concatenate([share * (1 - share), [second - mean**2, expected.n @ at**4 - second**2]])
    return values, np.maximum(variance, 0.0)


NEAR, RELATIONS, TREE, FULL = ("near",), ("relations",), ("tree",), naive.FULL
SMALL = [
    # kind, records, noise classes, parts, edges (None: all), log_new
    ("people", 7, 1, (), None, 1.0),
    ("people", 7, 1, (), 0, 2.5),
    ("people", 6, 2, (), 1, 0.5),
    ("people", 6, 1, NEAR, 1, 1.0),
    ("people", 6, 1, RELATIONS, 0, 0.0),
    ("people", 6, 1, TREE, 1, 1.0),
    ("people", 7, 3, FULL, None, 0.5),
    ("people", 7, 2, FULL, 0, 0.0),
    ("missing", 6, 1, (), 2, -0.5),
    ("missing", 6, 2, FULL, 0, -0.5),
    ("tied", 6, 2, FULL, None, 1.0),
    ("constant", 5, 2, (), 0, 3.0),
    ("blank", 5, 1, FULL, 1, 0.2),
    ("random", 2, 2, FULL, None, -0.5),
]


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize(("kind", "n", "n_classes", "parts", "extra", "log_new"), SMALL)
def test_gibbs_meets_enumeration_on_few_records(rng, kind, n, n_classes, parts, extra, log_new):
    case = naive.make_case(rng, n, kind, n_classes, parts)
    edges = built.all_pairs(n) if extra is None else sparse_edges(rng, n, extra)
    sampler = Sampler(case, log_new, edges, np.arange(n, dtype=np.int32))
    seed, n_keep = int(rng.integers(1 << 30)), 120
    batches = [sampler.batch(20, n_keep, seed + i)[0] for i in range(N_BATCHES)]
    expected = naive.posterior(case, log_new * np.arange(n + 1))
    assert_within_monte_carlo_error(batches, *summary_of(expected, edges), N_BATCHES * n_keep)


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (2, FULL)])
def test_the_start_is_forgotten(rng, n_classes, parts):
    n, log_new = 6, 1.0
    case = naive.make_case(rng, n, "people", n_classes, parts)
    edges = sparse_edges(rng, n, 0)
    expected = naive.posterior(case, log_new * np.arange(n + 1))
    for start in (np.zeros(n, np.int32), np.array([3, 3, 3, 3, 4, 4], np.int32)):
        sampler = Sampler(case, log_new, edges, start)
        batches = [sampler.batch(20, 200, 50 + i)[0] for i in range(N_BATCHES)]
        assert_within_monte_carlo_error(batches, *summary_of(expected, edges), N_BATCHES * 200)


@pytest.mark.parametrize(("n_classes", "parts"), [(2, ()), (1, TREE), (2, FULL)])
@pytest.mark.parametrize("step", ["split and merge", "sweep"])
def test_each_kind_of_step_alone_keeps_the_posterior(rng, n_classes, parts, step):
    """From exact draws, one step must return exact draws: no burn-in can hide a wrong acceptance ratio."""
    n, log_new, n_draws = 5, 0.5, 4000
    case = naive.make_case(rng, n, "people", n_classes, parts)
    edges = sparse_edges(rng, n, 1)
    expected = naive.posterior(case, log_new * np.arange(n + 1))
    at = rng.choice(len(expected.labels), n_draws, p=expected.probability)
    index = {tuple(label): i for i, label in enumerate(expected.labels.tolist())}
    local = built.Local(built.model_of(case), np.arange(n))
    after = np.zeros(len(expected.labels))
    moved = 0
    for i, label in zip(at, labels_after_a_step(local, edges, expected.labels[at], log_new, step, rng), strict=True):
        after[index[label]] += 1
        moved += index[label] != i
    p = expected.probability
    assert moved > n_draws / 5
    assert np.all(np.abs(after / n_draws - p) <= naive.four_errors(p * (1 - p), n_draws))


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (2, ()), (2, FULL)])
def test_the_statistics_are_those_of_the_last_partition(rng, n_classes, parts):
    n = 7
    case = naive.make_case(rng, n, "people", n_classes, parts)
    sampler = Sampler(case, 0.5, built.all_pairs(n), np.arange(n, dtype=np.int32))
    linked = 0
    for seed in range(5):
        _, found = sampler.batch(3, 8, seed)
        linked += n - len(naive.blocks_of(sampler.label))
        for ours, theirs in zip(found, naive.partition_statistics(case, sampler.label), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
        assert set(sampler.label.tolist()) <= set(range(n))
    assert linked > 0


def expect_in_batches(case, log_new, graph, n_sweeps, seed):
    """Batch means of the pairs of large components, records alone and E[n], from chains that go on."""
    model = built.model_of(case)
    chains = Chains(model, graph, 2, np.zeros(case.n, np.int32))
    out = []
    for i in range(N_BATCHES):
        found = expect(model, log_new, graph, chains, seed=seed + i, count=True, n_sweeps=n_sweeps, threads=1)
        listed = graph.pair_ptr[-1] - graph.pair_ptr[graph.n_small] + len(graph.inner_a)
        assert found.chain_pairs.shape == (2, listed)
        assert found.chain_n.shape == (2, n_sweeps * 2 // 3)
        np.testing.assert_allclose(found.chain_pairs.mean(axis=0), found.pair_probability, rtol=0, atol=1e-12)
        assert found.n_variance == pytest.approx(found.chain_n.var())
        out.append(np.concatenate([found.pair_probability, found.alone, [found.n_mean, (found.chain_n**2).mean()]]))
    return out


def with_strong(case, edges, log_new):
    """The edges, and as in a run every other pair of some weight."""
    more = [
        pair for pair in itertools.combinations(range(case.n), 2) if naive.block_weight(case, pair) - log_new > -3.0
    ]
    both = sorted({*zip(*(side.tolist() for side in edges), strict=True), *more})
    return tuple(np.array(side, np.int32) for side in zip(*both, strict=True))


@pytest.mark.parametrize(
    ("n", "kind", "n_classes", "parts", "extra", "log_new"),
    [
        (9, "people", 1, (), None, 1.5),
        (10, "people", 1, (), 3, 2.0),
        (12, "people", 1, (), 6, 1.5),
        (9, "people", 2, FULL, 0, 0.5),
        (10, "people", 1, FULL, 4, 0.5),
        (11, "people", 2, FULL, 5, 0.5),
        (9, "missing", 1, FULL, 0, 0.0),
    ],
)
def test_large_components_meet_enumeration(rng, n, kind, n_classes, parts, extra, log_new):
    n_sweeps = 75
    case = naive.make_case(rng, n, kind, n_classes, parts)
    edges = built.all_pairs(n) if extra is None else sparse_edges(rng, n, extra)
    if n > kernels._ALL_BLOCKS_UP_TO:
        edges = with_strong(case, edges, log_new)
        assert len(edges[0]) < n * (n - 1) // 2
    graph = with_inner(build_graph(*edges, n), *edges)
    assert (graph.n_components, graph.n_small) == (1, 0)
    assert len(graph.inner_a) == n * (n - 1) // 2 - len(edges[0])
    batches = expect_in_batches(case, log_new, graph, n_sweeps, int(rng.integers(1 << 20)))
    pairs = np.concatenate([graph.pair_a, graph.inner_a]), np.concatenate([graph.pair_b, graph.inner_b])
    values, variance = summary_of(naive.sums(case, log_new), pairs)
    assert_within_monte_carlo_error(batches, values, variance, N_BATCHES * 2 * (n_sweeps * 2 // 3))


GROUPS, SIZE = 5, 6


def groups_that_cannot_mix(rng, n_classes, parts, log_new):
    """Thirty records in five groups, and the posterior of each: together they are a product over the groups."""
    n = GROUPS * SIZE
    small = naive.make_case(rng, 2, "random", n_classes, parts)
    within = np.concatenate([naive.make_codes(rng, SIZE, "people") for _ in range(GROUPS)])
    # four fields more that agree within a group only: at concentration 1e-6 each costs 14 nats where it differs
    apart = np.repeat(np.arange(GROUPS), SIZE)[:, None].repeat(4, axis=1)
    codes = np.ascontiguousarray(np.concatenate([within, apart], axis=1), dtype=np.int32)
    n_values = np.array([*naive.N_VALUES, *[GROUPS] * 4])
    exactly = np.tile([1.0, 0.0, 0.0], (n_classes, 4, 1))
    noise = Noise(
        np.concatenate([small.noise.concentration, np.full((n_classes, 4), 1e-6)], axis=1),
        np.concatenate([small.noise.levels, exactly], axis=1),
        small.noise.share,
    )
    base = np.concatenate([small.prior.base, np.full(4 * GROUPS, 1 / GROUPS)])
    prior = Prior(np.concatenate([[0], np.cumsum(n_values)]), base, noise.concentration[0])
    chance = np.tile([1 / GROUPS, 0.0, 0.0, 1 - 1 / GROUPS], (4, 1))  # relations say nothing in the four fields
    relations = Relations(
        small.relations.odds,
        np.array([[*level, *chance] for level in small.relations.levels]).reshape(-1, 7, 4),
    )
    tree = Dependence(
        np.concatenate([small.dependence.parent, np.full(4, -1)]),
        np.concatenate([small.dependence.strength, np.zeros(4)]),
        np.concatenate([small.dependence.levels, np.ones((4, 4))]),
        np.zeros(7),
    )
    case = naive.Case(Records(codes, np.zeros(n, np.int32), n_values), prior, noise, small.near, relations, tree)
    log_h = log_new * np.arange(SIZE + 1)
    return case, [naive.posterior(case, log_h, range(g * SIZE, (g + 1) * SIZE)) for g in range(GROUPS)]


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


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (2, FULL)])
def test_where_records_join_neighbours_only_exact_draws_stay_exact(rng, n_classes, parts):
    """However few edges there are and however slowly the chain would mix, its sweeps keep the posterior."""
    log_new, n_draws = 1.0, 1000
    case, groups = groups_that_cannot_mix(rng, n_classes, parts, log_new)
    edges = edges_with_bridges([sparse_edges(rng, SIZE, 1) for _ in range(GROUPS)])
    drawn = [part.labels[rng.choice(len(part.labels), n_draws, p=part.probability)] for part in groups]
    starts = np.concatenate([label + g * SIZE for g, label in enumerate(drawn)], axis=1).astype(np.int32)
    sampler = Sampler(case, log_new, edges, starts[0])
    after, moved = [], 0
    for i, start in enumerate(starts):
        sampler.label = start.copy()
        after.append(sampler.batch(1, 1, int(rng.integers(1 << 40)) + i)[0][:-1])
        moved += naive.blocks_of(sampler.label) != naive.blocks_of(start)
    assert moved > n_draws / 10
    values, variance = product_summary(groups, edges)
    assert np.all(np.abs(np.mean(after, axis=0) - values) <= naive.four_errors(variance, n_draws))


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (2, FULL)])
def test_where_records_join_neighbours_only_the_chain_meets_enumeration(rng, n_classes, parts):
    """Here, as in a run, every pair of some weight is an edge."""
    log_new, n_keep = 1.0, 60
    case, groups = groups_that_cannot_mix(rng, n_classes, parts, log_new)
    within = []
    for g in range(GROUPS):
        a, b = built.all_pairs(SIZE)
        tree = set(zip(*sparse_edges(rng, SIZE, 0), strict=True))
        keep = np.zeros(len(a), bool)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            weight = naive.block_weight(case, [x + g * SIZE, y + g * SIZE])
            keep[i] = weight - log_new > -3.0 or (x, y) in tree
        within.append((a[keep], b[keep]))
    edges = edges_with_bridges(within)
    sampler = Sampler(case, log_new, edges, np.arange(GROUPS * SIZE, dtype=np.int32))
    sampler.batch(300, 1, 1)
    batches = np.array([sampler.batch(0, n_keep, 100 + i)[0] for i in range(N_BATCHES)])
    assert_within_monte_carlo_error(batches[:, :-1], *product_summary(groups, edges), N_BATCHES * n_keep)


def test_components_meet_a_search(rng):
    for n, m in itertools.product((1, 2, 9, 60), (0, 1, 5, 40)):
        a, b = (rng.integers(0, n, m).astype(np.int32) for _ in range(2))
        root = component_kernels.components_kernel(a, b, n)
        expected = np.arange(n)
        for group in naive.connected(n, a, b):
            expected[group] = group[0]
        np.testing.assert_array_equal(root, expected)
