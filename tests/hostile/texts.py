"""Delimited text with every kind of damage, drawn from a seed: bytes, and what must become of them."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Rng = np.random.Generator
WORDS = (
    "anna bert carl dora émile françois łukasz 東京 أحمد 🙂 o'neil müller smith jones 12 007 -5 1.50 2001-02-03 NA "
    "x y z naïve Ωmega ulm bonn trier köln".split()
)
LEGACY = [word for word in WORDS if all(ord(character) < 256 for character in word)]
CODECS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@dataclass(frozen=True)
class Case:
    """A file's bytes, and what the run must make of them.

    Attributes
    ----------
    rows
        So many records, 0 where the file must be refused, None where either may be right.
    suffix
        How its name ends.
    """

    data: bytes
    rows: int | None
    suffix: str = ".csv"


def table(
    rng: Rng, n_rows: int | None = None, n_columns: int | None = None, words: list[str] = WORDS
) -> list[list[str]]:
    """A header and rows of words."""
    n_columns = int(rng.integers(2, 6)) if n_columns is None else n_columns
    n_rows = int(rng.integers(2, 9)) if n_rows is None else n_rows
    header = [f"name{i}" for i in range(n_columns)]
    return [header, *([str(rng.choice(words)) for _ in range(n_columns)] for _ in range(n_rows))]


def text(rows: list[list[str]], delimiter: str = ",", end: str = "\n", *, quoted: bool = False) -> str:
    """The rows as text."""
    out = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return out.getvalue()


def good(rng: Rng) -> Case:
    rows = table(rng)
    delimiter, end = str(rng.choice(list(",;\t|"))), str(rng.choice(["\n", "\r\n", "\r"]))
    return Case(text(rows, delimiter, end, quoted=bool(rng.integers(2))).encode(), len(rows) - 1)


def short_row(rng: Rng) -> Case:
    rows = table(rng, n_columns=int(rng.integers(3, 6)))
    rows[int(rng.integers(1, len(rows)))].pop()
    return Case(text(rows).encode(), 0)


def long_row(rng: Rng) -> Case:
    rows = table(rng)
    rows[int(rng.integers(1, len(rows)))] += ["more"] * int(rng.integers(1, 4))
    return Case(text(rows).encode(), 0)


def late_ragged_row(rng: Rng) -> Case:
    """Beyond the rows by which the dialect is found."""
    rows = table(rng, n_rows=1500, n_columns=3)
    place = int(rng.integers(1100, 1500))
    rows[place] = rows[place][:-1] if rng.integers(2) else [*rows[place], "more"]
    return Case(text(rows).encode(), 0)


def open_quote(rng: Rng) -> Case:
    rows = text(table(rng, words=["anna", "bert", "carl"])).splitlines()
    place = int(rng.integers(1, len(rows)))
    rows[place] = '"' + rows[place]
    return Case(("\n".join(rows) + "\n").encode(), 0)


def stray_quotes(rng: Rng) -> Case:
    data = bytearray(text(table(rng)).encode())
    for _ in range(int(rng.integers(1, 5))):
        data.insert(int(rng.integers(len(data))), ord('"'))
    return Case(bytes(data), None)


def nul_bytes(rng: Rng) -> Case:
    rows = table(rng, n_rows=int(rng.integers(30, 60)))
    rows[int(rng.integers(1, len(rows)))][0] = "an\0na"
    return Case(text(rows).encode(), len(rows) - 1)


def only_nuls(rng: Rng) -> Case:
    return Case(b"\0" * int(rng.integers(1, 5000)), 0)


def mixed_encodings(rng: Rng) -> Case:
    """UTF-8 and Latin-1 in one file: read as a legacy encoding, no row lost."""
    rows = table(rng, words=LEGACY)
    rows.append(["müller"] * len(rows[0]))
    return Case(text(rows).encode() + text([["köln"] * len(rows[0])]).encode("latin-1"), len(rows))


def late_bad_byte(rng: Rng) -> Case:
    """Beyond the bytes by which the encoding is found."""
    rows = text(table(rng, n_rows=int(rng.integers(3, 9)), n_columns=2, words=["anna", "bert"])).encode()
    return Case(rows + b"x,y\n" * (9 << 18) + b"x,\xff\xfe\n", 0)


def mark_in_the_middle(rng: Rng) -> Case:
    """Files put one after the other: the mark belongs to a value then."""
    rows = table(rng)
    data = text(rows).encode()
    return Case(codecs.BOM_UTF8 + data + codecs.BOM_UTF8 + text([rows[1]]).encode(), len(rows))


def wide_encoding(rng: Rng) -> Case:
    rows = table(rng, words=LEGACY)
    name = str(rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32"]))
    return Case(text(rows).encode(name), len(rows) - 1)


def cut_wide_encoding(rng: Rng) -> Case:
    data = text(table(rng, words=LEGACY)).encode("utf-16")
    return Case(data[: len(data) - 1 - 2 * int(rng.integers(3))], 0)


def lone_surrogates(rng: Rng) -> Case:
    rows = table(rng)
    name = str(rng.choice(["utf-16", "utf-8"]))
    rows[1][0] = "an\ud800na"
    return Case(text(rows).encode(name, "surrogatepass"), 0 if name == "utf-16" else None)


def huge_cell(rng: Rng) -> Case:
    rows = table(rng, words=["anna", "bert"])
    rows[int(rng.integers(1, len(rows)))][0] = "long " * int(rng.integers(1 << 15, 1 << 18))
    return Case(text(rows).encode(), len(rows) - 1)


def truncated_archive(rng: Rng) -> Case:
    suffix = str(rng.choice(list(CODECS)))
    data = CODECS[suffix](text(table(rng, n_rows=200)).encode())
    return Case(data[: int(rng.integers(20, len(data) - 1))], 0, f".csv.{suffix}")


def damaged_archive(rng: Rng) -> Case:
    """A flipped byte is found where the format has a checksum, and never makes a run fall over."""
    suffix = str(rng.choice(list(CODECS)))
    data = bytearray(CODECS[suffix](text(table(rng, n_rows=200)).encode()))
    place = int(rng.integers(4, len(data)))
    data[place] ^= 1 << int(rng.integers(8))
    return Case(bytes(data), None, f".csv.{suffix}")


def archives_joined(rng: Rng) -> Case:
    """Compressed parts one after the other are one file, for every tool that reads them."""
    suffix = str(rng.choice(["gz", "bz2", "xz", "zst"]))
    rows = table(rng)
    return Case(
        CODECS[suffix](text(rows).encode()) + CODECS[suffix](text([rows[1]]).encode()), len(rows), f".csv.{suffix}"
    )


def archive_with_rubbish(rng: Rng) -> Case:
    suffix = str(rng.choice(list(CODECS)))
    return Case(
        CODECS[suffix](text(table(rng)).encode()) + b"rubbish" * int(rng.integers(1, 9)), None, f".csv.{suffix}"
    )


def archive_in_archive(rng: Rng) -> Case:
    inner, outer = (CODECS[str(rng.choice(list(CODECS)))] for _ in range(2))
    return Case(outer(inner(text(table(rng)).encode())), 0, ".csv.gz")


def wrong_extension(rng: Rng) -> Case:
    """What a file is called decides nothing."""
    rows = table(rng)
    suffix = str(rng.choice([".parquet", ".gz", ".xlsx", ".json", ".arrow", "", ".csv.zst"]))
    return Case(text(rows).encode(), len(rows) - 1, suffix)


def blank(rng: Rng) -> Case:
    return Case(b"".join(rng.choice([b"", b" ", b"\n", b"\r\n", b"\t"], size=int(rng.integers(0, 9)))), 0)


def header_only(rng: Rng) -> Case:
    return Case(text(table(rng, n_rows=0)).encode().removesuffix(b"\n" * int(rng.integers(2))), 0)


def duplicate_names(rng: Rng) -> Case:
    rows = table(rng, n_columns=int(rng.integers(3, 6)))
    rows[0][1] = rows[0][2] = str(rng.choice(["name1", " name1", "x"]))
    return Case(text(rows).encode(), 0)


def empty_names(rng: Rng) -> Case:
    rows = table(rng, n_columns=4)
    for i in range(int(rng.integers(1, 4))):
        rows[0][i] = str(rng.choice(["", " "]))
    return Case(text(rows).encode(), len(rows) - 1)


def name_taken_by_an_empty_one(rng: Rng) -> Case:
    rows = table(rng, n_columns=4)
    rows[0][:2] = ["", "column1"]
    return Case(text(rows).encode(), 0)


def cr_only(rng: Rng) -> Case:
    rows = table(rng)
    return Case(text(rows, end="\r").encode(), len(rows) - 1)


def mixed_line_ends(rng: Rng) -> Case:
    rows = table(rng, n_rows=int(rng.integers(3, 12)))
    return Case("".join(text([row], end=str(rng.choice(["\n", "\r\n"]))) for row in rows).encode(), len(rows) - 1)


def no_final_line_end(rng: Rng) -> Case:
    rows = table(rng)
    return Case(text(rows, end=str(rng.choice(["\n", "\r\n"]))).rstrip("\r\n").encode(), len(rows) - 1)


def blank_lines(rng: Rng) -> Case:
    """Among several columns they are no rows."""
    rows = table(rng)
    lines = text(rows).splitlines()
    for _ in range(int(rng.integers(1, 4))):
        lines.insert(int(rng.integers(1, len(lines) + 1)), "")
    return Case(("\n".join(lines) + "\n").encode(), len(rows) - 1)


def one_column_with_gaps(rng: Rng) -> Case:
    """In a file of one column an empty line is a record without a value."""
    words = [str(rng.choice(["anna", "bert", ""])) for _ in range(int(rng.integers(3, 9)))]
    return Case(("\n".join(["name", "carl", *words]) + "\n").encode(), len(words) + 1)


def rubbish(rng: Rng) -> Case:
    return Case(rng.bytes(int(rng.integers(1, 3000))), None)


def rubbish_after_rows(rng: Rng) -> Case:
    return Case(text(table(rng, n_rows=40)).encode() + rng.bytes(int(rng.integers(1, 300))), None)


def flipped_bits(rng: Rng) -> Case:
    data = bytearray(text(table(rng, n_rows=20)).encode())
    for _ in range(int(rng.integers(1, 6))):
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return Case(bytes(data), None)


def cut_anywhere(rng: Rng) -> Case:
    data = text(table(rng, n_rows=10), quoted=bool(rng.integers(2))).encode()
    return Case(data[: int(rng.integers(1, len(data)))], None)


def spreadsheet_line(rng: Rng) -> Case:
    rows = table(rng)
    delimiter = str(rng.choice(list(";,|")))
    return Case(f"sep={delimiter}\r\n".encode() + text(rows, delimiter, "\r\n").encode(), len(rows) - 1)


def line_ends_in_cells(rng: Rng) -> Case:
    rows = table(rng)
    for row in rows[1:]:
        row[int(rng.integers(len(row)))] = str(rng.choice(["a\nb", "a\r\nb", "a\rb", "\n", 'a "b"\n', "a,\nb"]))
    return Case(text(rows, quoted=True).encode(), len(rows) - 1)


def control_characters(rng: Rng) -> Case:
    rows = table(rng, n_rows=40)
    for row in rows[1::9]:
        row[0] = str(rng.choice(["\x1b[2J\x1b]0;owned\x07", "a\x08b", "\x85x", "\u2028x", "\u202egnp", "\x7f"]))
    return Case(text(rows).encode(), len(rows) - 1)


def odd_names(rng: Rng) -> Case:
    """Column names that could steer a terminal, or that options would have to quote."""
    rows = table(rng, n_columns=3)
    odd = [
        "\x1b[31mred",
        "a,b",
        "a=b",
        "a:b",
        "-x",
        "*",
        "--out",
        "../../x",
        "a\nb",
        "<script>",
        "=1+1",
        "\u202e",
        "a/b",
    ]
    rows[0] = [str(name) for name in rng.choice(odd, size=3, replace=False)]
    return Case(text(rows).encode(), len(rows) - 1)


def foreign(rng: Rng) -> Case:
    starts = (
        b"PK\x03\x04",
        b"%PDF-1.7\n",
        b"SQLite format 3\x00",
        b"\x7fELF",
        b"\x89PNG\r\n",
        b"<html><body>",
        b'{"a": 1}',
        b'[{"a": 1}]',
        b"<?xml version='1.0'?>",
        b"Rar!\x1a\x07",
        b"7z\xbc\xaf\x27\x1c",
        b"\x04\x22\x4d\x18",
        b"GIF89a",
    )
    return Case(starts[int(rng.integers(len(starts)))] + rng.bytes(200), 0)


def delimiter_in_last_cell(rng: Rng) -> Case:
    """Every row ends with a delimiter and the header does not: refused, not shifted by one."""
    lines = text(table(rng, n_rows=5, n_columns=3)).splitlines()
    return Case("\n".join([lines[0], *(f"{line}," for line in lines[1:])]).encode(), 0)


def zlib_stream(rng: Rng) -> Case:
    return Case(zlib.compress(text(table(rng, n_rows=50)).encode()), 0)


MAKERS: dict[str, tuple[Callable[[Rng], Case], int]] = {
    maker.__name__: (maker, count)
    for maker, count in (
        (good, 12),
        (short_row, 10),
        (long_row, 10),
        (late_ragged_row, 3),
        (open_quote, 10),
        (stray_quotes, 30),
        (nul_bytes, 6),
        (only_nuls, 3),
        (mixed_encodings, 8),
        (late_bad_byte, 1),
        (mark_in_the_middle, 6),
        (wide_encoding, 10),
        (cut_wide_encoding, 8),
        (lone_surrogates, 6),
        (huge_cell, 4),
        (truncated_archive, 16),
        (damaged_archive, 24),
        (archives_joined, 8),
        (archive_with_rubbish, 8),
        (archive_in_archive, 6),
        (wrong_extension, 10),
        (blank, 8),
        (header_only, 4),
        (duplicate_names, 6),
        (empty_names, 6),
        (name_taken_by_an_empty_one, 2),
        (cr_only, 8),
        (mixed_line_ends, 6),
        (no_final_line_end, 6),
        (blank_lines, 8),
        (one_column_with_gaps, 8),
        (rubbish, 30),
        (rubbish_after_rows, 12),
        (flipped_bits, 30),
        (cut_anywhere, 20),
        (spreadsheet_line, 6),
        (line_ends_in_cells, 12),
        (control_characters, 8),
        (odd_names, 12),
        (foreign, 16),
        (delimiter_in_last_cell, 3),
        (zlib_stream, 3),
    )
}
