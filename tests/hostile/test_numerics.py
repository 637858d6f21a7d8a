"""Data at the edges of the model: every probability stays one, every sum 1, every bound finite, and n within reason."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile.command import Ended, Result, merge, run

Table = dict[str, list[object]]
N = 12


def _names(n: int) -> list[object]:
    return [f"name{i % (n // 2 + 1)}" for i in range(n)]


def one_value(_rng: np.random.Generator) -> Table:
    return {"same": ["x"] * N, "name": _names(N)}


def only_one_value(_rng: np.random.Generator) -> Table:
    return {"same": ["x"] * N}


def as_many_values_as_records(_rng: np.random.Generator) -> Table:
    return {"number": [f"v{i:03}" for i in range(N)], "name": _names(N)}


def all_identical(_rng: np.random.Generator) -> Table:
    return {"a": ["anna"] * N, "b": ["ulm"] * N, "c": ["1999-01-02"] * N}


def all_distinct(rng: np.random.Generator) -> Table:
    return {f"f{j}": [f"{rng.integers(1 << 60):x}" for _ in range(N)] for j in range(3)}


def a_field_without_values(_rng: np.random.Generator) -> Table:
    return {"void": [None] * N, "name": _names(N), "town": ["ulm", "bonn"] * (N // 2)}


def records_without_values(_rng: np.random.Generator) -> Table:
    return {name: [value if i % 3 else None for i, value in enumerate(_names(N))] for name in ("a", "b")}


def nearly_all_missing(_rng: np.random.Generator) -> Table:
    return {f"f{j}": ["x" if i == j else None for i in range(N)] for j in range(4)}


def one_record(_rng: np.random.Generator) -> Table:
    return {"name": ["anna"], "town": ["ulm"]}


def two_records(_rng: np.random.Generator) -> Table:
    return {"name": ["anna", "anna"], "town": ["ulm", None]}


def long_numbers(_rng: np.random.Generator) -> Table:
    return {"number": [f"{10**19 + i // 2}" for i in range(N)], "other": [f"-{9**21 + i}.{i:020}" for i in range(N)]}


def huge_and_tiny_numbers(_rng: np.random.Generator) -> Table:
    return {"number": [f"{i % 7}e{300 * (-1) ** i}" for i in range(N)], "name": _names(N)}


def no_numbers(_rng: np.random.Generator) -> Table:
    return {"number": [float("nan"), float("inf"), -float("inf"), 1.5, None, 2.5] * (N // 6), "name": _names(N)}


def decimals(_rng: np.random.Generator) -> Table:
    return {"price": [decimal.Decimal(f"{i // 2}.30") for i in range(N)], "name": _names(N)}


def booleans(_rng: np.random.Generator) -> Table:
    return {"yes": [True, False, None] * (N // 3), "name": _names(N)}


def moments(_rng: np.random.Generator) -> Table:
    return {"at": [datetime(2001, 2, 1 + i // 2, 3, 4, 5, tzinfo=timezone.utc) for i in range(N)], "name": _names(N)}


def impossible_dates(_rng: np.random.Generator) -> Table:
    return {
        "born": [f"{i % 40:02}/{i % 14:02}/{1900 + i}" for i in range(N)],
        "also": ["0000-00-00", "9999-99-99"] * (N // 2),
    }


def many_fields(rng: np.random.Generator) -> Table:
    return {f"f{j}": [f"v{value}" for value in rng.integers(0, 4, 4)] for j in range(2000)}


MAKERS: list[Callable[[np.random.Generator], Table]] = [
    one_value,
    only_one_value,
    as_many_values_as_records,
    all_identical,
    all_distinct,
    a_field_without_values,
    records_without_values,
    nearly_all_missing,
    one_record,
    two_records,
    long_numbers,
    huge_and_tiny_numbers,
    no_numbers,
    decimals,
    booleans,
    moments,
    impossible_dates,
]
SETTINGS: dict[str, tuple[str, ...]] = {
    "K learned": (),
    "K = 1": ("--K", "1"),
    "K = N": ("--K", str(N)),
    "K >> N": ("--K", "1000000000000"),
    "clean": ("--concentration", "1e-8"),
    "noisy": ("--concentration", "1e8"),
    "uniform": ("--prior", "uniform"),
    "independent": ("--independent",),
    "literal": ("--K", str(N), "--no-moves"),
    "literal, K = 1": ("--K", "1", "--no-moves"),
    "literal, K >> N": ("--K", "1000000000000", "--no-moves"),
    "literal, clean": ("--K", "40", "--no-moves", "--concentration", "1e-8"),
    "literal, noisy": ("--K", "40", "--no-moves", "--concentration", "1e8"),
    "literal, random": ("--K", "7", "--no-moves", "--start", "random"),
}


def merged(folder: Path, table: Table, *options: str) -> Result:
    pq.write_table(pa.table(table), folder / "db.parquet")
    ended = merge(folder, folder / "db.parquet", *options)
    assert isinstance(ended, Result), ended.err
    return ended


def _cases() -> list[tuple[Callable[[np.random.Generator], Table], str]]:
    """Every data set with K learned and with the literal updates, and with three of the other settings in turn."""
    others = [name for name in SETTINGS if name not in {"K learned", "literal"}]
    turns = [(maker, others[(3 * i + j) % len(others)]) for i, maker in enumerate(MAKERS) for j in range(3)]
    return [(maker, name) for maker in MAKERS for name in ("K learned", "literal")] + turns


CASES = _cases()


@pytest.mark.parametrize(
    ("maker", "settings"), CASES, ids=[f"{maker.__name__}-{settings}" for maker, settings in CASES]
)
def test_the_edges_of_the_model(
    maker: Callable[[np.random.Generator], Table], settings: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    options = SETTINGS[settings]
    table = maker(rng)
    result = merged(tmp_path, table, *options)
    n_records = len(next(iter(table.values())))
    assert len(result.column("assignments", "individual")) == n_records
    bound = np.array(result.column("trace", "bound"))
    assert np.isfinite(bound).all()
    if "--no-moves" not in options:
        assert (np.diff(bound) >= -1e-7 * np.abs(bound[1:]) - 1e-9).all()
    if "--K" in options:
        # a record without any value tells of nobody, and stands alone in the tables
        blank = np.array([all(value is None for value in row) for row in zip(*table.values(), strict=True)])
        individual = np.array(result.column("assignments", "individual"))
        assert len(np.unique(individual[~blank])) <= int(options[1])
    ended = run("check", tmp_path / "out")
    assert ended.code == 0, ended.err


def test_identical_records_are_one_and_distinct_ones_are_not(rng: np.random.Generator, tmp_path: Path) -> None:
    table = {name: [f"{name}{i // 2}q{i // 2 * 7919 % 101}" for i in range(N)] for name in ("first", "last", "town")}
    result = merged(tmp_path, table)
    individual = np.array(result.column("assignments", "individual"))
    assert (individual[::2] == individual[1::2]).all()
    assert len(set(individual)) == N // 2
    (tmp_path / "b").mkdir()
    assert len(set(merged(tmp_path / "b", all_distinct(rng)).column("assignments", "individual"))) == N


@pytest.mark.parametrize("options", [("--independent",), ("--K", "8", "--no-moves")], ids=["moves", "literal"])
def test_two_thousand_fields(options: tuple[str, ...], rng: np.random.Generator, tmp_path: Path) -> None:
    result = merged(tmp_path, many_fields(rng), *options)
    assert len(result.summary["fields"]) == 2000


def test_nested_columns_are_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a", "b"], "list": [[1], [2]]}), tmp_path / "db.parquet")
    ended = merge(tmp_path, tmp_path / "db.parquet")
    assert isinstance(ended, Ended)
    assert ended.code == 3
    assert "column 'list' holds nested values" in ended.err
    assert "--exclude list" in ended.err
    assert isinstance(merge(tmp_path, tmp_path / "db.parquet", "--exclude", "list"), Result)
