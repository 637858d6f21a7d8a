"""Which columns become fields and ids."""

from __future__ import annotations

import pytest

from vber_cli.encode.fields import FieldMap, map_fields
from vber_cli.errors import InputError, UsageError

NAMES = ("clinic", "police")


def mapped(*columns: list[str], names: tuple[str, ...] = NAMES, **options: tuple[str, ...]) -> FieldMap:
    return map_fields(names[: len(columns)], columns, **options)


def test_common_columns_in_the_order_of_the_first_database() -> None:
    result = mapped(["city", "name", "extra"], ["name", "city", "other"])
    assert result.fields == ("city", "name")
    assert result.column_of == ({"city": "city", "name": "name"}, {"city": "city", "name": "name"})
    assert result.id_column == (None, None)
    assert any("clinic" in note and "extra" in note for note in result.announcements)
    assert any("police" in note and "other" in note for note in result.announcements)


def test_names_match_loosely_after_exactly() -> None:
    result = mapped(["First Name", "first_name", "CITY"], ["first_name", "city"])
    assert result.fields == ("first_name", "CITY")
    assert result.column_of[1] == {"first_name": "first_name", "CITY": "city"}
    ambiguous = mapped(["First Name", "city"], ["first_name", "FIRST NAME", "city"])
    assert ambiguous.fields == ("city",)


def test_one_database_uses_all_its_columns() -> None:
    assert mapped(["name", "city"]).fields == ("name", "city")


def test_maps() -> None:
    result = mapped(["surname", "town"], ["lname", "city"], maps=("police:lname=surname", "town=city"))
    assert result.fields == ("surname", "city")
    assert result.column_of == ({"surname": "surname", "city": "town"}, {"surname": "lname", "city": "city"})
    taken = mapped(["a", "b"], ["a", "b"], maps=("clinic:b=a",))
    assert taken.column_of[0] == {"a": "b"}
    assert any("'a' is not used" in note for note in taken.announcements)
    colon = mapped(["x:y"], ["z"], names=("a:b", "a"), maps=("a:b:x:y=f", "a:z=f"))
    assert colon.column_of == ({"f": "x:y"}, {"f": "z"})


def test_hints_for_similar_names() -> None:
    result = mapped(["city", "last_name"], ["city", "lastname2"])
    assert any("--map 'police:lastname2=last_name'" in note for note in result.announcements)


def test_fields_may_be_missing_in_one_database() -> None:
    result = mapped(["name", "age"], ["name"], fields=("name", "Age"))
    assert result.fields == ("name", "Age")
    assert result.column_of == ({"name": "name", "Age": "age"}, {"name": "name"})
    assert "police: no column for Age, whose values count as missing there" in result.announcements


def test_exclude() -> None:
    assert mapped(["a", "b", "c"], ["a", "b"], exclude=("B", "c")).fields == ("a",)
    assert mapped(["x", "b"], ["a", "b"], maps=("clinic:x=a",), exclude=("a",)).fields == ("b",)


def test_ids_are_guessed_by_name() -> None:
    result = mapped(["rec_id", "name"], ["Police ID", "name"])
    assert result.id_column == ("rec_id", "Police ID")
    assert result.id_guessed == (True, True)
    assert result.fields == ("name",)
    assert result.fallbacks == ()
    assert sum("record id" in note for note in result.announcements) == 2
    assert mapped(["soc_sec_id", "name"], ["soc_sec_id", "name"]).id_column == (None, None)


def test_a_common_id_column_may_fall_back_to_a_field() -> None:
    result = mapped(["id", "name"], ["ID", "name"])
    assert [(one.field, one.columns) for one in result.fallbacks] == [("id", ("id", "ID"))]
    assert mapped(["id"], ["id"]).fields == ()


def test_ids_named_by_the_user() -> None:
    result = mapped(["code", "name"], ["code", "name"], ids=("code",))
    assert result.id_column == ("code", "code")
    assert result.id_guessed == (False, False)
    assert result.fields == ("name",)
    one = mapped(["code", "id", "name"], ["code", "name"], ids=("clinic:code",))
    assert one.id_column == ("code", None)
    assert one.fields == ("name",)
    assert mapped(["id", "name"], ["id", "name"], fields=("id", "name")).id_column == (None, None)


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        ({"maps": ("police:citty=town",)}, "--map police:citty=town: police has no column 'citty'", "city"),
        ({"maps": ("polise:city=town",)}, "no database is called 'polise'", "police"),
        ({"maps": ("nowhere=town",)}, "no database has a column 'nowhere'", "There are: name"),
        ({"maps": ("city",)}, "not of the form", "DB:COLUMN=FIELD"),
        ({"maps": ("police:city=x", "police:name=x")}, "two columns for 'x'", "only one"),
        ({"ids": ("ident",)}, "--id ident: no database has a column", "There are"),
        ({"ids": ("clinic:namex",)}, "clinic has no column 'namex'", "name"),
        ({"ids": ("name", "clinic:city")}, "two id columns", "clinic:city"),
        ({"maps": ("clinic:name=x",), "ids": ("clinic:name",)}, "mapped to a field", "--map"),
        ({"fields": ("namex",)}, "--fields namex: no database has", "name"),
        ({"fields": ("name",), "ids": ("name",)}, "is an id column", "Drop"),
        ({"exclude": ("namex",)}, "--exclude namex: no database has", "name"),
        ({"exclude": ("name",), "fields": ("name",)}, "--fields asks for it", "Drop"),
    ],
)
def test_wrong_options(options: dict[str, tuple[str, ...]], what: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        mapped(["name", "city"], ["name", "city"], **options)
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_no_common_field_lists_the_columns() -> None:
    with pytest.raises(InputError) as caught:
        mapped(["name", "town"], ["lname", "city"])
    assert "clinic has name, town; police has lname, city" in caught.value.what
    assert "`vber profile`" in caught.value.fix
    with pytest.raises(InputError, match="and 88 more"):
        mapped([f"c{i}" for i in range(100)], ["x"])


def test_columns_that_two_of_three_databases_have_are_fields() -> None:
    tables = [["name", "Born On", "x"], ["town", "born_on", "name"], ["name", "y", "town"]]
    found = map_fields(["a", "b", "c"], tables)
    assert found.fields == ("name", "Born On", "town")
    assert found.column_of == (
        {"name": "name", "Born On": "Born On"},
        {"name": "name", "Born On": "born_on", "town": "town"},
        {"name": "name", "town": "town"},
    )
    assert "a: left out, since in no other database: x" in found.announcements
    assert "c: no column for Born On, whose values count as missing there" in found.announcements


def test_of_names_that_are_alike_in_one_database_only_the_same_are_one_field() -> None:
    found = map_fields(["a", "b", "c"], [["Name", "name", "z"], ["name", "z"], ["Name", "z"]])
    assert found.fields == ("Name", "name", "z")
    assert found.column_of == (
        {"Name": "Name", "name": "name", "z": "z"},
        {"name": "name", "z": "z"},
        {"Name": "Name", "z": "z"},
    )


def test_a_name_that_only_some_databases_have_is_no_hint() -> None:
    found = map_fields(["a", "b", "c"], [["x", "town"], ["x", "towns"], ["x", "town"]])
    hints = [note for note in found.announcements if "--map" in note]
    assert len(hints) == 1
    assert "b:towns=town" in hints[0]
    assert "c:town=town" not in hints[0]
