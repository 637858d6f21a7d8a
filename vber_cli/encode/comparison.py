"""Values as they are compared: folded by type, with the similar ones found and codes derived for candidate keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.codebook import Codebook
from vber_cli.encode.dates import resolve_reading
from vber_cli.encode.derived import derived_keys
from vber_cli.encode.similarity import Similar, find_similar
from vber_cli.encode.swaps import find_swaps
from vber_cli.encode.types import FieldType, canonical, infer_type
from vber_cli.errors import UsageError
from vber_cli.model.prior import Prior, value_pointers
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.parallel import in_threads

EVERY_FIELD = "*"
# A field that is no id has some value twice in so many records, or is missing in more than a few.
_ENOUGH, _COMPLETE = 20, 0.99


@dataclass(frozen=True)
class Comparison:
    """The records as they are compared.

    Attributes
    ----------
    records
        Their codes number comparison forms: values of one form are the same value.
    similar
        Which forms are near each other.
    key_codes, key_field
        (N, G) int32 and (G,) int64: the fields themselves and codes derived from them, and each column's field.
    types
        (F,) the fields' types.
    notes
        What was decided without being asked for.
    """

    records: Records
    similar: SimilarValues
    key_codes: IntArray
    key_field: LongArray
    types: tuple[FieldType, ...]
    notes: tuple[str, ...]


def types_asked_for(texts: tuple[str, ...], fields: tuple[str, ...]) -> Mapping[str, str]:
    """Field → type from FIELD=TYPE options; `*` stands for every field not named itself.

    Raises
    ------
    UsageError
        A field is not one of the run's.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        field, _, kind = text.rpartition("=")
        pairs.append((field, kind))
    unknown = [field for field, _ in pairs if field not in fields and field != EVERY_FIELD]
    if unknown:
        raise UsageError(
            f"--type names {unknown[0]!r}, which is not a field of this run", f"the fields are {', '.join(fields)}"
        )
    asked: dict[str, str] = dict(pairs)
    default = asked.pop(EVERY_FIELD, None)
    return asked if default is None else {**dict.fromkeys(fields, default), **asked}


def compare(
    records: Records, codebook: Codebook, names: tuple[str, ...], asked: Mapping[str, str], threads: int
) -> Comparison:
    """Decide on the types, fold the values, and find the similar ones.

    Parameters
    ----------
    records, codebook
        The records as they were read, in database order.
    names
        (D,) the databases' names.
    asked
        Field → type, where the user named one.
    threads
        Has no influence on the result.
    """

    def of_field(f: int) -> _ComparedField:
        return _compare_field(records, codebook, f, names, asked.get(codebook.fields[f]), threads)

    fields = in_threads(of_field, range(len(codebook.fields)), threads)
    sizes = np.array([len(field.forms) for field in fields], dtype=np.int64)
    value_ptr = value_pointers(sizes)
    similar = SimilarValues.of(
        value_ptr,
        np.concatenate([field.similar.a.astype(np.int64) + value_ptr[f] for f, field in enumerate(fields)]),
        np.concatenate([field.similar.b.astype(np.int64) + value_ptr[f] for f, field in enumerate(fields)]),
        np.concatenate([field.similar.level for field in fields]),
    )
    types = [field.kind for field in fields]
    prior = Prior(value_ptr, np.concatenate([field.share for field in fields]), np.ones(len(fields)))
    similar = similar.with_swaps(find_swaps([field.forms for field in fields], types, similar, prior))
    codes = [field.codes for field in fields]
    key_codes = np.column_stack([*codes, *[key for field in fields for key in field.keys]])
    owners = [f for f, field in enumerate(fields) for _ in field.keys]
    key_field = np.concatenate([np.arange(len(fields)), owners]).astype(np.int64)
    return Comparison(
        Records(np.column_stack(codes), records.db_of_record, sizes),
        similar,
        key_codes,
        key_field,
        tuple(types),
        tuple(dict.fromkeys(note for field in fields for note in field.notes)),
    )


@dataclass(frozen=True)
class _ComparedField:
    """One field's type, what is to be said of it, and its V comparison forms.

    Attributes
    ----------
    kind, notes, forms
        The field's type, notes, and the sorted distinct forms.
    codes
        (N,) int32, the form of each record's value, −1 where there is none.
    share
        (V,) float64, how frequent each form is.
    similar
        Pairs of similar forms.
    keys
        (N,) int32 each, codes of what is derived from the forms.
    """

    kind: FieldType
    notes: list[str]
    forms: pa.StringArray
    codes: IntArray
    share: FloatArray
    similar: Similar
    keys: list[IntArray]


def _compare_field(
    records: Records, codebook: Codebook, f: int, names: tuple[str, ...], asked: str | None, threads: int
) -> _ComparedField:
    """Decide on the type of field f, fold its values, and find the similar ones; `asked` is the type the user named."""
    values, column = codebook.values[f], records.codes[:, f]
    counts = np.bincount(column[column >= 0], minlength=len(values))
    kind = infer_type(codebook.fields[f], values, counts, asked)
    notes = list(kind.notes)
    if len(values) >= _ENOUGH and counts.max() == 1 and len(values) > _COMPLETE * len(column):
        notes.append(
            f"field {codebook.fields[f]!r} looks like an id, for no value occurs twice: "
            f"name it with --id, or leave it out with --exclude {codebook.fields[f]}"
        )
    if asked == "category":
        # asked for, so taken at its word: the same or not, letter for letter
        forms, codes = _coded([values], [column])
    else:
        forms, codes, more = _forms(records, f, values, kind, names)
        notes += more
    own = np.bincount(codes[codes >= 0], minlength=len(forms))
    found = find_similar(forms, own, kind, threads, forms=forms)
    derived = derived_keys(forms, kind, forms=forms).values()
    keys = [np.where(codes >= 0, key[np.maximum(codes, 0)], -1).astype(np.int32) for key in derived]
    return _ComparedField(kind, notes, forms, codes, own / max(int(own.sum()), 1), found, keys)


def _forms(
    records: Records, f: int, values: pa.StringArray, kind: FieldType, names: tuple[str, ...]
) -> tuple[pa.StringArray, IntArray, list[str]]:
    """Distinct comparison forms, sorted, the (N,) code of each record's form, and notes.

    Dates are read database by database: each may have an order of day and month of its own.
    """
    column = records.codes[:, f]
    if kind.kind != "date" or records.n_databases < 2:
        return *_coded([canonical(values, kind)], [column]), []
    texts = values.to_pylist()
    edges = np.searchsorted(records.db_of_record, np.arange(records.n_databases + 1))
    latest = kind.dates.latest_year if kind.dates is not None else None
    forms: list[pa.StringArray] = []
    columns: list[IntArray] = []
    notes: list[str] = []
    for d, name in enumerate(names):
        part = column[edges[d] : edges[d + 1]]
        own = np.bincount(part[part >= 0], minlength=len(values))
        used = np.flatnonzero(own)
        reading, _ = resolve_reading(f"{kind.name} of {name}", [texts[v] for v in used], own[used], latest)
        overall = dict(kind.dates.orders) if kind.dates is not None else {}
        if overall and any(overall.get(shape) != order for shape, order in reading.orders):
            notes += reading.notes
        forms.append(canonical(values, kind, reading))
        columns.append(part)
    return *_coded(forms, columns), notes


def _coded(forms: list[pa.StringArray], columns: list[IntArray]) -> tuple[pa.StringArray, IntArray]:
    """Sorted distinct forms, and the forms' codes of columns of value codes, one after the other."""
    used = [
        pc.filter(form, pa.array(np.bincount(column[column >= 0], minlength=len(form)) > 0))
        for form, column in zip(forms, columns, strict=True)
    ]
    distinct = pc.drop_null(pc.unique(pa.concat_arrays(used)))
    distinct = distinct.take(pc.array_sort_indices(distinct))
    out = []
    for form, column in zip(forms, columns, strict=True):
        index = pc.fill_null(pc.index_in(form, distinct), -1).to_numpy(zero_copy_only=False).astype(np.int32)
        out.append(np.where(column >= 0, index[np.maximum(column, 0)], -1).astype(np.int32))
    return distinct, np.concatenate(out)
