"""Which column of which database is which field, and which column holds the record ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vber_cli.errors import InputError, UsageError

_ID_NAMES = frozenset(
    "id ids recid recordid recno recnum recordno recordnumber rowid rowno rownumber rownum uid uuid guid key pk index "
    "unnamed0 rowname rownames objectid".split()
)
_SHOWN = 12


class NoCommonFieldError(InputError):
    """No column of the databases can be a field."""


@dataclass(frozen=True)
class Fallback:
    """A column that looks like a record id in every database, and is a field where it turns out to be none.

    Attributes
    ----------
    field
        The name it has as a field.
    columns
        Its column in each database.
    """

    field: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class FieldMap:
    """The fields of a run, D databases.

    Attributes
    ----------
    fields
        Field names in order.
    column_of
        (D,) for each database its column of each field; a field that the database lacks is absent.
    id_column
        (D,) the column that holds the record ids, or None.
    id_guessed
        (D,) whether that column was guessed from its name, so that it counts only if unique and complete.
    fallbacks
        Columns that become fields if no database keeps them as ids.
    announcements
        What was decided without being asked for; one line each.
    """

    fields: tuple[str, ...]
    column_of: tuple[Mapping[str, str], ...]
    id_column: tuple[str | None, ...]
    id_guessed: tuple[bool, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    announcements: tuple[str, ...] = ()


def map_fields(
    names: Sequence[str],
    columns: Sequence[Sequence[str]],
    *,
    fields: Sequence[str] = (),
    exclude: Sequence[str] = (),
    maps: Sequence[str] = (),
    ids: Sequence[str] = (),
) -> FieldMap:
    """Decide on the fields of a run.

    Columns are matched by their exact name first, then without regard to case, blanks, underscores, hyphens and dots.

    Parameters
    ----------
    names
        (D,) the databases' names.
    columns
        (D,) their columns.
    fields
        The wanted fields; without any, all columns that at least two databases have, or all of a single database. A
        database may lack a field.
    exclude
        Columns or fields to leave out.
    maps
        "DB:COLUMN=FIELD": what a column is called as a field; without "DB:" in every database that has it.
    ids
        "COLUMN" or "DB:COLUMN": the record ids.

    Raises
    ------
    UsageError
        An option names a database or column that does not exist, or contradicts another.
    NoCommonFieldError
        The databases have no column in common.
    """
    tables = [_Table(name, list(table)) for name, table in zip(names, columns, strict=True)]
    notes: list[str] = []
    _apply_maps(tables, maps, notes)
    _apply_ids(tables, ids)
    _apply_exclude(tables, exclude, fields)
    _guess_ids(tables, fields)
    chosen = _chosen_fields(tables, fields) if fields else _shared_fields(tables)
    fallbacks = () if fields else _fallbacks(tables, chosen)
    if not chosen and not fallbacks:
        raise no_common_field(names, columns)
    notes += [
        f"{table.name}: {table.id_column!r} is taken for the record id (--id names another)"
        for table in tables
        if table.id_column is not None and table.id_guessed
    ]
    notes += _lacking(tables, chosen)
    if not fields:
        notes += _left_out(tables, chosen)
    return FieldMap(
        fields=tuple(chosen),
        column_of=tuple({field: found[i] for field, found in chosen.items() if i in found} for i in range(len(tables))),
        id_column=tuple(table.id_column for table in tables),
        id_guessed=tuple(table.id_guessed for table in tables),
        fallbacks=fallbacks,
        announcements=tuple(notes),
    )


def no_common_field(names: Sequence[str], columns: Sequence[Sequence[str]]) -> NoCommonFieldError:
    """Tell that there is no field to compare, listing each database's columns."""
    listed = "; ".join(f"{name} has {_listed(table)}" for name, table in zip(names, columns, strict=True))
    first, other = names[0], names[-1]
    if len(names) == 1:
        return NoCommonFieldError(f"{first} has no column to compare: {listed}.", "Name the columns with --fields.")
    return NoCommonFieldError(
        f"{first} and {other} have no column in common: {listed}."
        if len(names) == 2
        else f"The databases have no column in common: {listed}.",
        "Say which columns mean the same with --map DB:COLUMN=FIELD; `vber profile` with the same files finds them.",
    )


class _Table:
    """One database while its columns are being assigned."""

    def __init__(self, name: str, columns: list[str]) -> None:
        self.name = name
        self.columns = columns
        # What each column is called as a field; left-out columns are removed.
        self.column_of: dict[str, str] = {column: column for column in columns}
        self.mapped: set[str] = set()
        self.id_column: str | None = None
        self.id_guessed = False

    def find_column(self, text: str) -> str | None:
        """Return the column that an option's text means, or None."""
        return _match(text, self.columns)

    def find_field(self, text: str) -> str | None:
        """Return the field that an option's text means, or None."""
        return _match(text, list(self.column_of))

    def drop(self, column: str) -> None:
        self.column_of = {field: own for field, own in self.column_of.items() if own != column}


def name_key(name: str) -> str:
    """Return the form in which names are matched: without case, blanks, underscores, hyphens and dots."""
    return re.sub(r"[\s_.\-]+", "", name.casefold())


def _match(text: str, candidates: Sequence[str]) -> str | None:
    """Match exactly, else loosely where that is unambiguous."""
    if text in candidates:
        return text
    alike = [candidate for candidate in candidates if name_key(candidate) == name_key(text)]
    return alike[0] if len(alike) == 1 else None


def _listed(items: Iterable[str]) -> str:
    shown = list(items)
    rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return (", ".join(shown[:_SHOWN]) or "no columns") + rest


def _nearest(text: str, candidates: Iterable[str]) -> str:
    """Advice that names the nearest of the candidates, or all of them."""
    pool = list(dict.fromkeys(candidates))
    by_key = {name_key(name): name for name in reversed(pool)}
    near = [by_key[key] for key in difflib.get_close_matches(name_key(text), by_key, 3, 0.6)]
    return f"Did you mean {' or '.join(near)}?" if near else f"There are: {_listed(pool)}."


def _table_of(tables: Sequence[_Table], text: str) -> tuple[_Table | None, str]:
    """Split "DB:rest", where DB is the longest database name that fits; names may hold colons themselves."""
    fitting = [table for table in tables if text.startswith(f"{table.name}:")]
    if not fitting:
        return None, text
    table = max(fitting, key=lambda one: len(one.name))
    return table, text[len(table.name) + 1 :]


def _owners(tables: Sequence[_Table], option: str, text: str, whole: str) -> list[tuple[_Table, str]]:
    """Find the tables and columns that "DB:COLUMN" or "COLUMN" means.

    Raises
    ------
    UsageError
        There is no such database or column.
    """
    anywhere = [(table, column) for table in tables if (column := table.find_column(text)) is not None]
    if any(text in table.columns for table in tables):
        return anywhere
    table, rest = _table_of(tables, text)
    if table is not None:
        column = table.find_column(rest)
        if column is None:
            raise UsageError(f"{option} {whole}: {table.name} has no column {rest!r}.", _nearest(rest, table.columns))
        return [(table, column)]
    if anywhere:
        return anywhere
    prefix, colon, rest = text.partition(":")
    if colon and any(one.find_column(rest) for one in tables):
        names = [one.name for one in tables]
        raise UsageError(f"{option} {whole}: no database is called {prefix!r}.", _nearest(prefix, names))
    raise UsageError(
        f"{option} {whole}: no database has a column {text!r}.",
        _nearest(text, (column for one in tables for column in one.columns)),
    )


def _apply_maps(tables: Sequence[_Table], maps: Sequence[str], notes: list[str]) -> None:
    for text in maps:
        left, equals, field = text.rpartition("=")
        field = field.strip()
        if not equals or not left or not field:
            raise UsageError(f"--map {text}: is not of the form DB:COLUMN=FIELD.", "Write --map DB:COLUMN=FIELD.")
        for table, column in _owners(tables, "--map", left, text):
            other = table.column_of.get(field)
            if other is not None and other != column:
                if field in table.mapped:
                    raise UsageError(
                        f"--map {text}: {table.name} has two columns for {field!r}, {other!r} and {column!r}.",
                        "Map only one of them to this field.",
                    )
                notes.append(f"{table.name}: column {other!r} is not used, since {column!r} is mapped to that name")
            table.drop(column)
            table.column_of[field] = column
            table.mapped.add(field)
        # Keep fields in the order of their columns, mapped or not.
        for table in tables:
            order = {column: i for i, column in enumerate(table.columns)}
            table.column_of = dict(sorted(table.column_of.items(), key=lambda item: order[item[1]]))


def _apply_ids(tables: Sequence[_Table], ids: Sequence[str]) -> None:
    for text in ids:
        for table, column in _owners(tables, "--id", text, text):
            if table.id_column is not None and table.id_column != column:
                raise UsageError(
                    f"--id {text}: {table.name} has two id columns, {table.id_column!r} and {column!r}.",
                    f"Name one, as in --id '{table.name}:{column}'.",
                )
            if any(table.column_of.get(field) == column for field in table.mapped):
                raise UsageError(f"--id {text}: this column is mapped to a field.", "Drop either --id or --map for it.")
            table.id_column = column
    for table in tables:
        if table.id_column is not None:
            table.drop(table.id_column)


def _apply_exclude(tables: Sequence[_Table], exclude: Sequence[str], fields: Sequence[str]) -> None:
    for text in exclude:
        if any(name_key(text) == name_key(field) for field in fields):
            raise UsageError(f"--exclude {text}: --fields asks for it.", "Drop it from one of the two.")
        found = False
        for table in tables:
            field = table.find_field(text)
            column = table.column_of[field] if field is not None else table.find_column(text)
            if column is not None:
                found = True
                table.drop(column)
        if not found:
            pool = (name for table in tables for name in (*table.column_of, *table.columns))
            raise UsageError(f"--exclude {text}: no database has such a column or field.", _nearest(text, pool))


def _guess_ids(tables: Sequence[_Table], fields: Sequence[str]) -> None:
    """Take the first column whose name looks like a record id, unless an option made it a field."""
    wanted = {name_key(field) for field in fields}
    for table in tables:
        own = name_key(table.name)
        likely = _ID_NAMES | {f"{own}{suffix}" for suffix in ("id", "recid", "key", "no")}
        if table.id_column is not None:
            continue
        for field, column in table.column_of.items():
            if name_key(column) in likely and field not in table.mapped and name_key(field) not in wanted:
                table.id_column, table.id_guessed = column, True
                break


def _chosen_fields(tables: Sequence[_Table], fields: Sequence[str]) -> dict[str, dict[int, str]]:
    """Find the wanted fields; a database may lack one, but not all."""
    chosen: dict[str, dict[int, str]] = {}
    for text in dict.fromkeys(fields):
        found = {i: table.column_of[field] for i, table in enumerate(tables) if (field := table.find_field(text))}
        if not found:
            for table in tables:
                if table.id_column is not None and table.find_column(text) == table.id_column:
                    raise UsageError(
                        f"--fields {text}: {table.id_column!r} is an id column of {table.name} (--id).",
                        "Drop it from one of the two.",
                    )
            pool = (field for table in tables for field in table.column_of)
            raise UsageError(f"--fields {text}: no database has such a column or field.", _nearest(text, pool))
        chosen[text] = found
    return chosen


def _shared_fields(tables: Sequence[_Table]) -> dict[str, dict[int, str]]:
    """Fields that at least two databases have, or all of a single one, in the order in which they first come."""
    free = [{f: c for f, c in table.column_of.items() if not _is_guess(table, c)} for table in tables]
    chosen: dict[str, dict[int, str]] = {}

    def claim(field: str, named: Mapping[int, str], least: int) -> None:
        """Make a field of the columns that the tables `named` still have under these names."""
        found = {i: free[i][name] for i, name in named.items() if name in free[i]}
        if len(found) >= least:
            chosen[field] = found
            for i in found:
                del free[i][named[i]]

    everyone, least = len(tables), min(len(tables), 2)
    names = list(dict.fromkeys(field for table in free for field in table))
    for field in names:
        claim(field, dict.fromkeys(range(everyone), field), everyone)
    for key in dict.fromkeys(map(name_key, names)):
        alike = [[field for field in table if name_key(field) == key] for table in free]
        if max(map(len, alike)) == 1:
            named = {i: fields[0] for i, fields in enumerate(alike) if fields}
            claim(next(iter(named.values())), named, least)
    for field in names:
        claim(field, dict.fromkeys(range(everyone), field), least)
    place = {(i, column): at for i, table in enumerate(tables) for at, column in enumerate(table.columns)}
    return dict(sorted(chosen.items(), key=lambda item: (min(item[1]), place[next(iter(sorted(item[1].items())))])))


def _lacking(tables: Sequence[_Table], chosen: Mapping[str, Mapping[int, str]]) -> list[str]:
    """Announce the fields that some databases lack, those of the same databases together."""
    by_tables: dict[tuple[str, ...], list[str]] = {}
    for field, found in chosen.items():
        without = tuple(table.name for i, table in enumerate(tables) if i not in found)
        if without:
            by_tables.setdefault(without, []).append(field)
    return [
        f"{_listed(without)}: no column for {_listed(fields)}, whose values count as missing there"
        for without, fields in by_tables.items()
    ]


def _is_guess(table: _Table, column: str) -> bool:
    return table.id_guessed and table.id_column == column


def _fallbacks(tables: Sequence[_Table], chosen: Mapping[str, object]) -> tuple[Fallback, ...]:
    """Columns that would be common fields, had at least one database not taken them for its id."""
    found = []
    for field in tables[0].column_of:
        if field in chosen:
            continue
        columns = [table.column_of.get(match) if (match := table.find_field(field)) else None for table in tables]
        complete = [column for column in columns if column is not None]
        if len(complete) == len(tables) and any(_is_guess(t, c) for t, c in zip(tables, complete, strict=True)):
            found.append(Fallback(field, tuple(complete)))
    return tuple(found)


def _left_out(tables: Sequence[_Table], chosen: Mapping[str, Mapping[int, str]]) -> list[str]:
    """Announce each database's columns that no other has."""
    notes = []
    unused: list[list[str]] = []
    for i, table in enumerate(tables):
        used = {found.get(i) for found in chosen.values()} | {table.id_column}
        unused.append([field for field, column in table.column_of.items() if column not in used])
        if unused[i]:
            notes.append(f"{table.name}: left out, since in no other database: {_listed(unused[i])}")
    hints = []
    for i, table in enumerate(tables):
        own = {name_key(field): field for field in unused[i]}
        wanted = [field for field, found in chosen.items() if i not in found]
        for field in dict.fromkeys([*wanted, *(field for before in unused[:i] for field in before)]):
            near = difflib.get_close_matches(name_key(field), own, 1, 0.7)
            if near:
                hints.append(f"--map '{table.name}:{table.column_of[own.pop(near[0])]}={field}'")
    if hints:
        notes.append(f"columns that may mean the same: {' '.join(hints[:_SHOWN])}")
    return notes
