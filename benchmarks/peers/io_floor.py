#!/usr/bin/env python3
"""What any tool pays: `python io_floor.py FILE... OUT.parquet` reads, encodes as dictionaries and writes with Arrow."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq


def main(arguments: Sequence[str]) -> int:
    """Read, encode, write."""
    *files, out = arguments
    table = pa.concat_tables([pacsv.read_csv(file) for file in files])
    columns = {name: table.column(name).cast(pa.string()).dictionary_encode() for name in table.column_names[1:]}
    pq.write_table(pa.table({"rec_id": table.column(0), **columns}), out, compression="zstd")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
