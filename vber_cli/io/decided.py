"""Files of decided pairs: two columns of record ids, as a person or `vber review` writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.io.tables import open_database, resolve_sources

_IDS = (
    ("ida", "id1", "recordida", "recordid1", "left", "lefta", "a"),
    ("idb", "id2", "recordidb", "recordid2", "right", "b"),
)
_DATABASES = (("databasea", "database1", "dba", "db1"), ("databaseb", "database2", "dbb", "db2"))
_DECISION = ("decision", "match", "same")
YES, NO = ("yes", "y", "true", "1"), ("no", "n", "false", "0")


@dataclass(frozen=True)
class DecidedPairs:
    """The pairs of one file that were decided as asked for.

    Attributes
    ----------
    path, digest
        The file, and the SHA-256 of its bytes.
    row
        (P,) 1-based rows of the file, its header not counted.
    ids, databases
        The two columns of ids; of databases, with None where there is no such column or an empty cell.
    header
        The names of the id columns where these may be a pair themselves, the file having no header; else None.
    n_other
        Rows with another decision, or none.
    n_open
        Rows without a decision.
    """

    path: str
    digest: str
    row: tuple[int, ...]
    ids: tuple[tuple[str, str], ...]
    databases: tuple[tuple[str | None, str | None], ...]
    header: tuple[str, str] | None
    n_other: int
    n_open: int


def read_decided(path: str, wanted: Sequence[str], *, filled_in: bool = False) -> DecidedPairs:
    """Read a file of pairs.

    Parameters
    ----------
    path
        A table in any form that `vber merge` reads. The ids stand in the columns id_a and id_b, else in the first two;
        database_a and database_b may say whose they are. With a column `decision` only the rows whose decision is
        wanted count, without one all rows do.
    wanted
        `YES` or `NO`.
    filled_in
        Whether the file must have a column of decisions.

    Raises
    ------
    InputError
        If it cannot be read, has fewer than two columns, a missing id, a decision that is neither yes nor no, or no
        decisions where there should be some.
    """
    table = open_database(resolve_sources([path])[0], delimiter=None, encoding=None, stdin=None)
    if len(table.columns) < 2:
        raise InputError(f"{path} has one column", "give a table with the columns id_a and id_b")
    plain = {re.sub(r"[\s_.\-]", "", column).casefold(): column for column in reversed(table.columns)}

    def find(names: Sequence[str]) -> str | None:
        return next((plain[name] for name in names if name in plain), None)

    found = [find(names) for names in _IDS]
    named = found[0] is not None and found[1] is not None
    sides = [str(name) for name in found] if named else list(table.columns[:2])
    owners, decision = [find(names) for names in _DATABASES], find(_DECISION)
    if filled_in and decision is None:
        raise InputError(
            f"{path} has no column decision",
            "fill in a file of `vber review`, or give a list of pairs to --must-link or --cannot-link",
        )
    columns = list(dict.fromkeys(name for name in (*sides, *owners, decision) if name is not None))
    read = pa.Table.from_batches(
        table.batches(columns), pa.schema([(c, pa.dictionary(pa.int32(), pa.string())) for c in columns])
    )
    text = {name: _text(read.column(name)) for name in columns}
    rows, ids, databases = [], [], []
    for i in range(read.num_rows):
        if decision is not None and not _counts(path, i + 1, text[decision][i], wanted):
            continue
        a, b = text[sides[0]][i], text[sides[1]][i]
        if a is None or b is None:
            raise InputError(f"{path}, row {i + 1}: a pair needs two ids", "fill in both, or take the row out")
        rows.append(i + 1)
        ids.append((a, b))
        of_a, of_b = (None if name is None else text[name][i] for name in owners)
        databases.append((of_a, of_b))
    header = None if named or decision is not None else (sides[0], sides[1])
    n_other = read.num_rows - len(rows)
    n_open = 0 if decision is None else text[decision].count(None)
    return DecidedPairs(path, table.digest(), tuple(rows), tuple(ids), tuple(databases), header, n_other, n_open)


def _counts(path: str, row: int, decision: str | None, wanted: Sequence[str]) -> bool:
    word = (decision or "").casefold()
    if word and word not in YES and word not in NO:
        raise InputError(
            f"{path}, row {row}: the decision is neither yes nor no",
            "write one of them, or leave the cell empty",
            value=decision,
        )
    return word in wanted


def _text(column: pa.ChunkedArray) -> list[str | None]:
    """The cells without outer blanks; None where there is nothing."""
    trimmed = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return [value or None for value in trimmed.to_pylist()]
