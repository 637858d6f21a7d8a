"""What a column holds, against a plain count of its cells."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vber_cli.encode.codebook import null_keys
from vber_cli.encode.types import infer_type
from vber_cli.profiling.columns import LONGEST, ColumnValues

MISSING = {"", "na", "n/a", "null", "none", "nan", "?", "-", "unknown"}
CELLS = st.lists(st.one_of(st.none(), st.sampled_from(["Ann", "ANN", "b", " NA ", "?", "é", "日本", "0"]), st.text()))


def values_of(cells, *tokens):
    return ColumnValues.of(pa.array(cells, pa.string()).dictionary_encode(), null_keys(tokens))


@given(CELLS, st.integers(0, 6))
def test_counts(cells, n):
    found = values_of(cells)
    present = Counter(cell for cell in cells if cell is not None and cell.strip().lower() not in MISSING)
    assert found.n_missing == len(cells) - sum(present.values())
    assert len(found.counts) == len(present)
    expected = sorted(present.items(), key=lambda one: (-one[1], one[0].encode()))[:n]
    assert list(found.most_frequent(n)) == [(value[:LONGEST], count) for value, count in expected]
    back = [None if code < 0 else found.values[int(code)].as_py() for code in found.codes]
    assert back == [cell if cell in present else None for cell in cells]


def test_more_spellings_of_missing():
    assert values_of(["x", "-9", "y"], "-9").n_missing == 1


def test_long_values_are_cut():
    ((value, _),) = values_of(["x" * 10_000]).most_frequent(1)
    assert value == "x" * (LONGEST - 1) + "…"


def test_capitals_are_counted_where_letters_have_them():
    assert values_of(["ANN", "ANN", "Bob", "F", "12", "日本", None, "É2"]).capitals() == (4, 3)


def test_the_order_of_dates_is_that_of_the_column():
    found = values_of(["25/12/1980", "03/04/1981", None])
    kind = infer_type("born", found.values, found.counts, "date")
    reading = found.reading("a: 'born'", kind)
    assert reading.orders == (("03/05/1984", "dmy"),)
    assert reading.undecided == ()
    unclear = values_of(["01/02/1980", "03/04/1981"])
    assert unclear.reading("x", kind).undecided == ("03/05/1984",)
    assert unclear.reading("x", infer_type("x", unclear.values, unclear.counts, "text")) is None


def test_forms_of_sampled_rows():
    found = values_of(["O'Neil", None, "ONEIL", "b-c"])
    kind = infer_type("name", found.values, found.counts, "text")
    assert found.sampled_forms(np.array([3, 2, 1, 0]), kind, None).to_pylist() == ["b c", "oneil", None, "oneil"]


@pytest.mark.parametrize("cells", [[], [None, "NA"]])
def test_nothing(cells):
    found = values_of(cells)
    assert (found.n_missing, len(found.counts), found.most_frequent(3), found.capitals()) == (len(cells), 0, (), (0, 0))
