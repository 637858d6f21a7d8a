"""A result directory, opened: its tables, its records by name, and plain words where it is not what it should be."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vber_cli.errors import InputError
from vber_cli.io.schema import read_metadata

LongArray = NDArray[np.int64]
_WINDOW = 2000  # ids compared with an unknown one, to either side of its place in alphabetical order
_SEPARATOR = ":"


def plain_text(column: pa.ChunkedArray) -> pa.Array:
    """Return a text column as one array without dictionary."""
    combined = column.cast(pa.large_string()).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


class OpenResult:
    """A result of `vber merge` or `vber sample` on disk; everything is read when it is first asked for.

    Parameters
    ----------
    path
        The directory.

    Raises
    ------
    InputError
        It is not a directory, or holds no assignments.parquet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise InputError(f"{path} does not exist", "give the directory that `vber merge` wrote")
        if not path.is_dir():
            raise InputError(f"{path} is a file, not a result directory", "give the directory that `vber merge` wrote")
        if not self.has("assignments"):
            raise InputError(
                f"{path / 'assignments.parquet'} does not exist: {path} is no result directory",
                "give the directory that `vber merge` wrote",
            )

    def has(self, name: str) -> bool:
        """Say whether a table is there."""
        return (self.path / f"{name}.parquet").is_file()

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a table, or some of its columns.

        Raises
        ------
        InputError
            It is absent or unreadable, or a column is.
        """
        path = self.path / f"{name}.parquet"
        if not path.exists():
            raise InputError(f"{path} does not exist", "run `vber merge` again, or give the directory that it wrote")
        try:
            with pq.ParquetFile(path) as file:
                absent = [name for name in columns or () if name not in file.schema_arrow.names]
                if absent:
                    raise InputError(f"{path} has no column {absent[0]}", "give the directory that `vber merge` wrote")
                return file.read(columns=None if columns is None else list(columns))
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is not a readable Parquet file: {reason}", "run `vber merge` again") from None

    def metadata(self, name: str) -> dict[str, str]:
        """Return the facts in a table's schema.

        Raises
        ------
        InputError
            It is absent or unreadable.
        """
        return read_metadata(self.table(name, []).schema)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Content of summary.json; empty where there is none that can be read."""
        try:
            found = json.loads((self.path / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def assignments(self) -> pa.Table:
        """The table of assignments.

        Raises
        ------
        InputError
            A record has no individual, or the table is unreadable.
        """
        table = self.table("assignments", ["database", "row", "record_id", "individual"])
        if table.column("individual").null_count:
            raise InputError(
                f"{self.path / 'assignments.parquet'} leaves records without an individual", "run `vber merge` again"
            )
        return table

    @property
    def n_records(self) -> int:
        """N."""
        return len(self.assignments)

    @cached_property
    def _databases(self) -> tuple[tuple[str, ...], LongArray]:
        encoded = plain_text(self.assignments.column("database")).dictionary_encode()
        return tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int64)

    @property
    def databases(self) -> tuple[str, ...]:
        """(D,) names, in the order of the inputs; a database without records is not among them."""
        return self._databases[0]

    @property
    def db_of_record(self) -> LongArray:
        """(N,) int64."""
        return self._databases[1]

    @cached_property
    def row(self) -> LongArray:
        """(N,) int64, the row of each record in its database."""
        return np.asarray(self.assignments.column("row").to_numpy(), dtype=np.int64)

    @cached_property
    def record_id(self) -> pa.Array:
        """(N,) text."""
        return plain_text(self.assignments.column("record_id"))

    @cached_property
    def individual(self) -> LongArray:
        """(N,) int64."""
        return np.asarray(self.assignments.column("individual").to_numpy(), dtype=np.int64)

    def name_of(self, record: int) -> str:
        """Return a record's name as it can be given to the commands: database:id."""
        return f"{self.databases[int(self.db_of_record[record])]}{_SEPARATOR}{self.record_id[record].as_py()}"

    def positions(self, databases: pa.ChunkedArray, rows: pa.ChunkedArray) -> LongArray:
        """(n,) int64: place of each record in the assignments, by database and row.

        Raises
        ------
        InputError
            There is no such record.
        """
        db = pc.index_in(plain_text(databases), pa.array(self.databases, pa.large_string())).fill_null(-1)
        width = int(self.row.max(initial=0)) + 1
        key = self.db_of_record * width + self.row
        row = rows.to_numpy().astype(np.int64)
        wanted = np.where(row < width, db.to_numpy().astype(np.int64) * width + row, -1)
        order = np.argsort(key, kind="stable")
        place: LongArray = order[np.minimum(np.searchsorted(key, wanted, sorter=order), max(len(key) - 1, 0))]
        if not bool((key[place] == wanted).all()):
            raise InputError(
                f"{self.path}: its links name records that assignments.parquet does not hold", "run `vber merge` again"
            )
        return place

    def find_record(self, name: str) -> int:
        """Return the place of the record called `id` or `database:id`.

        Raises
        ------
        InputError
            There is none, or the id is in several databases.
        """
        found = self.records_called(name)
        if len(found) == 1:
            return int(found[0])
        if not len(found):
            raise InputError(f"{self.path} has no record {name!r}", self._nearest(name))
        names = [self.name_of(int(record)) for record in found]
        shown = ", ".join(self.databases[int(self.db_of_record[record])] for record in found[:3])
        raise InputError(f"id {name!r} is in the databases {shown}", f"write it with its database, such as {names[0]}")

    def records_called(self, name: str) -> LongArray:
        """Places of the records called `id` or `database:id`."""
        found = self._with_id(name)
        if len(found):
            return found
        # a database's name may hold colons as well
        for at in [i for i, c in enumerate(name) if c == _SEPARATOR]:
            database = name[:at]
            if database in self.databases:
                found = self._with_id(name[at + 1 :])
                mine: LongArray = found[self.db_of_record[found] == self.databases.index(database)]
                return mine
        return found

    def _with_id(self, record_id: str) -> LongArray:
        found: LongArray = np.flatnonzero(np.asarray(pc.equal(self.record_id, record_id)))
        return found

    def _nearest(self, name: str) -> str:
        ids = self.record_id
        if _SEPARATOR in name and name.split(_SEPARATOR, 1)[0] in self.databases:
            name = name.split(_SEPARATOR, 1)[1]
        ordered = np.sort(np.array(ids.to_pylist(), dtype=object))
        at = int(np.searchsorted(ordered, name))
        window = ordered[max(at - _WINDOW, 0) : at + _WINDOW].tolist()
        close = difflib.get_close_matches(name, window, n=1, cutoff=0.5)
        if close:
            return f"did you mean {self.name_of(int(self._with_id(close[0])[0]))}?"
        return f"ids in the result look like {', '.join(repr(value) for value in ids[:3].to_pylist())}"
