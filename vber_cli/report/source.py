"""What a report is made from: the tables and the summary of one result directory, as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vber_cli.errors import InputError
from vber_cli.io.schema import record_columns
from vber_cli.io.siblings import SUMMARY
from vber_cli.results.open_result import OpenResult, plain_text

FloatArray = NDArray[np.float64]
LongArray = NDArray[np.int64]
Key = tuple[int, int]
"""A record: the position of its database among the names, and its row there."""

_AGAIN = "run `vber merge` again"
_LEVEL = "level_"
MISSING_LEVEL = 9


@dataclass(frozen=True)
class Records:
    """The records of a result and where they belong.

    Attributes
    ----------
    database, row, individual
        (N,) int64; `database` is the position among the result's names.
    record_id
        (N,) text.
    probability
        (N,) float64, that the record belongs where it is.
    runner_up
        (N,) int64, the second best individual, −1 for none or one of its own.
    runner_up_probability
        (N,) float64, NaN where there is no second best.
    """

    database: LongArray
    row: LongArray
    record_id: pa.Array
    individual: LongArray
    probability: FloatArray
    runner_up: LongArray
    runner_up_probability: FloatArray


@dataclass(frozen=True)
class Links:
    """Pairs of records that may be the same.

    Attributes
    ----------
    a, b
        (P,) int64, positions among the records.
    probability
        (P,) float64.
    levels
        (P, F) int8: 0 identical, 1 one slip apart, 2 similar, 3 different, 9 missing on either side.
    """

    a: LongArray
    b: LongArray
    probability: FloatArray
    levels: NDArray[np.int8]


@dataclass(frozen=True)
class Trace:
    """The steps of the inference: kind (text), bound and seconds (T,) float64."""

    kind: tuple[str, ...]
    bound: FloatArray
    seconds: FloatArray


@dataclass(frozen=True)
class Result:
    """One result directory.

    Attributes
    ----------
    directory
        Where it is.
    summary
        The content of summary.json; see `number` and `items` for reading it.
    databases, fields
        Names, in their order.
    links
        None where the run wrote none (the paper's literal updates).
    """

    directory: Path
    summary: Mapping[str, Any]
    databases: tuple[str, ...]
    fields: tuple[str, ...]
    records: Records
    links: Links | None
    trace: Trace

    def number(self, *keys: str) -> float | None:
        """A number of the summary by its path; None where it holds none."""
        return number(self.summary, *keys)

    def items(self, *keys: str) -> list[Mapping[str, Any]]:
        """A list of objects of the summary by its path; empty where it holds none."""
        found = _at(self.summary, keys)
        return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []

    def mapping(self, *keys: str) -> Mapping[str, Any]:
        """An object of the summary by its path; empty where it holds none."""
        found = _at(self.summary, keys)
        return found if isinstance(found, Mapping) else {}


def number(values: Mapping[str, Any], *keys: str) -> float | None:
    """A number by its path in nested objects; None where there is none."""
    found = _at(values, keys)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _at(values: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def read_result(directory: Path) -> Result:
    """Read a result directory.

    Raises
    ------
    InputError
        If it is none, or a file in it is missing, unreadable or contradicts another.
    """
    summary = _read_summary(directory / SUMMARY)
    opened = OpenResult(directory)
    inputs, fields = summary.get("inputs"), summary.get("fields")
    databases = [str(item["name"]) for item in inputs if "name" in item] if isinstance(inputs, list) else []
    records = _read_records(opened, databases)
    names = [str(item["field"]) for item in fields if "field" in item] if isinstance(fields, list) else []
    links = _read_links(opened, names) if opened.has("links") else None
    trace = opened.table("trace", ["kind", "bound", "seconds"])
    kinds = tuple(plain_text(trace.column("kind")).to_pylist())
    steps = Trace(
        kinds,
        _floats(trace.column("bound")),
        _floats(trace.column("seconds")),
    )
    return Result(directory, summary, tuple(databases), tuple(names), records, links, steps)


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path} does not exist", "give the directory that `vber merge` wrote")
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}", _AGAIN) from None
    if not isinstance(summary, dict) or _at(summary, ("result", "format")) != "vber result":
        raise InputError(f"{path} is not the summary of a vber result", "give the directory that `vber merge` wrote")
    return summary


def _read_records(opened: OpenResult, databases: list[str]) -> Records:
    """Read the assignments; names that the summary does not list are added to `databases`."""
    columns = ["database", "row", "record_id", "individual", "probability", "runner_up", "runner_up_probability"]
    table = opened.table("assignments", columns)
    return Records(
        database=_positions(table.column("database"), databases),
        row=_longs(table.column("row")),
        record_id=plain_text(table.column("record_id")),
        individual=_longs(table.column("individual")),
        probability=_floats(table.column("probability")),
        runner_up=_longs(table.column("runner_up")),
        runner_up_probability=_floats(table.column("runner_up_probability")),
    )


def _read_links(opened: OpenResult, fields: Sequence[str]) -> Links:
    names = [f"{_LEVEL}{field}" for field in fields]
    table = opened.table("links", ["database_a", "row_a", "database_b", "row_b", "probability", *names])
    ends = [opened.positions(table.column(f"database_{side}"), table.column(f"row_{side}")) for side in "ab"]
    levels = np.full((table.num_rows, len(fields)), MISSING_LEVEL, dtype=np.int8)
    for f, name in enumerate(names):
        levels[:, f] = table.column(name).to_numpy()
    return Links(ends[0], ends[1], _floats(table.column("probability")), levels)


def _longs(column: pa.ChunkedArray) -> LongArray:
    """(n,) int64 of a column of integers; −1 for null."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), -1).to_numpy(), dtype=np.int64)


def _floats(column: pa.ChunkedArray) -> FloatArray:
    """(n,) float64 of a column of numbers; NaN for null."""
    return np.asarray(pc.fill_null(column.cast(pa.float64()), float("nan")).to_numpy(), dtype=np.float64)


def _positions(column: pa.ChunkedArray, names: list[str]) -> LongArray:
    """(n,) int64, the position of each name among `names`, which unknown ones are appended to."""
    encoded = plain_text(column).dictionary_encode()
    place = {name: position for position, name in enumerate(names)}
    of_code = []
    for name in encoded.dictionary.to_pylist():
        if name not in place:
            place[name] = len(names)
            names.append(name)
        of_code.append(place[name])
    return np.asarray(np.array(of_code, dtype=np.int64)[encoded.indices.to_numpy()], dtype=np.int64)


def read_values(result: Result, wanted: set[Key]) -> dict[Key, list[str | None]] | None:
    """The values of some records as they were read, one for each field of the result; None where it keeps no records.

    Parameters
    ----------
    wanted
        Records by database and row; those the file does not have are left out.

    Raises
    ------
    InputError
        If records.parquet is there but cannot be read.
    """
    path = result.directory / "records.parquet"
    if not path.exists():
        return None
    try:
        with pq.ParquetFile(path) as file:
            present = file.schema_arrow.names
            columns = [name if name in present else None for name in record_columns(result.fields)]
            kept_columns = [name for name in columns if name is not None]
            names = list(result.databases)
            found: dict[Key, list[str | None]] = {}
            for batch in file.iter_batches(batch_size=1 << 14):
                part = pa.Table.from_batches([batch])
                database, row = _positions(part.column("database"), names), _longs(part.column("row"))
                pairs = list(zip(database.tolist(), row.tolist(), strict=True))
                hits = [i for i, key in enumerate(pairs) if key in wanted]
                kept = part.select(kept_columns).take(pa.array(hits, pa.int64())).to_pydict() if hits else {}
                for place, i in enumerate(hits):
                    cells = [None if name is None else kept[name][place] for name in columns]
                    found[pairs[i]] = [None if cell is None else str(cell) for cell in cells]
    except (pa.ArrowInvalid, KeyError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}", _AGAIN) from None
    return found
