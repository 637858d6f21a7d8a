#!/usr/bin/env python3
"""Measure the installed `vber merge` on every development set: `make bench`, or `python benchmarks/run.py --only NAME`.

Each run is a process of its own with the default options, from CSV to all results. Reported are the medians of wall
time and peak memory over three runs, and the accuracy by `vber evaluate`, which alone sees the truth. The case `memory`
is 100,000 records with 80,000 individuals by the literal updates. What the candidates miss is told by a further run
that lists them all. Writes benchmarks/results.md and results.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.sets import SETS, DataSet, MissingPackageError, load  # noqa: E402
from vber_cli.running import high_water  # noqa: E402

HERE = ROOT / "benchmarks"
PACKAGES = ("vber", "numpy", "numba", "pyarrow", "scipy")
EXIT_UNCONVERGED = 6
MEMORY_CASE = "memory"
MEMORY_OPTIONS = ("--K", "80000", "--no-moves", "--max-sweeps", "20")
COLUMNS = "set records individuals found n,90% precision recall F1 ECE candidates seconds MiB s/sweep converged".split(
    " "
)
ELSEWHERE = ("censuses", "three-files")  # made in an environment of their own, and given with --data
MOST_LISTED = 100_000  # records, up to which all candidates are listed and looked at
LAST = ("people10k-corrupted", "people1m")  # the longest, so that a small budget still covers the rest


@dataclass(frozen=True)
class Run:
    """One process: exit code (None if stopped), wall seconds, peak resident MiB, end of its standard error."""

    code: int | None
    seconds: float
    mebibytes: float
    error: str


def measure(command: Sequence[str], limit: float) -> Run:
    """Run a command to its end or to a time limit in seconds."""
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        stopped, peak = False, 0  # what its end reports begins with what this process holds
        while True:
            peak = max(peak, high_water(process.pid) or 0)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if not stopped and time.perf_counter() - start > limit:
                process.kill()
                stopped = True
            time.sleep(0.005)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode(errors="replace").strip()[-400:]
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(None if stopped else process.returncode, seconds, peak / 2**20 if peak else usage.ru_maxrss / unit, text)


def evaluate(vber: str, result: Path, truth: Path) -> dict[str, object]:
    """Accuracy of a result as `vber evaluate --json` gives it."""
    done = subprocess.run(
        [vber, "evaluate", str(result), str(truth), "--json"], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}


def share_listed(links: Path, truth: Path) -> float:
    """Share of the pairs of records of one individual that a table of links lists."""
    import pyarrow.parquet as pq

    with truth.open(newline="", encoding="utf-8") as file:
        entity = {(row["database"], row["record_id"]): row["entity"] for row in csv.DictReader(file)}
    listed = pq.read_table(links, columns=["database_a", "id_a", "database_b", "id_b"]).to_pydict()
    ends = [zip(listed[f"database_{end}"], listed[f"id_{end}"], strict=True) for end in "ab"]
    found = sum(entity[one] == entity[other] for one, other in zip(*ends, strict=True))
    sizes = Counter(entity.values()).values()
    return found / max(sum(size * (size - 1) // 2 for size in sizes), 1)


def candidate_recall(vber: str, data: DataSet, result: Path, limit: float) -> float | None:
    """Share of the true pairs that are candidates at all, from a run that lists them all; None if it fails.

    `limit` is in seconds, after which it is stopped.
    """
    command = [vber, "merge", *map(str, data.files), "--out", str(result), "--force", "-q", "--link-min", "0"]
    if measure(command, limit).code not in (0, EXIT_UNCONVERGED):
        return None
    # in a process of its own: what this one holds would count as memory of the commands that it starts
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(share_listed, result / "links.parquet", data.truth).result()


def sweep_seconds(result: Path) -> float | None:
    """Median seconds of a sweep, from the trace."""
    import pyarrow.parquet as pq

    trace = pq.read_table(result / "trace.parquet", columns=["kind", "seconds"]).to_pydict()
    seconds = [s for kind, s in zip(trace["kind"], trace["seconds"], strict=True) if kind == "sweep"]
    return statistics.median(seconds) if seconds else None


def bench(vber: str, name: str, data: DataSet, scratch: Path, n_runs: int, deadline: float) -> dict[str, object]:
    """Run one case several times, and evaluate the last run's result."""
    result = scratch / "result"
    options = MEMORY_OPTIONS if name == MEMORY_CASE else ()
    command = [vber, "merge", *map(str, data.files), "--out", str(result), "--force", "-q", *options]
    row: dict[str, object] = {
        "set": name,
        "command": " ".join(["vber merge", *(path.name for path in data.files), *options]),
        "records": data.n_records,
        "individuals": data.n_entities,
    }
    runs: list[Run] = []
    while len(runs) < n_runs and (not runs or time.monotonic() + runs[-1].seconds < deadline):
        run = measure(command, max(1.0, deadline - time.monotonic()))
        if run.code not in (0, EXIT_UNCONVERGED):
            row["error"] = "out of time" if run.code is None else f"exit code {run.code}: {run.error}"
            return row
        runs.append(run)
    row["runs"] = len(runs)
    row["seconds"] = round(statistics.median(run.seconds for run in runs), 3)
    row["mebibytes"] = round(statistics.median(run.mebibytes for run in runs), 1)
    row["converged"] = runs[-1].code == 0
    row["sweep_seconds"] = sweep_seconds(result)
    summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
    row["n"] = summary.get("n")
    row["phases"] = summary["seconds"]
    row["accuracy"] = evaluate(vber, result, data.truth)
    if name != MEMORY_CASE and data.n_records <= MOST_LISTED and time.monotonic() + runs[-1].seconds < deadline:
        row["candidate_recall"] = candidate_recall(vber, data, result, deadline - time.monotonic())
    return row


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    found: dict[str, object] = {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        found["processor"] = models[0] if models else found["processor"]
    git = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    found["commit"] = git.stdout.strip() or "unknown"
    return found


def figure(value: object, digits: int) -> str:
    """A number as the table shows it."""
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else "–"


def table_row(row: dict[str, object]) -> str:
    """One line of results.md."""
    head = [str(row["set"]), figure(row["records"], 0), figure(row["individuals"], 0)]
    if "error" in row:
        return f"| {' | '.join(head)} | {str(row['error']).splitlines()[0]} |{' |' * (len(COLUMNS) - 4)}"
    accuracy = row["accuracy"] if isinstance(row["accuracy"], dict) else {}
    pairwise = accuracy.get("pairwise", {})
    found = figure(accuracy.get("individuals", {}).get("found"), 0)
    n = row["n"] if isinstance(row["n"], dict) else {}
    interval = f"{figure(n.get('low'), 0)}–{figure(n.get('high'), 0)}"
    error = figure((accuracy.get("calibration") or {}).get("expected_error"), 4)
    scores = [figure(pairwise.get(key), 4) for key in ("precision", "recall", "f1")]
    scores += [error, figure(row.get("candidate_recall"), 4)]
    cost = [figure(row["seconds"], 2), figure(row["mebibytes"], 0), figure(row["sweep_seconds"], 4)]
    return f"| {' | '.join([*head, found, interval, *scores, *cost, 'yes' if row['converged'] else 'no'])} |"


def reliability(row: dict[str, object]) -> list[str]:
    """Lines of one set: what probabilities links were given, and how many came true."""
    accuracy = row.get("accuracy")
    found = accuracy.get("calibration") if isinstance(accuracy, dict) else None
    if not found:
        return []
    head = f"| {row['set']} |"
    return [
        f"{head} {one['low']:.1f}–{one['high']:.1f} | {one['n']:,} | {one['mean_probability']:.3f} | "
        f"{one['share_true']:.3f} |"
        for one in found["bins"]
        if one["n"]
    ]


def write_results(rows: Sequence[dict[str, object]], about: dict[str, object]) -> None:
    """Write results.json and results.md."""
    (HERE / "results.json").write_text(
        json.dumps({"machine": about, "results": rows}, indent=1) + "\n", encoding="utf-8"
    )
    lines = [
        "# Results",
        "",
        "Made by `make bench`: `vber merge FILES` with no other option (but the case `memory`, run with "
        f"`{' '.join(MEMORY_OPTIONS)}`), whole process, CSV in, all results out; medians of the runs; pairwise "
        "accuracy. n, 90 %: interval of the number of individuals; ECE: expected calibration error of the links; "
        "candidates: the share of the true pairs that are candidates at all.",
        "",
        ", ".join(f"{key} {value}" for key, value in about.items()),
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|---|{'--:|' * (len(COLUMNS) - 2)}---|",
        *map(table_row, rows),
        "",
        "## Do probabilities come true?",
        "",
        "Listed pairs by their link probability: how many, what it is on average, and the share that are links.",
        "",
        "| set | probability | pairs | mean | true |",
        "|---|---|--:|--:|--:|",
        *(line for row in rows for line in reliability(row)),
    ]
    (HERE / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Read the command line, run the cases, write the results."""
    cases = [*(name for name in SETS if name not in LAST), MEMORY_CASE, *LAST]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=cases, metavar="NAME", help="run this case; repeatable")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--minutes", type=float, default=15.0, help="time budget (default 15)")
    parser.add_argument("--list", action="store_true", help="print the cases' names and stop")
    parser.add_argument("--data", type=Path, metavar="DIR", help="take sets that sets.py has written to DIR before")
    chosen = parser.parse_args()
    if chosen.list:
        print(*cases, sep="\n")
        return 0
    vber = shutil.which("vber", path=sysconfig.get_path("scripts"))
    if vber is None:
        print("vber is not installed for this Python: run `make bench`", file=sys.stderr)
        return 1
    deadline = time.monotonic() + 60 * chosen.minutes
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="vber-bench-") as name:
        scratch = Path(name)
        # The kernels compile in the first run of all; that is not what is measured.
        sample = ["--config", str(ROOT / "sample_data" / "vber.toml"), "--out", str(scratch / "warm"), "-q"]
        subprocess.run([vber, "merge", *sample], cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        for case in chosen.only or cases:
            if time.monotonic() > deadline:
                rows.append({"set": case, "records": None, "individuals": None, "error": "out of time"})
                continue
            wanted = "people100k" if case == MEMORY_CASE else case
            ready = chosen.data is not None and (chosen.data / wanted / "truth.csv").exists()
            try:
                data = load(chosen.data / wanted) if ready else SETS[wanted](scratch / "data")
            except MissingPackageError as error:
                gone = {"records": None, "individuals": None, "error": str(error), "missing": True}
                rows.append({"set": case, **gone})
                print(table_row(rows[-1]), flush=True)
                continue
            rows.append(bench(vber, case, data, scratch, chosen.runs, deadline))
            print(table_row(rows[-1]), flush=True)
            shutil.rmtree(scratch / "data", ignore_errors=True)
    if not chosen.only:
        write_results(rows, machine())
    allowed = {row["set"] for row in rows if row.get("missing")} & set(ELSEWHERE)
    return 1 if any("error" in row and row["set"] not in allowed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
