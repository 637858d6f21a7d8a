#!/usr/bin/env python3
"""Run a query on a result and print it as CSV: `python examples/run_sql.py QUERY.sql DIR`.

The same as `cd DIR && duckdb -csv < QUERY.sql` with DuckDB's own shell.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import duckdb


def run(query: Path, result: Path) -> None:
    """Print the rows of a query, whose table names are paths within the result."""
    with duckdb.connect() as connection:
        connection.execute(f"SET file_search_path = '{str(result.resolve()).replace(chr(39), chr(39) * 2)}'")
        found = connection.execute(query.read_text(encoding="utf-8"))
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(column[0] for column in found.description)
        writer.writerows(found.fetchall())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: run_sql.py QUERY.sql DIR")
    run(Path(sys.argv[1]), Path(sys.argv[2]))
