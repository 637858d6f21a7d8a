"""Fixtures for all tests: seeded random numbers, public data sets as CSV files, the installed command."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from benchmarks.generate import Options, generate
from benchmarks.sets import SETS, DataSet

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A seeded generator; `@pytest.mark.parametrize("rng", [1, 2], indirect=True)` gives other seeds."""
    return np.random.default_rng(getattr(request, "param", 20140))


@pytest.fixture(scope="session")
def febrl4(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """Febrl's set 4: two files of 5,000 records, of the same 5,000 people, without the national id."""
    return SETS["febrl4"](tmp_path_factory.mktemp("febrl4"))


@pytest.fixture(scope="session")
def rldata500(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """RLdata500: one file of 500 records of 450 people, in seven categorical fields."""
    return SETS["rldata500"](tmp_path_factory.mktemp("rldata500"))


@pytest.fixture(scope="session")
def vber() -> str:
    """Path of the installed command, for tests that run it as a user does."""
    found = shutil.which("vber", path=sysconfig.get_path("scripts"))
    assert found, "the command is not installed: pip install -e ."
    return found


@pytest.fixture(scope="session")
def sample_result(vber: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of merging the sample databases."""
    return _merged(vber, tmp_path_factory, "--config", "sample_data/vber.toml")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Three generated databases with noise of several kinds, and their truth."""
    options = Options(records=2400, entities=1500, databases=3, noise=1.5, seed=5)
    return generate(tmp_path_factory.mktemp("generated"), options)


@pytest.fixture(scope="session")
def generated_result(vber: str, generated: tuple[list[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of merging them, with every pair listed whose probability is above one in a million."""
    return _merged(vber, tmp_path_factory, *map(str, generated[0]), "--link-min", "1e-6")


@pytest.fixture(scope="session")
def literal_result(vber: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of the literal updates on the sample databases, without the values of the records."""
    literal = ("--config", "sample_data/vber.toml", "--K", "300", "--no-moves", "--no-records")
    return _merged(vber, tmp_path_factory, *literal)


def _merged(vber: str, folder: pytest.TempPathFactory, *arguments: str) -> Path:
    out = folder.mktemp("merged") / "out"
    subprocess.run([vber, "merge", *arguments, "-q", "--out", str(out)], cwd=ROOT, check=True)
    return out
