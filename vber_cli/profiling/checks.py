"""What a user should look into before a merge, found in the profile of the columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from vber_cli.profiling.overlap import NearDuplicate
from vber_cli.profiling.profile import (
    ColumnProfile,
    DatabaseProfile,
    FieldProfile,
    ProfileWarning,
    SwappedColumns,
)

_ENOUGH = 20  # rows; fewer say nothing about a share
_NO_OVERLAP = 0.02
_ID_GAPS = 0.01  # share of rows without a value that an id may have
_CAPITALS, _NOT_CAPITALS = 0.9, 0.5
_TIMES_MISSING, _WORTH_TELLING = 10.0, 0.05


def all_warnings(
    databases: Sequence[DatabaseProfile],
    fields: Sequence[FieldProfile],
    duplicates: Mapping[str, Sequence[NearDuplicate]],
    swapped: Sequence[SwappedColumns],
) -> list[ProfileWarning]:
    """Return all warnings: about columns that seem swapped, databases, fields, then single columns."""
    found = [swap_warning(one) for one in swapped]
    strange = {field for one in swapped for field in one.fields}
    for database in databases:
        found += database_warnings(database)
    found += capital_warnings(databases)
    columns = {(one.database, one.column): one for database in databases for one in database.columns}
    for one in fields:
        own = field_warnings(one, [columns[place] for place in one.columns.items()])
        found += [warning for warning in own if warning.code != "no_shared_values" or one.field not in strange]
    ids = {warning.field for warning in found if warning.code == "id_as_field"}
    for column in columns.values():
        if column.field is None or column.field not in ids:
            found += column_warnings(column)
    for name, pairs in duplicates.items():
        found += duplicate_warnings(name, pairs)
    return found


def swap_warning(one: SwappedColumns) -> ProfileWarning:
    """Tell of two columns that hold each other's values."""
    first, second = one.columns
    return ProfileWarning(
        "swapped_columns",
        f"{one.database}: {first!r} and {second!r} hold what the other one holds elsewhere",
        f"if their names are swapped: --map '{one.database}:{first}={one.fields[1]}' "
        f"--map '{one.database}:{second}={one.fields[0]}'",
        one.database, first, one.fields[0],
    )  # fmt: skip


def column_warnings(one: ColumnProfile) -> Iterator[ProfileWarning]:
    """Yield what a column shows by itself: no value, one value, or no value twice."""
    where, about = f"{one.database}: {one.column!r}", (one.database, one.column, one.field)
    leave_out = f"leave it out with --exclude {one.column}" if one.role == "field" else "nothing: it is not compared"
    if one.records == 0 or one.role == "id":
        return
    if one.present == 0:
        yield ProfileWarning("all_missing_column", f"{where} has no value in any row", leave_out, *about)
    elif one.distinct == 1 and one.present >= 2:
        yield ProfileWarning(
            "constant_column", f"{where} has the same value in every row that has one", leave_out, *about
        )
    elif one.is_unique and one.present >= _ENOUGH:
        fix = f"if it is an id, name it with --id '{one.database}:{one.column}'"
        yield ProfileWarning("unique_column", f"{where} has no value twice", fix, *about)


def field_warnings(one: FieldProfile, columns: Sequence[ColumnProfile]) -> Iterator[ProfileWarning]:
    """Yield what the columns of one field show side by side.

    Parameters
    ----------
    one, columns
        A field, and its columns.
    """
    filled = [column for column in columns if column.present >= _ENOUGH]
    apart = [pair for pair in one.shared if pair.overlap < _NO_OVERLAP]
    complete = [column for column in filled if column.is_unique and column.missing_share < _ID_GAPS]
    if len(columns) > 1 and len(complete) == len(columns) and len(apart) == len(one.shared):
        yield ProfileWarning(
            "id_as_field",
            f"field {one.field!r} looks like an id: no value occurs twice, and none in two databases",
            f"name it with --id, or leave it out with --exclude {one.field}",
            field=one.field,
        )
    else:
        for pair in apart:
            yield ProfileWarning(
                "no_shared_values",
                f"field {one.field!r}: {pair.databases[0]} and {pair.databases[1]} hardly share a value",
                "see whether it means the same in both, and is written in the same way",
                field=one.field,
            )
    # a category and a text differ in how many values there are, not in what they are
    kinds = {column.type if column.type in ("number", "date") else "text" for column in filled}
    if len(kinds) > 1:
        listed = ", ".join(f"{column.type} in {column.database}" for column in filled)
        fix = "see whether it means the same in all of them (--map, --exclude)"
        yield ProfileWarning("type_differs", f"field {one.field!r} looks like {listed}", fix, field=one.field)
    yield from _missing_differs(one, columns)
    yield from _date_warnings(one, columns)


def _missing_differs(one: FieldProfile, columns: Sequence[ColumnProfile]) -> Iterator[ProfileWarning]:
    rated = [column for column in columns if column.records >= _ENOUGH]
    if len(rated) < 2:
        return
    most = max(rated, key=lambda column: column.missing_share)
    least = min(rated, key=lambda column: column.missing_share)
    floor = max(least.missing, 0.5) / least.records  # a rate of zero is not known to be zero
    if most.missing_share >= max(_TIMES_MISSING * floor, _WORTH_TELLING):
        yield ProfileWarning(
            "missing_differs",
            f"field {one.field!r} is missing in {100 * most.missing_share:.3g} % of {most.database}, "
            f"but in {100 * least.missing_share:.3g} % of {least.database}",
            f"see whether {most.database} writes missing values in a way of its own, or in another column",
            most.database, most.column, one.field,
        )  # fmt: skip


def _date_warnings(one: FieldProfile, columns: Sequence[ColumnProfile]) -> Iterator[ProfileWarning]:
    if one.type != "date":
        return
    for column in columns:
        for order in column.date_orders:
            if order.assumed:
                yield ProfileWarning(
                    "date_order_assumed",
                    f"{column.database}: no date of {column.column!r} like {order.like} tells day from month; "
                    f"taken as {order.order}",
                    "if that is wrong, rewrite the dates as YYYY-MM-DD",
                    column.database, column.column, one.field,
                )  # fmt: skip
    for a, b in itertools.combinations(columns, 2):
        of_b = {order.like: order.order for order in b.date_orders}
        for order in a.date_orders:
            if of_b.get(order.like, order.order) != order.order:
                yield ProfileWarning(
                    "date_orders_differ",
                    f"field {one.field!r}: dates like {order.like} are {order.order} in {a.database} and "
                    f"{of_b[order.like]} in {b.database}",
                    "each is read in its own order; see whether that is meant",
                    field=one.field,
                )


def capital_warnings(databases: Sequence[DatabaseProfile]) -> Iterator[ProfileWarning]:
    """Yield the databases written in capitals where another is not."""
    rates = []
    for database in databases:
        cased = sum(column.cased for column in database.columns if column.role != "id")
        capitals = sum(column.capitals for column in database.columns if column.role != "id")
        if cased >= _ENOUGH:
            rates.append((database.name, capitals / cased))
    others = [name for name, rate in rates if rate <= _NOT_CAPITALS]
    for name, rate in rates:
        if rate >= _CAPITALS and others:
            yield ProfileWarning(
                "all_capitals",
                f"{name} is written in capitals, {', '.join(others)} {'is' if len(others) == 1 else 'are'} not",
                "nothing: case does not count, unless --type FIELD=category asks for it",
                name,
            )


def duplicate_warnings(database: str, found: Sequence[NearDuplicate]) -> Iterator[ProfileWarning]:
    """Yield the columns of a database that repeat another one."""
    for one in found:
        how = "have the same value" if one.equal else "go one with one, like a name and its code,"
        yield ProfileWarning(
            "near_duplicate_columns",
            f"{database}: {one.first!r} and {one.second!r} {how} in {100 * one.share:.3g} % of the records",
            f"compare only one of them: --exclude {one.second}",
            database, one.second,
        )  # fmt: skip


def database_warnings(database: DatabaseProfile) -> Iterator[ProfileWarning]:
    """Yield what concerns a database as a whole."""
    if database.records == 0:
        yield ProfileWarning(
            "empty_database", f"{database.name} has no rows", "see whether that is meant", database.name
        )
