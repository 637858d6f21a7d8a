"""Look at databases before a merge: read all columns, judge them, and learn what a sample of the records shows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from vber_cli.config import MergeOptions
from vber_cli.encode.codebook import Encoded, encode, null_keys
from vber_cli.encode.comparison import types_asked_for
from vber_cli.encode.dates import DateReading
from vber_cli.encode.fields import FieldMap, NoCommonFieldError
from vber_cli.encode.types import FieldType, infer_type
from vber_cli.io.tables import Database
from vber_cli.profiling.checks import all_warnings
from vber_cli.profiling.columns import ColumnValues
from vber_cli.profiling.cost import estimate_cost
from vber_cli.profiling.overlap import ColumnSample, near_duplicates, value_overlap
from vber_cli.profiling.profile import (
    ColumnProfile,
    DatabaseProfile,
    DateOrder,
    FieldProfile,
    Profile,
    ProfileWarning,
    SharedValues,
)
from vber_cli.profiling.read import batches_in_memory, read_all
from vber_cli.profiling.roles import Role, Roles
from vber_cli.profiling.sample import (
    MOST_COLUMNS,
    ComparedColumn,
    SampleFindings,
    column_samples,
    learn_from_sample,
    most_pairs,
)
from vber_cli.profiling.suggestions import Candidate, suggest
from vber_cli.progress import Progress
from vber_cli.running import map_columns, open_databases

_FREQUENT = 5

_Place = tuple[int, str]  # a database's number, and a column


@dataclass(frozen=True)
class _Column:
    """A column while it is looked at; `kind` and `dates` are how its values are compared, as part of its field."""

    place: _Place
    values: ColumnValues
    role: Role
    own_kind: FieldType
    kind: FieldType
    dates: DateReading | None


def run_profile(options: MergeOptions, progress: Progress, *, stdin: BinaryIO | None, show_values: bool) -> Profile:
    """Profile the databases as `vber merge` would read them with the same options.

    Parameters
    ----------
    options
        Checked options with at least one file; those about input, the seed and the threads matter.
    progress
        Told of every phase, and of what was guessed about the files.
    stdin
        What `-` reads.
    show_values
        Whether the profile holds values of the data.

    Raises
    ------
    VberError
        Whatever would stop a merge, except that no column is common, or that there is nothing to compare.
    """
    databases = open_databases(options, stdin)
    for note in (note for database in databases for note in database.announcements):
        progress.note(note)
    names = [database.name for database in databases]
    field_map, warnings = _map(options, databases)
    with progress.phase("read") as phase:
        tables = [read_all(database, phase.advance) for database in databases]
        keys = null_keys(options.null)
        values = {(d, name): ColumnValues.of(column, keys) for d, table in enumerate(tables)
                  for name, column in zip(table.schema.names, table.columns, strict=True)}  # fmt: skip
        encoded = _encode(options, names, tables, field_map, values)
    with progress.phase("judge"):
        asked = {} if encoded is None else types_asked_for(options.type, encoded.codebook.fields)
        kinds = {} if encoded is None else _field_kinds(encoded, asked)
        columns = _columns(options, databases, field_map, encoded, values, kinds)
        profiles = _database_profiles(databases, tables, columns, _FREQUENT if show_values else 0)
    if any(len(database.columns) > MOST_COLUMNS for database in databases):
        progress.note(f"only the first {MOST_COLUMNS} fields and columns are compared with each other")
    with progress.phase("compare columns"):
        samples = _samples(columns, options.seed)
        candidates = [Candidate(samples[one.place], one.role.field, one.role.settled) for one in columns
                      if one.place in samples and one.role.may_be_field]  # fmt: skip
        suggestions, swapped = suggest(candidates, names)
        fields = _field_profiles(names, encoded, kinds, columns, samples)
        duplicates = {
            name: near_duplicates([one for place, one in samples.items() if place[0] == d])
            for d, name in enumerate(names)
        }
    found: SampleFindings | None = None
    if encoded is not None:
        with progress.phase("sample"):
            found = learn_from_sample(encoded, names, kinds, asked, options.seed, options.threads)
    elif field_map is not None:
        warnings.append(_nothing_to_compare())
    n = sum(table.num_rows for table in tables)
    return Profile(
        profiles,
        fields,
        suggestions,
        None if found is None else found.tree,
        0 if found is None else found.n_records,
        None if found is None else estimate_cost((n, len(fields)), found.n_pairs, found.n_records, most_pairs(n)),
        (*warnings, *all_warnings(profiles, fields, duplicates, swapped)),
    )


def _map(options: MergeOptions, databases: Sequence[Database]) -> tuple[FieldMap | None, list[ProfileWarning]]:
    """The field map, or none and a warning."""
    try:
        return map_columns(options, databases), []
    except NoCommonFieldError as error:
        fix = "say which columns mean the same with --map; suggestions are below, if there are any"
        return None, [ProfileWarning("no_common_column", error.what.rstrip("."), fix)]


def _nothing_to_compare() -> ProfileWarning:
    return ProfileWarning(
        "nothing_to_compare",
        "there is nothing to compare: no records, or no value in any field",
        "see the columns, and choose others with --fields or --map",
    )


def _encode(
    options: MergeOptions,
    names: Sequence[str],
    tables: Sequence[pa.RecordBatch],
    field_map: FieldMap | None,
    values: Mapping[_Place, ColumnValues],
) -> Encoded | None:
    """The records as a merge would have them; None if it would refuse for want of records or values."""
    if field_map is None:
        return None
    places = [(d, column) for d, own in enumerate(field_map.column_of) for column in own.values()]
    places += [(d, column) for one in field_map.fallbacks for d, column in enumerate(one.columns)]
    if not any(len(values[place].counts) for place in places):
        return None
    try:
        return encode(names, batches_in_memory(tables), field_map, null_tokens=options.null)
    except NoCommonFieldError:
        return None


def _field_kinds(encoded: Encoded, asked: Mapping[str, str]) -> dict[str, FieldType]:
    kinds = {}
    for f, field in enumerate(encoded.codebook.fields):
        column = encoded.records.codes[:, f]
        counts = np.bincount(column[column >= 0], minlength=len(encoded.codebook.values[f]))
        kinds[field] = infer_type(field, encoded.codebook.values[f], counts, asked.get(field))
    return kinds


def _columns(
    options: MergeOptions,
    databases: Sequence[Database],
    field_map: FieldMap | None,
    encoded: Encoded | None,
    values: Mapping[_Place, ColumnValues],
    kinds: Mapping[str, FieldType],
) -> list[_Column]:
    names = [database.name for database in databases]
    all_columns = [database.columns for database in databases]
    if encoded is not None:
        fields, ids = encoded.codebook.fields, encoded.id_column
    else:
        fields, ids = (), field_map.id_column if field_map is not None else (None,) * len(names)
    roles = Roles(options, names, all_columns, field_map, fields, ids)
    columns = []
    for place, own in values.items():
        role = roles.of(*place)
        label = f"{names[place[0]]}: {place[1]!r}"
        own_kind = infer_type(label, own.values, own.counts)
        kind = kinds.get(role.field or "", own_kind)
        columns.append(_Column(place, own, role, own_kind, kind, own.reading(label, kind)))
    return columns


def _database_profiles(
    databases: Sequence[Database], tables: Sequence[pa.RecordBatch], columns: Sequence[_Column], n_frequent: int
) -> tuple[DatabaseProfile, ...]:
    return tuple(
        DatabaseProfile(
            database.name,
            tables[d].num_rows,
            database.n_bytes,
            database.format,
            next((one.place[1] for one in columns if one.place[0] == d and one.role.role == "id"), None),
            tuple(_column_profile(database.name, one, n_frequent) for one in columns if one.place[0] == d),
        )
        for d, database in enumerate(databases)
    )


def _column_profile(database: str, one: _Column, n_frequent: int) -> ColumnProfile:
    cased, capitals = one.values.capitals()
    dates = one.dates or DateReading()
    return ColumnProfile(
        database,
        one.place[1],
        one.role.role,
        one.role.field,
        one.role.reason,
        one.own_kind.kind,
        one.own_kind.reason,
        len(one.values.codes),
        one.values.n_missing,
        len(one.values.counts),
        one.values.most_frequent(n_frequent),
        tuple(DateOrder(like, order, like in dates.undecided) for like, order in dates.orders),
        dates.notes,
        cased,
        capitals,
    )


def _samples(columns: Sequence[_Column], seed: int) -> dict[_Place, ColumnSample]:
    """The samples of the columns that are compared with each other: not ids, and of many columns the first."""
    chosen: list[ComparedColumn] = []
    taken: dict[int, int] = {}
    for one in sorted(columns, key=lambda one: one.role.role != "field"):
        d = one.place[0]
        if one.role.role != "id" and len(one.values.counts) and taken.get(d, 0) < MOST_COLUMNS:
            taken[d] = taken.get(d, 0) + 1
            chosen.append(ComparedColumn(*one.place, one.values, one.kind, one.dates))
    found = {(one.database, one.column): one for one in column_samples(chosen, seed)}
    return {one.place: found[one.place] for one in columns if one.place in found}


def _field_profiles(
    names: Sequence[str],
    encoded: Encoded | None,
    kinds: Mapping[str, FieldType],
    columns: Sequence[_Column],
    samples: Mapping[_Place, ColumnSample],
) -> tuple[FieldProfile, ...]:
    if encoded is None:
        return ()
    out = []
    n = encoded.records.n_records
    columns_of: dict[str | None, list[_Column]] = {}
    for one in columns:
        columns_of.setdefault(one.role.field, []).append(one)
    for f, field in enumerate(encoded.codebook.fields):
        own = columns_of.get(field, [])
        shared = []
        for a, b in itertools.combinations([one.place for one in own if one.place in samples], 2):
            overlap = value_overlap(samples[a], samples[b])
            if overlap is not None:
                shared.append(SharedValues((names[a[0]], names[b[0]]), overlap))
        missing = int((encoded.records.codes[:, f] < 0).sum())
        out.append(
            FieldProfile(
                field,
                kinds[field].kind,
                kinds[field].reason,
                missing,
                missing / n,
                len(encoded.codebook.values[f]),
                {names[one.place[0]]: one.place[1] for one in own},
                tuple(shared),
            )
        )
    return tuple(out)
