"""Values that have changed places count as close, or near, in both fields, wherever levels are looked up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.called import from_python
from tests.engine import built, naive
from vber_cli.candidates.swapped import swapped_pairs
from vber_cli.engine import local_kernels
from vber_cli.engine.block_model import block_model
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.hyper import learn_near
from vber_cli.engine.pair_explanation import explain_pairs
from vber_cli.model.evidence import agreement_rate, collision_entropy
from vber_cli.model.prior import value_counts
from vber_cli.model.similar import Swaps

block_weight = from_python(local_kernels.block_weight)

TWIN = np.array([1, 0, -1, 2])  # of the four values of the first field among the seven of the third


def models(rng, parts=("near",), worst=2):
    case = naive.make_case(rng, 40, "people", 2, parts)
    evidence = built.evidence_of(case)
    swaps = Swaps.of([(0, 2, TWIN, 7, worst)])
    similar = evidence.similar.with_swaps(swaps)
    plain, swapping = (block_model(case.records, e) for e in (evidence, dataclasses.replace(evidence, similar=similar)))
    # as many values out of place as possible
    codes = case.records.codes.copy()
    codes[:, 0], codes[:, 2] = rng.integers(-1, 4, 40), rng.integers(-1, 3, 40)
    return plain._replace(codes=codes), swapping._replace(codes=codes)


def swapped(codes, a, b):
    """Level by being swapped: 1, 2 if one of the values is only similar, 3 if they are not."""
    (x, y), (v, w) = codes[a][[0, 2]], codes[b][[0, 2]]
    if min(x, y, v, w) < 0 or x == v or y == w:
        return 3
    worst = max(crossed(x, w), crossed(v, y))
    return worst + 1 if worst < 2 and min(crossed(x, w), crossed(v, y)) == 0 else 3


def crossed(v, w):
    """0 if v of the first field and w of the third are the same value, 1 if either field knows them as similar."""
    if TWIN[v] == w:
        return 0
    here = np.flatnonzero(w == TWIN)
    there = TWIN[v] >= 0 and near(2, TWIN[v], w)
    return 1 if there or any(near(0, v, u) for u in here) else 2


def near(f, v, w):
    return v == w or (f, v, w) in naive.NEAR or (f, w, v) in naive.NEAR


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("worst", [1, 2])
def test_levels_of_swapped_values(rng, worst):
    plain, swapping = models(rng, worst=worst)
    a, b = built.all_pairs(40)
    expected = pair_levels(plain, a, b)
    n_swapped = {1: 0, 2: 0}
    for i in range(len(a)):
        level = swapped(plain.codes, a[i], b[i])
        if level <= worst and 2 * level < expected[i, [0, 2]].sum() and (expected[i, [0, 2]] > 0).all():
            expected[i, [0, 2]] = level
            n_swapped[level] += 1
    assert min(n_swapped[level] for level in range(1, worst + 1)) > 2
    np.testing.assert_array_equal(pair_levels(swapping, a, b), expected)
    np.testing.assert_array_equal(pair_levels(swapping, b, a), expected)
    # the levels within a component are the same
    local = built.Local(swapping, np.arange(40))
    np.testing.assert_array_equal(local.levels[a, b], expected)
    np.testing.assert_array_equal(local.levels[b, a], expected)


def test_an_explanation_names_the_field(rng):
    _, swapping = models(rng)
    a, b = built.all_pairs(40)
    found = explain_pairs(swapping, a, b).swapped
    levels = pair_levels(swapping, a, b)
    expected = np.full((len(a), swapping.codes.shape[1]), -1)
    for i in range(len(a)):
        if (levels[i, [0, 2]] == swapped(swapping.codes, a[i], b[i])).all() and levels[i, 0] < 3:
            expected[i, 0], expected[i, 2] = 2, 0
    np.testing.assert_array_equal(found, expected)


def test_exact_copies_know_no_swaps(rng):
    """With μ_0 = 1 the model is the paper's, whatever values change places."""
    plain, swapping = (m._replace(copy=m.copy * np.array([1.0, 0.0, 0.0])) for m in models(rng))
    for members in ([0, 1, 2, 3, 4], [5, 9, 11], [20, 30, 35, 39]):
        weights = [naive_weight(model, members) for model in (plain, swapping)]
        assert weights[0] == weights[1]


def naive_weight(model, members):
    local = built.Local(model, members)
    return block_weight(np.arange(len(members)), len(members), *local.args)


@pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)
def test_a_part_with_only_its_own_values_compares_as_with_all(rng):
    case = naive.make_case(rng, 60, "people", 2, naive.FULL)
    swaps = Swaps.of([(0, 2, TWIN, 7, 2)])
    evidence = built.evidence_of(case)
    evidence = dataclasses.replace(evidence, similar=evidence.similar.with_swaps(swaps))
    codes = case.records.codes.copy()
    codes[:, 0], codes[:, 2] = rng.integers(-1, 4, 60), rng.integers(-1, 3, 60)
    records = dataclasses.replace(case.records, codes=codes)
    part = records.part(np.sort(rng.choice(60, 12, replace=False)))
    prior, similar = evidence.prior, evidence.similar
    own = part.with_only(swaps.twins_of(np.flatnonzero(value_counts(part, prior.value_ptr)), prior.value_ptr))
    assert own.n_values.sum() < part.n_values.sum()
    own_evidence = dataclasses.replace(evidence, prior=prior.part(own), similar=similar.part(own))
    whole, few = block_model(part, evidence), block_model(own, own_evidence)
    a, b = built.all_pairs(12)
    levels = pair_levels(whole, a, b)
    np.testing.assert_array_equal(pair_levels(few, a, b), levels)
    for name in ("theta", "theta_given", "unrelated", "hidden", "copy", "swap_fields", "swap_worst"):
        np.testing.assert_array_equal(getattr(few, name), getattr(whole, name))
    np.testing.assert_array_equal(pair_evidence(few, b, levels), pair_evidence(whole, b, levels))
    likely = rng.random(len(a))
    np.testing.assert_allclose(
        learn_near(own, own_evidence.prior, own_evidence.similar, levels, likely),
        learn_near(part, prior, similar, levels, likely),
        rtol=1e-12,
    )
    for of in (collision_entropy, agreement_rate):
        np.testing.assert_array_equal(of(own_evidence.prior), of(prior))
    found, expected = swapped_pairs(own, own_evidence.similar.swaps), swapped_pairs(part, swaps)
    np.testing.assert_array_equal(found, expected)
    assert own_evidence.prior.with_concentration(np.full(3, 2.0)).whole is prior
