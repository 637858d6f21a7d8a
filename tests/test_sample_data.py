"""The sample databases: made by their script, as described, and merged by their configuration."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vber_cli.config import MergeOptions, read_toml

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample_data"
TEXT_FILES = ("clinic.csv", "police.tsv", "truth.csv")


@pytest.fixture(scope="module")
def remade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sample")
    subprocess.run([sys.executable, str(SAMPLE / "make_sample.py"), str(directory)], check=True)
    return directory


@pytest.mark.parametrize("name", TEXT_FILES)
def test_text_files_come_from_the_script(remade: Path, name: str) -> None:
    assert (remade / name).read_bytes() == (SAMPLE / name).read_bytes()


def test_parquet_file_comes_from_the_script(remade: Path) -> None:
    committed, made = SAMPLE / "registry.parquet", remade / "registry.parquet"
    assert pq.read_table(made).equals(pq.read_table(committed))
    # Other versions of pyarrow write the same table in other bytes.
    if pq.read_metadata(committed).created_by == pq.read_metadata(made).created_by:
        assert made.read_bytes() == committed.read_bytes()


def test_truth_names_every_record_once() -> None:
    with (SAMPLE / "truth.csv").open(newline="", encoding="utf-8") as file:
        truth = [(row["database"], row["record_id"]) for row in csv.DictReader(file)]
    ids = []
    for name, delimiter, column in (("clinic.csv", ",", "record_id"), ("police.tsv", "\t", "case_no")):
        with (SAMPLE / name).open(newline="", encoding="utf-8") as file:
            ids += [(name.split(".")[0], row[column]) for row in csv.DictReader(file, delimiter=delimiter)]
    registry = pq.read_table(SAMPLE / "registry.parquet", columns=["registry_id"])["registry_id"]
    ids += [("registry", text) for text in registry.cast(pa.string()).to_pylist()]
    assert len(set(truth)) == len(truth)
    assert sorted(truth) == sorted(ids)


def test_configuration_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    options = MergeOptions.layered(read_toml(str(SAMPLE / "vber.toml")), {})
    assert [Path(name).name for name in options.files] == ["clinic.csv", "police.tsv", "registry.parquet"]
    assert all(Path(name).is_file() for name in options.files)
    assert len(options.fields) == 6


def test_configuration_runs(vber: str, tmp_path: Path) -> None:
    out = tmp_path / "merged"
    command = [vber, "merge", "--config", "sample_data/vber.toml", "--out", str(out), "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assignments = pq.read_table(out / "assignments.parquet")
    assert assignments.num_rows == 541
    shown = subprocess.run(
        [sys.executable, str(SAMPLE / "show.py"), str(out)], capture_output=True, text=True, check=True
    ).stdout
    assert "individuals.parquet" in shown
    assert "assignments.parquet: 541 rows" in shown
