"""Inputs of any form as databases: what the command line names, how each is stored, its rows as Arrow batches."""

from __future__ import annotations

import difflib
import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from vber_cli.errors import InputError, UsageError
from vber_cli.io.arrowread import ArrowTable
from vber_cli.io.bytestream import (
    Content,
    as_file,
    compression_of,
    content_of_path,
    decompressed,
    head_of,
    is_utf8,
    spool,
    unreadable,
    utf8_blocks,
)
from vber_cli.io.csvdialect import (
    check_names,
    detect_dialect,
    detect_encoding,
    parse_delimiter,
    parse_encoding,
)
from vber_cli.io.csvread import CsvTable

STDIN = "-"
_COMPRESSED = (".gz", ".bz2", ".zst", ".zstd", ".xz")
_KINDS = {
    "Parquet": (".parquet", ".pq", ".parq"),
    "Arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    "delimited text": (".csv", ".tsv", ".tab", ".txt", ".psv"),
}
_EXTENSIONS = tuple(extension for extensions in _KINDS.values() for extension in extensions)
_ENCODING_SAMPLE = 8 << 20
_DIALECT_SAMPLE = 1 << 18
_LARGEST_SAMPLE = 1 << 28

_FOREIGN = (
    (b"PK\x03\x04", "a ZIP archive or an Excel or OpenDocument workbook"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\x89HDF", "an HDF5 file"),
    (b"RDX", "an R data file"),
    (b"FEA1", "a Feather file of the old version 1"),
    (b"PARE", "an encrypted Parquet file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "an LZ4 file"),
)


@dataclass(frozen=True)
class Source:
    """One database as the command line names it.

    Attributes
    ----------
    name
        Its name, unique among the sources of a run.
    paths
        Its files in order; ("-",) is standard input.
    """

    name: str
    paths: tuple[str, ...]


def resolve_sources(arguments: Sequence[str]) -> list[Source]:
    """Turn the FILES of a command line into named databases.

    An argument is a path, a directory of parts, a glob pattern, or "-" for standard input, each with an optional
    "name=" in front. Databases without a name are called after their file, made unique with _2, _3, ...

    Raises
    ------
    UsageError
        A name is given twice, or standard input is.
    InputError
        A path does not exist, or a directory or pattern holds no table.
    """
    found: list[tuple[str | None, str, tuple[str, ...]]] = []
    for argument in arguments:
        name, path = _split_name(argument)
        found.append((name, path, _expand(path)))
    if sum(paths == (STDIN,) for _, _, paths in found) > 1:
        raise UsageError("Standard input (-) is given twice.", "Name it once; give the other table as a file.")
    given = [name for name, _, _ in found if name]
    for name in given:
        if given.count(name) > 1:
            raise UsageError(f"Two databases are called {name!r}.", "Give each its own name in name=path.")
    taken = set(given)
    sources = []
    for given_name, path, paths in found:
        # The bytes of a file's name need not be text; a database's name stands in tables.
        name = (given_name or _unique(_stem(path, paths), taken)).encode("utf-8", "backslashreplace").decode()
        taken.add(name)
        sources.append(Source(name, paths))
    return sources


def _split_name(argument: str) -> tuple[str | None, str]:
    if argument == "":
        raise UsageError("An input path is empty.", "Name a file, a directory, or - for standard input.")
    name, equals, path = argument.partition("=")
    if not equals or os.path.lexists(argument) or "/" in name or os.sep in name:
        return None, argument
    if not name.strip() or not path:
        raise UsageError(f"{argument!r} is not of the form name=path.", "Write the name before the =, the path after.")
    return name.strip(), path


def _expand(path: str) -> tuple[str, ...]:
    if path == STDIN:
        return (STDIN,)
    if os.path.isdir(path):
        return _parts_of(path)
    if os.path.lexists(path):
        return (path,)
    if any(char in path for char in "*?["):
        matches = sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
        if not matches:
            raise InputError(f"{path}: no file matches this pattern.", "Check the pattern and the directory.")
        return tuple(matches)
    directory = os.path.dirname(path) or "."
    try:
        near = difflib.get_close_matches(os.path.basename(path), os.listdir(directory), 1)
    except OSError:
        near = []
    fix = f"Did you mean {os.path.join(os.path.dirname(path), near[0])}?" if near else "Check the path."
    raise InputError(f"{path}: no such file.", fix)


def _parts_of(directory: str) -> tuple[str, ...]:
    """List the files of a directory that is one database: all tables in it, which must be of one kind."""
    try:
        entries = sorted(os.listdir(directory))
    except OSError as error:
        raise unreadable(directory, error) from error
    parts: dict[str, list[str]] = {}
    folders = False
    for entry in entries:
        # Writers of parts leave their own notes under such names (_SUCCESS, .part.crc).
        if entry.startswith((".", "_")):
            continue
        path = os.path.join(directory, entry)
        folders = folders or os.path.isdir(path)
        bare = _without_compression(entry.lower())
        for kind, extensions in _KINDS.items():
            if bare.endswith(extensions) and os.path.isfile(path):
                parts.setdefault(kind, []).append(path)
    if len(parts) > 1:
        raise InputError(
            f"{directory}: holds both {' and '.join(parts)} files.",
            "Name the files of one database by a pattern, as in 'dir/*.parquet', or each file on its own.",
        )
    if not parts:
        where = " (only folders)" if folders else ""
        raise InputError(
            f"{directory}: holds no Parquet, Arrow or delimited text file{where}.",
            "Name the files, or a directory whose parts end in .parquet.",
        )
    return tuple(next(iter(parts.values())))


def _without_compression(name: str) -> str:
    for extension in _COMPRESSED:
        if name.endswith(extension):
            return name[: -len(extension)]
    return name


def _stem(path: str, paths: tuple[str, ...]) -> str:
    """Name of a database that has been given none."""
    if paths == (STDIN,):
        return "stdin"
    name = os.path.basename(os.path.normpath(os.path.abspath(path)))
    if any(char in name for char in "*?[") and not os.path.lexists(path):
        # A pattern is called after what stands before its first wildcard, or after its directory.
        prefix = re.sub(r"[-_.\s\d]+$", "", re.split(r"[*?[]", name)[0])
        directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
        return prefix if prefix not in {"", "part"} else re.sub(r"[*?[\]]", "", directory) or "database"
    lower = name.lower()
    bare = name[: len(_without_compression(lower))]
    for extension in _EXTENSIONS:
        if bare.lower().endswith(extension) and len(bare) > len(extension):
            return bare[: -len(extension)]
    return bare or name


def _unique(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


class Database:
    """One database, ready to be read as often as needed.

    Attributes
    ----------
    name
        Its name in this run.
    columns
        Stripped column names in order.
    format
        How it is stored, for the summary: kind, compression, encoding, delimiter, header, files.
    n_bytes
        Stored size.
    announcements
        What has been guessed about it; one line each.
    """

    def __init__(self, source: Source, parts: Sequence[CsvTable | ArrowTable], stored: Sequence[Content]) -> None:
        self.name = source.name
        self._parts = tuple(parts)
        self._stored = tuple(stored)
        self.columns: tuple[str, ...] = self._parts[0].columns
        self.n_bytes = sum(content.n_bytes for content in stored)
        self.format: Mapping[str, str | bool | int] = {}
        self.announcements: tuple[str, ...] = ()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in input order.

        Parameters
        ----------
        columns
            Names out of `columns`; where there are none, only the batches' number of rows means anything.

        Yields
        ------
        RecordBatch
            Each column dictionary<int32, string>; what the storage calls null is null, text is exactly as stored.

        Raises
        ------
        InputError
            Naming file, line or column, where the data cannot be read.
        """
        for part in self._parts:
            yield from part.batches(columns)

    def digest(self) -> str:
        """SHA-256 of the stored bytes; of several parts, SHA-256 over the lines "digest  file name"."""
        if len(self._stored) == 1:
            return self._stored[0].digest()
        lines = [f"{content.digest()}  {os.path.basename(content.label)}\n" for content in self._stored]
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def open_database(source: Source, *, delimiter: str | None, encoding: str | None, stdin: BinaryIO | None) -> Database:
    """Open a database and check what its first part shows.

    Parameters
    ----------
    source
        What to open.
    delimiter, encoding
        The values of --delimiter and --encoding; None to detect. They concern delimited text only.
    stdin
        Standard input in binary; read to its end if the source is "-".

    Raises
    ------
    UsageError
        `delimiter` or `encoding` is impossible.
    InputError
        The input is missing, unreadable, empty, not a table, or has duplicate columns or ragged rows at its start; or
        its parts disagree on their columns.
    """
    delimiter = None if delimiter is None else parse_delimiter(delimiter)
    encoding = None if encoding is None else parse_encoding(encoding)
    parts: list[CsvTable | ArrowTable] = []
    stored: list[Content] = []
    announcements: list[str] = []
    for path in source.paths:
        if path == STDIN:
            if stdin is None:
                raise InputError("Standard input is closed.", "Pipe a table into vber, or name a file instead of -.")
            content = spool("standard input", stdin)
        else:
            content = content_of_path(path)
        part, notes = _open_part(content, delimiter, encoding)
        if parts and set(part.columns) != set(parts[0].columns):
            raise _disagreement(parts[0], part)
        parts.append(part)
        stored.append(content)
        announcements += [note for note in notes if note not in announcements]
    database = Database(source, parts, stored)
    database.format = _describe(parts, stored)
    database.announcements = tuple(announcements)
    return database


def _open_part(
    content: Content, delimiter: str | None, encoding: str | None
) -> tuple[CsvTable | ArrowTable, list[str]]:
    compression = compression_of(head_of(content, None, 8))
    head = head_of(content, compression, _ENCODING_SAMPLE)
    if not head:
        inside = "" if compression is None else f" (the {compression} data hold no bytes)"
        raise InputError(f"{content.label}: the file is empty{inside}.", "Leave it out, or check its export.")
    kind = _arrow_kind(head)
    if kind is not None:
        plain = content
        if compression is not None:
            # These formats are read by seeking, which compressed bytes do not allow.
            with as_file(decompressed(content, compression)) as file:
                plain = spool(content.label, file)
        table = ArrowTable(plain, kind)
        if not table.columns:
            raise InputError(f"{content.label}: has no columns.", "Check its export.")
        check_names(content.label, table.columns)
        return table, []
    _refuse_foreign(content.label, head)
    return _open_text(content, compression, head, delimiter, encoding)


def _arrow_kind(head: bytes) -> str | None:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    return "arrow-stream" if head.startswith(b"\xff\xff\xff\xff") else None


def _refuse_foreign(label: str, head: bytes) -> None:
    """Refuse what is known to be no table, by its first bytes."""
    fix = "Export the table as CSV or Parquet and give that file."
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise InputError(f"{label}: this is {what}.", fix)
    compression = compression_of(head)
    if compression is not None:
        raise InputError(f"{label}: is compressed twice (again {compression} inside).", "Decompress it once.")
    start = head[:512].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise InputError(f"{label}: this is an HTML or XML document.", fix)
    if start.startswith((b'{"', b'[{"', b"[\n  {", b"[{\n")):
        raise InputError(f"{label}: this is JSON.", fix)


def _open_text(
    content: Content, compression: str | None, head: bytes, delimiter: str | None, encoding: str | None
) -> tuple[CsvTable, list[str]]:
    label = content.label
    complete = len(head) < _ENCODING_SAMPLE
    notes = []
    detected, guessed = detect_encoding(head, complete=complete)
    if encoding is None or (is_utf8(encoding) and is_utf8(detected)):
        encoding = detected
        if guessed:
            notes.append(f"{label}: read as {encoding}, which is a guess (--encoding overrides)")
    _refuse_binary(label, head, encoding)
    prefer_tab = _without_compression(label.lower()).endswith((".tsv", ".tab"))
    size = _DIALECT_SAMPLE
    while True:
        text, whole = _first_text(content, compression, encoding, size)
        enough = whole or size >= _LARGEST_SAMPLE or len(re.findall(r"\r\n|\n|\r", text[: size // 2])) > 1
        if enough:
            break
        size *= 8
    if not text.strip():
        raise InputError(f"{label}: holds no rows, only blanks.", "Leave the file out, or check its export.")
    dialect = detect_dialect(label, text, complete=whole, delimiter=delimiter, prefer_tab=prefer_tab)
    if not dialect.header:
        notes.append(
            f"{label}: the first line looks like data, so its columns are called column1 to "
            f"column{len(dialect.names)} (a header line would name them)"
        )
    return CsvTable(content, compression, encoding, dialect), notes


def _first_text(content: Content, compression: str | None, encoding: str, size: int) -> tuple[str, bool]:
    """Return about the first `size` bytes of the text, and whether that is all of it."""
    with as_file(utf8_blocks(content, compression, encoding, check=True)) as file:
        data = file.read(size)
        whole = not file.peek(1)
    return data.decode("utf-8", "strict" if whole else "ignore"), whole


def _refuse_binary(label: str, head: bytes, encoding: str) -> None:
    """Refuse bytes that no text holds; single NULs or other controls inside good text are let through."""
    start = head[:65536]
    if encoding.startswith(("utf-16", "utf-32")):
        return
    controls = sum(start.count(byte) for byte in range(32) if byte not in b"\t\n\x0b\x0c\r\x1b")
    if controls > 0.02 * len(start) and controls > 1:
        raise InputError(
            f"{label}: this is binary data, not a table that vber reads.",
            "Give CSV, TSV, Parquet or Arrow; if it is text, name its encoding with --encoding (as in utf-16-le).",
        )


def _disagreement(first: CsvTable | ArrowTable, other: CsvTable | ArrowTable) -> InputError:
    only_first = [name for name in first.columns if name not in other.columns]
    only_other = [name for name in other.columns if name not in first.columns]
    difference = f"lacks {only_first[0]!r}" if only_first else f"has {only_other[0]!r} besides"
    return InputError(
        f"{other.content.label}: {difference}, unlike {first.content.label}; both are parts of one database.",
        "Give the parts the same columns, or name the files one by one as databases of their own.",
    )


def _describe(parts: Sequence[CsvTable | ArrowTable], stored: Sequence[Content]) -> dict[str, str | bool | int]:
    first = parts[0]
    description: dict[str, str | bool | int] = {"files": len(parts)}
    if isinstance(first, CsvTable):
        description |= {
            "kind": "csv",
            "encoding": first.encoding,
            "delimiter": first.dialect.delimiter,
            "quote": first.dialect.quote,
            "header": first.dialect.header,
            "compression": first.compression or "none",
        }
    else:
        compression = compression_of(head_of(stored[0], None, 8))
        description |= {"kind": first.kind, "compression": compression or "none"}
    return description
