"""Which record an id means."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vber_cli.encode.identify import RecordFinder
from vber_cli.errors import InputError

NAMES = ("clinic", "police", "a")
IDS = ["1", "2", "x:1", "2", "3", "3", "1", "police:3", "7"]
OWNERS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2], np.int32)


@pytest.fixture
def finder():
    return RecordFinder(NAMES, OWNERS, pa.array(IDS))


@pytest.mark.parametrize(
    ("text", "database", "record"),
    [("7", None, 8), ("x:1", None, 2), ("clinic:1", None, 0), ("a:1", None, 6), ("1", "a", 6), ("clinic:x:1", None, 2)],
)
def test_an_id_means_one_record(finder, text, database, record):
    assert finder.find(text, database, "f.csv, row 1") == record
    assert database is not None or finder.knows(text)


@pytest.mark.parametrize(
    ("text", "database", "says"),
    [
        ("9", None, "no record has the id '9'"),
        ("police:9", None, "no record has the id 'police:9'"),
        ("7", "clinic", "no record of clinic has the id '7'"),
        ("7", "x", "there is no database 'x'"),
        ("1", None, "the id '1' is in 2 databases, clinic, a"),
        ("3", "police", "2 records of police have the id '3'"),
        ("police:3", None, "is in 2 databases"),
    ],
)
def test_an_id_that_means_none_or_several_is_an_error(finder, text, database, says):
    with pytest.raises(InputError) as error:
        finder.find(text, database, "f.csv, row 4")
    assert error.value.what.startswith("f.csv, row 4: ")
    assert says in error.value.what


def test_without_records_nothing_is_known():
    finder = RecordFinder(("a",), np.empty(0, np.int32), pa.array([], pa.string()))
    assert not finder.knows("a:1")
