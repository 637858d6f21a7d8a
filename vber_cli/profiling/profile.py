"""What is known about databases before a merge, and how it is told to machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT, FORMAT_VERSION = "vber profile", 1
ROLES = ("field", "id", "ignored")
CSV_COLUMNS = (
    "database", "column", "role", "field", "role_reason", "type", "type_reason", "records", "missing",
    "missing_share", "distinct", "most_frequent", "most_frequent_records", "date_orders", "date_assumed",
)  # fmt: skip


@dataclass(frozen=True)
class DateOrder:
    """In which order the dates of one shape are read.

    Attributes
    ----------
    like
        The shape, by an example.
    order
        Such as dmy.
    assumed
        Whether no date of that shape tells, so that the order rests on other dates, or on a convention.
    """

    like: str
    order: str
    assumed: bool


@dataclass(frozen=True)
class ColumnProfile:
    """One column of one database.

    Attributes
    ----------
    role, field, role_reason
        One of `ROLES`; the field it is read as, if any; and why.
    type, type_reason
        The type that its own values suggest, and why.
    records, missing, distinct
        Rows; rows without a value; distinct values as they are written.
    most_frequent
        Values and the number of their rows, the most frequent first.
    date_orders, date_notes
        How its dates are read, in short and in words; empty for other types.
    cased, capitals
        Rows whose value has letters that know capitals, and those of them that are all in capitals.
    """

    database: str
    column: str
    role: str
    field: str | None
    role_reason: str
    type: str
    type_reason: str
    records: int
    missing: int
    distinct: int
    most_frequent: tuple[tuple[str, int], ...] = ()
    date_orders: tuple[DateOrder, ...] = ()
    date_notes: tuple[str, ...] = ()
    cased: int = 0
    capitals: int = 0

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.records - self.missing

    @property
    def missing_share(self) -> float:
        """Share of the rows without a value, 0 where there are no rows."""
        return self.missing / self.records if self.records else 0.0

    @property
    def is_unique(self) -> bool:
        """Whether no value occurs twice."""
        return self.distinct == self.present


@dataclass(frozen=True)
class DatabaseProfile:
    """One database and its columns, in their order."""

    name: str
    records: int
    bytes: int
    format: Mapping[str, str | bool | int]
    id_column: str | None
    columns: tuple[ColumnProfile, ...]


@dataclass(frozen=True)
class SharedValues:
    """How much the values of one field in two databases are alike, 0 to 1; see `overlap.value_overlap`."""

    databases: tuple[str, str]
    overlap: float


@dataclass(frozen=True)
class FieldProfile:
    """One field over all databases, as `vber merge` would compare it.

    Attributes
    ----------
    columns
        Database → its column.
    shared
        For each two databases that have the field, how alike its values are there.
    """

    field: str
    type: str
    type_reason: str
    missing: int
    missing_share: float
    distinct: int
    columns: Mapping[str, str]
    shared: tuple[SharedValues, ...] = ()


@dataclass(frozen=True)
class MapSuggestion:
    """A column that probably is a field under another name.

    Attributes
    ----------
    like
        The column, as DB:COLUMN, that it was found to be like.
    value_overlap, name_likeness
        0 to 1; `value_overlap` is None where there are too few values to tell.
    """

    database: str
    column: str
    field: str
    like: str
    value_overlap: float | None
    name_likeness: float

    @property
    def option(self) -> str:
        """The argument of --map."""
        return f"{self.database}:{self.column}={self.field}"


@dataclass(frozen=True)
class Suggestions:
    """Options worth trying: what --map could be told."""

    maps: tuple[MapSuggestion, ...] = ()


@dataclass(frozen=True)
class SwappedColumns:
    """Two columns of a database that seem to hold each other's values, and the fields they are read as."""

    database: str
    columns: tuple[str, str]
    fields: tuple[str, str]


@dataclass(frozen=True)
class TreeEdge:
    """A field whose value another one says something about; `gain_bits` a pair of records."""

    field: str
    parent: str
    gain_bits: float


@dataclass(frozen=True)
class Cost:
    """What a merge of these databases would take, roughly.

    Attributes
    ----------
    pairs
        Candidate pairs.
    seconds, memory_bytes
        Of the whole run.
    least_memory_bytes
        What `--max-memory` has to allow, on Linux.
    factor
        The truth lies mostly between the estimate divided and multiplied by this.
    basis
        What the figures rest on.
    """

    pairs: int
    seconds: float
    memory_bytes: int
    least_memory_bytes: int
    factor: float
    basis: str


@dataclass(frozen=True)
class ProfileWarning:
    """Something to look into before the merge.

    Attributes
    ----------
    code
        A stable word for machines, such as constant_column.
    message, fix
        What it is, and what to do.
    database, column, field
        What it is about, where that is one thing.
    """

    code: str
    message: str
    fix: str
    database: str | None = None
    column: str | None = None
    field: str | None = None


@dataclass(frozen=True)
class Profile:
    """Everything `vber profile` shows.

    Attributes
    ----------
    tree, sampled
        The dependence tree and the number of records it was learned from; None if there was nothing to learn from.
    cost
        None if there are no fields to compare.
    """

    databases: tuple[DatabaseProfile, ...]
    fields: tuple[FieldProfile, ...]
    suggestions: Suggestions
    tree: tuple[TreeEdge, ...] | None
    sampled: int
    cost: Cost | None
    warnings: tuple[ProfileWarning, ...] = field(default=())

    @property
    def n_records(self) -> int:
        """Records of all databases."""
        return sum(database.records for database in self.databases)

    @property
    def columns(self) -> Iterator[ColumnProfile]:
        """Every column of every database."""
        return (column for database in self.databases for column in database.columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values; docs/reading.md documents the keys."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "records": self.n_records,
            "databases": [
                {
                    "name": database.name,
                    "records": database.records,
                    "bytes": database.bytes,
                    "format": dict(database.format),
                    "id_column": database.id_column,
                    "columns": [_column_dict(column) for column in database.columns],
                }
                for database in self.databases
            ],
            "fields": [
                {**asdict(one), "columns": dict(one.columns), "shared": [_shared_dict(pair) for pair in one.shared]}
                for one in self.fields
            ],
            "suggestions": {
                "map": [{**asdict(one), "option": one.option} for one in self.suggestions.maps],
            },
            "dependence": {
                "records_sampled": self.sampled,
                "tree": None if self.tree is None else [asdict(edge) for edge in self.tree],
            },
            "cost": None if self.cost is None else asdict(self.cost),
            "warnings": [asdict(warning) for warning in self.warnings],
        }

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield one row of `CSV_COLUMNS` for each column of each database; what is not there is empty."""
        for one in self.columns:
            value, count = one.most_frequent[0] if one.most_frequent else ("", "")
            yield (
                one.database, one.column, one.role, one.field or "", one.role_reason, one.type, one.type_reason,
                str(one.records), str(one.missing), f"{one.missing_share:.6g}", str(one.distinct), value, str(count),
                "; ".join(f"{order.like} {order.order}" for order in one.date_orders),
                "; ".join(order.like for order in one.date_orders if order.assumed),
            )  # fmt: skip


def _column_dict(one: ColumnProfile) -> dict[str, Any]:
    return {
        "column": one.column,
        "role": one.role,
        "field": one.field,
        "role_reason": one.role_reason,
        "type": one.type,
        "type_reason": one.type_reason,
        "missing": one.missing,
        "missing_share": one.missing_share,
        "distinct": one.distinct,
        "most_frequent": [{"value": value, "records": count} for value, count in one.most_frequent],
        "date_orders": [asdict(order) for order in one.date_orders],
        "date_notes": list(one.date_notes),
        "capitals_share": one.capitals / one.cased if one.cased else None,
    }


def _shared_dict(pair: SharedValues) -> dict[str, Any]:
    return {"databases": list(pair.databases), "value_overlap": pair.overlap}
