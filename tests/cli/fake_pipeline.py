"""A pipeline that does what its environment says, so that the command line is tested apart from the engine.

Run as a script it is the command `vber` on top of this pipeline.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import time
import types
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vber_cli.errors import InputError

N_ROWS = 50_000


@dataclass
class Outcome:
    directory: Path
    summary: dict
    converged: bool
    out_of_time: bool = False
    checkpoint: str | None = None


def write_result(directory: Path, n_rows: int = N_ROWS) -> None:
    directory.mkdir(parents=True)
    row = pa.array(range(n_rows), pa.int64())
    table = pa.table(
        {
            "database": pa.array(["clinic"] * n_rows).dictionary_encode(),
            "row": row,
            "record_id": row.cast(pa.string()),
            "individual": row,
        }
    )
    pq.write_table(table, directory / "assignments.parquet")


def run_merge(options, progress, *, stdin, checkpoints=True):  # noqa: ARG001
    fate = os.environ.get("FAKE_FATE", "good")
    with progress.phase("read", 1) as phase:
        phase.advance()
    progress.note("column id is the record id")
    progress.warn("something odd")
    errors = {
        "input": InputError("a.csv: line 3 has 2 cells, the header has 3", "Quote the cell\nor repair it"),
        "full": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/results/phi.parquet"),
        "denied": PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/results"),
        "memory": MemoryError(),
        "bug": ZeroDivisionError("division by zero"),
    }
    if fate in errors:
        raise errors[fate]
    if fate == "slow":
        with tempfile.TemporaryDirectory(dir=".", prefix="half-") as half:
            print(half, flush=True)
            time.sleep(60)
    if "-" in options.files:
        stdin.read()
    write_result(Path(options.out))
    summary = {
        "inputs": [{"n_records": 1200}, {"n_records": 34}],
        "n": {"mean": 1000.4, "low": 990, "high": 1010},
        "n_links": 77,
        "warnings": ["something odd"],
    }
    return Outcome(Path(options.out), summary, fate != "unconverged", fate == "late", "c" if fate == "late" else None)


if __name__ == "__main__":
    module = types.ModuleType("vber_cli.pipeline")
    module.run_merge = run_merge
    sys.modules["vber_cli.pipeline"] = module
    from vber_cli.cli.app import main

    sys.exit(main())
