"""`vber merge` from files to files: the installed command on public data, its tables against the inputs."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from benchmarks.sets import DataSet
from tests.cli.merging import (
    Merged,
    as_read,
    check_individuals,
    check_lambda,
    check_links,
    check_phi,
    check_trace,
    merge,
    partition,
    rows_of,
    subset,
    write_rows,
)

TABLES = ("assignments", "individuals", "lambda", "phi", "records", "similar", "trace", "values")
FIXED_KEYS = {
    "n": {"mean", "low", "high"},
    "K": {"mean", "low", "high"},
    "expected": {"precision", "recall", "f1"},
    "candidates": {"pairs", "recall", "recall_low", "recall_high", "phi_outside"},
    "bound": {"elbo", "bound", "sweeps", "converged"},
}
N_PEOPLE = 400


def number_of(record_id: str) -> int:
    """The person's number in a record id of Febrl, rec-123-org."""
    return int(record_id.split("-")[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("merge")


@pytest.fixture(scope="module")
def literal(vber: str, febrl4: DataSet, folder: Path) -> Merged:
    """The paper's two updates on 10,000 records."""
    return merge(vber, folder / "literal", *febrl4.files, "--K", "5000", "--no-moves")


@pytest.fixture(scope="module")
def small(febrl4: DataSet, folder: Path) -> list[Path]:
    """Both records of the first people of Febrl's set 4."""
    return subset(febrl4.files, folder / "small", lambda record_id: number_of(record_id) < N_PEOPLE)


@pytest.fixture(scope="module")
def two_lists(vber: str, small: list[Path], folder: Path) -> Merged:
    """Two databases with default options."""
    return merge(vber, folder / "two", *small, "--threads", "1")


@pytest.fixture(scope="module")
def one_list(vber: str, rldata500: DataSet, folder: Path) -> Merged:
    """One database with default options."""
    return merge(vber, folder / "one", *rldata500.files)


def test_the_literal_updates(literal: Merged, febrl4: DataSet) -> None:
    assert {path.name for path in literal.directory.iterdir()} == {
        "model.json",
        "summary.json",
        *(f"{name}.parquet" for name in TABLES),
    }
    check_phi(literal, febrl4.n_records)
    check_lambda(literal, febrl4.files, as_read)
    check_trace(literal)
    check_individuals(literal, febrl4.n_records)
    assert set(literal.table("trace")["kind"]) == {"sweep"}
    assert literal.summary["K"]["mean"] == 5000


def test_the_literal_updates_with_many_unoccupied_individuals(vber: str, small: list[Path], tmp_path: Path) -> None:
    # two records of nobody: no value at all, spread over all individuals
    header, rows = rows_of(small[0])
    blank = [["blank-1", *[""] * (len(header) - 1)], ["blank-2", *[""] * (len(header) - 1)]]
    files = [write_rows(tmp_path / "a" / small[0].name, header, [*rows, *blank]), small[1]]
    merged = merge(vber, tmp_path / "out", *files, "--K", "3000", "--no-moves", "--start", "random")
    n_records = sum(len(rows_of(file)[1]) for file in files)
    check_phi(merged, n_records)
    check_lambda(merged, files, as_read)
    check_trace(merged)
    check_individuals(merged, n_records)
    phi = merged.table("phi")
    of_blank = phi[phi["record_id"].str.startswith("blank")]
    assert of_blank["individual"].isna().all()


def check_default(merged: Merged, files: list[Path] | tuple[Path, ...]) -> None:
    n_records = sum(len(rows_of(file)[1]) for file in files)
    assert {f"{name}.parquet" for name in (*TABLES, "links")} < {path.name for path in merged.directory.iterdir()}
    check_phi(merged, n_records)
    check_lambda(merged, files)
    check_trace(merged)
    check_individuals(merged, n_records)
    check_links(merged)
    summary = merged.summary
    for key, inner in FIXED_KEYS.items():
        assert inner <= set(summary[key]), key
    for key in ("inputs", "options", "versions", "fields", "seconds", "peak_memory_bytes", "warnings"):
        assert key in summary
    for key in ("n", "K"):
        # the ends of an interval are whole numbers
        assert summary[key]["low"] - 0.5 <= summary[key]["mean"] <= summary[key]["high"] + 0.5
    assert summary["n"]["high"] <= n_records
    assert 0.0 <= summary["candidates"]["recall_low"] <= summary["candidates"]["recall"] <= 1.0
    assert all(0.0 <= value <= 1.0 for value in summary["expected"].values())


def test_two_lists_by_default(two_lists: Merged, small: list[Path]) -> None:
    check_default(two_lists, small)
    n_true = len({number_of(row[0]) for file in small for row in rows_of(file)[1]})
    assert len(two_lists.table("individuals")) == pytest.approx(n_true, rel=0.01)


def test_one_list_by_default(one_list: Merged, rldata500: DataSet) -> None:
    check_default(one_list, rldata500.files)
    assert len(one_list.table("individuals")) == pytest.approx(rldata500.n_entities, rel=0.02)


def test_every_reader_opens_the_tables(two_lists: Merged) -> None:
    facts = ("version", "seed", "config_digest", "input_digests")
    for path in sorted(two_lists.directory.glob("*.parquet")):
        read = parquet.read_table(path)
        assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{path}')").fetchall() == [(len(read),)]
        assert pd.read_parquet(path).shape == read.shape
        metadata = {key.decode() for key in read.schema.metadata}
        assert all(any(fact in key for key in metadata) for fact in facts), metadata
    query = f"""
        SELECT count(*) FROM '{two_lists.directory}/assignments.parquet' a
        JOIN '{two_lists.directory}/individuals.parquet' i USING (individual)
    """
    assert duckdb.sql(query).fetchall() == [(len(two_lists.table("assignments")),)]


def without_seconds(table: pa.Table) -> pa.Table:
    return table.drop_columns([name for name in table.column_names if name == "seconds"])


def test_threads_change_no_bit(vber: str, small: list[Path], two_lists: Merged, tmp_path: Path) -> None:
    other = merge(vber, tmp_path / "out", *small, "--threads", "2")
    for name in (*TABLES, "links"):
        one, two = (parquet.read_table(run.directory / f"{name}.parquet") for run in (two_lists, other))
        assert without_seconds(one).equals(without_seconds(two)), name
    assert two_lists.summary["config_digest"] == other.summary["config_digest"]


def test_the_order_of_rows_and_files_changes_no_partition(
    vber: str, small: list[Path], two_lists: Merged, tmp_path: Path
) -> None:
    files = []
    for file in small:
        header, rows = rows_of(file)
        random.Random(3).shuffle(rows)
        files.append(write_rows(tmp_path / file.name, header, rows))
    other = merge(vber, tmp_path / "out", *reversed(files))
    assert partition(other) == partition(two_lists)


def test_a_pipe_from_and_to_other_programs(vber: str, small: list[Path], tmp_path: Path) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.parquet"
    shutil.copy(small[0], a)
    text = arrow_csv.ConvertOptions(column_types=dict.fromkeys(rows_of(small[1])[0], pa.string()))
    parquet.write_table(arrow_csv.read_csv(small[1], convert_options=text), b)
    command = (
        f"cat a.csv | '{vber}' merge - b.parquet --K 100 --stdout assignments -q | head -n 3; echo ${{PIPESTATUS[@]}}"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    *lines, status = done.stdout.splitlines()
    assert status == "0 0 0", done.stderr
    assert lines[0].startswith("database,row,record_id,individual,probability")
    assert [line.split(",")[:2] for line in lines[1:]] == [["stdin", "0"], ["stdin", "1"]]
    assert done.stderr == ""
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "b.parquet"}


def test_fewer_individuals_than_the_data_show(vber: str, rldata500: DataSet, one_list: Merged, tmp_path: Path) -> None:
    merged = merge(vber, tmp_path / "out", *rldata500.files, "--K", "300")
    assert len(merged.table("individuals")) == 300
    check_phi(merged, rldata500.n_records)
    check_lambda(merged, rldata500.files)
    check_individuals(merged, rldata500.n_records)
    shown = round(one_list.summary["n"]["mean"])
    [warning] = merged.summary["warnings"]
    assert warning in merged.errors
    assert "300" in warning
    named = [int(word.replace(",", "")) for word in warning.split() if word.replace(",", "").isdigit()]
    assert any(abs(number - shown) <= 0.02 * shown for number in named), warning


def test_far_more_individuals_than_records(vber: str, rldata500: DataSet, tmp_path: Path) -> None:
    merged = merge(vber, tmp_path / "out", *rldata500.files, "--K", str(10**12))
    assert len(merged.summary["warnings"]) == 1
    assert "1,000,000,000,000" in merged.errors
    check_phi(merged, rldata500.n_records)
    check_individuals(merged, rldata500.n_records)


def test_the_sample_databases(vber: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [vber, "merge", "--config", "sample_data/vber.toml", "--out", str(tmp_path / "out"), "-q"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    scored = subprocess.run(
        [vber, "evaluate", str(tmp_path / "out"), "sample_data/truth.csv", "--json"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(scored.stdout)["pairwise"]["f1"] > 0.9


def test_databases_of_a_few_rows(vber: str, tmp_path: Path) -> None:
    a = write_rows(tmp_path / "a.csv", ["id", "name", "city"], [["1", "anna", "ulm"], ["2", "bert", "bonn"]])
    b = write_rows(tmp_path / "b.csv", ["id", "name", "city"], [["7", "anna", "ulm"]])
    empty = write_rows(tmp_path / "c.csv", ["id", "name", "city"], [])
    for name, files in {"two": [a, b], "one": [b], "empty": [a, empty]}.items():
        merged = merge(vber, tmp_path / name, *files)
        n_records = sum(len(rows_of(file)[1]) for file in files)
        check_phi(merged, n_records)
        check_lambda(merged, files)
        check_individuals(merged, n_records)
