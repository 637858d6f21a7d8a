"""Results on disk: written beside their place, renamed into it when complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from vber_cli.errors import OutputError
from vber_cli.io.lock import OutputLock
from vber_cli.io.schema import RESULT_VERSION, with_metadata
from vber_cli.io.siblings import RESULT_KEY, SUMMARY, foreign_entry, make_sibling, recover, remove_result, sibling

_FILES_AT_ONCE = 2  # that are written to; one of them is large, and each holds tables in memory
_SPARE_BYTES = 1 << 20  # that should be left on the disk


class _Scribe:
    """Has a table of one file compressed and written by other threads while the next is made; one waits at most."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._last: Future[None] | None = None
        self.dismissed = False

    def give(self, work: Callable[[], None]) -> None:
        """Have it done after what was given before; an error of that is raised here."""
        self.wait()
        self._last = self._pool.submit(copy_context().run, work)

    def wait(self) -> None:
        """Wait until nothing is left to do."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def dismiss(self) -> None:
        """Come to an end at the table that is being written, and forget errors."""
        self.dismissed = True
        self._last = None


class TableWriter:
    """One Parquet file of a result; closed by the directory's `commit`."""

    def __init__(self, path: Path, schema: pa.Schema, shown: str, pool: ThreadPoolExecutor) -> None:
        from pyarrow import parquet

        self.schema = schema
        self._shown, self._scribe = shown, _Scribe(pool)
        # most whole numbers identify something: a dictionary of them would be larger than they are, and take longer
        columns = [column.name for column in schema if not pa.types.is_integer(column.type)]
        with writing(shown):
            self._writer = parquet.ParquetWriter(path, schema, compression="zstd", use_dictionary=columns)

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Append rows, whose columns are those of the schema in its order; they are written while the run goes on.

        Raises
        ------
        OutputError
            The disk is full or the file cannot be written; perhaps only when more is written, or at the end.
        """
        with writing(self._shown):
            self._scribe.give(lambda: self._append(rows))

    def write_all(self, tables: Iterable[pa.Table]) -> None:
        """Append tables that are made while they are written, while the run goes on; nothing can be written after.

        Raises
        ------
        OutputError
            The disk is full or the file cannot be written; perhaps only at the end.
        """

        def work() -> None:
            for table in tables:
                if self._scribe.dismissed:
                    return
                self._append(table)

        with writing(self._shown):
            self._scribe.give(work)

    def _append(self, rows: pa.Table | pa.RecordBatch) -> None:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        if not table.schema.equals(self.schema):
            table = table.cast(self.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file; a second call does nothing."""
        with writing(self._shown):
            self._scribe.wait()
            self._writer.close()

    def dismiss(self) -> None:
        """Begin nothing more, and tell no errors."""
        self._scribe.dismiss()

    def abandon(self) -> None:
        """Close the file unfinished, once nothing is written to it."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()


class ResultDirectory:
    """A result under construction: `with ResultDirectory(path, force=...) as result: ...; result.commit()`.

    Everything is written to a hidden sibling of `path`. `commit` renames it; leaving the block without a commit
    removes it. What was at `path` before stays as it was until the commit, and is then removed file by file, only
    what vber wrote. Inside the block no other run can write there, and what dead runs left has been cleared up.

    Parameters
    ----------
    path
        Where the result belongs.
    force
        Whether an older result there may be replaced.

    Attributes
    ----------
    restored
        Whether a run had died while it replaced the result, so that the older one was put back.

    Raises
    ------
    OutputError
        The place is taken by something that may not be replaced, or by another run, or cannot be written to.
    """

    def __init__(self, path: str | os.PathLike[str], *, force: bool) -> None:
        self._shown = os.fspath(path)
        self.force = force
        if not self._shown:
            raise OutputError("The result directory has no name.", "Name a directory with --out.")
        # A symbolic link keeps pointing to its directory; the directory is what gets replaced.
        self.path = Path(os.path.realpath(self._shown))
        self._check_place()
        self._check_parent()
        self._temporary: Path | None = None
        self._writers: list[TableWriter] = []
        self._pool = ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="vber-write")
        self._summary: dict[str, Any] | None = None
        self._created: list[Path] = []
        self._lock: OutputLock | None = None
        self.restored = False

    def __enter__(self) -> ResultDirectory:
        try:
            with writing(self._shown):
                for parent in reversed([p for p in self.path.parents if not p.exists()]):
                    parent.mkdir(exist_ok=True)
                    self._created.append(parent)
                self._lock = OutputLock(self.path, self._shown)
                if self._lock.held:
                    self.restored = recover(self.path)
                self._check_place()
                self._temporary = make_sibling(self.path, "tmp")
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers:
            writer.dismiss()
        self._pool.shutdown(cancel_futures=True)
        for writer in self._writers:
            writer.abandon()
        self._leave()

    def _leave(self) -> None:
        """Remove what is unfinished, free the lock, and remove the directories made for nothing."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if not self.path.exists():
            for parent in reversed(self._created):
                with contextlib.suppress(OSError):
                    parent.rmdir()

    def check_space(self, n_bytes: float) -> None:
        """Refuse to go on where the disk has no room for so many bytes.

        Raises
        ------
        OutputError
            There is less.
        """
        assert self._temporary is not None, "the result directory is not open"
        with writing(self._shown):
            free = shutil.disk_usage(self._temporary).free
        if free < n_bytes + _SPARE_BYTES:
            raise OutputError(
                f"{self._shown}: the result may need {n_bytes / 2**20:,.1f} MiB, and its disk has "
                f"{free / 2**20:,.1f} MiB left",
                "free space, or name another place with --out",
            )

    def writer(self, table_name: str, schema: pa.Schema, metadata: Mapping[str, str]) -> TableWriter:
        """Start `<table_name>.parquet`.

        Raises
        ------
        OutputError
            The file cannot be written.
        """
        path = self._inside(f"{table_name}.parquet")
        writer = TableWriter(path, with_metadata(schema, metadata), self._shown, self._pool)
        self._writers.append(writer)
        return writer

    def write_json(self, name: str, obj: Any) -> None:
        """Write an object as JSON; `summary.json` is completed by `commit` with the list of the result's files.

        Raises
        ------
        OutputError
            The file cannot be written.
        """
        path = self._inside(name)
        if name == SUMMARY:
            self._summary = dict(obj)
        self._dump(path, obj)

    def commit(self) -> None:
        """Complete the files and put the result in its place.

        Raises
        ------
        OutputError
            The disk is full, or the place has been taken meanwhile; what was there is untouched.
        """
        temporary = self._inside("").parent if self._temporary is None else self._temporary
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        summary = dict(self._summary or {})
        files = sorted({SUMMARY, *os.listdir(temporary)})
        summary[RESULT_KEY] = {"format": "vber result", "version": RESULT_VERSION, "files": files}
        self._dump(temporary / SUMMARY, summary)
        with writing(self._shown):
            for entry in temporary.iterdir():
                _flush(entry)
            _flush(temporary)
        self._check_place()
        self._replace(temporary)
        self._temporary = None

    def _replace(self, temporary: Path) -> None:
        with writing(self._shown):
            old = sibling(self.path, "old")
            try:
                if self.path.exists():
                    os.rename(self.path, old)
                os.rename(temporary, self.path)
            except BaseException:  # a signal may come in between as well
                if old.exists() and not self.path.exists():
                    os.rename(old, self.path)
                raise
            with contextlib.suppress(OSError):
                _flush(self.path.parent)
        with contextlib.suppress(OSError):
            remove_result(old)

    def _inside(self, name: str) -> Path:
        if self._temporary is None:
            raise RuntimeError("the result directory is not open")
        return self._temporary / name

    def _dump(self, path: Path, obj: Any) -> None:
        text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False)
        with writing(self._shown):
            # Names of files may hold bytes that are no text; JSON escapes them.
            path.write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))

    def _check_place(self) -> None:
        """Refuse a place that holds anything but an older result or nothing."""
        path, shown = self.path, self._shown
        if not os.path.lexists(path):
            return
        if not path.is_dir():
            raise OutputError(f"{shown}: exists and is not a directory.", "Name another directory with --out.")
        if path == Path.cwd() or path in Path.cwd().parents or os.path.ismount(path):
            raise OutputError(
                f"{shown}: is the current directory, one above it, or a mount point, and cannot be replaced.",
                f"Name a directory inside it, as in --out {os.path.join(shown, 'vber-out')}",
            )
        try:
            entries = sorted(os.listdir(path))
        except OSError as error:
            raise OutputError(f"{shown}: cannot be read ({error.strerror}).", "Name another with --out.") from error
        if not entries:
            return
        if not self.force:
            raise OutputError(
                f"{shown}: exists already.", "Name another directory with --out, or replace with --force."
            )
        foreign = foreign_entry(path, entries)
        if foreign is not None:
            raise OutputError(
                f"{shown}: holds {foreign!r}, which is not part of a vber result; --force replaces nothing else.",
                "Move it away, or name another directory with --out.",
            )

    def _check_parent(self) -> None:
        parent = next(p for p in self.path.parents if os.path.lexists(p))
        if not parent.is_dir():
            raise OutputError(f"{parent}: is not a directory.", "Name another place with --out.")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise OutputError(
                f"{self._shown}: the directory {parent} cannot be written to.", "Name another place with --out."
            )


def _flush(path: Path) -> None:
    """Have the system put a file or directory on the disk, where it can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def writing(shown: str) -> Iterator[None]:
    """Turn the system's errors into an OutputError that names the result."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise OutputError(
            f"{shown}: cannot be written ({reason}).", "Free space, or name another place with --out."
        ) from error
