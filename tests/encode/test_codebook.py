"""Values and codes: any text comes back, missing is -1, nothing depends on the order of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vber_cli.encode import codebook as module
from vber_cli.encode.codebook import NULL_TOKENS, Codebook, Encoded, encode
from vber_cli.encode.fields import FieldMap, map_fields
from vber_cli.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMERIC = st.sampled_from(
    ["01", "1", "1.0", "1e3", "0x1", "-0", "٣", "½", "1" * 400, "x" * 100_000, "🙂" * 1000, "a\0b"]
)
VALUE = st.none() | TEXT | NUMERIC | st.sampled_from([*NULL_TOKENS, " na ", "\tNULL\n", "Unknown"])

Table = dict[str, list[str | None]]


def encoded(
    *tables: Table, rows_per_batch: int = 3, plain: bool = False, field_map: FieldMap | None = None, **options: object
) -> Encoded:
    names = [f"db{d}" for d in range(len(tables))]

    def batches_of(d: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        n_rows = len(next(iter(tables[d].values())))
        for start in range(0, n_rows, rows_per_batch):
            arrays = [pa.array(tables[d][name][start : start + rows_per_batch], pa.string()) for name in columns]
            yield pa.RecordBatch.from_arrays(
                arrays if plain else [array.dictionary_encode() for array in arrays], names=list(columns)
            )

    field_map = field_map or map_fields(names, [list(table) for table in tables])
    return encode(names, batches_of, field_map, **options)


def missing(value: str | None, extra: Sequence[str] = ()) -> bool:
    spellings = {token.strip().lower() for token in (*NULL_TOKENS, *extra)}
    return value is None or value.strip().lower() in spellings


@settings(max_examples=200, deadline=None)
@given(
    tables=st.lists(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=12), min_size=1, max_size=3),
    plain=st.booleans(),
    rows_per_batch=st.integers(1, 5),
)
def test_any_value_comes_back(
    tables: list[list[tuple[str | None, str | None]]], plain: bool, rows_per_batch: int
) -> None:
    # A last column that is never all missing keeps the table mergeable.
    given_tables = [{"a": [a for a, _ in rows], "b": [b for _, b in rows], "c": ["v"] * len(rows)} for rows in tables]
    result = encoded(*given_tables, rows_per_batch=rows_per_batch, plain=plain)
    book, codes = result.codebook, result.records.codes
    assert codes.dtype == np.int32
    assert codes.flags.c_contiguous
    for f, field in enumerate(book.fields):
        values = [value for table in given_tables for value in table[field]]
        wanted = [None if missing(value) else value for value in values]
        assert book.decode(f, codes[:, f]).to_pylist() == wanted
        assert book.encode(f, pa.array(wanted, pa.string())).tolist() == codes[:, f].tolist()
        distinct = book.values[f].to_pylist()
        assert distinct == sorted(set(wanted) - {None}, key=lambda value: value.encode())
        assert result.records.n_values[f] == len(distinct)
    assert ("a" in book.fields) == any(not missing(value) for table in given_tables for value in table["a"])
    back = Codebook.from_table(book.to_table())
    assert back.fields == book.fields
    assert [values.to_pylist() for values in back.values] == [values.to_pylist() for values in book.values]
    assert back.checksum == book.checksum


def test_codes_do_not_depend_on_the_order_of_rows(rng: np.random.Generator) -> None:
    values = [str(value) for value in rng.integers(0, 50, 500)]
    order = rng.permutation(500)
    one = encoded({"a": values})
    other = encoded({"a": [values[i] for i in order]}, rows_per_batch=7)
    assert one.codebook.checksum == other.codebook.checksum
    assert (one.records.codes[order] == other.records.codes).all()


def test_more_batches_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PENDING", 3)
    values = [str(i % 37) for i in range(200)]
    result = encoded({"a": values}, {"a": values[::-1]})
    assert result.codebook.decode(0, result.records.codes[:, 0]).to_pylist() == values + values[::-1]


def test_records_are_in_database_and_row_order() -> None:
    result = encoded({"a": ["x", "y"]}, {"a": ["y"]}, {"a": []}, {"a": ["z", "x"]})
    assert result.records.db_of_record.tolist() == [0, 0, 1, 3, 3]
    assert result.records.db_of_record.dtype == np.int32
    assert result.row.tolist() == [0, 1, 0, 0, 1]
    assert result.record_id.to_pylist() == ["0", "1", "0", "0", "1"]
    assert result.n_records_by_db.tolist() == [2, 1, 0, 2]
    assert result.announcements == ("db2: has no rows",)


def test_missing_columns_and_null_tokens() -> None:
    tables = ({"a": ["x", "n.n."], "b": ["1", "UNK"]}, {"a": [" N.N. ", "y"]})
    field_map = map_fields(["db0", "db1"], [list(table) for table in tables], fields=("a", "b"))
    result = encoded(*tables, field_map=field_map, null_tokens=("N.N.", "unk"))
    assert result.records.codes.tolist() == [[0, 0], [-1, -1], [-1, -1], [1, -1]]


def test_progress_counts_records() -> None:
    counts: list[int] = []
    encoded({"a": ["x"] * 7}, {"a": ["y"] * 2}, on_progress=counts.append)
    assert counts == [3, 3, 1, 2]


def test_ids() -> None:
    result = encoded({"id": ["q", "p"], "a": ["x", "y"]}, {"a": ["x"]})
    assert result.record_id.to_pylist() == ["q", "p", "0"]
    assert result.id_column == ("id", None)
    assert result.codebook.fields == ("a",)


@pytest.mark.parametrize("ids", [["p", "q", "p"], ["p", None, "q"], ["p", "", "q"]])
def test_a_wrong_guess_is_no_id(ids: list[str | None]) -> None:
    result = encoded({"id": ids, "a": ["x", "y", "z"]}, {"id": ["1", "2"], "a": ["x", "y"]})
    assert result.record_id.to_pylist() == ["0", "1", "2", "1", "2"]
    assert result.id_column == (None, "id")
    assert result.codebook.fields == ("a",)
    assert "db0: 'id' is no record id" in result.announcements[0]


def test_a_wrong_guess_everywhere_is_a_field() -> None:
    result = encoded({"key": ["k", "k"], "a": ["x", "y"]}, {"key": ["k", "l", "l"], "a": ["x", "y", "z"]})
    assert result.id_column == (None, None)
    assert result.codebook.fields == ("a", "key")
    assert result.records.codes[:, 1].tolist() == [0, 0, 0, 1, 1]
    assert result.record_id.to_pylist() == ["0", "1", "0", "1", "2"]


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        (["p", "q", "r", "q", "p"], "the same value in rows 1 and 3"),
        (["p", None, "q", "r", "s"], "no value in row 1"),
        (["p", "o", "q", "r", " "], "no value in row 4"),
    ],
)
def test_a_wrong_id_column_of_the_user_is_refused(ids: list[str | None], what: str) -> None:
    table: Table = {"code": ids, "a": ["x"] * 5}
    field_map = map_fields(["db0"], [list(table)], ids=("code",))
    with pytest.raises(InputError) as caught:
        encoded(table, field_map=field_map)
    assert what in caught.value.what
    assert "--id" in caught.value.fix


def test_nothing_to_merge() -> None:
    with pytest.raises(InputError, match="nothing to merge: db0, db1 have no rows"):
        encoded({"a": []}, {"a": []})
    with pytest.raises(InputError, match="No field has a value"):
        encoded({"a": ["", None, "NA"]})
    with pytest.raises(InputError, match="no column in common") as error:
        encoded({"id": ["1"]}, {"id": ["1"]})
    assert "`vber profile`" in error.value.fix


def test_a_field_without_values_is_left_out() -> None:
    result = encoded({"a": ["x"], "b": ["-"]})
    assert result.codebook.fields == ("a",)
    assert "'b' has no value" in result.announcements[0]


def test_an_unknown_value_is_refused() -> None:
    book = Codebook(("a",), (pa.array(["x", "y"]),))
    assert book.encode(0, pa.array(["y", None, "x"]).dictionary_encode()).tolist() == [1, -1, 0]
    assert book.encode(0, pa.array([None, None], pa.string())).tolist() == [-1, -1]
    with pytest.raises(KeyError, match="z"):
        book.encode(0, pa.array(["x", "z"]))


def test_a_changed_codebook_is_noticed() -> None:
    book = Codebook(("a", "b"), (pa.array(["x", "y"]), pa.array([], pa.string())))
    table = book.to_table()
    assert Codebook.from_table(table).values[1].to_pylist() == []
    changed = table.set_column(2, "value", pa.array(["x", "z"]))
    with pytest.raises(InputError, match="checksum"):
        Codebook.from_table(changed)
    with pytest.raises(InputError, match="length"):
        Codebook.from_table(table.slice(1))
    with pytest.raises(InputError, match="not a codebook"):
        Codebook.from_table(pa.table({"value": ["x"]}))


def test_the_checksum_sees_where_values_end() -> None:
    books = [
        Codebook(("a",), (pa.array(["ab", "c"]),)),
        Codebook(("a",), (pa.array(["a", "bc"]),)),
        Codebook(("b",), (pa.array(["ab", "c"]),)),
        Codebook(("a",), (pa.array(["x", "ab", "c"]).slice(1),)),
    ]
    sums = [book.checksum for book in books]
    assert len(set(sums)) == 3
    assert sums[0] == sums[3]


def test_large_strings_and_dictionaries_with_nulls() -> None:
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["x", None, "y"], pa.large_string())),
        pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array(["x", "y"])),
    ]
    field_map = FieldMap(("a",), ({"a": "a"},), (None,))
    result = encode(
        ["db"], lambda _, __: (pa.RecordBatch.from_arrays([array], names=["a"]) for array in arrays), field_map
    )
    assert result.records.codes[:, 0].tolist() == [0, -1, 1, 1, -1]
