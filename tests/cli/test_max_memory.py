"""A merge within less memory than it would take: the same results, for the rest of it lives on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.generate import Options, generate

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what is too much lives on the disk on Linux"
)
TABLES = ("phi", "lambda", "assignments", "individuals", "links", "records")


def test_the_same_tables_within_less_memory(vber: str, tmp_path: Path) -> None:
    files = list(
        map(str, generate(tmp_path / "data", Options(records=40_000, entities=32_000, databases=2, seed=3))[0])
    )
    told = {}
    for name, limit in (("free", []), ("held", ["--max-memory", "430M"])):
        done = subprocess.run(
            [vber, "merge", *files, "--out", name, *limit], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        told[name] = done.stderr
    assert "lives in a file beside the results" in told["held"]
    assert "lives in a file" not in told["free"]
    for table in TABLES:
        free, held = (pq.read_table(tmp_path / name / f"{table}.parquet") for name in ("free", "held"))
        assert held.equals(free), table
    free, held = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("free", "held"))
    assert held["peak_memory_bytes"] < free["peak_memory_bytes"]
    assert {path.name for path in tmp_path.iterdir()} == {"data", "free", "held"}


def test_too_little_even_so(vber: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,year\nAnn,1990\nBob,1991\n")
    done = subprocess.run(
        [vber, "merge", "a.csv", "--max-memory", "100M"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 5
    first, second = done.stderr.splitlines()[-2:]
    assert first.startswith("error: ")
    assert "of --max-memory" in first
    assert second.startswith("Raise --max-memory")
    assert not (tmp_path / "vber-out").exists()
