#!/usr/bin/env python3
"""What the tables of a result answer, with pandas: `python examples/tables.py DIR`.

(Not called pandas.py: Python would then import it in the place of pandas.)
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd


def merged_table(result: Path) -> pd.DataFrame:
    """One row for each individual: the most probable value of every field."""
    people = pd.read_parquet(result / "individuals.parquet").set_index("individual")
    return people[[name for name in people if not name.endswith("_probability")]]


def overlap(result: Path) -> pd.DataFrame:
    """How many individuals each two databases share; on the diagonal how many each of them holds."""
    records = pd.read_parquet(result / "assignments.parquet", columns=["database", "individual"])
    held = pd.crosstab(records["individual"], records["database"].astype(str)).clip(upper=1)
    return held.T @ held


def doubtful(result: Path, n: int = 5) -> pd.DataFrame:
    """The links nearest to a toss-up."""
    links = pd.read_parquet(result / "links.parquet")
    nearest = (links["probability"] - 0.5).abs().sort_values(kind="stable").index[:n]
    return links.loc[nearest, ["database_a", "id_a", "database_b", "id_b", "probability"]]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tables.py DIR")
    directory = Path(sys.argv[1])
    for title, table in (
        ("individuals by databases", overlap(directory)),
        ("merged table", merged_table(directory).head()),
        ("most doubtful links", doubtful(directory)),
    ):
        print(f"{title}\n{table.to_string()}\n")
