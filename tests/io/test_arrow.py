"""Parquet and Arrow: every plain type as text, in every wrapping."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import io
import math
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from tests.io.reading import open_bytes, open_path, rows_of
from vber_cli.errors import InputError
from vber_cli.io.arrowread import as_text

TABLE = pa.table(
    {
        "name": pa.array(["Zoë", None, "two\nlines", ""]),
        "postcode": pa.array(["01234", "00", "1.50", "🙂"], pa.large_string()),
        " sex ": pa.array(["f", "m", None, "f"]).dictionary_encode(),
        "age": pa.array([1, 2, None, -4], pa.int16()),
    }
)
ROWS = [("Zoë", "01234", "f", "1"), (None, "00", "m", "2"), ("two\nlines", "1.50", None, None), ("", "🙂", "f", "-4")]


def stored(table: pa.Table, kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink, row_group_size=3)
    elif kind == "feather":
        feather.write_feather(table, sink, compression="lz4", chunksize=2)
    else:
        opener = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with opener(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow", "arrow-stream"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("piped", [False, True])
def test_every_storage(tmp_path: Path, kind: str, compressed: bool, piped: bool) -> None:
    data = stored(TABLE, kind)
    data = gzip.compress(data, mtime=0) if compressed else data
    path = tmp_path / "table.bin"
    path.write_bytes(data)
    database = open_bytes(data) if piped else open_path(path)
    assert database.columns == ("name", "postcode", "sex", "age")
    assert rows_of(database) == ROWS
    assert rows_of(database) == ROWS
    assert database.format["kind"] == {"feather": "arrow"}.get(kind, kind)
    assert sum(batch.num_rows for batch in database.batches(())) == 4
    (first, *_) = database.batches(("age", "name"))
    assert first.schema.names == ["age", "name"]
    assert first.schema.types == [pa.dictionary(pa.int32(), pa.string())] * 2


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([1.0, 0.1, math.nan, None, -2.5]), ["1.0", "0.1", None, None, "-2.5"]),
        (pa.array([0.1, 1e20], pa.float32()), ["0.1", "1e+20"]),
        (pa.array([0.1], pa.float64()).cast(pa.float16()), ["0.1"]),
        (pa.array([math.inf, -math.inf]), ["inf", "-inf"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([dt.date(2020, 1, 2), None]), ["2020-01-02", None]),
        (pa.array([dt.time(1, 2, 3), dt.time(1, 2, 3, 500_000)]), ["01:02:03", "01:02:03.5"]),
        (pa.array([decimal.Decimal("1.50")]), ["1.50"]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array(["x", None], pa.string_view()), ["x", None]),
        (pa.array([1.0, math.nan]).dictionary_encode(), ["1.0", None]),
        (pa.array([1, 1, 2]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.int64())), ["1", "1", "2"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", None, "a"])), ["a", None, "a"]),
    ],
)
def test_plain_types_become_text(array: pa.Array, texts: list[str | None]) -> None:
    result = as_text(array, "file", "column")
    assert result.type == pa.dictionary(pa.int32(), pa.string())
    assert result.to_pylist() == texts


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_are_iso_with_their_zone(unit: str) -> None:
    plain = [dt.datetime(2020, 7, 1, 12), dt.datetime(2020, 7, 1, 0, 0, 30)]
    assert as_text(pa.array(plain, pa.timestamp(unit)), "f", "c").to_pylist() == [
        "2020-07-01T12:00:00",
        "2020-07-01T00:00:30",
    ]
    zoned = pa.array([dt.datetime(2020, 7, 1, 12, tzinfo=ZoneInfo("UTC"))], pa.timestamp(unit, "UTC"))
    assert as_text(zoned, "f", "c").to_pylist() == ["2020-07-01T12:00:00Z"]
    paris = zoned.cast(pa.timestamp(unit, "Europe/Paris"))
    assert as_text(paris, "f", "c").to_pylist() == ["2020-07-01T14:00:00+02:00"]


def test_fractions_of_seconds_stay() -> None:
    times = pa.array([dt.datetime(2020, 7, 1, 12, 0, 10, 250_000), dt.datetime(2020, 7, 1, 12, 0, 0, 1)])
    assert as_text(times, "f", "c").to_pylist() == ["2020-07-01T12:00:10.25", "2020-07-01T12:00:00.000001"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=False) | st.none(), max_size=20))
def test_floats_come_back(values: list[float | None]) -> None:
    texts = as_text(pa.array(values, pa.float64()), "f", "c").to_pylist()
    assert [None if text is None else float(text) for text in texts] == values


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), max_size=20),
    st.sampled_from(["parquet", "feather", "arrow", "arrow-stream"]),
)
def test_any_text_comes_back(values: list[str | None], kind: str) -> None:
    table = pa.table({"a": pa.array(values, pa.string())})
    assert [value for (value,) in rows_of(open_bytes(stored(table, kind)))] == values


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (pa.array([[1], [2]]), "nested"),
        (pa.array([{"a": 1}]), "nested"),
        (pa.array([b"x"]), "bytes"),
        (pa.array([dt.timedelta(1)]), "durations"),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), "durations"),
    ],
)
def test_what_has_no_text_form_is_refused_where_it_is_wanted(array: pa.Array, what: str) -> None:
    table = pa.table({"name": pa.array(["x"] * len(array)), "tags": array})
    database = open_bytes(stored(table, "arrow"))
    assert len(list(database.batches(("name",)))) == 1
    with pytest.raises(InputError, match=f"'tags' holds {what}") as caught:
        list(database.batches(("name", "tags")))
    assert "--exclude tags" in caught.value.fix


def test_text_that_is_not_utf8_is_refused() -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32).tobytes()), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(InputError, match="'name' holds text that is not valid UTF-8"):
        rows_of(open_bytes(stored(pa.table({"name": bad}), "arrow")))


def test_duplicate_columns_and_none() -> None:
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["name", "name "])
    with pytest.raises(InputError, match="two columns are called 'name'"):
        open_bytes(stored(table, "arrow"))
    with pytest.raises(InputError, match="no columns"):
        open_bytes(stored(pa.table({}), "arrow"))


def test_a_cut_file_is_refused() -> None:
    for kind in ("parquet", "arrow", "arrow-stream"):
        data = stored(pa.table({"name": [str(i) for i in range(10_000)]}), kind)
        with pytest.raises(InputError, match="not readable as"):
            rows_of(open_bytes(data[: len(data) // 2]))


def test_no_rows() -> None:
    for kind in ("parquet", "arrow", "arrow-stream"):
        assert rows_of(open_bytes(stored(TABLE.slice(0, 0), kind))) == []
