"""The model of a run on disk, without loss: what `vber explain` weighs pairs with, after the inputs have gone.

`model.json` holds the hyperparameters but θ, `values.parquet` every value with the form it is compared in and its θ,
`similar.parquet` the forms that are near each other or may change places, and `records.parquet` the records with their
values as read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.arrays import distinct, n_distinct
from vber_cli.encode.codebook import Encoded
from vber_cli.encode.comparison import Comparison
from vber_cli.engine.block_model import Evidence
from vber_cli.engine.learn import Hyperparameters
from vber_cli.errors import InputError
from vber_cli.io import schema
from vber_cli.io.write import ResultDirectory
from vber_cli.model.prior import Prior, value_pointers
from vber_cli.model.similar import SimilarValues, Swaps
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.results.learned_file import MODEL, MODEL_FORMAT, damaged, learned_alone, read_json, to_plain
from vber_cli.results.open_result import OpenResult, plain_text

_ROWS_PER_TABLE = 1 << 19


@dataclass(frozen=True)
class StoredModel:
    """A result's model, and its records.

    Attributes
    ----------
    fields, types
        (F,) names and types.
    records
        The records as they are compared, in the order of the inputs.
    values
        (F,) dictionary arrays of the (N,) values as they were read, null where missing.
    learned
        Everything that was learned.
    linked
        Whether links were looked for: not with the literal updates.
    """

    fields: tuple[str, ...]
    types: tuple[str, ...]
    records: Records
    values: tuple[pa.DictionaryArray, ...]
    learned: Hyperparameters
    linked: bool


def write_model(
    result: ResultDirectory,
    facts: Mapping[str, str],
    encoded: Encoded,
    compared: Comparison,
    learned: Hyperparameters,
    *,
    linked: bool,
    with_records: bool,
) -> None:
    """Write the model's files.

    Parameters
    ----------
    result, facts
        The directory under construction, and what its metadata say.
    encoded, compared
        The records as they were read, and as they are compared; both in the order of the inputs.
    learned
        Everything that was learned, about the records as they are compared.
    linked
        Whether links were looked for.
    with_records
        Whether records.parquet is written.
    """
    evidence = learned.evidence
    fields = encoded.codebook.fields
    result.write_json(
        MODEL,
        {
            "format": MODEL_FORMAT,
            "metadata": dict(facts),
            "fields": list(fields),
            "types": [kind.kind for kind in compared.types],
            "n_forms": compared.records.n_values.tolist(),
            "linked": linked,
            "n": learned.n,
            "log_new": learned.log_new,
            "concentration": evidence.prior.concentration.tolist(),
            "noise": to_plain(evidence.noise),
            "relations": to_plain(evidence.relations),
            "dependence": to_plain(evidence.dependence.alone()),
            "tilt": evidence.tilt.tolist(),
            "near": None if evidence.near is None else evidence.near.tolist(),
            "present": None if learned.present is None else list(learned.present),
            "tree": None if learned.tree is None else to_plain(learned.tree.alone()),
        },
    )
    names = tuple(json.loads(facts["input_digests"])[d]["database"] for d in range(len(encoded.n_records_by_db)))
    values = (_value_table(f, names, encoded, compared, evidence.prior) for f in range(len(fields)))
    result.writer("values", schema.VALUES, facts).write_all(values)
    result.writer("similar", schema.SIMILAR, facts).write_all(_similar_tables(fields, evidence))
    if with_records:
        drawn = evidence.dependence.drawn
        result.writer("records", schema.records_schema(fields), facts).write_all(_record_tables(names, encoded, drawn))


def _names(codes: np.ndarray, names: tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), pa.array(names, pa.string())
    )


def _once(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """The different rows of columns of codes, of which −1 is the least, sorted by the first, then the next."""
    sizes = tuple(int(column.max(initial=-1)) + 2 for column in columns)
    key = distinct(np.ravel_multi_index(tuple(column + 1 for column in columns), sizes))
    return tuple(part - 1 for part in np.unravel_index(key, sizes))


def _value_table(f: int, names: tuple[str, ...], encoded: Encoded, compared: Comparison, prior: Prior) -> pa.Table:
    """Every value of a field with its form; database by database where the same text is read in different ways."""
    value = encoded.records.codes[:, f].astype(np.int64)
    seen = value >= 0
    value, form = value[seen], compared.records.codes[seen, f].astype(np.int64)
    everywhere = np.full(len(value), -1)
    database, value_once, form_once = _once(everywhere, value, form)
    if n_distinct(value_once) < len(value_once):
        database, value_once, form_once = _once(encoded.records.db_of_record[seen].astype(np.int64), value, form)
    value, form = value_once, form_once
    theta = prior.base[prior.value_ptr[f] + np.maximum(form, 0)] if len(form) else np.zeros(0)
    return pa.Table.from_arrays(
        [
            _names(np.full(len(form), f), encoded.codebook.fields),
            _names(database, names),
            encoded.codebook.decode(f, value.astype(np.int32)),
            pa.array(form.astype(np.int32), mask=form < 0),
            pa.array(theta, mask=form < 0),
        ],
        schema=schema.VALUES,
    )


def _similar_tables(fields: tuple[str, ...], evidence: Evidence) -> Iterator[pa.Table]:
    """Similar values, each pair once, by the first of the two; then values and their twins in other fields."""
    similar, value_ptr = evidence.similar, evidence.prior.value_ptr
    last = int(value_ptr[-1])
    lo = 0
    while lo < last:
        hi = int(np.searchsorted(similar.ptr, similar.ptr[lo] + _ROWS_PER_TABLE, side="right")) - 1
        hi = min(max(hi, lo + 1), last)
        entries = slice(similar.ptr[lo], similar.ptr[hi])
        a = np.repeat(np.arange(lo, hi, dtype=np.int32), np.diff(similar.ptr[lo : hi + 1]))
        b = similar.value[entries]
        once = a < b  # each pair is stored both ways
        yield _similar_rows(fields, value_ptr, a[once], b[once], similar.level[entries][once])
        lo = hi
    swaps = similar.swaps
    for i, (f, g) in enumerate(swaps.fields.tolist()):
        twin = swaps.twin[swaps.ptr[i] : swaps.ptr[i + 1]]
        form = np.flatnonzero(twin >= 0)
        level = np.full(len(form), swaps.worst[i])
        yield _similar_rows(fields, value_ptr, value_ptr[f] + form, value_ptr[g] + twin[form], level)


def _similar_rows(
    fields: tuple[str, ...], value_ptr: LongArray, a: np.ndarray, b: np.ndarray, level: np.ndarray
) -> pa.Table:
    columns: list[pa.Array] = []
    for end in (a, b):
        field = np.searchsorted(value_ptr, end, side="right") - 1
        columns += [_names(field, fields), pa.array((end - value_ptr[field]).astype(np.int32))]
    return pa.Table.from_arrays([*columns, pa.array(level.astype(np.int8))], schema=schema.SIMILAR)


def _record_tables(names: tuple[str, ...], encoded: Encoded, drawn: FloatArray) -> Iterator[pa.Table]:
    codebook, everything = encoded.codebook, encoded.records.codes
    values = [value.cast(pa.string()) for value in codebook.values]
    weight = drawn if len(drawn) else np.ones(len(everything))
    for lo in range(0, max(len(everything), 1), _ROWS_PER_TABLE):
        rows = slice(lo, lo + _ROWS_PER_TABLE)
        codes = everything[rows]
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(codes[:, f], mask=codes[:, f] < 0), values[f])
            for f in range(len(codebook.fields))
        ]
        yield pa.Table.from_arrays(
            [
                _names(encoded.records.db_of_record[rows], names),
                pa.array(encoded.row[rows]),
                encoded.record_id[rows].cast(pa.string()),
                pa.array(weight[rows]),
                *columns,
            ],
            schema=schema.records_schema(codebook.fields),
        )


def read_model(result: OpenResult) -> StoredModel:
    """Read a result's model and records.

    Raises
    ------
    InputError
        The result was made without them, or they do not fit each other.
    """
    plain = read_json(result)
    alone = learned_alone(result, plain)
    fields = alone.fields
    try:
        value_ptr = value_pointers(np.array(plain["n_forms"], dtype=np.int64))
        values = result.table("values", schema.VALUES.names)
        evidence = Evidence(
            _read_prior(values, fields, value_ptr, alone.concentration),
            alone.noise,
            _read_similar(result.table("similar", schema.SIMILAR.names), fields, value_ptr),
            alone.relations,
            alone.dependence,
            alone.tilt,
            near=alone.near,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(result, error) from None
    columns = read_values(result, fields)
    if alone.dependence.n_edges:
        drawn = result.table("records", ["individual_share"]).column(0).to_numpy()
        evidence = replace(evidence, dependence=replace(alone.dependence, drawn=drawn))
    learned = Hyperparameters(evidence, alone.n, alone.log_new, alone.tree, alone.present)
    records = _as_compared(result, fields, columns, values, np.diff(value_ptr))
    return StoredModel(fields, alone.types, records, columns, learned, alone.linked)


def _field_codes(table: pa.Table, fields: tuple[str, ...], column: str = "field") -> LongArray:
    names = plain_text(table.column(column))
    return np.asarray(pc.index_in(names, pa.array(fields, names.type)).to_numpy(zero_copy_only=False)).astype(np.int64)


def _read_prior(values: pa.Table, fields: tuple[str, ...], value_ptr: LongArray, alpha: np.ndarray) -> Prior:
    form = values.column("form").to_numpy()
    known = np.flatnonzero(~np.isnan(form.astype(np.float64)))
    at = value_ptr[_field_codes(values, fields)[known]] + form[known].astype(np.int64)
    base = np.full(int(value_ptr[-1]), np.nan)
    base[at] = values.column("theta").to_numpy()[known]
    if np.isnan(base).any():
        raise ValueError("values.parquet does not hold every form")
    return Prior(value_ptr, base, alpha)


def _read_similar(table: pa.Table, fields: tuple[str, ...], value_ptr: LongArray) -> SimilarValues:
    field_a, field_b = (_field_codes(table, fields, name) for name in ("field", "field_b"))
    form_a, form_b = (table.column(name).to_numpy() for name in ("form_a", "form_b"))
    within = field_a == field_b
    a, b = value_ptr[field_a[within]] + form_a[within], value_ptr[field_b[within]] + form_b[within]
    swapped = []
    for f, g in sorted(set(zip(field_a[~within].tolist(), field_b[~within].tolist(), strict=True))):
        rows = (field_a == f) & (field_b == g)
        twin = np.full(int(value_ptr[f + 1] - value_ptr[f]), -1, dtype=np.int32)
        twin[form_a[rows]] = form_b[rows]
        worst = int(table.column("level")[int(np.flatnonzero(rows)[0])].as_py())
        swapped.append((f, g, twin, int(value_ptr[g + 1] - value_ptr[g]), worst))
    return SimilarValues.of(value_ptr, a, b, table.column("level").to_numpy()[within], Swaps.of(swapped))


def read_values(result: OpenResult, fields: tuple[str, ...]) -> tuple[pa.DictionaryArray, ...]:
    """Read the (N,) values of each field from records.parquet, in the order of the inputs.

    Raises
    ------
    InputError
        The result was made with --no-records, or is older.
    """
    if not result.has("records"):
        raise InputError(
            f"{result.path} has no records.parquet, which holds the values of the records",
            "run `vber merge` again without --no-records",
        )
    columns = schema.record_columns(fields)
    table = result.table("records", ["database", "row", *columns])
    if len(table) != result.n_records or not _same_order(result, table):
        raise InputError(
            f"{result.path}: records.parquet does not list the records of assignments.parquet", "run `vber merge` again"
        )
    return tuple(_one_dictionary(table.column(name)) for name in columns)


def _same_order(result: OpenResult, table: pa.Table) -> bool:
    names = pc.index_in(plain_text(table.column("database")), pa.array(result.databases, pa.large_string()))
    db = names.fill_null(-1).to_numpy()
    return bool((db == result.db_of_record).all() and (table.column("row").to_numpy() == result.row).all())


def _one_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    joined = column.unify_dictionaries().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], column.type)
    return joined


def _as_compared(
    result: OpenResult,
    fields: tuple[str, ...],
    columns: tuple[pa.DictionaryArray, ...],
    values: pa.Table,
    n_values: LongArray,
) -> Records:
    """The records' codes, from their values and the form of each value."""
    codes = np.empty((result.n_records, len(fields)), dtype=np.int32)
    field = _field_codes(values, fields)
    names = pa.array(result.databases, pa.large_string())
    for f, column in enumerate(columns):
        own = values.filter(pa.array(field == f))
        form = own.column("form").fill_null(-1).to_numpy().astype(np.int32)
        text = plain_text(own.column("value"))
        database = pc.index_in(plain_text(own.column("database")), names).fill_null(-1).to_numpy()
        seen = column.indices.fill_null(-1).to_numpy().astype(np.int64)
        for d in np.unique(database).tolist():
            rows = np.flatnonzero(database == d)
            place = pc.index_in(column.dictionary.cast(pa.large_string()), text.take(pa.array(rows)))
            of_entry = _forms_of(place, form[rows])
            mine = slice(None) if d < 0 else result.db_of_record == d
            codes[mine, f] = of_entry[seen[mine]]
        if not len(own):
            codes[:, f] = -1
    if bool((codes < -1).any()):
        raise InputError(f"{result.path}: values.parquet does not hold every value", "run `vber merge` again")
    db = result.db_of_record.astype(np.int32)
    return Records(codes, db, n_values)


def _forms_of(place: pa.Array, form: IntArray) -> IntArray:
    """Form of each entry of a dictionary, −2 for one that is not known; the last one is where −1 (missing) looks."""
    at = place.fill_null(-1).to_numpy().astype(np.int64)
    return np.concatenate([np.where(at >= 0, form[np.maximum(at, 0)], -2), [-1]]).astype(np.int32)
