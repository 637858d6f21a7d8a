"""Warnings, each from a profile that asks for it, and none from one that does not."""

from __future__ import annotations

import dataclasses

import pytest

from vber_cli.profiling.checks import all_warnings, capital_warnings, column_warnings, field_warnings
from vber_cli.profiling.overlap import NearDuplicate
from vber_cli.profiling.profile import (
    ColumnProfile,
    DatabaseProfile,
    DateOrder,
    FieldProfile,
    SharedValues,
    SwappedColumns,
)

PLAIN = ColumnProfile("a", "town", "field", "town", "in every database", "text", "so", 200, 4, 50)
FIELD = FieldProfile("town", "text", "so", 8, 0.02, 60, {"a": "town", "b": "town"}, (SharedValues(("a", "b"), 0.9),))


def changed(**what):
    return dataclasses.replace(PLAIN, **what)


def codes(warnings):
    return [warning.code for warning in warnings]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ({}, []),
        ({"missing": 200, "distinct": 0}, ["all_missing_column"]),
        ({"distinct": 1}, ["constant_column"]),
        ({"distinct": 196}, ["unique_column"]),
        ({"distinct": 195}, []),
        ({"records": 10, "missing": 0, "distinct": 10}, []),  # too few to tell
        ({"records": 1, "missing": 0, "distinct": 1}, []),
        ({"records": 0, "missing": 0, "distinct": 0}, []),
        ({"role": "id", "distinct": 196}, []),
    ],
)
def test_one_column(what, expected):
    found = list(column_warnings(changed(**what)))
    assert codes(found) == expected
    assert all((one.database, one.column, one.field) == ("a", "town", "town") for one in found)


def field_codes(first=None, second=None, **field):
    columns = [changed(**(first or {})), changed(database="b", **(second or {}))]
    return codes(field_warnings(dataclasses.replace(FIELD, **field), columns))


def test_a_good_field():
    assert field_codes() == []


def test_an_id_as_a_field():
    unique = {"missing": 0, "distinct": 200}
    apart = (SharedValues(("a", "b"), 0.0),)
    assert field_codes(unique, unique, shared=apart) == ["id_as_field"]
    # a number that both databases know is what links them; one with gaps is no id
    assert field_codes(unique, unique) == []
    assert field_codes(unique, {"missing": 80, "distinct": 120}, shared=apart) == [
        "no_shared_values",
        "missing_differs",
    ]


def test_values_that_are_never_shared():
    assert field_codes(shared=(SharedValues(("a", "b"), 0.01),)) == ["no_shared_values"]


def test_types_that_differ():
    assert field_codes({"type": "date"}) == ["type_differs"]
    assert field_codes({"type": "category"}, {"type": "longtext"}) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(4, 40, ["missing_differs"]), (4, 30, []), (0, 9, []), (0, 12, ["missing_differs"]), (40, 4, ["missing_differs"])],
)
def test_ten_times_as_many_missing(a, b, expected):
    assert field_codes({"missing": a}, {"missing": b}) == expected


def test_orders_of_dates():
    day_first, month_first = DateOrder("03/05/1984", "dmy", False), DateOrder("03/05/1984", "mdy", False)
    guessed = DateOrder("03/05/1984", "dmy", True)
    iso = DateOrder("1984-05-03", "ymd", False)
    dates = {"type": "date"}

    def found(a, b):
        return field_codes({**dates, "date_orders": (a,)}, {**dates, "date_orders": (b,)}, type="date")

    assert found(day_first, iso) == []
    assert found(day_first, month_first) == ["date_orders_differ"]
    assert found(day_first, guessed) == ["date_order_assumed"]


def database(name, *columns):
    own = tuple(dataclasses.replace(column, database=name) for column in columns)
    return DatabaseProfile(name, own[0].records if own else 0, 10, {}, None, own)


def test_one_database_in_capitals():
    loud, quiet = changed(cased=190, capitals=188), changed(cased=190, capitals=3)
    found = list(capital_warnings([database("a", quiet), database("b", loud)]))
    assert [(one.code, one.database) for one in found] == [("all_capitals", "b")]
    assert list(capital_warnings([database("a", loud), database("b", loud)])) == []
    assert list(capital_warnings([database("a", quiet), database("b", changed(cased=5, capitals=5))])) == []


def test_all_of_them_in_order():
    unique = changed(missing=0, distinct=200)
    databases = [database("a", unique), database("b", unique), database("c")]
    field = dataclasses.replace(FIELD, shared=(SharedValues(("a", "b"), 0.0),))
    swap = SwappedColumns("b", ("first", "last"), ("given", "family"))
    found = all_warnings(databases, [field], {"a": [NearDuplicate("town", "city", True, 0.99)], "b": []}, [swap])
    # the columns of a field that is an id are not told of once more
    assert codes(found) == ["swapped_columns", "empty_database", "id_as_field", "near_duplicate_columns"]
    assert found[0].fix == "if their names are swapped: --map 'b:first=family' --map 'b:last=given'"
    assert "city" in found[3].fix


def test_swapped_fields_are_not_told_to_share_no_values():
    field = dataclasses.replace(FIELD, shared=(SharedValues(("a", "b"), 0.0),))
    databases = [database("a", PLAIN), database("b", PLAIN)]
    swap = SwappedColumns("b", ("town", "street"), ("town", "street"))
    assert codes(all_warnings(databases, [field], {}, [swap])) == ["swapped_columns"]
    assert codes(all_warnings(databases, [field], {}, [])) == ["no_shared_values"]
