"""A result against the truth: which records both know, and how well they agree.

The truth may cover a sample of the records; every score is over the records that it covers.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vber_cli.errors import InputError
from vber_cli.results.metrics import Calibration, Metrics, Score, calibrate, evaluate_partition
from vber_cli.results.truth import Truth, read_truth

LongArray = NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """What `vber evaluate` reports.

    Attributes
    ----------
    n_records
        Records in the result.
    n_truth
        Records that the truth gives an entity.
    n_not_in_result
        Those among them that the result does not hold.
    columns
        What each column of the truth was taken for, by its meaning.
    interval
        The result's 90 % interval of the number of individuals, where it states one.
    metrics
        Over the records covered.
    calibration
        Of the links between records covered; None without links.
    notes
        What the user should know about the truth file.
    """

    n_records: int
    n_truth: int
    n_not_in_result: int
    columns: dict[str, str]
    interval: tuple[float, float] | None
    metrics: Metrics
    calibration: Calibration | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        scores = {
            name: {"precision": score.precision, "recall": score.recall, "f1": score.f1}
            for name, score in self.scores().items()
        }
        metrics = self.metrics
        return {
            "records": {
                "result": self.n_records,
                "truth": self.n_truth,
                "covered": metrics.n_records,
                "not_in_result": self.n_not_in_result,
            },
            "individuals": {
                "found": metrics.n_found,
                "true": metrics.n_true,
                "correct": metrics.correct_clusters,
                "interval": list(self.interval) if self.interval else None,
            },
            "pairs": {"found": metrics.found_pairs, "true": metrics.true_pairs, "correct": metrics.correct_pairs},
            **scores,
            "calibration": dataclasses.asdict(self.calibration) if self.calibration else None,
            "truth_columns": self.columns,
            "notes": list(self.notes),
        }

    def scores(self) -> dict[str, Score]:
        """Return the three kinds of precision and recall by name."""
        return {
            "pairwise": self.metrics.pairwise,
            "b_cubed": self.metrics.b_cubed,
            "cluster": self.metrics.cluster,
        }


@dataclass(frozen=True)
class Assigned:
    """The records of a result, in its order.

    Attributes
    ----------
    databases
        Names.
    db_of_record, row, individual
        (N,) int64.
    record_id
        (N,) text.
    """

    databases: tuple[str, ...]
    db_of_record: LongArray
    row: LongArray
    record_id: pa.Array
    individual: LongArray


def evaluate(directory: Path, truth_path: str) -> Evaluation:
    """Score the result in `directory` against a truth file.

    Parameters
    ----------
    directory
        A result directory: assignments.parquet, and links.parquet and summary.json where it has them.
    truth_path
        A table of record ids and entities, in any form that `vber merge` reads.

    Raises
    ------
    InputError
        If the directory is no result, the truth cannot be read, contradicts itself, is ambiguous, or covers no record.
    """
    assigned = read_assignments(directory)
    truth = read_truth(truth_path, assigned.databases)
    record, entity, n_missing = join_truth(assigned, truth)
    if not len(record):
        sample = ", ".join(repr(value) for value in assigned.record_id[:3].to_pylist())
        raise InputError(
            f"{truth_path}: none of its ids ({truth.columns['record_id']}) is in the result",
            f"ids in the result look like {sample}; name the id column record_id and the entity column entity",
        )
    entity_of_record = np.full(len(assigned.individual), -1, dtype=np.int64)
    entity_of_record[record] = entity
    metrics = evaluate_partition(assigned.individual[record], entity)
    complete = len(record) == len(assigned.individual)
    return Evaluation(
        n_records=len(assigned.individual),
        n_truth=len(truth.record_id),
        n_not_in_result=n_missing,
        columns=truth.columns,
        interval=_interval(directory) if complete else None,
        metrics=metrics,
        calibration=_calibration(directory, assigned, entity_of_record, metrics.true_pairs),
        notes=truth.notes,
    )


def read_table(path: Path, columns: list[str]) -> pa.Table:
    """Read some columns of a result's table.

    Raises
    ------
    InputError
        If the file does not exist, is not readable, or lacks a column.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist", "give the directory that `vber merge` wrote")
    try:
        with pq.ParquetFile(path) as file:
            absent = [name for name in columns if name not in file.schema_arrow.names]
            if absent:
                raise InputError(f"{path} has no column {absent[0]}", "give the directory that `vber merge` wrote")
            return file.read(columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}", "run `vber merge` again") from None


def read_assignments(directory: Path) -> Assigned:
    """Read who is who from a result directory.

    Raises
    ------
    InputError
        If there is no readable assignments.parquet.
    """
    path = directory / "assignments.parquet"
    table = read_table(path, ["database", "row", "record_id", "individual"])
    if table.column("individual").null_count:
        raise InputError(f"{path} leaves records without an individual", "run `vber merge` again")
    encoded = _plain(table.column("database")).dictionary_encode()
    return Assigned(
        databases=tuple(encoded.dictionary.to_pylist()),
        db_of_record=encoded.indices.to_numpy().astype(np.int64),
        row=table.column("row").to_numpy().astype(np.int64),
        record_id=_plain(table.column("record_id")),
        individual=table.column("individual").to_numpy().astype(np.int64),
    )


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a text column as one array without dictionary."""
    combined = column.cast(pa.large_string()).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def join_truth(assigned: Assigned, truth: Truth) -> tuple[LongArray, LongArray, int]:
    """Find the records that the truth speaks of.

    Returns
    -------
    record : (n,) int64
        Positions in `assigned`, increasing, each once.
    entity : (n,) int64
        The entity of each, as a code.
    n_missing
        Records of the truth that the result does not hold.

    Raises
    ------
    InputError
        If an id stands for several records, or a record has two entities.
    """
    n, n_databases = len(assigned.record_id), max(len(assigned.databases), 1)
    ids = pc.utf8_trim_whitespace(pa.concat_arrays([assigned.record_id, truth.record_id])).dictionary_encode()
    code = ids.indices.to_numpy().astype(np.int64)
    if truth.database is None:
        key, wanted = code[:n], code[n:]
        _refuse_ambiguous(assigned, truth, key, wanted)
    else:
        key = code[:n] * n_databases + assigned.db_of_record
        wanted = np.where(truth.database >= 0, code[n:] * n_databases + truth.database, -1)
    order = np.argsort(key, kind="stable")
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), n - 1)
    record = order[place]
    known = key[record] == wanted
    entity = truth.entity.dictionary_encode().indices.to_numpy().astype(np.int64)
    pairs = np.unique(np.column_stack([record[known], entity[known]]), axis=0)
    twice = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(twice):
        name = assigned.record_id[int(pairs[twice[0], 0])].as_py()
        raise InputError(f"{truth.path}: record {name!r} has two entities", "keep one line per record")
    return pairs[:, 0], pairs[:, 1], int((~known).sum())


def _refuse_ambiguous(assigned: Assigned, truth: Truth, key: LongArray, wanted: LongArray) -> None:
    count = np.bincount(key, minlength=int(wanted.max(initial=-1)) + 1)
    clashes = np.flatnonzero(count[wanted] > 1)
    if not len(clashes):
        return
    first = int(clashes[0])
    databases = np.unique(assigned.db_of_record[key == wanted[first]])
    name = truth.record_id[first].as_py()
    if len(databases) == 1:
        raise InputError(
            f"{truth.path}: several records of {assigned.databases[databases[0]]} have the id {name!r}",
            "merge again with an --id column whose values are unique",
        )
    raise InputError(
        f"{truth.path}: record id {name!r} is in the databases "
        + ", ".join(assigned.databases[item] for item in databases[:3]),
        "add a column named database to the truth",
    )


def _calibration(
    directory: Path, assigned: Assigned, entity_of_record: LongArray, n_true_pairs: int
) -> Calibration | None:
    path = directory / "links.parquet"
    if not path.exists():
        return None
    table = read_table(path, ["database_a", "row_a", "database_b", "row_b", "probability"])
    width = int(assigned.row.max(initial=0)) + 1
    key = assigned.db_of_record * width + assigned.row
    order = np.argsort(key, kind="stable")
    sides = []
    for side in ("a", "b"):
        database = pc.index_in(
            _plain(table.column(f"database_{side}")), pa.array(assigned.databases, pa.large_string())
        )
        wanted = database.fill_null(-1).to_numpy().astype(np.int64) * width + table.column(f"row_{side}").to_numpy()
        record = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)]
        if not bool((key[record] == wanted).all()):
            raise InputError(f"{path} links records that assignments.parquet does not hold", "run `vber merge` again")
        sides.append(entity_of_record[record])
    covered = (sides[0] >= 0) & (sides[1] >= 0)
    is_true = (sides[0] == sides[1])[covered]
    probability = table.column("probability").to_numpy()[covered]
    return calibrate(probability, is_true, n_unlisted=max(n_true_pairs - int(is_true.sum()), 0))


def _interval(directory: Path) -> tuple[float, float] | None:
    """Return the 90 % interval of the number of individuals that the summary states."""
    try:
        found = json.loads((directory / "summary.json").read_text(encoding="utf-8"))["n"]
        return float(found["low"]), float(found["high"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
