"""Helpers of the tests that read files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from vber_cli.io.tables import Database, Source, open_database, resolve_sources


def open_path(
    path: Path | str | Sequence[Path | str], *, delimiter: str | None = None, encoding: str | None = None
) -> Database:
    paths = (path,) if isinstance(path, (Path, str)) else tuple(path)
    source = Source("db", tuple(str(one) for one in paths))
    return open_database(source, delimiter=delimiter, encoding=encoding, stdin=None)


def open_bytes(data: bytes, *, delimiter: str | None = None, encoding: str | None = None) -> Database:
    """Open bytes as standard input."""
    (source,) = resolve_sources(["-"])
    return open_database(source, delimiter=delimiter, encoding=encoding, stdin=io.BytesIO(data))


def rows_of(database: Database) -> list[tuple[str | None, ...]]:
    """All rows as tuples, in order."""
    rows: list[tuple[str | None, ...]] = []
    for batch in database.batches(database.columns):
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows
