"""Arrow tables as CSV text, quoted only where a cell needs it, so that cut and awk can read it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_QUOTES = '[",\r\n]'


def csv_header(names: Sequence[str]) -> bytes:
    """Return the header line of a table with these columns."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(names)
    return text.getvalue().encode("utf-8")


def csv_chunk(batch: pa.RecordBatch) -> bytes:
    """Return the lines of a batch, in UTF-8.

    Parameters
    ----------
    batch
        Columns of text (dictionaries of text, too), numbers or booleans. Null becomes an empty cell, the empty text
        two quotes.
    """
    if batch.num_rows == 0:
        return b""
    cells = [_cells(column) for column in batch.columns]
    newline = pa.scalar("\n", pa.large_string())
    lines = pc.binary_join_element_wise(
        pc.binary_join_element_wise(*cells, pa.scalar(",", pa.large_string())),
        newline,
        pa.scalar("", pa.large_string()),
    )
    # The data buffer of a text array is its texts one after the other.
    first, last = lines.offset, lines.offset + len(lines)
    _, offsets, data = lines.buffers()
    bounds = pa.Array.from_buffers(pa.int64(), last + 1, [None, offsets])
    return bytes(data[bounds[first].as_py() : bounds[last].as_py()])


def _cells(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pc.take(_cells(column.dictionary), column.indices).fill_null("")
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    text = column.cast(pa.large_string())
    if is_text:
        quoted = pc.binary_join_element_wise(
            pa.scalar('"', pa.large_string()),
            pc.replace_substring(text, '"', '""'),
            pa.scalar('"', pa.large_string()),
            pa.scalar("", pa.large_string()),
        )
        needs = pc.or_(pc.match_substring_regex(text, _NEEDS_QUOTES), pc.equal(text, ""))
        text = pc.if_else(needs, quoted, text)
    return text.fill_null("")
