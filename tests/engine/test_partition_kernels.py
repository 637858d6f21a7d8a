"""Sums over all partitions of small components, against the naive ones and the exact model's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import exact
from tests.engine import built, naive
from vber_cli.engine import partition_kernels as kernels
from vber_cli.engine.graph import build_graph
from vber_cli.engine.posterior import expect, log_weights_by_blocks, tiny_posterior
from vber_cli.model.noise import Noise
from vber_cli.model.types import Records

PARTS = [(), ("near",), ("relations",), ("tree",), naive.FULL]
CASES = [
    *itertools.product(("random", "missing", "tied", "blank", "people"), (1, 3), PARTS),
    ("constant", 2, naive.FULL),
]


def enumerate_all(case, log_new, *, count=True):
    """All records as one component, through the enumeration."""
    graph = build_graph(*built.all_pairs(case.n), case.n)
    return expect(built.model_of(case), log_new, graph, None, seed=0, count=count, n_sweeps=0, threads=1)


def square(values, n):
    out = np.zeros((n, n))
    out[np.triu_indices(n, 1)] = values
    return out + out.T


def test_components_of_up_to_eight_records_are_summed():
    assert kernels.MAX_EXACT == 8


@pytest.mark.parametrize("log_new", [-1.0, 1.5, 6.0])
@pytest.mark.parametrize(("kind", "n"), [*itertools.product((*naive.UGLY, "people"), (2, 5, 7))])
def test_the_exact_model_is_the_sum_of_marginals_over_all_partitions(rng, kind, n, log_new):
    case = naive.make_case(rng, n, kind)
    found = enumerate_all(case, log_new)
    pair, blocks = exact.partition_posterior(case.codes, case.alpha_by_field, log_new * np.arange(n + 1))
    np.testing.assert_allclose(square(found.pair_probability, n), pair, rtol=0, atol=1e-9)
    mean, variance = naive.moments(blocks)
    assert found.n_mean == pytest.approx(mean, abs=1e-9)
    assert found.n_variance == pytest.approx(variance, abs=1e-9)


@pytest.mark.parametrize(("kind", "n_classes", "parts"), CASES)
@pytest.mark.parametrize("n", [3, 6])
def test_enumeration_builds_blocks_by_the_chain_rule(rng, kind, n_classes, parts, n):
    case, log_new = naive.make_case(rng, n, kind, n_classes, parts), 1.0
    found = enumerate_all(case, log_new)
    expected = naive.posterior(case, log_new * np.arange(n + 1))
    np.testing.assert_allclose(square(found.pair_probability, n), expected.pair, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.alone, expected.alone, rtol=0, atol=1e-9)
    np.testing.assert_allclose((found.n_mean, found.n_variance), expected.moments, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("kind", ["people", "missing"])
def test_eight_records_with_everything(rng, kind):
    case = naive.make_case(rng, 8, kind, 3, naive.FULL)
    found = enumerate_all(case, 0.7)
    listed, summed = naive.posterior(case, 0.7 * np.arange(9)), naive.sums(case, 0.7)
    for expected in (listed, summed):
        np.testing.assert_allclose(square(found.pair_probability, 8), expected.pair, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.alone, expected.alone, rtol=0, atol=1e-9)
        np.testing.assert_allclose((found.n_mean, found.n_variance), naive.moments(expected.n), rtol=0, atol=1e-9)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("n_classes", [1, 2])
def test_expected_statistics_are_weighted_sums_over_partitions(rng, n_classes, parts):
    n = 5
    case = naive.make_case(rng, n, "people", n_classes, parts)
    found = enumerate_all(case, 0.5)
    expected = naive.posterior(case, 0.5 * np.arange(n + 1))
    total = [np.zeros_like(x) for x in (found.stats, found.class_weight, found.repeats)]
    for label, p in zip(expected.labels, expected.probability, strict=True):
        for block in naive.blocks_of(label):
            events = naive.block_statistics(case, block, p)
            total = [into + part for into, part in zip(total, events, strict=True)]
    for ours, theirs in zip((found.stats, found.class_weight, found.repeats), total, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    assert found.class_weight.sum() == pytest.approx(n - found.n_mean, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "n_classes", "parts"),
    [("people", 1, ()), ("people", 2, naive.FULL), ("tied", 1, ()), ("missing", 3, ()), ("blank", 1, naive.FULL)],
)
def test_tiny_posterior_takes_any_weight_of_the_number_of_blocks(rng, kind, n_classes, parts):
    for n in (1, 2, 5, 7):
        case = naive.make_case(rng, n, kind, n_classes, parts)
        model = built.model_of(case)
        log_h = rng.normal(0, 3, n + 1)
        log_h[0] = -np.inf
        if n > 2:
            log_h[2] = -np.inf  # and n = 2 is impossible
        pair, blocks = tiny_posterior(model, log_h)
        expected = naive.posterior(case, log_h)
        np.testing.assert_allclose(pair, expected.pair, rtol=0, atol=1e-9)
        np.testing.assert_allclose(blocks, expected.n, rtol=0, atol=1e-9)
        if n_classes == 1 and not parts:
            theirs = exact.partition_posterior(case.codes, case.alpha_by_field, log_h)
            np.testing.assert_allclose(pair, theirs[0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(blocks, theirs[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("parts", [(), naive.FULL])
def test_weights_by_the_number_of_blocks_of_some_of_the_records(rng, parts):
    case = naive.make_case(rng, 9, "people", 2, parts)
    members = np.array([0, 2, 3, 7, 8], np.int32)
    found = log_weights_by_blocks(built.model_of(case), members)
    weight = np.zeros(6)
    for part in exact.partitions(members.tolist()):
        weight[len(part)] += np.exp(sum(naive.block_weight(case, block) for block in part))
    assert found[0] == -np.inf
    np.testing.assert_allclose(found[1:], np.log(weight[1:]), rtol=0, atol=1e-9)


def test_without_statistics_the_probabilities_are_the_same(rng):
    case = naive.make_case(rng, 7, "people", 2, naive.FULL)
    counted, bare = (enumerate_all(case, 1.0, count=count) for count in (True, False))
    for name in ("pair_probability", "alone", "n_mean", "n_variance"):
        np.testing.assert_array_equal(getattr(bare, name), getattr(counted, name))
    assert counted.stats.sum() > 0
    assert bare.stats.sum() == bare.class_weight.sum() == bare.repeats.sum() == 0


def test_overwhelming_evidence_stays_finite(rng):
    n = 8
    case = naive.make_case(rng, n, "random")
    base = case.prior.base.copy()
    base[case.prior.value_ptr[:-1]] = 1e-300
    case = case.of(
        records=Records(np.zeros((n, 3), np.int32), np.zeros(n, np.int32), np.array(naive.N_VALUES)),
        prior=case.prior.with_base(base),
        noise=Noise.single(np.full(3, 1e-6)),
    )
    together = enumerate_all(case, 5.0)
    np.testing.assert_allclose(together.pair_probability, 1.0, rtol=0, atol=1e-12)
    apart = enumerate_all(case, 50_000.0)
    np.testing.assert_allclose(apart.alone, 1.0, rtol=0, atol=1e-12)
    assert (together.n_mean, apart.n_mean) == (pytest.approx(1.0), pytest.approx(8.0))


@pytest.mark.parametrize("kind", ["people", "missing"])
def test_a_further_record_in_the_same_database_is_weighed_by_its_tilt(rng, kind):
    case = naive.make_case(rng, 6, kind, 2, naive.FULL)
    database, tilt, log_new = np.array([0, 1, 0, 1, 1, 0], np.int32), np.array([-1.3, 0.8]), 1.1
    model = built.model_of(case)._replace(database=database, tilt=tilt)
    graph = build_graph(*built.all_pairs(6), 6)
    found = expect(model, log_new, graph, None, seed=0, count=True, n_sweeps=0, threads=1)
    weights, pair = [], []
    for label in naive.labellings(6):
        blocks = naive.blocks_of(label)
        log_weight = sum(naive.block_weight(case, block) + log_new for block in blocks)
        for block in blocks:
            held = np.bincount(database[list(block)], minlength=2)
            log_weight += np.maximum(held - 1, 0) @ tilt
        weights.append(log_weight)
        pair.append(label[:, None] == label[None, :])
    p = np.exp(np.array(weights) - np.logaddexp.reduce(weights))
    expected = np.einsum("s,sij->ij", p, np.array(pair, float))
    np.testing.assert_allclose(square(found.pair_probability, 6), expected - np.eye(6), rtol=0, atol=1e-9)
