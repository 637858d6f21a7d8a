"""Which record an id means: the id alone where only one database has it, else the database and the id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vber_cli.errors import InputError
from vber_cli.model.types import IntArray

DEFUSED = "'"  # begins a cell that would have been a formula


class RecordFinder:
    """Finds records by id.

    Parameters
    ----------
    databases
        (D,) names.
    db_of_record
        (N,) int32.
    record_id
        (N,) text.
    """

    def __init__(self, databases: Sequence[str], db_of_record: IntArray, record_id: pa.Array) -> None:
        self._names = tuple(databases)
        self._database = {name: d for d, name in enumerate(databases)}
        self._db_of_record = db_of_record
        encoded = record_id.cast(pa.large_string()).dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False)
        self._order = np.argsort(code, kind="stable")
        self._edges = np.searchsorted(code[self._order], np.arange(len(encoded.dictionary) + 1))
        self._code = {text: i for i, text in enumerate(encoded.dictionary.to_pylist())}

    def knows(self, text: str) -> bool:
        """Whether some record may be meant by the text."""
        return len(self._candidates(text, None)) > 0

    def find(self, text: str, database: str | None, where: str) -> int:
        """The record that the id means.

        Parameters
        ----------
        text
            The id, or DATABASE:ID.
        database
            The name of its database where that is given apart.
        where
            File and row, for messages.

        Raises
        ------
        InputError
            If no record has the id, or several have it.
        """
        if database is not None and database not in self._database:
            database = database.removeprefix(DEFUSED)
        if database is not None and database not in self._database:
            raise InputError(
                f"{where}: there is no database {database!r}", f"the databases are {', '.join(self._names)}"
            )
        found = self._candidates(text, database)
        if len(found) == 0:
            scope = "no record" if database is None else f"no record of {database}"
            raise InputError(
                f"{where}: {scope} has the id {text!r}",
                "give ids as they stand in the databases, or row numbers from 0 where there is no id column",
            )
        if len(found) > 1:
            owners = list(dict.fromkeys(self._names[self._db_of_record[r]] for r in found))
            if len(owners) == 1:
                raise InputError(f"{where}: {len(found)} records of {owners[0]} have the id {text!r}", "make it unique")
            raise InputError(
                f"{where}: the id {text!r} is in {len(owners)} databases, {', '.join(owners)}",
                f"write {owners[0]}:{text}, or another of them, in its place",
            )
        return int(found[0])

    def _candidates(self, text: str, database: str | None) -> list[int]:
        found = self._written(text, database)
        if not found and text.startswith(DEFUSED):
            # `vber review` puts it before what a spreadsheet would take for a formula.
            found = self._written(text.removeprefix(DEFUSED), database)
        return found

    def _written(self, text: str, database: str | None) -> list[int]:
        if database is not None:
            return self._within(text, self._database[database])
        found = self._within(text, None)
        for name, d in self._database.items():
            if text.startswith(f"{name}:"):
                found += [r for r in self._within(text[len(name) + 1 :], d) if r not in found]
        return found

    def _within(self, text: str, d: int | None) -> list[int]:
        code = self._code.get(text)
        if code is None:
            return []
        records = self._order[self._edges[code] : self._edges[code + 1]].tolist()
        return [r for r in records if d is None or self._db_of_record[r] == d]
