"""Levels, predictives, block weights and statistics of one component, against plain loops."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests import exact
from tests.called import from_python
from tests.engine import built, naive
from vber_cli.engine import local_kernels as kernels
from vber_cli.engine.block_kernels import blocks_weight_kernel
from vber_cli.engine.block_model import block_model, exact_evidence, exact_model, record_theta, theta_given
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels, relation_evidence
from vber_cli.engine.partition_kernels import pair_stats_kernel
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior, make_prior, uniform_base
from vber_cli.model.relations import Relations
from vber_cli.model.types import Records

predictive, block_weight, joining, add_stats = (
    from_python(leaf) for leaf in (kernels.predictive, kernels.block_weight, kernels.joining, kernels.add_stats)
)

PARTS = [(), ("near",), ("relations",), ("tree",), ("near", "relations"), ("near", "tree"), naive.FULL]
CASES = [
    *itertools.product((*naive.UGLY, "people"), (1, 3), ((), naive.FULL)),
    *(("people", q, p) for q in (1, 2) for p in PARTS),
]


def test_constants_are_those_of_the_twin():
    assert (kernels.DEPTH, kernels.N_STATS) == (naive.DEPTH, 4 + naive.DEPTH)
    assert (kernels.FRESH, kernels.COPIES, kernels.SHOWN) == (0, 1, 4)


def test_levels_of_values_with_few_and_with_many_similar_ones(rng):
    """Many similar values are searched by halves: hubs of every size, looked up from both sides."""
    n_values = (70, 5)
    near = {}
    for hub, degree in ((0, 1), (1, 15), (2, 16), (3, 17), (4, 33), (5, 60)):
        for w in rng.choice(np.arange(6, 70), degree, replace=False).tolist():
            near[0, hub, w] = int(rng.integers(0, 3))
    near[1, 3, 4] = 2
    codes = np.stack([rng.permutation(np.repeat(np.arange(-1, 70), 3)), rng.integers(-1, 5, 213)], axis=1)
    records = Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(213, np.int32), np.array(n_values))
    prior = make_prior(records, "uniform")
    none = Relations.none(2), Dependence.none(2)
    case = naive.Case(records, prior, Noise.single(prior.concentration), near, *none)
    a, b = built.all_pairs(213)
    found = pair_levels(built.model_of(case), a, b)
    expected = [[naive.level_of(case, f, codes[i, f], codes[j, f]) for f in (0, 1)] for i, j in zip(a, b, strict=True)]
    np.testing.assert_array_equal(found, expected)
    assert set(np.unique(found).tolist()) == {0, 1, 2, 3, 9}
    np.testing.assert_array_equal(pair_levels(built.model_of(case), b, a), found)


@pytest.mark.parametrize("kind", [*naive.UGLY, "people"])
@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_the_model_is_what_the_case_says(rng, kind):
    case = naive.make_case(rng, 12, kind, 3, naive.FULL)
    model = built.model_of(case)
    np.testing.assert_array_equal(record_theta(case.records, case.prior), case.plain_theta)
    np.testing.assert_allclose(model.theta, case.theta, rtol=1e-12)
    np.testing.assert_allclose(model.unrelated, case.unrelated, rtol=1e-12)
    np.testing.assert_allclose(model.theta_given, case.theta_given[:, model.tree[:, 0]], rtol=1e-12)
    for q, f, level in itertools.product(range(3), range(3), (1, 2)):
        chance = case.unrelated[f, level]
        expected = case.noise.levels[q, f, level] / chance if chance > 0 else 0.0
        assert model.copy[q, f, level] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(model.copy[:, :, 0], case.noise.levels[:, :, 0])


def test_a_model_is_made_once_for_the_same_evidence(rng):
    case = naive.make_case(rng, 12, "people", 2, naive.FULL)
    evidence = exact_evidence(case.prior, case.records.n_fields)
    made = block_model(case.records, evidence)
    assert block_model(case.records, evidence) is made
    flat = case.prior.with_base(uniform_base(case.records.n_values))
    other = block_model(case.records, replace(evidence, prior=flat))
    np.testing.assert_array_equal(other.theta, record_theta(case.records, flat))
    assert not np.array_equal(other.theta, made.theta)


def test_theta_given_the_parent_by_hand():
    # two towns; postcode 0 belongs to the first, and once to the second
    codes = np.array([[0, 0], [0, 0], [0, 1], [1, 0], [1, -1], [-1, 1]], np.int32)
    records = Records(codes, np.zeros(6, np.int32), np.array([2, 2]))
    prior = Prior(np.array([0, 2, 4]), np.array([0.5, 0.5, 0.75, 0.25]), np.ones(2))
    tree = Dependence(np.array([-1, 0]), np.array([0.0, 2.0]), np.full((2, 4), 0.25), np.zeros(2))
    found = theta_given(records, tree, prior)
    np.testing.assert_allclose(found, np.c_[[3.5 / 5, 3.5 / 5, 1.5 / 5, 2.5 / 3, 1.0, 0.25]])
    # the first two are one individual
    one = replace(tree, drawn=np.array([0.5, 0.5, 1.0, 1.0, 1.0, 1.0]))
    found = theta_given(records, one, prior)
    np.testing.assert_allclose(found, np.c_[[2.5 / 4, 2.5 / 4, 1.5 / 4, 2.5 / 3, 1.0, 0.25]])


@pytest.mark.parametrize(("kind", "n_classes", "parts"), CASES)
def test_levels_predictives_and_weights_meet_the_loops(rng, kind, n_classes, parts):
    for _ in range(4):
        case = naive.make_case(rng, 9, kind, n_classes, parts)
        model = built.model_of(case)
        chosen = np.sort(rng.choice(9, 6, replace=False))
        local = built.Local(model, chosen)
        for i, j in itertools.permutations(range(6), 2):
            np.testing.assert_array_equal(local.levels[i, j], case.levels[chosen[i], chosen[j]])
        order = rng.permutation(6)
        for m in range(6):
            expected = naive.predictive(case, chosen[order[m]], chosen[order[:m]].tolist())
            assert predictive(order[m], order, m, *local.args) == pytest.approx(expected, abs=1e-11)
        for m in range(1, 7):
            block = np.sort(order[:m])
            expected = naive.block_weight(case, chosen[block].tolist())
            assert block_weight(block, m, *local.args) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("kind", "n_classes", "parts"), CASES)
def test_joining_is_what_the_weight_rises_by(rng, kind, n_classes, parts):
    """Whatever order the members are in, and wherever among them the new one comes."""
    case = naive.make_case(rng, 7, kind, n_classes, parts)
    local = built.Local(built.model_of(case), np.arange(7))
    for _ in range(6):
        order = rng.permutation(7)
        for m in range(7):
            members = np.full(7, -1)
            members[:m] = order[:m]
            expected = naive.block_weight(case, order[: m + 1]) - naive.block_weight(case, order[:m])
            found = joining(order[m], members, m, *local.args)
            assert found == pytest.approx(expected, abs=1e-10)


def test_a_block_is_weighed_once(rng):
    case = naive.make_case(rng, 5, "people", 2, ("near", "relations"))
    local = built.Local(built.model_of(case), np.arange(5))
    members = np.arange(3)
    first = block_weight(members, 3, *local.args)
    local.levels[:] = 3  # what is computed now would differ
    assert block_weight(members, 3, *local.args) == first
    assert block_weight(np.arange(4), 4, *local.args) != pytest.approx(first)
    for _ in range(3):  # joining leaves the same behind
        joined = joining(4, np.array([3, 1, -1, -1]), 2, *local.args)
        assert joined == joining(4, np.array([1, 3, -1, -1]), 2, *local.args)


def test_order_matters_in_the_full_model(rng):
    """Or the test above would say nothing about the chain rule's order."""
    apart = {}
    for name in [*PARTS, "classes"]:
        n_classes, parts = (2, ()) if name == "classes" else (1, name)
        apart[name] = 0.0
        for _ in range(20):
            case = naive.make_case(rng, 4, "people", n_classes, parts)
            weights = []
            for step in (1, -1):  # each with scratch space of its own: a block's weight is remembered
                local = built.Local(built.model_of(case), np.arange(4))
                order = np.ascontiguousarray(np.arange(4)[::step])
                weights.append(block_weight(order, 4, *local.args))
            apart[name] = max(apart[name], abs(weights[0] - weights[1]))
    assert apart.pop(()) < 1e-11
    assert all(value > 1e-3 for value in apart.values()), apart


@pytest.mark.parametrize("kind", naive.UGLY)
def test_the_exact_model_has_the_dirichlet_multinomial_marginal_in_any_order(rng, kind):
    case = naive.make_case(rng, 7, kind)
    model = exact_model(case.records, case.prior)
    expected = exact.log_marginal(case.codes, case.alpha_by_field, range(7))
    expected -= sum(exact.log_marginal(case.codes, case.alpha_by_field, [r]) for r in range(7))
    local = built.Local(model, np.arange(7))
    for _ in range(5):
        order = rng.permutation(7)
        assert block_weight(order, 7, *local.args) == pytest.approx(expected, abs=1e-10)
    for ours, theirs in zip(model[:-1], built.model_of(case)[:-1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("parts", [(), naive.FULL])
def test_weights_of_many_blocks(rng, parts):
    case = naive.make_case(rng, 20, "people", 2, parts)
    label = rng.integers(0, 7, 20)
    blocks = [*naive.blocks_of(label), []]
    ptr = np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)
    found = blocks_weight_kernel(ptr, np.concatenate(blocks).astype(np.int32), built.model_of(case))
    np.testing.assert_allclose(found, [naive.block_weight(case, block) for block in blocks], rtol=0, atol=1e-11)


def wide_case(rng, n_fields=400):
    """Four hundred fields: products of their factors leave the range of a double."""
    codes = np.ascontiguousarray(rng.integers(0, 2, (3, n_fields)), dtype=np.int32)
    codes[1:, :200] = codes[0, :200]
    base = np.exp(rng.uniform(-20, -1, (n_fields, 2)))
    base = np.column_stack([base, 1.0 - base.sum(axis=1)]).ravel()  # a third value, which nobody shows
    prior = Prior(np.arange(n_fields + 1) * 3, base, np.ones(n_fields))
    noise = Noise(
        np.exp(rng.uniform(-12, 1, (2, n_fields))),
        rng.dirichlet([6.0, 1.0, 1.0], (2, n_fields)),
        np.array([0.25, 0.75]),
    )
    records = Records(codes, np.zeros(3, np.int32), np.full(n_fields, 3))
    return naive.Case(records, prior, noise, {}, Relations.none(n_fields), Dependence.none(n_fields))


def test_products_that_leave_the_range_of_a_double(rng):
    case = wide_case(rng)
    expected = naive.block_weight(case, [0, 1, 2])
    assert abs(expected) > 800  # e^800 is no double
    model = built.model_of(case)
    local = built.Local(model, [0, 1, 2])
    assert block_weight(np.arange(3), 3, *local.args) == pytest.approx(expected, rel=1e-12)
    a, b = np.array([0, 0, 1], np.int32), np.array([1, 2, 2], np.int32)
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
    weights = [naive.block_weight(case, pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_allclose(link, weights, rtol=1e-12)
    assert doubt.tolist() == [0.0] * 3


def doubt_of_two(case):
    model = built.model_of(case)
    a, b = np.array([0], np.int32), np.array([1], np.int32)
    return float(pair_evidence(model, b, pair_levels(model, a, b))[1][0])


def test_doubt_whose_parts_leave_the_range_of_a_double(rng):
    case = wide_case(rng)
    level = np.zeros((2, 400, 4))
    level[:, :, 0] = case.theta[1] * np.exp(np.where(np.arange(400) < 100, 6.0, -6.0))  # e^600 and then back to 1
    level[0, 200:, 0] = case.theta[1, 200:]
    level[1, :, 0] = level[0, ::-1, 0] / case.theta[1, ::-1] * case.theta[1]  # the same, downwards first
    level[:, :, 3] = case.unrelated[:, 3]
    both = case.of(relations=Relations(np.array([0.5, 0.25]), level))
    expected = naive.doubt_of(both, 1, both.levels[1, 0])
    assert 0.4 < expected < 100
    assert doubt_of_two(both) == pytest.approx(expected, rel=1e-9)
    # beyond e^600 it is e^600: no link is left of the pair in either case
    alike = case.of(relations=Relations(np.array([0.1]), np.full((1, 400, 4), 0.25)))
    assert naive.doubt_of(alike, 1, alike.levels[1, 0]) > 650
    assert doubt_of_two(alike) == pytest.approx(600.0)


@pytest.mark.parametrize(("kind", "n_classes", "parts"), CASES)
def test_pair_evidence_is_that_of_blocks_of_two(rng, kind, n_classes, parts):
    case = naive.make_case(rng, 15, kind, n_classes, parts)
    model = built.model_of(case)
    a, b = built.all_pairs(15)
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
    for i, j, ours, off in zip(a.tolist(), b.tolist(), link, doubt, strict=True):
        assert ours - off == pytest.approx(naive.block_weight(case, [i, j]), abs=1e-10)
        assert off == pytest.approx(naive.doubt_of(case, j, case.levels[i, j]), abs=1e-11)


def test_relation_evidence_is_the_ratio_of_the_levels(rng):
    case = naive.make_case(rng, 15, "people", 1, naive.FULL)
    model = built.model_of(case)
    a, b = built.all_pairs(15)
    level = rng.dirichlet(np.ones(4), (3, 3))
    level[0, 0, 3] = 0.0  # impossible, and no warning
    found = relation_evidence(model, b, pair_levels(model, a, b), level)
    for i, j, ours in zip(a.tolist(), b.tolist(), found, strict=True):
        for c in range(3):
            if c == 0 and case.levels[i, j, 0] == 3:
                assert ours[c] < -600
                continue
            one = case.of(relations=Relations(np.array([1e-3]), level[[c]]))
            levels = case.levels[i, j]
            related = np.exp(naive.doubt_of(one, j, levels)) - naive.tree_ratio(case, j, levels)
            assert related == pytest.approx(1e-3 * np.exp(ours[c]), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("kind", "n_classes", "parts"), CASES)
def test_block_statistics_meet_the_loops(rng, kind, n_classes, parts):
    size = 40  # beyond DEPTH
    case = naive.make_case(rng, size, kind, n_classes, parts)
    model = built.model_of(case)
    local = built.Local(model, np.arange(size))
    for m in (1, 2, 5, size):
        block = np.sort(rng.choice(size, m, replace=False))
        found = np.zeros((n_classes, 3, kernels.N_STATS)), np.zeros(n_classes), np.zeros(case.codes.shape)
        add_stats(block, m, 0.7, *local.args, *found)
        expected = naive.block_statistics(case, block.tolist(), 0.7)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
        stats, class_weight, repeats = found
        assert class_weight.sum() == pytest.approx(0.7 * (m - 1), abs=1e-11)
        assert stats[:, :, :4].sum() == pytest.approx(stats[:, :, 4:].sum(), abs=1e-10)
        assert stats[:, :, 1:4].sum() == pytest.approx(repeats.sum(), abs=1e-10)


@pytest.mark.parametrize("parts", [(), naive.FULL])
@pytest.mark.parametrize("n_classes", [1, 2])
def test_pair_statistics_are_those_of_blocks_of_two(rng, n_classes, parts):
    case = naive.make_case(rng, 10, "people", n_classes, parts)
    a, b = (np.array(x, np.int32) for x in ([0, 1, 2, 9, 4], [5, 6, 9, 0, 3]))
    weight = np.array([0.3, 0.0, 1.0, 2e-7, 5e-8])
    found = np.zeros((n_classes, 3, kernels.N_STATS)), np.zeros(n_classes), np.zeros(case.codes.shape)
    pair_stats_kernel(a, b, weight, built.model_of(case), *found)
    heard = np.where(weight > 1e-7, weight, 0.0)  # what is less probable leaves no trace
    parts = [naive.block_statistics(case, [x, y], w) for x, y, w in zip(a, b, heard, strict=True)]
    for ours, theirs in zip(found, zip(*parts, strict=True), strict=True):
        np.testing.assert_allclose(ours, sum(theirs), rtol=0, atol=1e-12)
