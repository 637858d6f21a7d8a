#!/usr/bin/env python3
"""Print the first rows of a result directory's main tables: `python sample_data/show.py DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

N_ROWS = 8


def text_of(value: object) -> str:
    """A cell as it is shown: gaps as a dot, numbers short."""
    if value is None:
        return "."
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show(path: Path) -> None:
    """Print the first rows of a Parquet file, columns aligned; of its probabilities, only the record's own."""
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if not name.endswith("_probability")]
    rows = next(file.iter_batches(batch_size=N_ROWS, columns=names)).to_pylist()
    cells = [names, *([text_of(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{path}: {file.metadata.num_rows} rows")
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: show.py DIR")
    for table in ("individuals", "assignments"):
        show(Path(sys.argv[1]) / f"{table}.parquet")
