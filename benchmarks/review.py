#!/usr/bin/env python3
"""Measure a round of review: merge, decide the most valuable pairs by the truth, merge again, and compare.

`python benchmarks/review.py` runs the sets below and writes review.md; `--only NAME` runs one. Merges have the default
options. The second takes the filled-in file of `vber review` by `--decisions`: once from what the first has learned
(`--start-from`), once without.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.sets import SETS, DataSet, MissingPackageError  # noqa: E402

CASES = ("people10k", "rldata10000")
N_ASKED = 100
HEAD = "Pairs answered by the truth, and what they change; made by `python benchmarks/review.py`.\n\n"
COLUMNS = "set run individuals n,90% precision recall F1 contradicted seconds".split(" ")


def truth_of(path: Path) -> dict[tuple[str, str], str]:
    """Entity of every record, by database and id."""
    with path.open(newline="", encoding="utf-8") as file:
        return {(row["database"], row["record_id"]): row["entity"] for row in csv.DictReader(file)}


def _rows(pairs: Path) -> list[dict[str, str]]:
    with pairs.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _ends(row: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(row[f"database_{side}"], row[f"id_{side}"]) for side in "ab"]


def answer(pairs: Path, truth: Mapping[tuple[str, str], str]) -> int:
    """Fill in the decisions of a file of `vber review`; return their number."""
    rows = _rows(pairs)
    for row in rows:
        a, b = _ends(row)
        row["decision"] = "yes" if truth[a] == truth[b] else "no"
    with pairs.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys() if rows else ["decision"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def contradicted(pairs: Path, result: Path) -> int:
    """How many decisions a result does not keep to."""
    table = pq.read_table(result / "assignments.parquet", columns=["database", "record_id", "individual"])
    place = {(row["database"], row["record_id"]): row["individual"] for row in table.to_pylist()}
    return sum((place[a] == place[b]) != (row["decision"] == "yes") for row in _rows(pairs) for a, b in [_ends(row)])


def measured(vber: str, result: Path, data: DataSet, options: Sequence[str]) -> dict[str, object]:
    """Merge with further options; the result's scores and seconds."""
    began = time.perf_counter()
    subprocess.run([vber, "merge", *map(str, data.files), "-q", "--out", str(result), *options], check=True)
    seconds = time.perf_counter() - began
    done = subprocess.run([vber, "evaluate", str(result), str(data.truth), "--json"], capture_output=True, check=True)
    found = json.loads((result / "summary.json").read_text(encoding="utf-8"))["n"]
    return {"seconds": seconds, "n": found, "individuals": data.n_entities, **json.loads(done.stdout)["pairwise"]}


def bench(vber: str, name: str, data: DataSet, folder: Path, n_asked: int = N_ASKED) -> list[dict[str, object]]:
    """One set: before, after from what was learned, after learning anew."""
    first, pairs = folder / "first", folder / "pairs.csv"
    rows = [{"set": name, "run": "before", **measured(vber, first, data, [])}]
    subprocess.run([vber, "review", str(first), "--out", str(pairs), "-n", str(n_asked), "-q"], check=True)
    answered = answer(pairs, truth_of(data.truth))
    given = ["--decisions", str(pairs)]
    for run, options in (("--start-from", [*given, "--start-from", str(first)]), ("learned anew", given)):
        out = folder / run.strip("-").replace(" ", "-")
        row = {"set": name, "run": f"{answered} answers, {run}", **measured(vber, out, data, options)}
        rows.append({**row, "contradicted": contradicted(pairs, out)})
    return rows


def table_row(row: Mapping[str, object]) -> str:
    """One line of the table."""
    n = row["n"]
    assert isinstance(n, dict)
    cells = [
        row["set"], row["run"], f"{row['individuals']:,}", f"{n['mean']:,.0f} ({n['low']:,.0f}–{n['high']:,.0f})",
        *(f"{row[key]:.4f}" for key in ("precision", "recall", "f1")), row.get("contradicted", "–"),
        f"{row['seconds']:.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def report(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the table as Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2), *map(table_row, rows)]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run all cases, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES, help="run one set and print its lines")
    chosen = parser.parse_args(arguments)
    vber = shutil.which("vber", path=sysconfig.get_path("scripts"))
    if vber is None:
        print("the command is not installed: pip install -e .", file=sys.stderr)
        return 2
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        for case in [chosen.only] if chosen.only else CASES:
            folder = Path(name) / case
            try:
                rows += bench(vber, case, SETS[case](folder), folder)
            except MissingPackageError as error:
                print(f"{case}: skipped, {error}", file=sys.stderr)
            if rows and not chosen.only:  # a run that is stopped keeps what it has
                (ROOT / "benchmarks" / "review.md").write_text(HEAD + report(rows), encoding="utf-8")
    print(report(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
