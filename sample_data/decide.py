#!/usr/bin/env python3
"""Fill in a file of `vber review` from the truth, in place of a person: `python sample_data/decide.py PAIRS.csv`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

TRUTH = Path(__file__).resolve().parent / "truth.csv"


def decide(path: Path) -> tuple[int, int]:
    """Write yes or no into every row; return how many of each."""
    with TRUTH.open(newline="", encoding="utf-8") as file:
        person = {(row["database"], row["record_id"]): row["entity"] for row in csv.DictReader(file)}
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        same = person[row["database_a"], row["id_a"]] == person[row["database_b"], row["id_b"]]
        row["decision"] = "yes" if same else "no"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    n_yes = sum(row["decision"] == "yes" for row in rows)
    return n_yes, len(rows) - n_yes


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: decide.py PAIRS.csv")
    print("{} yes, {} no".format(*decide(Path(sys.argv[1]))))
