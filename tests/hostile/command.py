"""The command in this process: what it printed, what it left behind, and whether that is how it should end."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from vber_cli.cli.app import main

LIMIT_SECONDS = 60
REFUSED = (2, 3, 4, 5)
UNCONVERGED = 6  # the results are written


class HungError(BaseException):
    """A run took too long; not an Exception, so that nothing on the way takes it for one of its own."""


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


@contextmanager
def at_most(seconds: int = LIMIT_SECONDS) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Run `vber` with these arguments, for a minute at most."""
    out, err = io.BytesIO(), io.StringIO()
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    sys.stdout = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
    sys.stderr = err
    try:
        with at_most():
            code = main([os.fspath(argument) for argument in arguments])
        sys.stdout.flush()
        return Ended(code, out.getvalue().decode("utf-8"), err.getvalue())
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams


def printable(text: str) -> bool:
    """Whether a text holds nothing that could steer a terminal."""
    return all(character.isprintable() or character == "\n" for character in text)


def assert_refused(ended: Ended, *codes: int) -> None:
    """Two lines, one of the codes for what a user can cause, and nothing that steers a terminal."""
    assert ended.code in (codes or REFUSED), ended.err
    assert len(ended.err.split("\n")) == 3, ended.err
    assert ended.err.startswith("error: "), ended.err
    assert all(10 < len(line) < 2000 for line in ended.lines), ended.err
    assert "Traceback" not in ended.err
    assert printable(ended.err), repr(ended.err)
    assert ended.out == ""


@dataclass(frozen=True)
class Result:
    """A result directory that has been looked over."""

    path: Path

    def column(self, table: str, name: str) -> list[Any]:
        values: list[Any] = pq.read_table(self.path / f"{table}.parquet").column(name).to_pylist()
        return values

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
        return found


def assert_sound(path: Path) -> Result:
    """Check what holds for every result: no record lost, probabilities that are some, sums of 1, finite numbers."""
    result = Result(path)
    summary = result.summary
    n_records = sum(item["n_records"] for item in summary["inputs"])
    assignments = pq.read_table(path / "assignments.parquet")
    assert assignments.num_rows == n_records
    for table in ("assignments", "links", "individuals", "phi", "lambda", "trace"):
        file = path / f"{table}.parquet"
        if file.exists() or table != "links":  # the literal updates compare no pairs
            _assert_numbers(table, pq.read_table(file))
    phi = pq.read_table(path / "phi.parquet")
    database = np.asarray(phi.column("database").to_pylist(), dtype=object)
    rows = np.array([f"{d}\0{r}" for d, r in zip(database, phi.column("row").to_pylist(), strict=True)], dtype=object)
    _, place = np.unique(rows, return_inverse=True)
    total = np.bincount(place, weights=phi.column("phi").to_numpy())
    assert total.max() < 1 + 1e-6
    if summary["options"]["phi_min"] <= 1e-6:
        assert len(total) == n_records
        # what is missing is what the summary says was left out, no more and no less
        left_out = summary["phi"]["left_out_mass"]
        assert abs((1.0 - total).sum() - left_out) < 1e-9 * n_records
        assert (1.0 - total).max() <= left_out + 1e-9
    n, k = summary["n"], summary["K"]
    assert 1 - 1e-9 <= n["mean"] <= n_records + 1e-9, n
    assert n["mean"] <= k["mean"] + 1e-6, (n, k)
    if n["low"] is not None:  # the literal updates draw nothing, and so have no interval
        assert 1 - 1e-9 <= n["low"] <= n["high"] <= n_records + 1e-9, n
        assert k["low"] is None or k["low"] <= k["high"], k
    _assert_finite(summary)
    return result


def _assert_numbers(name: str, table: Any) -> None:
    for column in table.column_names:
        array = table.column(column).combine_chunks()
        if str(array.type) != "double":
            continue
        numbers = np.asarray(array.drop_null(), dtype=float)
        assert np.isfinite(numbers).all(), (name, column)
        if column.endswith(("probability", "phi", "confidence")):
            assert (numbers >= 0).all(), (name, column)
            assert (numbers <= 1 + 1e-9).all(), (name, column)


def _assert_finite(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _assert_finite(item)
    elif isinstance(value, list):
        for item in value:
            _assert_finite(item)
    elif isinstance(value, float):
        assert np.isfinite(value)


def merge(folder: Path, *arguments: str | Path, stdin: bytes = b"") -> Result | Ended:
    """Merge into folder/out: a sound result, or a plain refusal that leaves nothing behind."""
    out = folder / "out"
    before = set(folder.iterdir())
    ended = run("merge", "-q", *arguments, "-o", out, stdin=stdin)
    if ended.code in (0, UNCONVERGED):
        assert (ended.out, ended.err) == ("", "")
        assert set(folder.iterdir()) - before == {out}
        return assert_sound(out)
    assert_refused(ended)
    assert set(folder.iterdir()) == before
    return ended
