"""Which fields may change places: those that have values in common, and too rarely by chance to matter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.encode.test_comparison import compared
from vber_cli.encode.swaps import find_swaps
from vber_cli.encode.types import FieldType
from vber_cli.model.prior import Prior
from vber_cli.model.similar import SimilarValues

GIVEN = ["James", "Jamse", "Thomas", "Anna", "Maria", "Marja", "Peter", "Robert", "Roberta", "Helen", None, "Ivy"]
FAMILY = ["Smith", "Smyth", "James", "Thomas", "Brown", "Browne", "Green", "Hall", "Halls", "Moore", "Moor", None]
BOTH = {"given": GIVEN, "family": FAMILY}


def fields_of(columns, asked):
    found = compared(columns, asked).similar.swaps
    return [tuple(pair) for pair in found.fields.tolist()]


def test_names_and_surnames():
    found = compared(BOTH, dict.fromkeys(BOTH, "text"))
    swaps = found.similar.swaps
    assert swaps.fields.tolist() == [[0, 1]]
    assert (swaps.ptr.tolist(), swaps.twin.dtype) == ([0, found.records.n_values[0]], np.int32)
    codes = found.records.codes
    for i, given in enumerate(GIVEN):
        if given is not None:
            place = FAMILY.index(given) if given in FAMILY else None
            assert swaps.twin[codes[i, 0]] == (-1 if place is None else codes[place, 1])


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (BOTH, {"given": "category", "family": "category"}),
        (BOTH, {"given": "text", "family": "category"}),
        (
            {"given": GIVEN, "town": ["Oslo", "Bergen", "Bergenn"] * 4},
            {"given": "text", "town": "text"},
        ),  # none in common
        # every second record shows what every second other one does the other way round
        (
            {"one": ["yes", "nay", "yes", "nay", "yess"] * 5, "two": ["nay", "yes", "nay", "yes", "nayy"] * 5},
            {"one": "text", "two": "text"},
        ),
        # no two values are close, so that close has no meaning here
        ({"one": ["abc", "xyz"], "two": ["xyz", "qrs"]}, {"one": "text", "two": "text"}),
    ],
)
def test_fields_that_do_not_change_places(columns, asked):
    assert fields_of(columns, asked) == []


def test_of_many_fields_those_with_the_most_values_are_looked_at():
    many = {f"field{i}": GIVEN[:4] * 3 for i in range(60)} | BOTH
    found = fields_of(many, dict.fromkeys(many, "text"))
    assert (60, 61) in found
    assert len({f for pair in found for f in pair}) <= 24


@pytest.mark.parametrize(("shared", "worst"), [(0.01, 2), (0.2, 1)])
def test_similar_values_count_where_chance_makes_them_rarely(shared, worst):
    """Both fields know c, and values near it: the more often it is shown, the more often chance crosses the two."""
    forms = [pa.array(["a", "ab", "abc", "c"]), pa.array(["c", "x", "xy", "xyz"])]
    rest = (1.0 - shared) / 3
    prior = Prior(np.array([0, 4, 8]), np.array([rest, rest, rest, shared, shared, rest, rest, rest]), np.ones(2))
    a, b, level = np.array([0, 0, 2, 5, 6, 4]), np.array([1, 2, 3, 6, 7, 5]), np.array([1, 1, 2, 1, 1, 2])
    if shared < 0.1:
        level[[1, 4]] = 2
    similar = SimilarValues.of(prior.value_ptr, a, b, level)
    types = [FieldType(name, "text", "", "") for name in ("given", "family")]
    swaps = find_swaps(forms, types, similar, prior)
    assert (swaps.fields.tolist(), swaps.worst.tolist()) == ([[0, 1]], [worst])
    assert (swaps.twin.tolist(), swaps.back.tolist()) == ([-1, -1, -1, 0], [3, -1, -1, -1])
