"""Parquet, Arrow and stream files with every kind of type and damage, drawn from a seed."""

from __future__ import annotations

import decimal
import gzip
import io
from collections.abc import Callable
from datetime import date, datetime, time, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.texts import WORDS, Case, Rng

FORMATS = ("parquet", "arrow", "stream")


def stored(table: pa.Table, form: str = "parquet", **options: Any) -> bytes:
    """The table in one of the formats."""
    out = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, out, **options)
    else:
        opener = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
        with opener(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


def words(rng: Rng, n: int) -> pa.Array:
    return pa.array([str(word) if rng.random() > 0.1 else None for word in rng.choice(WORDS, n)], pa.string())


def plain(rng: Rng, n: int | None = None) -> pa.Table:
    """A table of text."""
    n = int(rng.integers(2, 12)) if n is None else n
    return pa.table({"first": words(rng, n), "last": words(rng, n), "city": words(rng, n)})


def any_form(rng: Rng) -> str:
    return str(rng.choice(FORMATS))


def good(rng: Rng) -> Case:
    table = plain(rng)
    return Case(stored(table, any_form(rng)), table.num_rows, ".parquet")


def truncated(rng: Rng) -> Case:
    """A stream that is cut between two batches is a shorter stream; a file format is always refused."""
    data = stored(plain(rng, 50), str(rng.choice(FORMATS[:2])))
    return Case(data[: int(rng.integers(8, len(data) - 1))], 0, ".parquet")


def truncated_stream(rng: Rng) -> Case:
    data = stored(plain(rng, 50), "stream")
    return Case(data[: int(rng.integers(8, len(data) - 8))], 0, ".arrows")


def flipped_bits(rng: Rng) -> Case:
    """Parquet without checksums cannot tell a changed letter; it must not fall over, nor lose a row."""
    table = plain(rng, int(rng.integers(2, 60)))
    data = bytearray(stored(table, any_form(rng)))
    for _ in range(int(rng.integers(1, 5))):
        data[int(rng.integers(8, len(data)))] ^= 1 << int(rng.integers(8))
    return Case(bytes(data), None, ".parquet")


def zeroed_block(rng: Rng) -> Case:
    data = bytearray(stored(plain(rng, 60), any_form(rng)))
    start = int(rng.integers(8, len(data) - 40))
    data[start : start + 32] = bytes(32)
    return Case(bytes(data), None, ".parquet")


def wrong_magic(rng: Rng) -> Case:
    data = bytearray(stored(plain(rng)))
    end = slice(0, 4) if rng.integers(2) else slice(len(data) - 4, len(data))
    data[end] = rng.bytes(4)
    return Case(bytes(data), 0, ".parquet")


def nothing_but_magic(rng: Rng) -> Case:
    start = (b"PAR1", b"ARROW1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"PAR1PAR1", b"\xff\xff\xff\xff\xff\xff\xff\x7f")
    return Case(start[int(rng.integers(len(start)))] + rng.bytes(int(rng.integers(0, 40))), 0, ".parquet")


def nested(rng: Rng) -> Case:
    table = plain(rng)
    n = table.num_rows
    kinds = [
        pa.array([["x", "y"]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int32())),
        pa.array([b"\x00\x01"] * n),
        pa.array([1] * n, pa.duration("s")),
        pa.array([[1, 2]] * n, pa.list_(pa.int64(), 2)),
    ]
    return Case(stored(table.append_column("odd", kinds[int(rng.integers(len(kinds)))])), 0, ".parquet")


def _kinds(n: int) -> list[pa.Array]:
    moment = datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
    cents = decimal.Decimal("12.30")
    return [
        pa.array([float("nan"), *[1.5] * (n - 1)]),
        pa.array([float("inf"), float("-inf"), *[-0.0] * (n - 2)]),
        pa.array([1e300, 5e-324, *[0.1] * (n - 2)]),
        pa.array([None] * n, pa.float64()),
        pa.array([True, None] * n)[:n],
        pa.array([cents, None, *[-cents] * (n - 2)], pa.decimal128(38, 2)),
        pa.array([cents] * n, pa.decimal256(70, 2)),
        pa.array([moment] * n, pa.timestamp("us", "Asia/Kathmandu")),
        pa.array([moment] * n, pa.timestamp("ns", "UTC")),
        pa.array([moment, None] * n, pa.timestamp("ms", "-07:00"))[:n],
        pa.array([0, -(2**40)] * n, pa.timestamp("s"))[:n],
        pa.array([date(1, 1, 1), date(9999, 12, 31)] * n)[:n],
        pa.array([10**6] * n, pa.date64()),
        pa.array([time(23, 59, 59, 999999)] * n),
        pa.array([2**64 - 1] * n, pa.uint64()),
        pa.array([-(2**63)] * n),
        pa.array(["a", "b", None] * n)[:n].dictionary_encode(),
        pa.array([1, 2] * n)[:n].dictionary_encode(),
        pa.array(["x", "é"] * n, pa.large_string())[:n],
        pa.nulls(n),
        pa.array([1.5] * n, pa.float32()),
        pa.array(np.full(n, 1.5, np.float16)),
        pa.array(["x"] * n, pa.string_view()),
        pa.array([3] * n, pa.int8()),
        pa.array([2**62] * n, pa.timestamp("s", "UTC")),
        pa.array([2**31 - 1, -(2**31)] * n, pa.date32())[:n],
    ]


def any_type(rng: Rng) -> Case:
    """Every plain type, alone with its like in a table that has text besides."""
    table = plain(rng, 5)
    kinds = _kinds(5)
    for _ in range(int(rng.integers(1, 4))):
        kind = kinds[int(rng.integers(len(kinds)))]
        table = table.append_column(f"odd{table.num_columns}", kind)
    form = "arrow" if any(str(field.type) == "halffloat" for field in table.schema) else any_form(rng)
    return Case(stored(table, form), None, ".parquet")


def each_type(number: int) -> Case:
    kind = _kinds(5)[number]
    return Case(stored(pa.table({"kind": kind, "name": ["a", "b", "c", "a", "b"]}), "arrow"), 5, ".arrow")


N_TYPES = len(_kinds(5))


def no_row_groups(rng: Rng) -> Case:
    return Case(stored(plain(rng).slice(0, 0), any_form(rng)), 0, ".parquet")


def many_row_groups(rng: Rng) -> Case:
    table = plain(rng, 20)
    options = {"row_group_size": int(rng.integers(1, 4)), "use_dictionary": bool(rng.integers(2))}
    return Case(
        stored(table, compression=str(rng.choice(["none", "snappy", "zstd", "gzip", "brotli", "lz4"])), **options),
        20,
        ".pq",
    )


def duplicate_names(rng: Rng) -> Case:
    table = plain(rng)
    return Case(
        stored(table.rename_columns(["a", str(rng.choice(["a", " a", "a "])), "c"]), any_form(rng)), 0, ".parquet"
    )


def odd_names(rng: Rng) -> Case:
    odd = ["", " ", "\x1b[31m", "a.b", "a\nb", "../x", "<script>", "=1", "\u202e", "x" * 300, "a.list.element", "a\0b"]
    table = plain(rng)
    names = [str(name) for name in rng.choice(odd, 3, replace=False)]
    names = names if len({name.strip() for name in names}) == 3 else ["a", "b", names[2]]
    return Case(stored(table.rename_columns(names), any_form(rng)), table.num_rows, ".parquet")


def no_columns(rng: Rng) -> Case:
    return Case(stored(pa.table({}), any_form(rng)), 0, ".parquet")


def invalid_text(rng: Rng) -> Case:
    """Bytes that say they are UTF-8."""
    bad = pa.array([b"anna", b"\xff\xfe", b"\xed\xa0\x80", b"bert"], pa.binary())
    values = pa.StringArray.from_buffers(4, bad.buffers()[1], bad.buffers()[2])
    return Case(stored(pa.table({"name": values, "city": ["a", "b", "a", "b"]}), any_form(rng)), 0, ".parquet")


def compressed(rng: Rng) -> Case:
    table = plain(rng)
    return Case(gzip.compress(stored(table, any_form(rng))), table.num_rows, ".parquet.gz")


MAKERS: dict[str, tuple[Callable[[Rng], Case], int]] = {
    maker.__name__: (maker, count)
    for maker, count in (
        (good, 6),
        (truncated, 14),
        (truncated_stream, 10),
        (flipped_bits, 50),
        (zeroed_block, 20),
        (wrong_magic, 4),
        (nothing_but_magic, 10),
        (nested, 10),
        (any_type, 16),
        (no_row_groups, 3),
        (many_row_groups, 6),
        (duplicate_names, 4),
        (odd_names, 8),
        (no_columns, 3),
        (invalid_text, 3),
        (compressed, 3),
    )
}
