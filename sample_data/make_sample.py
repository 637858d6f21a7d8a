#!/usr/bin/env python3
"""Make the sample databases: three lists of the same invented town's people, and the truth about them.

    python sample_data/make_sample.py [DIR]

Nobody in them exists: names, streets and towns are made up. The lists differ in their column names, have typos, gaps,
nicknames, people who moved, people entered twice, families at one address, twins, and sons named after their fathers;
the registry has no column for the sex. Only `random.random` is drawn from, whose sequence Python keeps for ever, so the
files come out the same, byte for byte (the Parquet file with the same version of pyarrow).
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

T = TypeVar("T")

SEED = 20140
N_PEOPLE = 300

# Earlier names are more frequent.
GIVEN = {
    "F": (
        "Anna Marta Ellen Clara Nora Ida Sofie Helen Rosa Judith Irene Karin Lotte Thea Agnes Vera Amalia Greta Selma "
        "Dora Alma Edda Olive Mira Tilda Petra Livia Frieda Johanna Isolde"
    ).split(),
    "M": (
        "Jonas Peter Martin Anton David Simon Oskar Emil Hugo Viktor Julian Leo Karl Felix Edgar Adam Bruno Nils "
        "Rafael Konrad Milo Arvid Gustav Ivo Ruben Tobin Albin Casper Ludvig Matthis"
    ).split(),
}
NICKNAMES = {
    "Anna": "Annie", "Marta": "Martie", "Ellen": "Nell", "Helen": "Nellie", "Judith": "Judy", "Irene": "Rena",
    "Johanna": "Hanna", "Amalia": "Amy", "Peter": "Pete", "Martin": "Marty", "Anton": "Toni", "David": "Dave",
    "Simon": "Si", "Viktor": "Vik", "Julian": "Jules", "Rafael": "Raf", "Konrad": "Kon", "Matthis": "Mats",
}  # fmt: skip
SURNAME_HEADS = "Ash Birk Dun Elm Fen Gar Hol Kel Lind Mar Nor Oak Pen Quar Ros Sand Thorn Ul Wes Yar".split()
SURNAME_TAILS = "berg combe dal ford gate land low mere stead wick".split()
STREETS = "Mill Lane|Harbour Road|Chapel Street|Long Acre|Station Road|Orchard Way|Kiln Row|Ferry Street".split("|")
TOWNS = "Eastmere Saltwick Norhaven Brackley-on-Sea Tarnfoot Lindø".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"

COLUMNS = {
    "clinic": {
        "id": "record_id", "given_name": "first_name", "family_name": "last_name", "sex": "sex",
        "birth_date": "birth_date", "street": "street", "town": "town",
    },
    "police": {
        "id": "case_no", "given_name": "given_name", "family_name": "surname", "sex": "gender",
        "birth_date": "dob", "street": "street", "town": "city",
    },
    "registry": {
        "id": "registry_id", "given_name": "given_name", "family_name": "family_name",
        "birth_date": "birth_date", "street": "street", "town": "town",
    },
}  # fmt: skip
SHARE = {"clinic": 0.56, "police": 0.42, "registry": 0.72}
TWICE = {"clinic": 0.09, "police": 0.12, "registry": 0.03}
NOISE = {"clinic": 1.0, "police": 1.6, "registry": 0.5}


@dataclass(frozen=True)
class Person:
    """A person, or what a clerk wrote down about one; "" and None are gaps."""

    given_name: str
    family_name: str
    sex: str
    birth_date: date | None
    street: str
    town: str


class Dice:
    """Random choices made from `random.random` alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self._random.random() < p

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random.random() * n)

    def pick(self, items: Sequence[T]) -> T:
        """Any item."""
        return items[self.below(len(items))]

    def pick_early(self, items: Sequence[T]) -> T:
        """An item, the earlier the likelier."""
        return items[int(len(items) * self._random.random() ** 2)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in any order."""
        keyed = sorted((self._random.random(), i) for i in range(len(items)))
        return [items[i] for _, i in keyed]


def make_people(dice: Dice) -> list[Person]:
    """Households of one to six until there are enough people."""
    surnames = dice.shuffled([head + tail for head in SURNAME_HEADS for tail in SURNAME_TAILS])[:90]
    people: list[Person] = []
    while len(people) < N_PEOPLE:
        people.extend(make_household(dice, surnames))
    return people[:N_PEOPLE]


def make_household(dice: Dice, surnames: Sequence[str]) -> list[Person]:
    """One adult, perhaps a spouse, perhaps children; some are twins, some bear a parent's name."""
    sex = dice.pick("FM")
    born = date(1935, 1, 1) + timedelta(days=dice.below(60 * 365))
    address = f"{1 + dice.below(60)} {dice.pick(STREETS)}"
    head = Person(dice.pick_early(GIVEN[sex]), dice.pick_early(surnames), sex, born, address, dice.pick_early(TOWNS))
    household = [head]
    if dice.chance(0.55):
        other = "M" if sex == "F" else "F"
        name = head.family_name if dice.chance(0.8) else dice.pick_early(surnames)
        spouse_born = born + timedelta(days=dice.below(3000) - 1500)
        household.append(replace(head, given_name=dice.pick_early(GIVEN[other]), family_name=name, sex=other))
        household[-1] = replace(household[-1], birth_date=spouse_born)
        child_born = born + timedelta(days=8000 + dice.below(4000))
        for _ in range(dice.below(5)):
            child_sex = dice.pick("FM")
            junior = child_sex == sex and dice.chance(0.1)
            given = head.given_name if junior else dice.pick_early(GIVEN[child_sex])
            household.append(replace(head, given_name=given, sex=child_sex, birth_date=child_born))
            if not dice.chance(0.12):
                child_born += timedelta(days=400 + dice.below(1200))
    return household


def typo(text: str, dice: Dice) -> str:
    """One letter wrong, missing, doubled, or two swapped."""
    if len(text) < 3:
        return text
    i = 1 + dice.below(len(text) - 2)
    return dice.pick(
        (
            text[:i] + dice.pick(LETTERS) + text[i + 1 :],
            text[:i] + text[i + 1 :],
            text[:i] + text[i] + text[i:],
            text[:i] + text[i + 1] + text[i] + text[i + 2 :],
        )
    )


def wrong_date(day: date, dice: Dice) -> date:
    """A date with one part misread: day and month swapped, a year off, or another day of the month."""
    kind = dice.below(3)
    if kind == 0 and day.day <= 12 and day.day != day.month:
        return day.replace(month=day.day, day=day.month)
    if kind == 1 and not (day.month == 2 and day.day == 29):
        return day.replace(year=day.year + dice.pick((-1, 1, 10)))
    return day.replace(day=1 + (day.day + dice.below(27)) % 28)


def write_down(person: Person, noise: float, dice: Dice) -> Person:
    """One record of a person, as a clerk might enter it; chances grow with the noise."""
    seen = person
    if dice.chance(0.05 * noise):
        seen = replace(seen, given_name=NICKNAMES.get(seen.given_name, seen.given_name))
    if dice.chance(0.03 * noise):
        seen = replace(seen, given_name=typo(seen.given_name, dice))
    if dice.chance(0.04 * noise):
        seen = replace(seen, family_name=typo(seen.family_name, dice))
    if seen.birth_date is not None and dice.chance(0.03 * noise):
        seen = replace(seen, birth_date=wrong_date(seen.birth_date, dice))
    if dice.chance(0.05 * noise):
        street = f"{1 + dice.below(60)} {dice.pick(STREETS)}"
        seen = replace(seen, street=street, town=dice.pick_early(TOWNS))
    if dice.chance(0.02 * noise):
        seen = replace(seen, town=typo(seen.town, dice))
    if dice.chance(0.03 * noise):
        seen = replace(seen, birth_date=None)
    if dice.chance(0.03 * noise):
        seen = replace(seen, street="")
    if dice.chance(0.02 * noise):
        seen = replace(seen, sex="")
    if dice.chance(0.01 * noise):
        seen = replace(seen, given_name="")
    return seen


def record_id(database: str, number: int) -> str:
    """The id of a database's record, in that database's own way."""
    forms = {
        "clinic": f"C{number:04d}",
        "police": f"{2015 + number % 5}/{number:03d}",
        "registry": str(70000 + 7 * number),
    }
    return forms[database]


def make_database(database: str, people: Sequence[Person], dice: Dice) -> list[tuple[str, int, Person]]:
    """The records of one database: (id, number of the person, what was written down)."""
    entries: list[tuple[int, Person]] = []
    for number, person in enumerate(people):
        if dice.chance(SHARE[database]):
            entries.append((number, write_down(person, NOISE[database], dice)))
            if dice.chance(TWICE[database]):
                entries.append((number, write_down(person, NOISE[database], dice)))
    return [(record_id(database, i + 1), number, seen) for i, (number, seen) in enumerate(dice.shuffled(entries))]


def fields_of(database: str, record: str, seen: Person) -> list[str]:
    """The record as text in the order of the database's columns."""
    values = {
        "id": record,
        "given_name": seen.given_name,
        "family_name": seen.family_name,
        "sex": seen.sex,
        "birth_date": seen.birth_date.isoformat() if seen.birth_date else "",
        "street": seen.street,
        "town": seen.town,
    }
    return [values[field] for field in COLUMNS[database]]


def write_text(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str) -> None:
    """Write a CSV or TSV file with Unix line ends."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_parquet(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the registry: its id is a number, its birth date a date, a gap is null."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(header, zip(*rows, strict=True), strict=True):
        text = pa.array([value or None for value in column], pa.string())
        kinds = {"registry_id": pa.int64(), "birth_date": pa.date32()}
        columns[name] = text.cast(kinds.get(name, pa.string()))
    pq.write_table(pa.table(columns), path, compression="zstd")


def make_sample(directory: Path) -> None:
    """Write the three databases and truth.csv into a directory."""
    dice = Dice(SEED)
    people = make_people(dice)
    truth: list[list[str]] = []
    for database, suffix in (("clinic", "csv"), ("police", "tsv"), ("registry", "parquet")):
        entries = make_database(database, people, dice)
        truth.extend([database, record, f"P{number + 1:03d}"] for record, number, _ in entries)
        header = list(COLUMNS[database].values())
        rows = [fields_of(database, record, seen) for record, _, seen in entries]
        path = directory / f"{database}.{suffix}"
        if suffix == "parquet":
            write_parquet(path, header, rows)
        else:
            write_text(path, header, rows, "," if suffix == "csv" else "\t")
    write_text(directory / "truth.csv", ["database", "record_id", "entity"], truth, ",")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    target.mkdir(parents=True, exist_ok=True)
    make_sample(target)
