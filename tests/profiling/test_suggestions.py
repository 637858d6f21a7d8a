"""Suggested --map."""

from __future__ import annotations

import numpy as np

from vber_cli.encode.fields import map_fields
from vber_cli.profiling.overlap import ColumnSample
from vber_cli.profiling.suggestions import Candidate, suggest

NAMES = ["clinic", "police", "registry"]


class Columns:
    """Columns whose values come from numbered pools."""

    def __init__(self, rng):
        self.rng, self.all = rng, []

    def add(self, database, name, pool, field=None, settled=False):
        codes = 1000 * pool + self.rng.integers(0, 60, 500)
        self.all.append(Candidate(ColumnSample(database, name, "text", codes), field, settled))

    def suggested(self):
        return suggest(self.all, NAMES)


def test_columns_of_the_same_values_get_the_name_that_most_use(rng):
    columns = Columns(rng)
    for database, name in enumerate(["surname", "family", "surname"]):
        columns.add(database, name, 1)
        columns.add(database, "town", 2, field="town")
    found, swaps = columns.suggested()
    assert [one.option for one in found.maps] == ["police:family=surname"]
    assert found.maps[0].value_overlap > 0.8
    assert swaps == []


def test_of_equally_frequent_names_the_first_counts(rng):
    columns = Columns(rng)
    columns.add(0, "dob", 1)
    columns.add(1, "born", 1)
    found, _ = columns.suggested()
    assert [one.option for one in found.maps] == ["police:born=dob"]


def test_a_database_gives_one_column_to_a_field(rng):
    columns = Columns(rng)
    columns.add(0, "town", 1)
    columns.add(1, "town_of_birth", 1)
    columns.add(1, "city", 1)
    found, _ = columns.suggested()
    assert [one.option for one in found.maps] == ["police:town_of_birth=town"]


def test_what_an_option_named_is_kept(rng):
    columns = Columns(rng)
    columns.add(0, "town", 1)
    columns.add(1, "city", 1)
    columns.add(2, "ort", 1, field="place", settled=True)
    found, _ = columns.suggested()
    assert [one.option for one in found.maps] == ["clinic:town=place", "police:city=place"]


def test_two_fields_that_options_named_stay_apart(rng):
    columns = Columns(rng)
    columns.add(0, "home", 1, field="home", settled=True)
    columns.add(1, "work", 1, field="work", settled=True)
    assert columns.suggested()[0].maps == ()


def test_columns_of_one_name_in_two_databases_need_no_map(rng):
    columns = Columns(rng)
    for database in range(3):
        columns.add(database, "town", 2, field="town")
    columns.add(0, "sex", 1)
    columns.add(2, "Sex", 1)
    columns.add(1, "height", 3)
    found, _ = columns.suggested()
    assert found.maps == ()


def test_swapped_names(rng):
    columns = Columns(rng)
    for database, pools in enumerate([(1, 2), (2, 1), (1, 2)]):
        columns.add(database, "first", pools[0], field="first")
        columns.add(database, "last", pools[1], field="last")
    found, swaps = columns.suggested()
    assert {one.option for one in found.maps} == {"police:first=last", "police:last=first"}
    assert [(one.database, one.columns, one.fields) for one in swaps] == [
        ("police", ("first", "last"), ("first", "last"))
    ]
    mapped = map_fields(NAMES, [["first", "last"]] * 3, maps=[one.option for one in found.maps])
    assert dict(mapped.column_of[1]) == {"first": "last", "last": "first"}


def test_suggestions_are_options_that_the_mapping_takes(rng):
    columns = Columns(rng)
    tables = [["given", "family"], ["vorname", "nachname"], ["first", "last"]]
    for database, own in enumerate(tables):
        for pool, name in enumerate(own):
            columns.add(database, name, pool)
    found, _ = columns.suggested()
    mapped = map_fields(NAMES, tables, maps=[one.option for one in found.maps])
    assert mapped.fields == ("given", "family")


def test_no_columns():
    found, swaps = suggest([], ["a"])
    assert (found.maps, swaps) == ((), [])


def test_the_order_of_rows_decides_nothing_about_names(rng):
    columns = Columns(rng)
    columns.add(0, "surname", 1)
    columns.add(1, "name", 1)
    shuffled = [
        Candidate(ColumnSample(c.sample.database, c.sample.column, "text", rng.permutation(c.sample.codes)), None)
        for c in columns.all
    ]
    assert [one.option for one in suggest(shuffled, NAMES)[0].maps] == [
        one.option for one in columns.suggested()[0].maps
    ]
    assert len(np.unique(columns.all[0].sample.codes)) == 60
