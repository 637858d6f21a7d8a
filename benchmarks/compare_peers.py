#!/usr/bin/env python3
"""Measure `vber merge FILES` beside other tools: `python benchmarks/compare_peers.py` writes peers.md.

Each tool is a process of its own, from CSV files to clusters on disk; all take turns within a round, so that a machine
that slows down slows all of them, and the medians of the rounds are compared. vber writes all its tables. Kernels are
compiled before. `--only NAME` runs one set, `--rounds N` so many rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# this folder holds a `coverage` of its own
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.run import Run, machine, measure  # noqa: E402
from benchmarks.sets import SETS, DataSet, MissingPackageError  # noqa: E402
from vber_cli.results.metrics import Score, evaluate_partition  # noqa: E402

LIMIT = 1800.0  # seconds of one process
CASES: Mapping[str, tuple[str, ...]] = {
    "rldata10000": ("recordlinkage_ecm",),
    "people100k": ("splink_people", "io_floor"),
    "people1m": ("splink_people", "io_floor"),
}
HEAD = "vber beside other tools, taking turns on one machine; made by `python benchmarks/compare_peers.py`.\n\n"
COLUMNS = "set tool seconds ratio MiB precision recall F1".split(" ")


def clusters_of_vber(result: Path) -> pd.DataFrame:
    """rec_id and cluster of every record of a result."""
    table = pd.read_parquet(result / "assignments.parquet", columns=["record_id", "individual"])
    return table.rename(columns={"record_id": "rec_id", "individual": "cluster"}).astype(str)


def pairwise(clusters: pd.DataFrame, truth: Path) -> Score:
    """Scores over pairs of records; a record without a cluster stands alone."""
    known = pd.read_csv(truth, dtype=str)[["record_id", "entity"]]
    both = known.merge(clusters.astype({"rec_id": str}), how="left", left_on="record_id", right_on="rec_id")
    found = both["cluster"].astype(str).where(both["cluster"].notna(), "alone " + both["record_id"])
    return evaluate_partition(pd.factorize(found)[0], pd.factorize(both["entity"])[0]).pairwise


def compared(vber: str, data: DataSet, tools: Sequence[str], folder: Path, n_rounds: int) -> list[dict[str, object]]:
    """Run vber and the tools in turn; one row for each."""
    files = [str(file) for file in data.files]
    commands = {"vber": [vber, "merge", *files, "--out", str(folder / "vber"), "--force", "-q"]}
    for tool in tools:
        out = str(folder / f"{tool}.parquet")
        commands[tool] = [sys.executable, str(HERE / "peers" / f"{tool}.py"), *files, out]
    runs: dict[str, list[Run]] = {tool: [] for tool in commands}
    for _ in range(n_rounds):
        for tool, command in commands.items():
            run = measure(command, LIMIT)
            if run.code != 0:
                raise SystemExit(f"{tool}: exit code {run.code}: {run.error}")
            runs[tool].append(run)
    rows: list[dict[str, object]] = []
    for tool, done in runs.items():
        row: dict[str, object] = {
            "tool": tool,
            "seconds": statistics.median(run.seconds for run in done),
            "mebibytes": statistics.median(run.mebibytes for run in done),
        }
        if tool != "io_floor":
            found = clusters_of_vber(folder / "vber") if tool == "vber" else pd.read_parquet(folder / f"{tool}.parquet")
            score = pairwise(found, data.truth)
            row["precision"], row["recall"], row["f1"] = score.precision, score.recall, score.f1
        rows.append(row)
    return rows


def table_row(case: str, row: Mapping[str, object], own: float) -> str:
    """One line of the table; `own` are vber's seconds."""
    seconds = row["seconds"]
    assert isinstance(seconds, float)
    scores = [f"{row[key]:.4f}" if key in row else "–" for key in ("precision", "recall", "f1")]
    cells = [case, row["tool"], f"{seconds:.2f}", f"{seconds / own:.2f}", f"{row['mebibytes']:,.0f}", *scores]
    return "| " + " | ".join(map(str, cells)) + " |"


def report(lines: Sequence[str]) -> str:
    """Return the table as Markdown."""
    head = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    return "\n".join([*head, *lines]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run all sets, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="run this set and print its lines")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all tools (default 3)")
    chosen = parser.parse_args(arguments)
    vber = shutil.which("vber", path=sysconfig.get_path("scripts"))
    if vber is None:
        print("the command is not installed: pip install -e '.[bench]'", file=sys.stderr)
        return 2
    lines: list[str] = []
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    with tempfile.TemporaryDirectory() as name:
        sample = ["--config", str(ROOT / "sample_data" / "vber.toml"), "--out", str(Path(name) / "warm"), "-q"]
        subprocess.run([vber, "merge", *sample], cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        for case in [chosen.only] if chosen.only else CASES:
            folder = Path(name) / case
            try:
                data = SETS[case](folder / "data")
            except MissingPackageError as error:
                print(f"{case}: skipped, {error}", file=sys.stderr)
                continue
            rows = compared(vber, data, CASES[case], folder, chosen.rounds)
            own = rows[0]["seconds"]
            assert isinstance(own, float)
            lines += [table_row(case, row, own) for row in rows]
            if not chosen.only:  # a run that is stopped keeps what it has
                (HERE / "peers.md").write_text(f"{HEAD}{about}\n\n{report(lines)}", encoding="utf-8")
            shutil.rmtree(folder)
    print(report(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
