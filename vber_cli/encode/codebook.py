"""Values and their integer codes, per field over all databases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.fields import FieldMap, no_common_field
from vber_cli.errors import InputError
from vber_cli.model.types import MISSING, IntArray, LongArray, Records

NULL_TOKENS = ("", "NA", "N/A", "NULL", "None", "nan", "?", "-", "unknown")

BatchesOf = Callable[[int, Sequence[str]], Iterator[pa.RecordBatch]]

# Dictionaries of so many batches are merged at a time: often enough to keep memory small, rarely enough to be fast.
_PENDING = 64
_LARGEST_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Codebook:
    """The distinct values of each field, and their codes.

    Attributes
    ----------
    fields
        Names of the F fields.
    values
        (F,) string arrays, each sorted by UTF-8 bytes and without nulls or repetition; a value's code is its place.
    """

    fields: tuple[str, ...]
    values: tuple[pa.StringArray, ...]

    @cached_property
    def checksum(self) -> str:
        """SHA-256 over field names and values, in hexadecimal."""
        digest = hashlib.sha256()
        for field, values in zip(self.fields, self.values, strict=True):
            name = field.encode()
            digest.update(len(name).to_bytes(8, "little") + name + len(values).to_bytes(8, "little"))
            lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype("<i8")
            digest.update(lengths.tobytes())
            digest.update(_text_bytes(values))
        return digest.hexdigest()

    @property
    def n_values(self) -> LongArray:
        """(F,) int64, the number of distinct values of each field."""
        return np.array([len(values) for values in self.values], dtype=np.int64)

    def encode(self, field_index: int, array: pa.Array) -> IntArray:
        """Turn values into codes.

        Parameters
        ----------
        field_index
            Which field.
        array
            Text of any Arrow string or dictionary type; null is missing.

        Returns
        -------
        ndarray
            int32 codes, -1 where missing.

        Raises
        ------
        KeyError
            A value is not in the codebook.
        """
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        array = array.cast(pa.string())
        codes = pc.index_in(array, self.values[field_index])
        unknown = pc.and_(pc.is_null(codes), pc.is_valid(array))
        if pc.any(unknown).as_py():
            raise KeyError(array.filter(unknown)[0].as_py())
        return _numpy_codes(codes)

    def decode(self, field_index: int, codes: IntArray) -> pa.StringArray:
        """Turn codes into values; -1 becomes null.

        Parameters
        ----------
        field_index
            Which field.
        codes
            Integers in -1 .. V_f - 1, any shape of one dimension.

        Returns
        -------
        StringArray
            As long as `codes`.
        """
        codes = np.asarray(codes)
        return self.values[field_index].take(pa.array(codes, mask=codes == MISSING))

    def to_table(self) -> pa.Table:
        """Return the codebook as a table (field, code, value) whose metadata hold the field names and the checksum."""
        counts = self.n_values
        names = pa.array(self.fields, pa.string())
        table = pa.table(
            {
                "field": pa.DictionaryArray.from_arrays(
                    pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts)), names
                ),
                "code": pa.array(
                    np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
                    if len(counts)
                    else np.zeros(0, np.int32)
                ),
                "value": pa.chunked_array(list(self.values), pa.string()),
            }
        )
        return table.replace_schema_metadata(
            {"vber.fields": json.dumps([self.fields, counts.tolist()]), "vber.codebook": self.checksum}
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> Codebook:
        """Take a codebook back from its table.

        Raises
        ------
        InputError
            The table is not a codebook, or its checksum does not fit its values.
        """
        metadata = table.schema.metadata or {}
        fix = "Run the merge again; the file has been changed or damaged."
        if b"vber.fields" not in metadata or "value" not in table.column_names:
            raise InputError("The table is not a codebook of vber.", fix)
        fields, counts = json.loads(metadata[b"vber.fields"])
        column = table.column("value")
        if sum(counts) != len(column):
            raise InputError("The codebook's length does not fit its metadata.", fix)
        values = []
        start = 0
        for count in counts:
            piece = column.slice(start, count).combine_chunks()
            values.append(pa.concat_arrays(piece.chunks) if isinstance(piece, pa.ChunkedArray) else piece)
            start += count
        codebook = cls(tuple(fields), tuple(values))
        if codebook.checksum.encode() != metadata.get(b"vber.codebook"):
            raise InputError("The codebook's checksum does not fit its values.", fix)
        return codebook


@dataclass(frozen=True)
class Encoded:
    """All databases as codes.

    Attributes
    ----------
    records
        The codes, (N, F).
    codebook
        What they mean.
    record_id
        (N,) text: the id column's value, else the 0-based row number within the database.
    row
        (N,) int64, the 0-based row within the database.
    n_records_by_db
        (D,) int64.
    id_column
        (D,) the id columns really used.
    announcements
        What turned out on reading; one line each.
    """

    records: Records
    codebook: Codebook
    record_id: pa.Array
    row: LongArray
    n_records_by_db: LongArray
    id_column: tuple[str | None, ...]
    announcements: tuple[str, ...]


def encode(
    names: Sequence[str],
    batches_of: BatchesOf,
    field_map: FieldMap,
    *,
    null_tokens: Sequence[str] = (),
    on_progress: Callable[[int], None] | None = None,
) -> Encoded:
    """Read all databases into codes.

    Parameters
    ----------
    names
        (D,) the databases' names.
    batches_of
        Called with a database's number and the wanted columns; yields its rows in order. Called again for a database
        whose guessed id turns out to be an ordinary column.
    field_map
        Which columns to read.
    null_tokens
        Spellings of a missing value besides `NULL_TOKENS`; compared without surrounding blanks and case.
    on_progress
        Called with the number of records of each batch.

    Raises
    ------
    InputError
        There is no record, or no field with a value; an id column that the user named has missing or repeated values.
    """
    notes: list[str] = []
    collectors = [_Collector(field) for field in field_map.fields]
    ids: list[pa.Array | None] = []
    counts = np.zeros(len(names), dtype=np.int64)
    for d in range(len(names)):
        column_of = field_map.column_of[d]
        columns = [column_of.get(field) for field in field_map.fields]
        counts[d], id_values = _read(d, batches_of, columns, field_map.id_column[d], collectors, on_progress)
        ids.append(_checked_ids(names[d], field_map, d, id_values, notes))
        if counts[d] == 0:
            notes.append(f"{names[d]}: has no rows")
    if counts.sum() == 0:
        raise InputError(f"There is nothing to merge: {', '.join(names)} have no rows.", "Name files that hold rows.")
    id_column = tuple(
        column if kept is not None else None for column, kept in zip(field_map.id_column, ids, strict=True)
    )
    collectors += _fallback_collectors(field_map, id_column, batches_of, notes)
    codebook, codes = _finish(collectors, int(counts.sum()), null_tokens, notes)
    if not codebook.fields:
        if not collectors:
            raise no_common_field(names, [[column] if column else [] for column in field_map.id_column])
        raise InputError(
            f"No field has a value in any database ({', '.join(one.field for one in collectors)}).",
            "Choose others with --fields or --map; --null adds spellings of missing, it takes none away.",
        )
    rows = np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
    records = Records(
        codes=codes,
        db_of_record=np.repeat(np.arange(len(names), dtype=np.int32), counts),
        n_values=codebook.n_values,
    )
    record_id = _joined([kept if kept is not None else _row_ids(int(n)) for kept, n in zip(ids, counts, strict=True)])
    return Encoded(records, codebook, record_id, rows, counts, id_column, tuple(notes))


class _Collector:
    """One field's values as they come in: codes in order of appearance, and the values they stand for."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._values = pa.array([], pa.string())
        self._pending: list[pa.DictionaryArray] = []
        self._codes: list[IntArray] = []

    def add(self, array: pa.Array) -> None:
        """Append a batch's column."""
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        indices, values = array.indices, array.dictionary
        if values.null_count:
            array = values.take(indices).dictionary_encode()
            indices, values = array.indices, array.dictionary
        self._pending.append(pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values.cast(pa.string())))
        if len(self._pending) >= _PENDING:
            self._unify()

    def add_missing(self, n: int) -> None:
        """Append `n` missing values."""
        self._unify()
        self._codes.append(np.full(n, MISSING, dtype=np.int32))

    def _unify(self) -> None:
        if not self._pending:
            return
        # The values known so far come first, so that the codes given out keep their meaning.
        known = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), self._values)
        try:
            unified = pa.chunked_array([known, *self._pending]).unify_dictionaries()
        except pa.ArrowException as error:
            raise InputError(
                f"Field {self.field!r}: its distinct values take more than 2 GiB ({error}).",
                f"Leave it out with --exclude {self.field}.",
            ) from error
        self._values = unified.chunk(0).dictionary
        self._codes += [_numpy_codes(chunk.indices) for chunk in unified.chunks[1:]]
        self._pending.clear()

    def finish(self, null_keys: pa.Array) -> tuple[pa.StringArray, Iterator[IntArray]]:
        """Return the sorted values that are not missing, and the final codes in pieces."""
        self._unify()
        missing = is_missing(self._values, null_keys).to_numpy(zero_copy_only=False)
        kept = np.flatnonzero(~missing)
        order = kept[pc.sort_indices(self._values.take(pa.array(kept))).to_numpy()]
        # The last entry is where -1 looks.
        final_of_first = np.full(len(self._values) + 1, MISSING, dtype=np.int32)
        final_of_first[order] = np.arange(len(order), dtype=np.int32)
        return self._values.take(pa.array(order)), (final_of_first[codes] for codes in self._codes)


def _null_key(values: pa.Array) -> pa.Array:
    """Form in which spellings of a missing value are compared."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(values))


def null_keys(null_tokens: Sequence[str]) -> pa.Array:
    """Return the forms of all spellings of a missing value: `NULL_TOKENS` and those given."""
    return _null_key(pa.array([*NULL_TOKENS, *null_tokens], pa.string()))


def is_missing(values: pa.Array, keys: pa.Array) -> pa.BooleanArray:
    """Whether each text is a spelling of a missing value; `keys` from `null_keys`."""
    return pc.is_in(_null_key(values), keys)


def _numpy_codes(indices: pa.Array) -> IntArray:
    codes: IntArray = pc.fill_null(indices, MISSING).to_numpy(zero_copy_only=False)
    return codes


def _read(
    d: int,
    batches_of: BatchesOf,
    columns: Sequence[str | None],
    id_column: str | None,
    collectors: Sequence[_Collector],
    on_progress: Callable[[int], None] | None,
) -> tuple[int, list[pa.Array]]:
    """Read one database into the collectors; return its number of rows and its ids in pieces."""
    wanted = list(dict.fromkeys(column for column in (*columns, id_column) if column is not None))
    n_rows = 0
    id_values: list[pa.Array] = []
    for batch in batches_of(d, wanted):
        n_rows += batch.num_rows
        for collector, column in zip(collectors, columns, strict=True):
            if column is not None:
                collector.add(batch.column(column))
        if id_column is not None:
            id_values.append(_decoded(batch.column(id_column)))
        if on_progress is not None:
            on_progress(batch.num_rows)
    for collector, column in zip(collectors, columns, strict=True):
        if column is None:
            collector.add_missing(n_rows)
    return n_rows, id_values


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary.take(array.indices) if pa.types.is_dictionary(array.type) else array


def _joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """Join text arrays: string, or large_string where all together pass 2 GiB."""
    size = sum(piece.nbytes for piece in pieces)
    kind = pa.string() if size <= _LARGEST_INT32 else pa.large_string()
    return pa.concat_arrays([piece.cast(kind) for piece in pieces]) if pieces else pa.array([], kind)


def _row_ids(n: int) -> pa.Array:
    return pa.array(np.arange(n, dtype=np.int64)).cast(pa.string())


def _checked_ids(
    name: str, field_map: FieldMap, d: int, pieces: Sequence[pa.Array], notes: list[str]
) -> pa.Array | None:
    """Return a database's ids, None where there are none or a guess was wrong."""
    column = field_map.id_column[d]
    if column is None:
        return None
    values = _joined(pieces)
    problem = _id_problem(values)
    if problem is None:
        return values
    if not field_map.id_guessed or not field_map.id_guessed[d]:
        raise InputError(
            f"{name}: {problem} in the id column {column!r}.",
            "Name a column that is unique and complete with --id, or leave --id out to use row numbers.",
        )
    notes.append(f"{name}: {column!r} is no record id, since it has {problem}; row numbers are used")
    return None


def _id_problem(values: pa.Array) -> str | None:
    """What keeps a column from being the ids: its first gap, or its first repetition."""
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(values), ""), True)
    gap = pc.index(blank, True).as_py()
    if gap >= 0:
        return f"no value in row {gap} (the first is row 0)"
    codes = values.dictionary_encode()
    if len(codes.dictionary) == len(values):
        return None
    # Codes are given in order of appearance: a row that repeats one breaks the count upwards.
    order = codes.indices.to_numpy()
    repeated = int(np.flatnonzero(order != np.arange(len(order)))[0])
    first = int(np.flatnonzero(order == order[repeated])[0])
    return f"the same value in rows {first} and {repeated} (the first is row 0)"


def _fallback_collectors(
    field_map: FieldMap, id_column: Sequence[str | None], batches_of: BatchesOf, notes: list[str]
) -> list[_Collector]:
    """Read the columns that looked like ids and are fields after all: no database keeps them as its id."""
    collectors = []
    for fallback in field_map.fallbacks:
        if any(column == kept for column, kept in zip(fallback.columns, id_column, strict=True)):
            continue
        collector = _Collector(fallback.field)
        for d, column in enumerate(fallback.columns):
            _read(d, batches_of, [column], None, [collector], None)
        collectors.append(collector)
        notes.append(f"{fallback.field!r} is used as a field (--exclude leaves it out)")
    return collectors


def _finish(
    collectors: list[_Collector], n_records: int, null_tokens: Sequence[str], notes: list[str]
) -> tuple[Codebook, IntArray]:
    """Sort each field's values and fill the matrix of codes; a field without any value is left out."""
    missing_keys = null_keys(null_tokens)
    finished = []
    for collector in collectors:
        values, pieces = collector.finish(missing_keys)
        if len(values):
            finished.append((collector.field, values, pieces))
        else:
            notes.append(f"field {collector.field!r} has no value in any database and is left out")
    codes = np.empty((n_records, len(finished)), dtype=np.int32)
    for f, (_, _, pieces) in enumerate(finished):
        start = 0
        for piece in pieces:
            codes[start : start + len(piece), f] = piece
            start += len(piece)
    codebook = Codebook(tuple(field for field, _, _ in finished), tuple(values for _, values, _ in finished))
    return codebook, codes


def _text_bytes(values: pa.StringArray) -> memoryview:
    """The values' UTF-8 bytes one after the other."""
    if len(values) == 0:
        return memoryview(b"")
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return memoryview(values.buffers()[2] or b"")[offsets[0] : offsets[-1]]
