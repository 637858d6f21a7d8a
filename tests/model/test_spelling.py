"""Values that are seen once beside a more frequent one may be misspelt, and only as far as the counts say so."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.model.similar import SimilarValues
from vber_cli.model.spelling import spelt_right, suspects


def right_of(counts, near, identical, ends=None, same=()):
    """Of one field, or of several that end there; `near` are pairs of values, `same` those that compare as one."""
    ptr = np.array([0, *(ends or [len(counts)])], np.int64)
    pairs = np.array([*near, *same], np.int64).reshape(-1, 2)
    similar = SimilarValues.of(ptr, *pairs.T, np.array([1] * len(near) + [0] * len(same), np.int8))
    return spelt_right(suspects(np.array(counts, np.float64), similar, ptr), np.array(identical, np.float64))


def misspelt(rng, n_values, n_each, rate):
    """Counts of values that are all frequent and, beside each, of its misspellings, every one another; and which."""
    wrong = rng.binomial(n_each, rate, n_values)
    counts = np.concatenate([n_each - wrong, np.ones(wrong.sum())])
    of = np.repeat(np.arange(n_values), wrong)
    return counts, list(zip(of, n_values + np.arange(len(of)), strict=True))


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("rate", [0.03, 0.1])
def test_misspellings_are_counted_out(rng, rate):
    """Then a common value is as likely to be right as one less how often any value is wrong, the other way round."""
    counts, near = misspelt(rng, 40, 100, rate)
    right = right_of(counts, near, [(1.0 - rate) ** 2])
    found = 1.0 - 1.0 / right[0]
    assert found == pytest.approx(1.0 - counts[:40].sum() / counts.sum(), rel=0.3)
    assert (right[:40] == right[0]).all()
    assert (right[40:] < 0.3).all()
    assert counts @ right == pytest.approx(counts.sum())


def test_each_field_by_itself():
    rng = np.random.default_rng(4)
    one, near_one = misspelt(rng, 30, 60, 0.05)
    other, near_other = misspelt(rng, 20, 80, 0.1)
    near = near_one + [(v + len(one), w + len(one)) for v, w in near_other]
    both = right_of([*one, *other], near, [0.9, 0.81], [len(one), len(one) + len(other)])
    np.testing.assert_array_equal(both[: len(one)], right_of(one, near_one, [0.9]))
    np.testing.assert_array_equal(both[len(one) :], right_of(other, near_other, [0.81]))


def test_no_more_are_wrong_than_records_of_one_individual_differ():
    counts, near = misspelt(np.random.default_rng(5), 40, 100, 0.1)
    right = right_of(counts, near, [0.98])
    assert right[0] == pytest.approx(1.0 / (1.0 - (1.0 - np.sqrt(0.98))))
    assert (right_of(counts, near, [1.0]) == 1.0).all()


def test_rare_names_are_no_misspellings():
    """Seen once and seen twice as often as by Zipf's law, whatever they are near to."""
    counts = [50.0, *np.ones(30), *np.full(12, 2.0)]
    near = [(0, v) for v in range(1, 43)]
    assert (right_of(counts, near, [0.8]) == 1.0).all()


def test_what_is_like_everything_is_no_misspelling():
    """Dates: a wrong one is a date as well, and those seen a few times are as near others as those seen once."""
    rng = np.random.default_rng(6)
    counts = rng.integers(1, 12, 4000).astype(np.float64)
    counts[rng.random(4000) < 0.5] = 1.0
    near = [(v, v + step) for step in range(1, 7) for v in range(4000 - step)]
    right = right_of(counts, near, [0.9])
    assert right == pytest.approx(1.0, abs=0.05)


def test_another_spelling_of_a_frequent_name_is_none():
    """Seen once beside a frequent name, but the same as another frequent one but for its case."""
    counts, near = [100.0, 60.0, *np.ones(6)], [(0, v) for v in range(2, 8)]
    right = right_of(counts, near, [0.8], same=[(1, 2)])
    assert right[2] == right[1] == right[0] > 1.0
    assert (right[3:] < 1.0).all()
    assert np.array(counts) @ right == pytest.approx(sum(counts))


def test_without_near_values_nothing_is_misspelt():
    assert (right_of([9.0, 1.0, 1.0, 1.0, 1.0], [], [0.5]) == 1.0).all()
    assert (right_of([9.0, 1.0, 1.0], [(1, 2)], [0.5]) == 1.0).all()  # neither is frequent
