"""Every Arrow schema of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

RESULT_VERSION = 1
_PREFIX = "vber."
_NAME = pa.dictionary(pa.int32(), pa.string())


def _field(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


PHI = pa.schema(
    [
        _field("database", _NAME),
        _field("row", pa.int64()),
        _field("record_id", pa.string()),
        _field("individual", pa.int64(), nullable=True),  # null: all individuals that are not stored, together
        _field("phi", pa.float64()),
        _field("probability", pa.float64()),
    ]
)

LAMBDA = pa.schema(
    [
        _field("individual", pa.int64()),
        _field("field", _NAME),
        _field("value", pa.string(), nullable=True),  # null: all values this individual was never seen with
        _field("lam", pa.float64()),
        _field("probability", pa.float64()),
        _field("prior", pa.float64()),
    ]
)

ASSIGNMENTS = pa.schema(
    [
        _field("database", _NAME),
        _field("row", pa.int64()),
        _field("record_id", pa.string()),
        _field("individual", pa.int64()),
        _field("probability", pa.float64()),
        _field("runner_up", pa.int64(), nullable=True),
        _field("runner_up_probability", pa.float64(), nullable=True),
    ]
)

SAMPLED_ASSIGNMENTS = ASSIGNMENTS.append(_field("set_probability", pa.float64()))

DRAWS = pa.schema(
    [
        _field("chain", pa.int32()),
        _field("iteration", pa.int32()),
        _field("database", _NAME),
        _field("row", pa.int64()),
        _field("individual", pa.int64()),  # the place in the inputs of its first record
    ]
)

TRACE = pa.schema(
    [
        _field("step", pa.int32()),
        _field("kind", _NAME),
        _field("bound", pa.float64()),
        _field("elbo", pa.float64()),
        _field("max_change", pa.float64()),
        _field("n", pa.float64()),
        _field("seconds", pa.float64()),
    ]
)

_INDIVIDUALS = (
    _field("individual", pa.int64()),
    _field("n_records", pa.int32()),
    _field("n_databases", pa.int32()),
    _field("confidence", pa.float64()),
)

_LINKS = (
    _field("database_a", _NAME),
    _field("row_a", pa.int64()),
    _field("id_a", pa.string()),
    _field("database_b", _NAME),
    _field("row_b", pa.int64()),
    _field("id_b", pa.string()),
    _field("probability", pa.float64()),
    _field("log_odds", pa.float64()),
    _field("pair_log_odds", pa.float64(), nullable=True),  # of the two records by themselves, without all others
)

_RECORDS = (
    _field("database", _NAME),
    _field("row", pa.int64()),
    _field("record_id", pa.string()),
    _field("individual_share", pa.float64()),
)

VALUES = pa.schema(
    [
        _field("field", _NAME),
        _field("database", _NAME, nullable=True),  # null: in every database
        _field("value", pa.string()),
        _field("form", pa.int32(), nullable=True),  # null: compared as if it were missing
        _field("theta", pa.float64(), nullable=True),
    ]
)

SIMILAR = pa.schema(
    [
        _field("field", _NAME),
        _field("form_a", pa.int32()),
        _field("field_b", _NAME),  # another one: where records that show both values may have them in either place
        _field("form_b", pa.int32()),
        _field("level", pa.int8()),  # of two fields: the least alike that a change of places makes them (`Swaps.worst`)
    ]
)


def individual_columns(fields: Sequence[str]) -> list[tuple[str, str]]:
    """Names of each field's value and probability columns in `individuals`.

    A name that is taken already gets trailing underscores; the fields themselves come first, so that a field keeps
    its name rather than lose it to another one's probability.
    """
    taken = {field.name for field in _INDIVIDUALS}
    values = [_free(name, taken) for name in fields]
    return [(value, _free(f"{value}_probability", taken)) for value in values]


def individuals_schema(fields: Sequence[str]) -> pa.Schema:
    """Schema of the merged database, one row per individual."""
    columns = list(_INDIVIDUALS)
    for value, probability in individual_columns(fields):
        columns.append(_field(value, pa.string(), nullable=True))
        columns.append(_field(probability, pa.float64(), nullable=True))
    return pa.schema(columns)


def links_schema(fields: Sequence[str]) -> pa.Schema:
    """Schema of the links; a level is 0 (identical), 3 (different), 9 (missing on either side)."""
    return pa.schema([*_LINKS, *(_field(f"level_{name}", pa.int8()) for name in fields)])


def record_columns(fields: Sequence[str]) -> list[str]:
    """Names of the fields' columns in `records`: the fields', with trailing underscores where they are taken."""
    taken = {field.name for field in _RECORDS}
    return [_free(name, taken) for name in fields]


def records_schema(fields: Sequence[str]) -> pa.Schema:
    """Schema of the records with their values as they were read; null where a value is missing.

    `individual_share` is how much of an individual each stands for: one over the expected number of its records where
    fields depend on each other, for which individuals are counted, else 1.
    """
    return pa.schema([*_RECORDS, *(_field(name, _NAME, nullable=True) for name in record_columns(fields))])


def iterations_schema(fields: Sequence[str]) -> pa.Schema:
    """Schema of a sampler's course: one row per chain and iteration, with β̃ of every field."""
    first = [_field("chain", pa.int32()), _field("iteration", pa.int32()), _field("n", pa.int32())]
    return pa.schema(
        [*first, _field("log_joint", pa.float64()), *(_field(f"beta_{name}", pa.float64()) for name in fields)]
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def with_metadata(schema: pa.Schema, metadata: Mapping[str, str]) -> pa.Schema:
    """Attach the run's facts (seed, digests, ...) and the result version to a schema."""
    facts = {"result_version": str(RESULT_VERSION), **metadata}
    return schema.with_metadata({f"{_PREFIX}{key}": value for key, value in facts.items()})


def read_metadata(schema: pa.Schema) -> dict[str, str]:
    """Facts that `with_metadata` has attached; empty where there are none."""
    pairs = ((key.decode(), value.decode()) for key, value in (schema.metadata or {}).items())
    return {key.removeprefix(_PREFIX): value for key, value in pairs if key.startswith(_PREFIX)}
