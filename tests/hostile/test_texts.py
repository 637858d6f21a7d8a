"""Delimited text as it should not be: read without losing a row, or refused in two lines."""

from __future__ import annotations

import csv
import io
import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.hostile.command import Ended, Result, merge
from tests.hostile.texts import MAKERS

LITERAL = ("--K", "50", "--no-moves")
CASES = [(name, seed) for name, (_, count) in MAKERS.items() for seed in range(count)]


def counted_by_csv_module(data: bytes, stored: dict[str, object]) -> int | None:
    """Rows of a text in the dialect that was found, as Python's own parser counts them; None where it is compressed."""
    if stored["compression"] != "none":
        return None
    decoded = data.decode(str(stored["encoding"])).removeprefix("\ufeff")
    if decoded.lstrip().startswith("sep="):
        decoded = decoded.split("\n", 1)[1]
    reader = csv.reader(
        io.StringIO(decoded, newline=""), delimiter=str(stored["delimiter"]), quotechar=str(stored["quote"])
    )
    rows = list(reader)
    width = max(map(len, rows))
    return len([row for row in rows if row or width == 1]) - bool(stored["header"])


@pytest.mark.parametrize(("name", "seed"), CASES, ids=[f"{name}-{seed}" for name, seed in CASES])
def test_a_damaged_text(name: str, seed: int, tmp_path: Path) -> None:
    maker, _ = MAKERS[name]
    case = maker(np.random.default_rng([seed, zlib.crc32(name.encode())]))
    file = tmp_path / f"db{case.suffix}"
    file.write_bytes(case.data)
    # the first of each kind takes the long way, with candidates and moves
    ended = merge(tmp_path, file, *(LITERAL if seed else ()))
    if isinstance(ended, Ended):
        assert not case.rows, ended.err
        return
    assert case.rows != 0, "this file should have been refused"
    assert_every_row_is_there(ended, case.data, case.rows)


def assert_every_row_is_there(result: Result, data: bytes, rows: int | None) -> None:
    (stored,) = result.summary["inputs"]
    n_rows = pq.read_metadata(result.path / "assignments.parquet").num_rows
    assert rows is None or n_rows == rows
    counted = counted_by_csv_module(data, stored["format"])
    assert counted is None or n_rows == counted
