"""Fixtures for all tests: seeded random numbers, public data sets as CSV files, the installed command."""

from __future__ import annotations

import shutil
import sysconfig

import numpy as np
import pytest

from benchmarks.sets import SETS, DataSet


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
