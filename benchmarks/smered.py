#!/usr/bin/env python3
"""Measure SMERED beside variational Bayes: `python benchmarks/smered.py`, or `--only NAME` for the lines of one set.

On each set, values compared letter for letter: `vber merge --type '*=category'` with K learned and with K = N, and
`vber sample` with K = N, SMERED's own choice, and with the K that the first of these learned. Each run is a process of
its own, from CSV to all results; accuracy is that of `vber evaluate`. Writes benchmarks/smered.json and from it
benchmarks/smered.md; lines of sets that were not run again stay as they are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.run import EXIT_UNCONVERGED, HERE, evaluate, figure, machine, measure  # noqa: E402
from benchmarks.sets import SETS, DataSet, MissingPackageError  # noqa: E402

# iterations of each of two chains; half are burn-in
ITERATIONS = {"rldata500": 20_000, "rldata10000": 8_000, "survey57k": 800}
CHAINS = 2
PAPER_RECORDS, PAPER_ITERATIONS, PAPER_HOURS = 60_000, 1_000_000, 3.5
COLUMNS = (
    "set", "records", "individuals", "run", "K", "n", "n, 90 %", "found", "F1", "seconds", "R-hat", "ESS of n",
    "iterations/s", "moves/s",
)  # fmt: skip


STORED = HERE / "smered.json"


def runs_of(name: str, n_records: int) -> list[tuple[str, list[str]]]:
    """The runs on one set, with their options; LEARNED stands for the K that the first run finds."""
    category = ["--type", "*=category"]
    chains = ["--iterations", str(ITERATIONS[name]), "--chains", str(CHAINS)]
    return [
        ("merge", category),
        ("merge", [*category, "--K", str(n_records)]),
        ("sample", chains),
        ("sample", [*chains, "--K", "LEARNED"]),
    ]


def bench(vber: str, name: str, data: DataSet, scratch: Path, limit: float) -> list[dict[str, object]]:
    """Run every case on one set."""
    rows: list[dict[str, object]] = []
    learned: int | None = None
    for command, options in runs_of(name, data.n_records):
        if learned is None and "LEARNED" in options:
            continue
        given = [str(learned) if word == "LEARNED" else word for word in options]
        result = scratch / "result"
        words = [vber, command, *map(str, data.files), "--out", str(result), "--force", "-q", *given]
        run = measure(words, limit)
        row: dict[str, object] = {
            "set": name, "records": data.n_records, "individuals": data.n_entities,
            "command": " ".join([f"vber {command}", *given]), "seconds": run.seconds,
        }  # fmt: skip
        rows.append(row)
        if run.code not in (0, EXIT_UNCONVERGED):
            row["error"] = f"not done after {limit:.0f} s" if run.code is None else f"exit code {run.code}: {run.error}"
            continue
        summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
        row["summary"] = {name: summary.get(name) for name in ("K", "n", "sampler", "convergence", "fields")}
        row["accuracy"] = evaluate(vber, result, data.truth)
        if len(rows) == 1:
            learned = round(summary["K"]["mean"])
    return rows


def table_row(row: dict[str, object]) -> str:
    """One line of smered.md."""
    head = [str(row["set"]), figure(row["records"], 0), figure(row["individuals"], 0), f"`{row['command']}`"]
    if "error" in row:
        return f"| {' | '.join(head)} | {str(row['error']).splitlines()[0]} |{' |' * (len(COLUMNS) - 5)}"
    summary, accuracy = row["summary"], row["accuracy"]
    assert isinstance(summary, dict)
    assert isinstance(accuracy, dict)
    n, sampler = summary["n"], summary.get("sampler") or {}
    convergence = (summary.get("convergence") or {}).get("n", {})
    cells = [
        figure(summary["K"]["mean"], 0),
        figure(n["mean"], 0),
        f"{figure(n['low'], 0)}–{figure(n['high'], 0)}",
        figure(accuracy.get("individuals", {}).get("found"), 0),
        figure(accuracy.get("pairwise", {}).get("f1"), 3),
        figure(row["seconds"], 1),
        figure(convergence.get("r_hat"), 2),
        figure(convergence.get("effective_sample_size"), 0),
        figure(sampler.get("iterations_per_second"), 1),
        figure(sampler.get("moves_per_second"), 0),
    ]
    return f"| {' | '.join([*head, *cells])} |"


def report(stored: Mapping[str, Any]) -> str:
    """The text of smered.md, from the lines of each set and the machine they were measured on."""
    machines = {
        ", ".join(f"{key} {value}" for key, value in found["machine"].items()): None for found in stored.values()
    }
    paper = PAPER_ITERATIONS / (PAPER_HOURS * 3600)
    return "\n".join(
        [
            "# SMERED beside variational Bayes",
            "",
            "Made by `python benchmarks/smered.py`; whole process, CSV in, all results out, one run each. n is the "
            "posterior mean of the number of recorded individuals with its 90 % interval, found those of the "
            "assignment that is scored (`sample`: by most probable maximal matching sets); F1 over pairs. The rates "
            f"are those of {CHAINS} chains together; half the iterations are burn-in, and an iteration is as many "
            "linkage moves as there are records, then a draw of y, z̃, θ and β̃.",
            "",
            f"The paper reports {PAPER_ITERATIONS:,} iterations of its SMERED in {PAPER_HOURS} hours for "
            f"{PAPER_RECORDS:,} records, which is {paper:.0f} iterations a second; what an iteration comprises there "
            "need not be what it does here, hence the moves a second beside it.",
            "",
            *(f"{line}\n" for line in machines),
            f"| {' | '.join(COLUMNS)} |",
            f"|---|--:|--:|---|{'--:|' * (len(COLUMNS) - 4)}",
            *(table_row(row) for found in stored.values() for row in found["rows"]),
            "",
        ]
    )


def main() -> int:
    """Read the command line, run the cases, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ITERATIONS, metavar="NAME", help="this set; repeatable")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS", help="of one run (default 600)")
    chosen = parser.parse_args()
    vber = shutil.which("vber", path=sysconfig.get_path("scripts"))
    if vber is None:
        print("vber is not installed for this Python: run `make bench`", file=sys.stderr)
        return 1
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    with tempfile.TemporaryDirectory(prefix="vber-bench-") as name:
        scratch = Path(name)
        # the kernels compile in the first run of all; that is not what is measured
        for words in (["merge", "--config", "sample_data/vber.toml"], ["sample", "sample_data/clinic.csv"]):
            subprocess.run([vber, *words, "--out", str(scratch / words[0]), "-q"], cwd=ROOT, check=True)
        for case in chosen.only or ITERATIONS:
            try:
                data = SETS[case](scratch / "data")
            except MissingPackageError as error:
                print(error, file=sys.stderr)
                return 1
            stored[case] = {"machine": machine(), "rows": bench(vber, case, data, scratch, chosen.limit)}
            print(*map(table_row, stored[case]["rows"]), sep="\n", flush=True)
            shutil.rmtree(scratch / "data")
            stored = {set_name: stored[set_name] for set_name in ITERATIONS if set_name in stored}
            STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
            (HERE / "smered.md").write_text(report(stored), encoding="utf-8")
    return 1 if any("error" in row for found in stored.values() for row in found["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
