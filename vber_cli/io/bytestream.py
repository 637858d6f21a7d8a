"""Bytes of an input, wherever they lie: files and pipes, decompressed, decoded to UTF-8, and hashed on the way."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import stat
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import pyarrow as pa

from vber_cli.errors import InputError

CHUNK = 1 << 20
# A pipe cannot be read twice: it is kept in memory up to this size, in a temporary file beyond it.
SPOOL_LIMIT = 64 << 20
# A file that unpacks to more than both of these is taken for a trap: tables rarely shrink to a tenth of that.
BOMB_BYTES = 1 << 30
BOMB_RATIO = 200

_COMPRESSIONS = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"))


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Content:
    """The bytes of one input, which can be read from the start as often as needed.

    Parameters
    ----------
    label
        What messages call it: the path as given, or "standard input".
    path
        The file, or None where `data` holds the bytes.
    data
        The bytes themselves.
    """

    def __init__(self, label: str, *, path: str | None = None, data: bytes | None = None) -> None:
        self.label = label
        self._path = path
        self._data = data
        self._digest: str | None = None

    def open(self) -> BinaryIO:
        """Open at the first byte; raises InputError where the file cannot be opened."""
        if self._path is None:
            return io.BytesIO(self._data or b"")
        try:
            return open(self._path, "rb")
        except OSError as error:
            raise unreadable(self.label, error) from error

    @property
    def path(self) -> str | None:
        """The file that holds the bytes, None where they are in memory."""
        return self._path

    @property
    def n_bytes(self) -> int:
        """Size in bytes, as stored (compressed)."""
        if self._path is None:
            return len(self._data or b"")
        try:
            return os.stat(self._path).st_size
        except OSError as error:
            raise unreadable(self.label, error) from error

    def digest(self) -> str:
        """SHA-256 of the stored bytes, in hexadecimal; free where a reader has gone through all of them."""
        if self._digest is None:
            with contextlib.closing(HashingReader(self)) as reader:
                while reader.read(CHUNK):
                    pass
        assert self._digest is not None
        return self._digest

    def note_digest(self, digest: str) -> None:
        """Keep the digest that a complete pass over the bytes has found."""
        self._digest = digest


class HashingReader:
    """Reads a `Content` from the start and leaves its digest there once the end is reached."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._file = content.open()
        self._hash = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Read at most `size` bytes; raises InputError where the system cannot."""
        try:
            data = self._file.read(size)
        except OSError as error:
            raise unreadable(self._content.label, error) from error
        if data:
            self._hash.update(data)
        elif size != 0:
            self._content.note_digest(self._hash.hexdigest())
        return data

    def readable(self) -> bool:
        """Say that this is an input."""
        return True

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._file.closed

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def unreadable(label: str, error: OSError) -> InputError:
    """Tell that an input cannot be read, with the system's reason."""
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return InputError(f"{label}: no such file.", "Check the path.")
    if isinstance(error, PermissionError):
        return InputError(f"{label}: permission denied.", "Make the file readable for this user, or copy it.")
    return InputError(f"{label}: cannot be read ({reason}).", "Check the file and the disk or network it lies on.")


def spool(label: str, stream: _Readable) -> Content:
    """Take in a stream that can be read only once.

    Small streams stay in memory; larger ones go to a temporary file that vanishes with the returned object.
    """
    try:
        parts: list[bytes] = []
        size = 0
        while size <= SPOOL_LIMIT:
            part = stream.read(CHUNK)
            if not part:
                return Content(label, data=b"".join(parts))
            parts.append(part)
            size += len(part)
        handle, path = tempfile.mkstemp(prefix="vber-input-")
        content = Content(label, path=path)
        weakref.finalize(content, _remove_quietly, path)
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            parts.clear()
            while part := stream.read(CHUNK):
                file.write(part)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{label}: cannot be kept in a temporary file ({reason}).",
            "Free space in the temporary directory, point TMPDIR elsewhere, or give the file by its path.",
        ) from error
    return content


def _remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def content_of_path(path: str) -> Content:
    """Open a path for reading; named pipes and process substitutions are taken in at once."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise unreadable(path, error) from error
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: is a directory.", "Name a file, or a directory that holds parts of one table.")
    if stat.S_ISREG(mode):
        return Content(path, path=path)
    try:
        with open(path, "rb") as file:
            return spool(path, file)
    except OSError as error:
        raise unreadable(path, error) from error


def compression_of(head: bytes) -> str | None:
    """Compression that the first bytes show: gzip, bzip2, zstd, xz, or None."""
    for magic, name in _COMPRESSIONS:
        if head.startswith(magic):
            return name
    return None


def decompressed(content: Content, compression: str | None) -> Iterator[bytes]:
    """Yield the content in blocks, decompressed.

    Raises
    ------
    InputError
        The file cannot be read, or the compressed data are damaged, end too early, or unpack to more than
        `BOMB_BYTES` and `BOMB_RATIO` times their size.
    """
    raw = HashingReader(content)
    try:
        reader = _decompressor(raw, compression)
        limit = max(BOMB_BYTES, BOMB_RATIO * content.n_bytes)
        n_bytes = 0
        while block := reader.read(CHUNK):
            n_bytes += len(block)
            if compression is not None and n_bytes > limit:
                raise _bomb(content, compression, n_bytes)
            yield block
        # Decompressors may stop short of the last byte; the digest covers the whole file.
        while raw.read(CHUNK):
            pass
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, OSError, pa.ArrowException) as error:
        short = isinstance(error, EOFError) or "runcated" in str(error)
        problem = "end too early" if short else "are damaged"
        raise InputError(
            f"{content.label}: the {compression or 'file'} data {problem}.", "Copy or download the file again."
        ) from error
    finally:
        raw.close()


def _bomb(content: Content, compression: str, n_bytes: int) -> InputError:
    return InputError(
        f"{content.label}: {content.n_bytes:,} bytes of {compression} data unpack to more than {n_bytes - 1:,} bytes, "
        f"over {BOMB_RATIO} times as many.",
        "If this is no trap, decompress the file and give the result.",
    )


def _decompressor(raw: HashingReader, compression: str | None) -> _Readable:
    if compression is None:
        return raw
    if compression == "zstd":
        stream: _Readable = pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
        return stream
    file: BinaryIO = raw  # type: ignore[assignment]  # the stdlib's readers call nothing but read
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file, mode="rb")
    if compression == "bzip2":
        return bz2.BZ2File(file, "rb")
    return lzma.LZMAFile(file, "rb")


def head_of(content: Content, compression: str | None, size: int) -> bytes:
    """Return the first `size` decompressed bytes, or all of them where there are fewer."""
    parts: list[bytes] = []
    length = 0
    with contextlib.closing(_Closable(decompressed(content, compression))) as blocks:
        for block in blocks:
            parts.append(block)
            length += len(block)
            if length >= size:
                break
    return b"".join(parts)[:size]


class _Closable:
    """An iterator of blocks that can be told that no more are wanted."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        return self._blocks

    def close(self) -> None:
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()


def utf8_blocks(content: Content, compression: str | None, encoding: str, *, check: bool = False) -> Iterator[bytes]:
    """Yield the text as UTF-8 without byte order mark.

    UTF-8 passes through unchecked (whoever parses it checks), unless `check` asks to find the first bad byte.

    Raises
    ------
    InputError
        The bytes are not valid in this encoding; the message names the line.
    """
    blocks = decompressed(content, compression)
    if is_utf8(encoding) and not check:
        first = True
        for block in blocks:
            yield block.removeprefix(codecs.BOM_UTF8) if first else block
            first = False
        return
    name = "utf-8-sig" if is_utf8(encoding) else encoding
    decoder = codecs.getincrementaldecoder(name)("strict")
    line = 1
    after_cr = False
    try:
        for block in blocks:
            text = decoder.decode(block)
            n_lines, after_cr = _count_line_ends(text, after_cr)
            line += n_lines
            if text:
                yield text.encode("utf-8", "surrogatepass")
        decoder.decode(b"", True)
    except UnicodeError as error:
        raise _undecodable(content.label, encoding, line, error) from error


def _count_line_ends(text: str, after_cr: bool) -> tuple[int, bool]:
    """Count line ends (LF, CR, CR LF as one), also where CR LF is cut in two by a block's end."""
    if not text:
        return 0, after_cr
    n = text.count("\n")
    if "\r" in text:
        n += text.count("\r") - text.count("\r\n")
    if after_cr and text[0] == "\n":
        n -= 1
    return n, text[-1] == "\r"


def _undecodable(label: str, encoding: str, line: int, error: UnicodeError) -> InputError:
    fix = "Name the file's encoding with --encoding, for example --encoding cp1252."
    if not isinstance(error, UnicodeDecodeError):
        return InputError(f"{label}: the text is not valid {encoding} ({error}).", fix)
    data = error.object
    before = data[: error.start]
    with contextlib.suppress(UnicodeError):
        line += _count_line_ends(before.decode(encoding), False)[0]
    bad = data[error.start : error.start + 1].hex().upper()
    where = f"{label}, line {line}"
    if error.reason == "unexpected end of data" or "truncated" in error.reason:
        return InputError(f"{where}: the {encoding} text ends in the middle of a character.", fix)
    return InputError(f"{where}: byte 0x{bad} is not valid {encoding}.", fix)


def is_utf8(encoding: str) -> bool:
    """Whether a codec's name means UTF-8, with or without byte order mark, or its subset ASCII."""
    return codecs.lookup(encoding).name in {"utf-8", "utf-8-sig"}


class _BlockReader(io.RawIOBase):
    """A raw file over an iterator of blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def close(self) -> None:
        if not self.closed:
            _Closable(self._blocks).close()
        super().close()


def as_file(blocks: Iterator[bytes]) -> io.BufferedReader:
    """Wrap an iterator of blocks as a buffered binary file; closing it closes the iterator."""
    return io.BufferedReader(_BlockReader(blocks), CHUNK)
