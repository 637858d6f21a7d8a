"""The truth file of an evaluation: which column is what, and its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vber_cli.errors import InputError
from vber_cli.io.tables import open_database, resolve_sources

DATABASE_NAMES = ("database", "db", "dataset", "source", "file", "list")
RECORD_NAMES = ("recordid", "recid", "record", "rid", "id")
ENTITY_NAMES = (
    "entity",
    "entityid",
    "entid",
    "individual",
    "individualid",
    "person",
    "personid",
    "cluster",
    "clusterid",
    "trueid",
    "truth",
    "group",
    "groupid",
    "uniqueid",
    "label",
)


@dataclass(frozen=True)
class Truth:
    """Records and the entity each describes; those without an entity are left out.

    Attributes
    ----------
    path
        Of the file, for messages.
    columns
        The name of each column that is used, by its meaning: database (if there is one), record_id, entity.
    database
        (n,) int64, position among the result's databases, -1 for another name; None without such a column.
    record_id, entity
        (n,) text.
    notes
        What the user should know.
    """

    path: str
    columns: dict[str, str]
    database: NDArray[np.int64] | None
    record_id: pa.Array
    entity: pa.Array
    notes: tuple[str, ...]


def recognise_columns(columns: Sequence[str]) -> dict[str, str]:
    """Say which column is the database, the record id and the entity.

    Usual names are recognised, whatever their case and separators; what is left open is taken from the first columns.

    Raises
    ------
    ValueError
        If there are fewer than two columns.
    """
    plain = {column: re.sub(r"[\s_.\-]", "", column).casefold() for column in columns}

    def first(names: Sequence[str]) -> str | None:
        return next((column for name in names for column in columns if plain[column] == name), None)

    found = {"database": first(DATABASE_NAMES), "record_id": first(RECORD_NAMES), "entity": first(ENTITY_NAMES)}
    if len(columns) < 2 + (found["database"] is not None):
        found["database"] = None
    for meaning in ("record_id", "entity"):
        if found[meaning] is None:
            found[meaning] = next((column for column in columns if column not in found.values()), None)
    if found["record_id"] is None or found["entity"] is None:
        raise ValueError("a truth needs two columns")
    return {meaning: column for meaning, column in found.items() if column is not None}


def read_truth(path: str, databases: Sequence[str]) -> Truth:
    """Read a truth file.

    Parameters
    ----------
    path
        A table in any form that `vber merge` reads.
    databases
        Names of the result's databases.

    Raises
    ------
    InputError
        If it cannot be read or has fewer than two columns.
    """
    source = resolve_sources([path])[0]
    table = open_database(source, delimiter=None, encoding=None, stdin=None)
    try:
        columns = recognise_columns(table.columns)
    except ValueError:
        raise InputError(f"{path} has one column", "give a table with the columns record_id and entity") from None
    read = pa.Table.from_batches(table.batches(list(columns.values())))
    text = {meaning: _text(read.column(column)) for meaning, column in columns.items()}
    kept = pc.and_(_present(text["record_id"]), _present(text["entity"]))
    text = {meaning: array.filter(kept) for meaning, array in text.items()}
    notes = []
    skipped = read.num_rows - len(text["record_id"])
    if skipped:
        notes.append(f"{path}: {skipped:,} lines without an id or an entity are left out")
    database = None
    if "database" in text:
        database = _positions(text["database"], databases)
        if not (database >= 0).any():
            notes.append(f"{path}: column {columns['database']!r} names no database of the result and is not used")
            columns = {meaning: column for meaning, column in columns.items() if meaning != "database"}
            database = None
    return Truth(path, columns, database, text["record_id"], text["entity"], tuple(notes))


def _text(column: pa.ChunkedArray) -> pa.Array:
    chunks = [pc.utf8_trim_whitespace(chunk.cast(pa.large_string())) for chunk in column.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())


def _present(text: pa.Array) -> pa.Array:
    return pc.not_equal(text, "").fill_null(False)


def _positions(names: pa.Array, databases: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each name among the databases, -1 for none; ``dir/a.csv.gz`` may stand for ``a``."""
    place = {name: position for position, name in enumerate(databases)}
    encoded = names.dictionary_encode()
    of_name = [
        place.get(name, place.get(PurePath(name).name.split(".")[0], -1)) if name is not None else -1
        for name in encoded.dictionary.to_pylist()
    ]
    positions = np.array([*of_name, -1], dtype=np.int64)
    found: NDArray[np.int64] = positions[encoded.indices.fill_null(len(of_name)).to_numpy()]
    return found
