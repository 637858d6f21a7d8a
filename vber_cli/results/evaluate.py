"""A result against the truth: which records both know, and how well they agree.

The truth may cover a sample of the records; every score is over the records that it covers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.model.types import LongArray
from vber_cli.results.explain import read_links
from vber_cli.results.metrics import Calibration, Metrics, Score, calibrate, evaluate_partition
from vber_cli.results.open_result import OpenResult
from vber_cli.results.sampling import SampleEstimates, estimate
from vber_cli.results.truth import Truth, read_truth
from vber_cli.results.worst import WorstErrors, worst_errors


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
    sample
        Scores with standard errors; None where the truth covers every record.
    worst
        The worst errors.
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
    sample: SampleEstimates | None
    worst: WorstErrors
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        metrics, sample = self.metrics, self.sample
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
                "true_estimate": None if sample is None else sample.n_individuals,
                "true_estimate_standard_error": None if sample is None else sample.n_individuals_error,
            },
            "pairs": {"found": metrics.found_pairs, "true": metrics.true_pairs, "correct": metrics.correct_pairs},
            **{
                name: {"precision": score.precision, "recall": score.recall, "f1": score.f1}
                for name, score in self.scores().items()
            },
            "standard_errors": None if sample is None else _errors_to_dict(sample),
            "calibration": dataclasses.asdict(self.calibration) if self.calibration else None,
            "errors": {
                "false": self.worst.n_false,
                "missed": self.worst.n_missed,
                "worst_false": [pair.to_dict() for pair in self.worst.false_links],
                "worst_missed": [pair.to_dict() for pair in self.worst.missed_links],
            },
            "truth_columns": self.columns,
            "notes": list(self.notes),
        }

    def scores(self) -> dict[str, Score]:
        """Return the three kinds of precision and recall by name, as estimated where the truth is a sample."""
        if self.sample is not None:
            return {name: item.score for name, item in self.sample.estimates().items()}
        return {
            "pairwise": self.metrics.pairwise,
            "b_cubed": self.metrics.b_cubed,
            "cluster": self.metrics.cluster,
        }

    def measures(self) -> list[tuple[str, float, float | None]]:
        """Return every number by name, with its standard error where it has one."""
        rows: list[tuple[str, float, float | None]] = []
        estimates = {} if self.sample is None else self.sample.estimates()
        for name, score in self.scores().items():
            item = estimates.get(name)
            errors = (None,) * 3 if item is None else (item.precision_error, item.recall_error, item.f1_error)
            for part, value, error in zip(
                ("precision", "recall", "f1"), (score.precision, score.recall, score.f1), errors, strict=True
            ):
                rows.append((f"{name}_{part}", value, _known(error)))
        metrics = self.metrics
        rows += [
            ("records_covered", metrics.n_records, None),
            ("individuals_found", metrics.n_found, None),
            ("individuals_true", metrics.n_true, None),
            ("individuals_correct", metrics.correct_clusters, None),
            ("pairs_found", metrics.found_pairs, None),
            ("pairs_true", metrics.true_pairs, None),
            ("pairs_correct", metrics.correct_pairs, None),
        ]
        if self.sample is not None and self.sample.n_individuals is not None:
            error = _known(self.sample.n_individuals_error)
            rows.append(("individuals_true_estimate", self.sample.n_individuals, error))
        if self.calibration is not None:
            rows.append(("brier", self.calibration.brier, None))
            rows.append(("expected_calibration_error", self.calibration.expected_error, None))
        return rows


def _known(error: float | None) -> float | None:
    """A standard error, None where one individual alone gives none."""
    return None if error is None or np.isnan(error) else error


def _errors_to_dict(sample: SampleEstimates) -> dict[str, Any]:
    return {
        name: {
            "precision": _known(item.precision_error),
            "recall": _known(item.recall_error),
            "f1": _known(item.f1_error),
        }
        for name, item in sample.estimates().items()
    }


def evaluate(directory: Path, truth_path: str, *, whole: bool = False, n_worst: int = 5) -> Evaluation:
    """Score the result in `directory` against a truth file.

    Parameters
    ----------
    directory
        A result directory: assignments.parquet, and links.parquet and summary.json where it has them.
    truth_path
        A table of record ids and entities, in any form that `vber merge` reads.
    whole
        Whether the truth lists every record of the entities it names.
    n_worst
        How many of the worst false and missed links are named.

    Raises
    ------
    InputError
        If the directory is no result, the truth cannot be read, contradicts itself, is ambiguous, or covers no record.
    """
    result = OpenResult(directory)
    truth = read_truth(truth_path, result.databases)
    record, entity, n_missing = join_truth(result, truth)
    if not len(record):
        sample = ", ".join(repr(value) for value in result.record_id[:3].to_pylist())
        raise InputError(
            f"{truth_path}: none of its ids ({truth.columns['record_id']}) is in the result",
            f"ids in the result look like {sample}; name the id column record_id and the entity column entity",
        )
    entity_of_record = np.full(result.n_records, -1, dtype=np.int64)
    entity_of_record[record] = entity
    found = result.individual[record]
    metrics = evaluate_partition(found, entity)
    complete = len(record) == result.n_records
    worst = worst_errors(result, entity_of_record, n_worst)
    return Evaluation(
        n_records=result.n_records,
        n_truth=len(truth.record_id),
        n_not_in_result=n_missing,
        columns=truth.columns,
        interval=_interval(result) if complete else None,
        metrics=metrics,
        calibration=_calibration(result, entity_of_record, metrics.true_pairs),
        sample=None if complete else _sample(result, found, entity, whole=whole),
        worst=worst,
        notes=(*truth.notes, *([worst.note] if worst.note else [])),
    )


def _sample(result: OpenResult, found: LongArray, entity: LongArray, *, whole: bool) -> SampleEstimates:
    among = result.individual if whole else found
    names, size = np.unique(among, return_counts=True)
    return estimate(found, entity, size[np.searchsorted(names, found)], result.n_records, whole=whole)


def join_truth(result: OpenResult, truth: Truth) -> tuple[LongArray, LongArray, int]:
    """Find the records that the truth speaks of.

    Returns
    -------
    record : (n,) int64
        Places in the assignments, increasing, each once.
    entity : (n,) int64
        The entity of each, as a code.
    n_missing
        Records of the truth that the result does not hold.

    Raises
    ------
    InputError
        If an id stands for several records, or a record has two entities.
    """
    n, n_databases = len(result.record_id), max(len(result.databases), 1)
    ids = pc.utf8_trim_whitespace(pa.concat_arrays([result.record_id, truth.record_id])).dictionary_encode()
    code = ids.indices.to_numpy().astype(np.int64)
    if truth.database is None:
        key, wanted = code[:n], code[n:]
        _refuse_ambiguous(result, truth, key, wanted)
    else:
        key = code[:n] * n_databases + result.db_of_record
        wanted = np.where(truth.database >= 0, code[n:] * n_databases + truth.database, -1)
    order = np.argsort(key, kind="stable")
    place = np.minimum(np.searchsorted(key, wanted, sorter=order), n - 1)
    record = order[place]
    known = key[record] == wanted
    entity = truth.entity.dictionary_encode().indices.to_numpy().astype(np.int64)
    pairs = np.unique(np.column_stack([record[known], entity[known]]), axis=0)
    twice = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(twice):
        name = result.record_id[int(pairs[twice[0], 0])].as_py()
        raise InputError(f"{truth.path}: record {name!r} has two entities", "keep one line per record")
    return pairs[:, 0], pairs[:, 1], int((~known).sum())


def _refuse_ambiguous(result: OpenResult, truth: Truth, key: LongArray, wanted: LongArray) -> None:
    count = np.bincount(key, minlength=int(wanted.max(initial=-1)) + 1)
    clashes = np.flatnonzero(count[wanted] > 1)
    if not len(clashes):
        return
    first = int(clashes[0])
    databases = np.unique(result.db_of_record[key == wanted[first]])
    name = truth.record_id[first].as_py()
    if len(databases) == 1:
        raise InputError(
            f"{truth.path}: several records of {result.databases[databases[0]]} have the id {name!r}",
            "merge again with an --id column whose values are unique",
        )
    raise InputError(
        f"{truth.path}: record id {name!r} is in the databases "
        + ", ".join(result.databases[item] for item in databases[:3]),
        "add a column named database to the truth",
    )


def _calibration(result: OpenResult, entity_of_record: LongArray, n_true_pairs: int) -> Calibration | None:
    if not result.has("links"):
        return None
    a, b, probability = read_links(result)
    sides = [entity_of_record[a], entity_of_record[b]]
    covered = (sides[0] >= 0) & (sides[1] >= 0)
    is_true = (sides[0] == sides[1])[covered]
    return calibrate(probability[covered], is_true, n_unlisted=max(n_true_pairs - int(is_true.sum()), 0))


def _interval(result: OpenResult) -> tuple[float, float] | None:
    """Return the 90 % interval of the number of individuals that the summary states."""
    try:
        found = result.summary["n"]
        return float(found["low"]), float(found["high"])
    except (KeyError, TypeError, ValueError):
        return None
