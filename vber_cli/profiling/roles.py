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


class Roles:
    """What becomes of each column.

    Parameters
    ----------
    options
        The run's options.
    names, columns
        (D,) the databases' names and columns.
    field_map
        What the options and names say; None if no column can be a field.
    fields, id_columns
        The fields that have values, and the (D,) id columns that proved to be unique.
    """

    def __init__(
        self,
        options: MergeOptions,
        names: Sequence[str],
        columns: Sequence[Sequence[str]],
        field_map: FieldMap | None,
        fields: Sequence[str],
        id_columns: Sequence[str | None],
    ) -> None:
        self._options, self._names, self._map = options, names, field_map
        self._fields, self._id_columns = frozenset(fields), id_columns
        self._keys = [{name_key(column) for column in own} for own in columns]
        self._excluded = {name_key(text) for text in options.exclude}
        self._fallbacks = frozenset() if field_map is None else frozenset(one.field for one in field_map.fallbacks)
        self._field_of = [_fields_of(field_map, d) for d in range(len(names))]

    def of(self, d: int, column: str) -> Role:
        """Return the role of a column of database d."""
        if self._id_columns[d] == column:
            guessed = self._map is not None and bool(self._map.id_guessed) and self._map.id_guessed[d]
            how = "named like an id, and unique (--id names another)" if guessed else "named by --id"
            return Role("id", None, how, not guessed)
        mapped_to = self._mapped_to(d, column)
        if name_key(column) in self._excluded or (mapped_to is not None and name_key(mapped_to) in self._excluded):
            return Role("ignored", None, "left out by --exclude", True)
        if self._map is None:
            return Role("ignored", None, "no column is in two databases")
        field = self._field_of[d].get(column)
        if field is not None and field in self._fields:
            return self._as_field(field, mapped_to)
        if field is not None and field not in self._fallbacks:
            return Role("ignored", None, "no value in any database")
        if self._map.id_column[d] == column:
            return Role("ignored", None, "named like an id, but has gaps or repeats a value; row numbers are the ids")
        if self._options.fields:
            return Role("ignored", None, "not named by --fields")
        lacking = [name for name, keys in zip(self._names, self._keys, strict=True) if name_key(column) not in keys]
        if len(lacking) > max(len(self._names) - 2, 0):
            return Role("ignored", None, f"not in {', '.join(lacking)}")
        return Role("ignored", None, "its name stands for another column, or for an id, in some database")

    def _as_field(self, field: str, mapped_to: str | None) -> Role:
        if mapped_to is not None:
            return Role("field", field, "named by --map", True)
        if self._options.fields:
            return Role("field", field, "named by --fields", True)
        if len(self._names) == 1:
            return Role("field", field, "every column of a single database is")
        lacking = [name for name, own in zip(self._names, self._field_of, strict=True) if field not in own.values()]
        return Role("field", field, f"missing in {', '.join(lacking)}" if lacking else "in every database")

    def _mapped_to(self, d: int, column: str) -> str | None:
        """The field that --map makes of a column."""
        for text in self._options.map:
            left, _, field = text.rpartition("=")
            if name_key(left.removeprefix(f"{self._names[d]}:")) == name_key(column):
                return field.strip()
        return None


def _fields_of(field_map: FieldMap | None, d: int) -> dict[str, str]:
    """Column → field of one database."""
    if field_map is None:
        return {}
    found = {fallback.columns[d]: fallback.field for fallback in field_map.fallbacks}
    return found | {column: field for field, column in field_map.column_of[d].items()}
