#!/usr/bin/env python3
"""Make noisy lists of people with known truth, of any size, for benchmarks.

    python benchmarks/generate.py OUT --records 1000000 --entities 800000 --databases 2 --seed 1

writes OUT/db1.csv .. dbD.csv (rec_id first) and OUT/truth.csv (database, record_id, entity). Names and places are put
together from syllables; their frequencies follow Zipf's law. People live in households: spouses, children, twins,
children named after a parent. Records are their people seen through nicknames, misspellings, misread dates, new
surnames, moves (postcode, city and state at once) and gaps. The same options and numpy version give the same files.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.bytes_]

WIDTH = 20  # bytes of a word, with room for inserted letters
DAYS_PER_YEAR = 365.2425

# Chance per record at noise 1.
RATES = {
    "nickname": 0.06, "given_typo": 0.05, "given_initial": 0.01, "given_missing": 0.01,
    "surname_typo": 0.05, "surname_new_f": 0.03, "surname_new_m": 0.004, "surname_missing": 0.005,
    "names_swapped": 0.008,
    "sex_wrong": 0.004, "sex_missing": 0.02,
    "year_wrong": 0.02, "month_wrong": 0.01, "day_wrong": 0.02, "day_month_swapped": 0.01, "date_missing": 0.03,
    "moved": 0.08, "city_typo": 0.03, "city_missing": 0.02, "postcode_typo": 0.03, "postcode_missing": 0.02,
    "state_missing": 0.01, "office_wrong": 0.03,
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What to make; `within` is the chance that a further record of a person goes where the last one went."""

    records: int
    entities: int
    databases: int = 2
    noise: float = 1.0
    within: float = 0.1
    max_cluster: int = 6
    birth_years: tuple[int, int] = (1925, 2005)
    split_date: bool = False
    categorical: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Names:
    """Distinct words and the running sum of their frequencies."""

    words: Words
    cumulative: NDArray[np.float64]

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw n word numbers by frequency."""
        return np.minimum(np.searchsorted(self.cumulative, rng.random(n), side="right"), len(self.words) - 1)


@dataclass(frozen=True)
class World:
    """Names and places, the same for every seed."""

    given: tuple[Names, Names]
    nickname: tuple[Words, Words]
    surname: Names
    postcode: Names
    city: Words
    state: Words
    office: Ints


@dataclass
class People:
    """One entry per person: word numbers, days since 1970 and the place number."""

    sex: Ints
    given: Ints
    surname: Ints
    birth: Ints
    place: Ints


@dataclass
class Columns:
    """The records' columns as words, and a mask of the gaps of each."""

    words: dict[str, Words] = field(default_factory=dict)
    missing: dict[str, NDArray[np.bool_]] = field(default_factory=dict)


def make_words(n: int, syllables: tuple[int, int], endings: str, rng: np.random.Generator) -> Words:
    """Make n distinct lower-case words of some syllables, in no order."""
    onsets = np.array("b br c ch d dr f fl g gr h j k kl l m n p pr r s sh st t th tr v w z".split(), dtype=f"S{WIDTH}")
    vowels = np.array("a a a e e e i i o o u ai ea ie".split(), dtype=f"S{WIDTH}")
    codas = np.array(["", "", "", "l", "n", "n", "r", "r", "s", "t", "m", "ck"], dtype=f"S{WIDTH}")
    tails = np.array(endings.split(), dtype=f"S{WIDTH}")
    made = np.empty(0, dtype=f"S{WIDTH}")
    while len(made) < n:
        size = 2 * n + 100
        word = np.zeros(size, dtype=f"S{WIDTH}")
        count = rng.integers(syllables[0], syllables[1] + 1, size)
        for i in range(syllables[1]):
            syllable = np.char.add(rng.choice(onsets, size), rng.choice(vowels, size))
            syllable = np.char.add(syllable, rng.choice(codas, size))
            word = np.where(i < count, np.char.add(word, syllable), word)
        word = np.char.add(word, rng.choice(tails, size))
        word = word[np.char.str_len(word) <= WIDTH - 5].astype(f"S{WIDTH}")
        made = np.unique(np.concatenate([made, word]))
    return rng.permutation(made)[:n]


def zipf(words: Words, exponent: float, shift: float) -> Names:
    """Words with frequencies falling as (rank + shift)^-exponent."""
    weight = (np.arange(len(words)) + shift) ** -exponent
    return Names(words, np.cumsum(weight / weight.sum()))


def make_world() -> World:
    """Names and places from one fixed seed."""
    rng = np.random.default_rng(7)
    given = tuple(
        zipf(make_words(1500, (1, 2), e, rng), 1.05, 6.0) for e in ("a ia ina elle y is", "o us an ric ard el")
    )
    nickname = tuple(np.char.add(names.words.astype("S3"), b"ie").astype(f"S{WIDTH}") for names in given)
    surname = zipf(make_words(60_000, (1, 2), "son er man ley ton wood ski berg field a s", rng), 0.85, 8.0)
    n_places, n_cities = 12_000, 5_000
    city_of_place = np.concatenate([np.arange(n_cities), np.sort(zipf(np.empty(n_cities), 0.8, 3.0).draw(7_000, rng))])
    city_words = make_words(n_cities - 300, (1, 2), "ville ton burg field port ford", rng)
    city_names = np.concatenate([city_words, rng.choice(city_words, 300)])  # some names occur twice
    codes = np.sort(rng.choice(np.arange(10_000, 99_999), n_places, replace=False))
    order = np.argsort(city_of_place, kind="stable")
    city_of_place = city_of_place[order]
    state_words = np.char.upper(make_words(400, (1, 1), "a o n", rng).astype("S2"))
    states = np.unique(state_words)[:48].astype(f"S{WIDTH}")
    weight = rng.lognormal(0, 1.2, n_places)
    postcode = Names(codes.astype(f"S{WIDTH}"), np.cumsum(weight / weight.sum()))
    state_of_city = rng.integers(0, len(states), n_cities)
    office = 1 + (state_of_city[city_of_place] * 13 + np.arange(n_places) % 3) % 60
    return World(
        (given[0], given[1]),
        (nickname[0], nickname[1]),
        surname,
        postcode,
        city_names[city_of_place],
        states[state_of_city[city_of_place]],
        office,
    )


def make_people(world: World, options: Options, rng: np.random.Generator) -> People:
    """People in households: a head, mostly a spouse, then children or siblings."""
    n = options.entities
    size = rng.choice(np.arange(1, 7), size=n, p=[0.52, 0.22, 0.11, 0.09, 0.04, 0.02])
    head = np.repeat(np.cumsum(size) - size, size)[:n]
    place_in_home = np.arange(n) - head
    first, last = (int(np.datetime64(f"{year}-01-01").astype(np.int64)) for year in
                   (options.birth_years[0], options.birth_years[1] + 1))  # fmt: skip
    sex = rng.integers(0, 2, n)
    birth = first + ((last - first) * rng.beta(1.6, 1.3, n)).astype(np.int64)
    spouse = (place_in_home == 1) & (rng.random(n) < 0.7)
    sex[spouse] = 1 - sex[head[spouse]]
    child = (place_in_home > 0) & ~spouse
    age_gap = (rng.uniform(19, 39, n) * DAYS_PER_YEAR).astype(np.int64)
    sibling_gap = rng.normal(0, 1500, n).astype(np.int64)
    too_late = birth[head] + age_gap >= last
    birth = np.where(child, birth[head] + np.where(too_late, sibling_gap, age_gap), birth)
    birth = np.where(spouse, birth[head] + sibling_gap, birth)
    twin = child & (place_in_home > 1) & np.roll(child, 1) & (rng.random(n) < 0.08)
    birth[twin] = birth[np.flatnonzero(twin) - 1]
    birth = first + (birth - first) % (last - first)
    given = np.where(sex == 0, world.given[0].draw(n, rng), world.given[1].draw(n, rng))
    junior = child & (sex == sex[head]) & (rng.random(n) < 0.08)
    given[junior] = given[head[junior]]
    surname, place = world.surname.draw(n, rng), world.postcode.draw(n, rng)
    same_name = (place_in_home > 0) & (rng.random(n) < 0.88)
    surname[same_name] = surname[head[same_name]]
    at_home = (place_in_home > 0) & (rng.random(n) < 0.9)
    place[at_home] = place[head[at_home]]
    return People(sex, given, surname, birth, place)


def assign(options: Options, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Person and database of each record, in random order."""
    n_extra = options.records - options.entities
    if options.within == 0 and options.max_cluster > options.databases:
        options = Options(**{**options.__dict__, "max_cluster": options.databases})
    if options.entities > options.records or options.records > options.entities * options.max_cluster:
        raise SystemExit("records must lie between entities and entities times the largest cluster")
    count = np.ones(options.entities, dtype=np.int64)
    while n_extra:
        count += np.bincount(rng.integers(0, options.entities, n_extra), minlength=options.entities)
        n_extra = int(np.maximum(count - options.max_cluster, 0).sum())
        np.minimum(count, options.max_cluster, out=count)
    person = np.repeat(np.arange(options.entities), count)
    is_first = np.append(True, person[1:] != person[:-1])
    elsewhere = ~is_first & (rng.random(len(person)) >= options.within)
    steps = np.cumsum(elsewhere)
    steps -= np.repeat(steps[is_first], count)
    database = (rng.integers(0, options.databases, options.entities)[person] + steps) % options.databases
    order = rng.permutation(len(person))
    return person[order], database[order]


def misspell(words: Words, rng: np.random.Generator, alphabet: bytes = b"abcdefghijklmnopqrstuvwxyz") -> Words:
    """Insert, delete, replace or swap one letter of each word."""
    n = len(words)
    letters = np.ascontiguousarray(words).view(np.uint8).reshape(n, WIDTH)
    length = (letters != 0).sum(axis=1)
    kind = np.where(length < 2, 2, rng.integers(0, 4, n))  # 0 insert, 1 delete, 2 replace, 3 swap
    at = np.minimum((rng.random(n) * np.where(kind == 3, length - 1, length)).astype(np.int64), WIDTH - 2)
    column = np.arange(WIDTH)[None, :]
    kind, at = kind[:, None], at[:, None]
    source = column - ((kind == 0) & (column > at)) + ((kind == 1) & (column >= at))
    source = np.where((kind == 3) & (column == at), at + 1, np.where((kind == 3) & (column == at + 1), at, source))
    out = np.take_along_axis(letters, np.minimum(source, WIDTH - 1), axis=1)
    new = np.frombuffer(alphabet, dtype=np.uint8)[rng.integers(0, len(alphabet), n)]
    out = np.where(((kind == 0) | (kind == 2)) & (column == at), new[:, None], out)
    return np.ascontiguousarray(out).view(f"S{WIDTH}").reshape(n)


class Clerk:
    """Draws which records an error falls on."""

    def __init__(self, n: int, noise: float, rng: np.random.Generator) -> None:
        self.n, self.noise, self.rng = n, noise, rng

    def hits(self, rate: str, among: NDArray[np.bool_] | None = None) -> Ints:
        """The records that get this error."""
        hit = self.rng.random(self.n) < RATES[rate] * self.noise
        return np.flatnonzero(hit if among is None else hit & among)

    def gap(self, rate: str) -> NDArray[np.bool_]:
        """Mask of the records that lose this value."""
        return self.rng.random(self.n) < RATES[rate] * self.noise


def noisy_dates(birth: Ints, clerk: Clerk) -> tuple[Ints, Ints, Ints]:
    """Year, month and day with misreadings; always a day that exists."""
    rng = clerk.rng
    days = birth.astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (days - months).astype(np.int64) + 1
    k = clerk.hits("day_month_swapped", (day <= 12) & (day != month))
    month[k], day[k] = day[k], month[k].copy()
    k = clerk.hits("year_wrong")
    year[k] += rng.choice(np.array([-10, -2, -1, 1, 2, 10]), len(k))
    k = clerk.hits("month_wrong")
    month[k] = rng.integers(1, 13, len(k))
    k = clerk.hits("day_wrong")
    day[k] = rng.integers(1, 29, len(k))
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1] + ((month == 2) & leap)
    return year, month, np.minimum(day, longest)


def noisy_columns(world: World, people: People, person: Ints, options: Options, rng: np.random.Generator) -> Columns:
    """The columns of all records."""
    clerk = Clerk(len(person), options.noise, rng)
    out = Columns()
    sex = people.sex[person]
    place = people.place[person]
    k = clerk.hits("moved")
    place[k] = world.postcode.draw(len(k), rng)
    if not options.categorical:
        add_names(out, world, people, person, clerk)
    shown = sex.copy()
    k = clerk.hits("sex_wrong")
    shown[k] = 1 - shown[k]
    out.words["sex"] = np.array([b"f", b"m"])[shown]
    out.missing["sex"] = clerk.gap("sex_missing")
    add_dates(out, *noisy_dates(people.birth[person], clerk), clerk.gap("date_missing"), options)
    if options.categorical:
        office = world.office[place]
        k = clerk.hits("office_wrong")
        office[k] = rng.integers(1, 61, len(k))
        out.words["office"] = office.astype("S2")
    else:
        city, postcode = world.city[place], world.postcode.words[place]
        k = clerk.hits("city_typo")
        city[k] = misspell(city[k], rng)
        k = clerk.hits("postcode_typo")
        postcode[k] = misspell(postcode[k], rng, b"0123456789")
        out.words["city"], out.missing["city"] = city, clerk.gap("city_missing")
        out.words["postcode"], out.missing["postcode"] = postcode, clerk.gap("postcode_missing")
    out.words["state"], out.missing["state"] = world.state[place], clerk.gap("state_missing")
    return out


def add_names(out: Columns, world: World, people: People, person: Ints, clerk: Clerk) -> None:
    """Add given name and surname."""
    rng, sex = clerk.rng, people.sex[person]
    code, surname_code = people.given[person], people.surname[person]
    given = np.where(sex == 0, world.given[0].words[code], world.given[1].words[code])
    k = clerk.hits("nickname")
    given[k] = np.where(sex[k] == 0, world.nickname[0][code[k]], world.nickname[1][code[k]])
    for rate, which in (("surname_new_f", 0), ("surname_new_m", 1)):
        k = clerk.hits(rate, sex == which)
        surname_code[k] = world.surname.draw(len(k), rng)
    surname = world.surname.words[surname_code]
    for words, rate in ((given, "given_typo"), (surname, "surname_typo")):
        k = clerk.hits(rate)
        words[k] = misspell(words[k], rng)
    k = clerk.hits("given_initial")
    given[k] = given[k].astype("S1")
    k = clerk.hits("names_swapped")
    given[k], surname[k] = surname[k], given[k].copy()
    out.words["first_name"], out.missing["first_name"] = given, clerk.gap("given_missing")
    out.words["last_name"], out.missing["last_name"] = surname, clerk.gap("surname_missing")


def add_dates(out: Columns, year: Ints, month: Ints, day: Ints, gap: NDArray[np.bool_], options: Options) -> None:
    """Add the birth date, in one column or three."""
    if options.split_date or options.categorical:
        parts = {"birth_year": year.astype("S4"), "birth_month": month.astype("S2"), "birth_day": day.astype("S2")}
    else:
        months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
        dates = months.astype("datetime64[D]") + (day - 1)
        parts = {
            "birth_date": np.asarray(pa.array(dates).cast(pa.string()).to_numpy(zero_copy_only=False), dtype="S10")
        }
    for name, words in parts.items():
        out.words[name], out.missing[name] = words, gap


def generate(directory: Path, options: Options) -> tuple[list[Path], Path]:
    """Write the databases and truth.csv; return their paths."""
    rng = np.random.default_rng(options.seed)
    world = make_world()
    people = make_people(world, options, rng)
    person, database = assign(options, rng)
    columns = noisy_columns(world, people, person, options, rng)
    directory.mkdir(parents=True, exist_ok=True)
    files, truths = [], []
    for d in range(options.databases):
        rows = np.flatnonzero(database == d)
        record_id = pa.array([f"{chr(97 + d)}{i:07d}" for i in range(len(rows))])
        arrays: dict[str, pa.Array] = {"rec_id": record_id}
        for name, words in columns.words.items():
            mask = columns.missing.get(name)
            arrays[name] = pa.array(words[rows], mask=None if mask is None else mask[rows]).cast(pa.string())
        files.append(directory / f"db{d + 1}.csv")
        pacsv.write_csv(pa.table(arrays), files[-1])
        entity = pa.array(person[rows])
        truths.append(
            pa.table({"database": pa.array([f"db{d + 1}"] * len(rows)), "record_id": record_id, "entity": entity})
        )
    pacsv.write_csv(pa.concat_tables(truths), directory / "truth.csv")
    return files, directory / "truth.csv"


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--entities", type=int, help="people (default: four fifths of the records)")
    parser.add_argument("--databases", type=int, default=2)
    parser.add_argument("--noise", type=float, default=1.0, help="multiplies every error's chance")
    parser.add_argument("--within", type=float, default=0.1, help="chance of a further record in the same database")
    parser.add_argument("--max-cluster", type=int, default=6, help="most records of a person")
    parser.add_argument("--birth-years", type=int, nargs=2, default=(1925, 2005))
    parser.add_argument("--split-date", action="store_true", help="birth year, month and day in columns of their own")
    parser.add_argument("--categorical", action="store_true", help="only sex, birth date in parts, office and state")
    parser.add_argument("--seed", type=int, default=1)
    given = vars(parser.parse_args())
    out = given.pop("out")
    given["entities"] = given["entities"] or round(given["records"] * 0.8)
    given["birth_years"] = tuple(given["birth_years"])
    files, truth = generate(out, Options(**given))
    print(*files, truth, sep="\n")


if __name__ == "__main__":
    main()
