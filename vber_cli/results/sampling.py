"""Scores from a truth that covers a sample of the individuals, with their standard errors.

Every score is a ratio of sums over true individuals, or made of two such ratios. With the covered individuals as a
random sample of all, its standard error follows by linearisation (Cochran, 1977, section 6.4): that of the mean of the
individuals' influences, with the correction for a sample that is a large part of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.types import FloatArray, LongArray
from vber_cli.results.metrics import Score


@dataclass(frozen=True)
class Estimate:
    """A score, and the standard errors of its precision, recall and F1."""

    score: Score
    precision_error: float
    recall_error: float
    f1_error: float


@dataclass(frozen=True)
class SampleEstimates:
    """Scores estimated from a sample of the individuals.

    Attributes
    ----------
    n_sampled
        Individuals in the sample.
    pairwise, b_cubed, cluster
        As in `metrics`.
    n_individuals, n_individuals_error
        The number of true individuals in the whole result and its standard error; None unless the truth lists every
        record of the individuals it names.
    """

    n_sampled: int
    pairwise: Estimate
    b_cubed: Estimate
    cluster: Estimate
    n_individuals: float | None
    n_individuals_error: float | None

    def estimates(self) -> dict[str, Estimate]:
        """Return the three kinds of score by name."""
        return {"pairwise": self.pairwise, "b_cubed": self.b_cubed, "cluster": self.cluster}


def estimate(
    found: LongArray, entity: LongArray, found_size: LongArray, n_records: int, *, whole: bool
) -> SampleEstimates:
    """Estimate every score from the records that the truth covers.

    Parameters
    ----------
    found, entity
        (n,) int64, predicted and true individual of each covered record.
    found_size
        (n,) int64, the number of records of each predicted individual: of all records if `whole`, else of the covered
        ones.
    n_records
        Records in the result.
    whole
        Whether every record of the covered individuals is covered: then a record together with one that is not
        covered is together wrongly, and each false pair counts half for each of its two individuals.
    """
    entity_code, counts = _compact(entity)
    size = counts.astype(np.float64)
    m, n = len(size), len(entity_code)
    _, cell, count = np.unique(_compact(found)[0] * max(m, 1) + entity_code, return_inverse=True, return_counts=True)
    shared = count[cell.ravel()].astype(np.float64)  # records of both the predicted and the true individual
    own, big = size[entity_code], found_size.astype(np.float64)

    def total(per_record: FloatArray) -> FloatArray:
        return np.bincount(entity_code, weights=per_record, minlength=m).astype(np.float64)

    right = total((shared - 1.0) / 2.0)
    claimed = right + total((big - shared) / 2.0)
    true = total((own - 1.0) / 2.0)
    ones = np.ones(m)
    exact = total((shared == own) & (shared == big)) / size
    correction = max(1.0 - n / n_records, 0.0) if n_records else 0.0
    n_individuals = n_individuals_error = None
    if whole:
        ratio = _Ratio(ones, total(np.ones(n)))
        n_individuals = n_records * ratio.value
        n_individuals_error = n_records * _error(ratio.influence, correction)
    return SampleEstimates(
        m,
        _estimate(_Ratio(right, claimed), _Ratio(right, true), correction),
        _estimate(_Ratio(total(shared / big), size), _Ratio(total(shared / own), size), correction),
        _estimate(_Ratio(exact, total(1.0 / big)), _Ratio(exact, ones), correction),
        n_individuals,
        n_individuals_error,
    )


class _Ratio:
    """Σ x / Σ y over individuals, 1 where there is nothing below, and each individual's influence on it."""

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        below = float(y.sum())
        self.value = float(x.sum()) / below if below > 0 else 1.0
        self.influence = (x - self.value * y) / below if below > 0 else np.zeros(len(x))


def _estimate(precision: _Ratio, recall: _Ratio, correction: float) -> Estimate:
    score = Score(precision.value, recall.value)
    total = score.precision + score.recall
    f1 = np.zeros(len(precision.influence))
    if total > 0:
        f1 = 2.0 * (score.recall**2 * precision.influence + score.precision**2 * recall.influence) / total**2
    return Estimate(score, *(_error(part, correction) for part in (precision.influence, recall.influence, f1)))


def _error(influence: FloatArray, correction: float) -> float:
    m = len(influence)
    if m < 2:
        return float("nan")
    return float(np.sqrt(correction * m / (m - 1) * np.sum((influence - influence.mean()) ** 2)))


def _compact(labels: LongArray) -> tuple[LongArray, LongArray]:
    _, code, size = np.unique(labels, return_inverse=True, return_counts=True)
    return code.ravel().astype(np.int64), size.astype(np.int64)
