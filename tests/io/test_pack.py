"""Objects come back from arrays and JSON as they were, and no class but those named is ever made."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vber_cli.io.pack import Packer


@dataclass(frozen=True)
class Inner:
    x: np.ndarray
    more: object = None


class Pair(NamedTuple):
    a: object
    b: object


@dataclass(frozen=True)
class Remembering:
    x: int
    memory: dict[str, object] = field(default_factory=dict, compare=False)


PACKER = Packer([Inner, Pair, Remembering])


def round_trip(value, **shared):
    plain, arrays = PACKER.pack(value, shared)
    return PACKER.unpack(json.loads(json.dumps(plain)), arrays, shared)


def test_arrays_keep_type_shape_and_identity(rng):
    x = rng.normal(size=(3, 2))
    value = Pair(Inner(x, (np.int64(7), np.float32(0.1))), [Inner(x.astype(np.int8)), x, None])
    _, arrays = PACKER.pack(value, {})
    assert len(arrays) == 4  # x only once
    found = round_trip(value)
    assert type(found) is Pair
    assert type(found.a) is Inner
    np.testing.assert_array_equal(found.a.x, x)
    assert found.b[1] is found.a.x
    assert found.b[0].x.dtype == np.int8
    assert [type(part) for part in found.a.more] == [np.int64, np.float32]
    assert found.b[2] is None


def test_what_is_only_remembered_is_left_out():
    found = round_trip(Remembering(3, {"of a class that cannot be packed": object()}))
    assert found == Remembering(3)
    assert found.memory == {}


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner),
)


@given(plain_values)
def test_plain_values_come_back(value):
    assert round_trip(value) == value


def test_numbers_that_json_does_not_know():
    assert math.isnan(round_trip((float("nan"),))[0])
    assert round_trip([math.inf, -math.inf, -0.0]) == [math.inf, -math.inf, 0.0]


def test_shared_objects_are_not_copied(rng):
    known = Inner(rng.normal(size=1000))
    plain, arrays = PACKER.pack((known, 1), {"known": known})
    assert not arrays
    assert PACKER.unpack(plain, arrays, {"known": known})[0] is known
    with pytest.raises(ValueError, match="not what was packed"):
        PACKER.unpack(plain, arrays, {})


@pytest.mark.parametrize("value", [object(), {1, 2}, Packer([]), np.array([object()]), b"x"])
def test_other_classes_are_refused(value):
    with pytest.raises(TypeError):
        PACKER.pack(value, {})


@pytest.mark.parametrize(
    "plain",
    [
        {"class": "os.system", "fields": {"command": "true"}},
        {"class": "Inner", "fields": {"y": 1}},
        {"array": "9"},
        {"tuple": 3},
        {"eval": []},
        {"list": [], "tuple": []},
        {},
    ],
)
def test_what_was_not_packed_is_refused(plain):
    with pytest.raises(ValueError):  # noqa: PT011 - the reasons differ
        PACKER.unpack(plain, {}, {})
