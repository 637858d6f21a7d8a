"""What is fuzzed: bytes in, and either what they hold or an error that a user can understand.

Each target takes any bytes and raises only where the program is wrong. `python -m tests.fuzz.run` looks for such bytes;
what it found stays in `corpus`, which `test_corpus.py` goes through.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable

import pyarrow as pa

from vber_cli.config.merge import MergeOptions
from vber_cli.config.toml import parse_toml, to_toml
from vber_cli.errors import VberError
from vber_cli.io.csvread import CsvTable
from vber_cli.io.tables import Database, Source, open_database


def _opened(data: bytes) -> Database:
    return open_database(Source("db", ("-",)), delimiter=None, encoding=None, stdin=io.BytesIO(data))


def _is_plain(error: VberError) -> None:
    assert error.exit_code in (2, 3, 4, 5)
    assert len(error.what) > 10
    assert len(error.fix) > 10


def _rows(database: Database) -> list[tuple[str | None, ...]]:
    rows: list[tuple[str | None, ...]] = []
    for batch in database.batches(database.columns):
        batch.validate(full=True)
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def text(data: bytes) -> None:
    """Delimited text: what is read is what Python's own parser reads in the dialect that was found."""
    try:
        database = _opened(data)
        rows = _rows(database)
    except VberError as error:
        _is_plain(error)
        return
    assert rows == _rows(database), "a second pass reads the same"
    part = database._parts[0]
    if isinstance(part, CsvTable) and part.compression is None:
        expected = _read_by_csv(data, part)
        assert len(rows) == len(expected)
        # parsers disagree on what a backslash means outside quotes
        assert part.dialect.escape or rows == expected


def _read_by_csv(data: bytes, table: CsvTable) -> list[tuple[str, ...]]:
    dialect = table.dialect
    decoded = data.decode(table.encoding, "strict")
    if codecs.lookup(table.encoding).name == "utf-8":
        decoded = decoded.removeprefix("\ufeff")
    lines = io.StringIO(decoded, newline="")
    for _ in range(dialect.skip_lines):
        lines.readline()
    reader = csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        escapechar="\\" if dialect.escape else None,
        skipinitialspace=dialect.skip_blanks,
    )
    width = len(dialect.names)
    return [tuple(row or [""]) for row in reader if row or width == 1]


def table(data: bytes) -> None:
    """Parquet and Arrow: damaged offsets must not be followed."""
    for start in (b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"):
        try:
            _rows(_opened(data if data.startswith(start) else start + data))
        except VberError as error:
            _is_plain(error)
        except pa.ArrowException as error:
            raise AssertionError("an error of Arrow's got out") from error


def config(data: bytes) -> None:
    """TOML: what can be read can be written and read again."""
    try:
        options = MergeOptions(**parse_toml(data.decode("utf-8", "surrogateescape"), "x.toml"))  # type: ignore[arg-type]
        assert MergeOptions(**parse_toml(to_toml(options, {"out"}), "x.toml")) == options  # type: ignore[arg-type]
    except VberError as error:
        _is_plain(error)


TARGETS: dict[str, Callable[[bytes], None]] = {"text": text, "table": table, "config": config}
