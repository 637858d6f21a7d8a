"""Values that have changed places count as close in both fields, wherever levels are looked up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.engine import built, naive
from vber_cli.engine.block_model import block_model
from vber_cli.engine.evidence_kernels import pair_levels
from vber_cli.engine.pair_explanation import explain_pairs
from vber_cli.model.similar import Swaps

TWIN = np.array([1, 0, -1, 2])  # of the four values of the first field among the seven of the third


def models(rng, parts=("near",)):
    case = naive.make_case(rng, 40, "people", 2, parts)
    evidence = built.evidence_of(case)
    swaps = Swaps.of([(0, 2, TWIN)])
    similar = evidence.similar.with_swaps(swaps)
    plain, swapping = (block_model(case.records, e) for e in (evidence, dataclasses.replace(evidence, similar=similar)))
    # as many values out of place as possible
    codes = case.records.codes.copy()
    codes[:, 0], codes[:, 2] = rng.integers(-1, 4, 40), rng.integers(-1, 3, 40)
    return plain._replace(codes=codes), swapping._replace(codes=codes)


def swapped(codes, a, b):
    (x, y), (v, w) = codes[a][[0, 2]], codes[b][[0, 2]]
    return min(x, y, v, w) >= 0 and x != v and y != w and TWIN[x] == w and TWIN[v] == y


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_levels_of_swapped_values(rng):
    plain, swapping = models(rng)
    a, b = built.all_pairs(40)
    expected = pair_levels(plain, a, b)
    n_swapped = 0
    for i in range(len(a)):
        if swapped(plain.codes, a[i], b[i]) and (expected[i, [0, 2]] > 0).all():
            expected[i, [0, 2]] = 1
            n_swapped += 1
    assert n_swapped > 2
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
    expected = np.full((len(a), swapping.codes.shape[1]), -1)
    for i in range(len(a)):
        if swapped(swapping.codes, a[i], b[i]):
            expected[i, 0], expected[i, 2] = 2, 0
    np.testing.assert_array_equal(found, expected)


def test_exact_copies_know_no_swaps(rng):
    """With μ_0 = 1 the model is the paper's, whatever values change places."""
    plain, swapping = (m._replace(copy=m.copy * np.array([1.0, 0.0, 0.0])) for m in models(rng))
    for members in ([0, 1, 2, 3, 4], [5, 9, 11], [20, 30, 35, 39]):
        weights = [naive_weight(model, members) for model in (plain, swapping)]
        assert weights[0] == weights[1]


def naive_weight(model, members):
    from vber_cli.engine.local_kernels import block_weight

    local = built.Local(model, members)
    order = np.arange(len(members)).astype(np.int32)
    return block_weight(order, len(members), *local.args)
