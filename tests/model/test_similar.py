"""Similar values: stored both ways, looked up, and how often chance brings them together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vber_cli.model.prior import Prior
from vber_cli.model.similar import SimilarValues

SIZES = (9, 1, 30)


def random_similar(rng, value_ptr):
    """Some pairs of each field, with levels 0 to 2, and the same as a dictionary of values numbered through."""
    known = {}
    for lo, hi in itertools.pairwise(value_ptr.tolist()):
        for a in range(lo, hi):
            for b in range(a + 1, hi):
                if rng.random() < 0.2:
                    known[(a, b) if rng.random() < 0.5 else (b, a)] = int(rng.integers(0, 3))
    a, b = np.array(list(known)).T
    return known, SimilarValues.of(value_ptr, a, b, np.array(list(known.values()), np.int8))


def test_every_pair_is_stored_both_ways_and_in_order(rng):
    value_ptr = np.concatenate([[0], np.cumsum(SIZES)])
    known, similar = random_similar(rng, value_ptr)
    assert (similar.ptr.dtype, similar.value.dtype, similar.level.dtype) == (np.int64, np.int32, np.int8)
    assert len(similar.ptr) == sum(SIZES) + 1
    assert len(similar.value) == 2 * len(known)
    for v in range(sum(SIZES)):
        row = slice(similar.ptr[v], similar.ptr[v + 1])
        expected = sorted((x + y - v, level) for (x, y), level in known.items() if v in (x, y))
        assert list(zip(similar.value[row].tolist(), similar.level[row].tolist(), strict=True)) == expected


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_chance_levels_are_those_of_two_draws(rng):
    value_ptr = np.concatenate([[0], np.cumsum(SIZES)])
    known, similar = random_similar(rng, value_ptr)
    prior = Prior(value_ptr, np.concatenate([rng.dirichlet(np.ones(v)) for v in SIZES]), np.ones(3))
    found = similar.chance_levels(prior)
    for f, (lo, hi) in enumerate(itertools.pairwise(value_ptr.tolist())):
        expected = np.zeros(4)
        for a in range(lo, hi):
            for b in range(lo, hi):
                level = 0 if a == b else known.get((a, b), known.get((b, a), 3))
                expected[level] += prior.base[a] * prior.base[b]
        expected[3] = max(expected[3], 1e-9)
        np.testing.assert_allclose(found[f], expected, rtol=1e-9)


def test_without_similar_values_there_is_identical_and_other(rng):
    value_ptr = np.concatenate([[0], np.cumsum(SIZES)])
    base = np.concatenate([rng.dirichlet(np.ones(v)) for v in SIZES])
    found = SimilarValues.none(value_ptr).chance_levels(Prior(value_ptr, base, np.ones(3)))
    np.testing.assert_array_equal(found[:, 1:3], 0.0)
    assert found[0, 0] == pytest.approx(np.sum(base[:9] ** 2))
    assert found[1].tolist() == [1.0, 0.0, 0.0, 1e-9]
