"""Which columns are fields, ids or ignored, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vber_cli.config import MergeOptions
from vber_cli.encode.fields import FieldMap, name_key


@dataclass(frozen=True)
class Role:
    """A column's part in the merge: field, id or ignored; the field's name; whether an option says so; why."""

    role: str
    field: str | None
    reason: str
    settled: bool = False

    @property
    def may_be_field(self) -> bool:
        """Whether it is a field, or is none for want of an option only."""
        return self.role == "field" or (self.role == "ignored" and not self.settled)


def column_role(
    options: MergeOptions,
    names: Sequence[str],
    columns: Sequence[Sequence[str]],
    field_map: FieldMap | None,
    used: tuple[Sequence[str], Sequence[str | None]],
    place: tuple[int, str],
) -> Role:
    """Say what becomes of a column.

    Parameters
    ----------
    options
        The run's options.
    names, columns
        (D,) the databases' names and columns.
    field_map
        What the options and names say; None if no column can be a field.
    used
        The fields that have values, and the (D,) id columns that proved to be unique.
    place
        The database's number, and the column.
    """
    d, column = place
    fields, id_columns = used
    if id_columns[d] == column:
        guessed = field_map is not None and bool(field_map.id_guessed) and field_map.id_guessed[d]
        how = "named like an id, and unique (--id names another)" if guessed else "named by --id"
        return Role("id", None, how, not guessed)
    if _listed(options.exclude, column) or _listed(options.exclude, _mapped_to(options, names[d], column)):
        return Role("ignored", None, "left out by --exclude", True)
    if field_map is None:
        return Role("ignored", None, "no column is in every database")
    field = _field_of(field_map, d, column)
    if field is not None and field in fields:
        if _mapped_to(options, names[d], column) is not None:
            return Role("field", field, "named by --map", True)
        if options.fields:
            return Role("field", field, "named by --fields", True)
        alone = len(names) == 1
        return Role("field", field, "every column of a single database is" if alone else "in every database")
    if field is not None and field not in {one.field for one in field_map.fallbacks}:
        return Role("ignored", None, "no value in any database")
    if field_map.id_column[d] == column:
        return Role("ignored", None, "named like an id, but has gaps or repeats a value; row numbers are the ids")
    if options.fields:
        return Role("ignored", None, "not named by --fields")
    key = name_key(column)
    lacking = [name for name, own in zip(names, columns, strict=True) if key not in map(name_key, own)]
    if lacking:
        return Role("ignored", None, f"not in {', '.join(lacking)}")
    return Role("ignored", None, "its name stands for another column, or for an id, in some database")


def _listed(texts: Sequence[str], name: str | None) -> bool:
    return name is not None and any(name_key(text) == name_key(name) for text in texts)


def _mapped_to(options: MergeOptions, database: str, column: str) -> str | None:
    """The field that --map makes of a column."""
    for text in options.map:
        left, _, field = text.rpartition("=")
        if name_key(left.removeprefix(f"{database}:")) == name_key(column):
            return field.strip()
    return None


def _field_of(field_map: FieldMap, d: int, column: str) -> str | None:
    for field, own in field_map.column_of[d].items():
        if own == column:
            return field
    for fallback in field_map.fallbacks:
        if fallback.columns[d] == column:
            return fallback.field
    return None
