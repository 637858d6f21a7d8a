"""Blocks and partitions of small components against plain loops and against sums over all partitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import exact
from tests.engine import naive
from vber_cli.engine import partition_kernels as kernels
from vber_cli.engine.graph import build_graph
from vber_cli.engine.posterior import expect, record_theta, tiny_posterior
from vber_cli.model.noise import Noise
from vber_cli.model.types import Records

CASES = [*itertools.product(naive.UGLY, (1, 3)), ("people", 1), ("people", 2)]


def scratch(noise):
    return np.empty((3, max(3, noise.n_classes)))


def enumerate_all(records, prior, noise, log_new, *, seed=0, draw=False):
    """All records as one component, through the enumeration."""
    n = records.n_records
    a, b = np.triu_indices(n, 1)
    graph = build_graph(a.astype(np.int32), b.astype(np.int32), n)
    return expect(records, prior, noise, log_new, graph, None, seed=seed, draw=draw, n_sweeps=0, threads=1)


def square(values, n):
    out = np.zeros((n, n))
    out[np.triu_indices(n, 1)] = values
    return out + out.T


def test_constants_are_those_of_the_twin():
    assert (kernels.DEPTH, kernels.BINS) == (naive.DEPTH, naive.BINS)
    assert kernels.MAX_EXACT == 8


def test_theta_bins():
    for theta in (1.0, 0.7, 0.5, 1e-3, 1e-8, 3e-9, 1e-12, 1e-300):
        assert kernels.theta_bin(theta) == min(int(-np.log(theta) // 0.5), 39)


@pytest.mark.parametrize(("kind", "n_classes"), CASES)
def test_predictive_and_evidence_meet_the_loops(rng, kind, n_classes):
    for _ in range(10):
        records, prior, noise = naive.make_case(rng, 6, kind, n_classes)
        theta = naive.own_theta(records, prior)
        np.testing.assert_array_equal(record_theta(records, prior), theta)
        args = (records.codes, theta, noise.concentration, noise.share, scratch(noise))
        members = rng.permutation(6).astype(np.int32)
        for m in range(6):
            expected = np.logaddexp.reduce(
                naive.class_scores(records.codes, theta, noise, members[m], members[:m].tolist())
            )
            assert kernels.log_predictive(members[m], members, m, *args) == pytest.approx(expected, abs=1e-11)
        ordered = np.sort(members)
        for m in range(7):
            expected = naive.block_weight(records.codes, theta, noise, ordered[:m].tolist())
            assert kernels.block_evidence(ordered, m, *args) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("kind", naive.UGLY)
def test_with_one_class_a_block_has_the_dirichlet_multinomial_marginal_in_any_order(rng, kind):
    records, prior, noise = naive.make_case(rng, 7, kind)
    alpha, theta = naive.alpha_by_field(prior), record_theta(records, prior)
    expected = exact.log_marginal(records.codes, alpha, range(7))
    expected -= sum(exact.log_marginal(records.codes, alpha, [r]) for r in range(7))
    for _ in range(5):
        order = rng.permutation(7).astype(np.int32)
        found = kernels.block_evidence(order, 7, records.codes, theta, noise.concentration, noise.share, scratch(noise))
        assert found == pytest.approx(expected, abs=1e-10)


def test_products_that_leave_the_range_of_a_double(rng):
    n_fields = 400
    codes = np.ascontiguousarray(rng.integers(0, 2, (3, n_fields)), dtype=np.int32)
    codes[1, :200] = codes[0, :200]
    theta = np.exp(rng.uniform(-20, -1, codes.shape))
    noise = Noise(np.exp(rng.uniform(-12, 1, (2, n_fields))), np.array([0.25, 0.75]))
    expected = naive.block_weight(codes, theta, noise, [0, 1, 2])
    assert abs(expected) > 800  # e^800 is no double
    work = np.empty((3, n_fields))
    members = np.arange(3, dtype=np.int32)
    found = kernels.block_evidence(members, 3, codes, theta, noise.concentration, noise.share, work)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("kind", "n_classes"), CASES)
def test_block_statistics_meet_the_loops(rng, kind, n_classes):
    size = 20  # beyond DEPTH
    records, prior, noise = naive.make_case(rng, size, kind, n_classes)
    theta = naive.own_theta(records, prior)
    for m in (1, 2, 5, size):
        block = np.sort(rng.choice(size, m, replace=False)).astype(np.int32)
        stats = np.zeros((n_classes, 2, 3, kernels.DEPTH, kernels.BINS))
        class_weight, repeats = np.zeros(n_classes), np.zeros(records.codes.shape)
        kernels.add_block_stats(
            block, m, 0.7, records.codes, theta, noise.concentration, noise.share, scratch(noise),
            stats, class_weight, repeats,
        )  # fmt: skip
        expected = naive.block_statistics(records.codes, theta, noise, block.tolist(), 0.7)
        for ours, theirs in zip((stats, class_weight, repeats), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
        assert class_weight.sum() == pytest.approx(0.7 * (m - 1), abs=1e-11)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_pair_statistics_are_those_of_blocks_of_two(rng, n_classes):
    records, prior, noise = naive.make_case(rng, 10, "people", n_classes)
    theta = naive.own_theta(records, prior)
    a, b = (np.array(x, np.int32) for x in ([0, 1, 2, 0], [5, 6, 9, 9]))
    weight = np.array([0.3, 0.0, 1.0, 0.0021])
    stats = np.zeros((n_classes, 2, 3, kernels.DEPTH, kernels.BINS))
    class_weight, repeats = np.zeros(n_classes), np.zeros(records.codes.shape)
    kernels.pair_stats_kernel(
        a, b, weight, records.codes, theta, noise.concentration, noise.share, stats, class_weight, repeats
    )
    parts = [naive.block_statistics(records.codes, theta, noise, pair, w) for *pair, w in zip(a, b, weight)]  # noqa: B905
    for ours, theirs in zip((stats, class_weight, repeats), zip(*parts, strict=True), strict=True):
        np.testing.assert_allclose(ours, sum(theirs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("log_new", [-1.0, 1.5, 6.0])
@pytest.mark.parametrize(("kind", "n"), [*itertools.product((*naive.UGLY, "people"), (2, 5, 7))])
def test_enumeration_is_the_sum_over_all_partitions(rng, kind, n, log_new):
    records, prior, noise = naive.make_case(rng, n, kind)
    found = enumerate_all(records, prior, noise, log_new)
    pair, blocks = exact.partition_posterior(records.codes, naive.alpha_by_field(prior), log_new * np.arange(n + 1))
    np.testing.assert_allclose(square(found.pair_probability, n), pair, rtol=0, atol=1e-9)
    mean = blocks @ np.arange(n + 1)
    assert found.n_mean == pytest.approx(mean, abs=1e-9)
    assert found.n_variance == pytest.approx(blocks @ (np.arange(n + 1) - mean) ** 2, abs=1e-9)


@pytest.mark.parametrize(("kind", "n_classes"), CASES)
@pytest.mark.parametrize("n", [3, 6, 8])
def test_enumeration_builds_blocks_by_the_chain_rule(rng, kind, n_classes, n):
    records, prior, noise = naive.make_case(rng, n, kind, n_classes)
    theta, log_new = naive.own_theta(records, prior), 1.0
    found = enumerate_all(records, prior, noise, log_new)
    expected = naive.posterior(records.codes, theta, noise, log_new * np.arange(n + 1))
    np.testing.assert_allclose(square(found.pair_probability, n), expected.pair, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.alone, expected.alone, rtol=0, atol=1e-9)
    np.testing.assert_allclose((found.n_mean, found.n_variance), expected.moments, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_expected_statistics_are_weighted_sums_over_partitions(rng, n_classes):
    n = 5
    records, prior, noise = naive.make_case(rng, n, "people", n_classes)
    theta = naive.own_theta(records, prior)
    found = enumerate_all(records, prior, noise, 0.5)
    expected = naive.posterior(records.codes, theta, noise, 0.5 * np.arange(n + 1))
    total = [np.zeros_like(x) for x in (found.stats, found.class_weight, found.repeats)]
    for label, p in zip(expected.labels, expected.probability, strict=True):
        for block in naive.blocks_of(label):
            parts = naive.block_statistics(records.codes, theta, noise, block, p)
            total = [into + part for into, part in zip(total, parts, strict=True)]
    for ours, theirs in zip((found.stats, found.class_weight, found.repeats), total, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert found.class_weight.sum() == pytest.approx(n - found.n_mean, abs=1e-9)


@pytest.mark.parametrize(("kind", "n_classes"), [("people", 1), ("people", 2), ("tied", 1), ("missing", 3)])
def test_tiny_posterior_takes_any_weight_of_the_number_of_blocks(rng, kind, n_classes):
    for n in (1, 2, 5, 7):
        records, prior, noise = naive.make_case(rng, n, kind, n_classes)
        log_h = rng.normal(0, 3, n + 1)
        log_h[0] = -np.inf
        if n > 2:
            log_h[2] = -np.inf  # and n = 2 is impossible
        pair, blocks = tiny_posterior(records, prior, noise, log_h)
        expected = naive.posterior(records.codes, naive.own_theta(records, prior), noise, log_h)
        np.testing.assert_allclose(pair, expected.pair, rtol=0, atol=1e-9)
        np.testing.assert_allclose(blocks, expected.n, rtol=0, atol=1e-9)
        if n_classes == 1:
            theirs = exact.partition_posterior(records.codes, naive.alpha_by_field(prior), log_h)
            np.testing.assert_allclose(pair, theirs[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(blocks, theirs[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_drawn_partitions_have_the_posterior_frequencies(rng, n_classes):
    n, n_draws = 4, 4000
    records, prior, noise = naive.make_case(rng, n, "people", n_classes)
    theta = naive.own_theta(records, prior)
    expected = naive.posterior(records.codes, theta, noise, 0.8 * np.arange(n + 1))
    comp_ptr, pair_ptr = np.array([0, n]), np.array([0, n * (n - 1) // 2])
    shape = (n_classes, 2, 3, kernels.DEPTH, kernels.BINS)
    seen = dict.fromkeys(map(tuple, expected.labels.tolist()), 0)
    for draw in range(n_draws):
        label = np.arange(n, dtype=np.int32)
        stats, class_weight, repeats = np.zeros(shape), np.zeros(n_classes), np.zeros((n, 3))
        kernels.enumerate_kernel(
            0, 1, comp_ptr, np.arange(n, dtype=np.int32), pair_ptr, records.codes, theta, noise.concentration,
            noise.share, 0.8, np.uint64(draw), True, np.zeros(6), np.zeros(n), repeats, label, stats, class_weight,
        )  # fmt: skip
        seen[tuple(label.tolist())] += 1
        if draw < 50:  # and the statistics are those of the partition drawn
            parts = [naive.block_statistics(records.codes, theta, noise, b) for b in naive.blocks_of(label)]
            for ours, theirs in zip((stats, class_weight, repeats), zip(*parts, strict=True), strict=True):
                np.testing.assert_allclose(ours, sum(theirs), rtol=0, atol=1e-11)
    frequency = np.array([seen[tuple(label)] for label in expected.labels.tolist()]) / n_draws
    p = expected.probability
    assert p.max() < 0.95
    assert np.all(np.abs(frequency - p) <= naive.four_errors(p * (1 - p), n_draws))


def test_a_draw_depends_on_the_seed_only(rng):
    records, prior, noise = naive.make_case(rng, 7, "people")
    first = [enumerate_all(records, prior, noise, 1.0, seed=s, draw=True).stats for s in range(8)]
    again = [enumerate_all(records, prior, noise, 1.0, seed=s, draw=True).stats for s in range(8)]
    np.testing.assert_array_equal(first, again)
    assert any(not np.array_equal(first[0], other) for other in first[1:])


def test_overwhelming_evidence_stays_finite(rng):
    n = 8
    codes = np.zeros((n, 3), np.int32)
    records = Records(codes, np.zeros(n, np.int32), np.array(naive.N_VALUES))
    _, prior, _ = naive.make_case(rng, n, "random")
    rare = prior.base.copy()
    rare[prior.value_ptr[:-1]] = 1e-300
    noise = Noise.single(np.full(3, 1e-6))
    together = enumerate_all(records, prior.with_base(rare), noise, 5.0)
    np.testing.assert_allclose(together.pair_probability, 1.0, rtol=0, atol=1e-12)
    apart = enumerate_all(records, prior.with_base(rare), noise, 5000.0)
    np.testing.assert_allclose(apart.alone, 1.0, rtol=0, atol=1e-12)
    assert (together.n_mean, apart.n_mean) == (pytest.approx(1.0), pytest.approx(8.0))
