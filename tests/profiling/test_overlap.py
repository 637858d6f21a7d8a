"""Which columns hold the same kind of values, and which repeat another one."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.profiling.overlap import (
    ColumnSample,
    likeness,
    name_likeness,
    near_duplicates,
    swapped,
    value_overlap,
)


def column(codes, name="x", database=0, kind="text"):
    return ColumnSample(database, name, kind, np.asarray(codes, np.int64))


def drawn(rng, first, n_values, n=2000, **more):
    return column(first + rng.integers(0, n_values, n), **more)


@pytest.mark.parametrize("n_values", [2, 50, 5_000, 50_000])
def test_two_samples_of_the_same_values_are_alike_however_many_there_are(rng, n_values):
    assert value_overlap(drawn(rng, 0, n_values), drawn(rng, 0, n_values)) > 0.6


def test_other_values_and_other_shares_are_not_alike(rng):
    months, days = drawn(rng, 0, 12), drawn(rng, 0, 31)
    assert value_overlap(months, drawn(rng, 12, 12)) == 0.0
    assert value_overlap(months, days) == pytest.approx(12 / 31, abs=0.05)


def test_the_same_unique_values_are_alike(rng):
    assert value_overlap(column(rng.permutation(500)), column(rng.permutation(500))) == 1.0


def test_a_few_values_say_nothing(rng):
    few = column(np.where(np.arange(100) < 19, 1, -1))
    assert value_overlap(few, drawn(rng, 0, 2)) is None
    assert likeness(few, drawn(rng, 0, 2, name="y")) is None
    assert likeness(few, drawn(rng, 0, 2, name="X")).values is None


@pytest.mark.parametrize("pair", [("Birth date", "birth_date"), ("a", "a")])
def test_names_that_differ_in_separators_are_the_same(pair):
    assert name_likeness(*pair) == 1.0


def test_the_likeness_of_names_is_symmetric():
    assert name_likeness("surname", "last_name") == name_likeness("last_name", "surname") < 0.8


def test_values_of_flags_must_agree_more_than_others(rng):
    flags, other = column(rng.random(2000) < 0.5), column(rng.random(2000) < 0.75, name="y", database=1)
    assert 0.6 < value_overlap(flags, other) < 0.9
    assert likeness(flags, other) is None
    assert likeness(drawn(rng, 0, 40), drawn(rng, 10, 40, name="y")).values > 0.6


def test_alike_names_do_not_make_up_for_other_values(rng):
    assert likeness(drawn(rng, 0, 40, name="street_1"), drawn(rng, 40, 40, name="street_2")) is None
    assert likeness(drawn(rng, 0, 40, name="street_1"), drawn(rng, 20, 40, name="street_2")) is not None


def test_swapped_fields_hold_each_others_values(rng):
    given, family = drawn(rng, 0, 50), drawn(rng, 100, 50)
    assert swapped((given, family), (drawn(rng, 100, 50), drawn(rng, 0, 50)))
    assert not swapped((given, family), (drawn(rng, 0, 50), drawn(rng, 100, 50)))
    # two fields of the same values cannot be told apart, so nothing is said
    assert not swapped((given, given), (drawn(rng, 0, 50), drawn(rng, 0, 50)))


def test_near_duplicates_equal_and_recoded(rng):
    town = rng.integers(0, 20, 1000)
    slips = np.where(rng.random(1000) < 0.03, 99, town)
    code = 500 + rng.permutation(20)[town]
    found = near_duplicates([column(town, "town"), column(slips, "again"), column(code, "code")])
    assert [(one.first, one.second, one.equal) for one in found][:2] == [
        ("town", "again", True),
        ("town", "code", False),
    ]
    assert found[0].share == pytest.approx(0.97, abs=0.02)
    assert found[1].share == 1.0


def test_no_near_duplicates_among_others(rng):
    postcode = rng.integers(0, 100, 1000)
    unique = np.arange(1000)  # goes one with one with anything unique, which is no coding
    others = [postcode, postcode // 5, rng.integers(0, 20, 1000), unique, unique[::-1], np.zeros(1000)]
    assert near_duplicates([column(codes, str(i)) for i, codes in enumerate(others)]) == []
