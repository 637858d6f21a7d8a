"""How well a partition of records agrees with the true one: pairwise, B-cubed and whole clusters.

Precision of a partition that claims nothing (no pair) is 1, recall where there is nothing to find is 1; F1 is 0 when
both are 0. B-cubed is averaged over records, as Bagga and Baldwin (1998) define it, not over clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

LongArray = NDArray[np.int64]


@dataclass(frozen=True)
class Score:
    """Precision and recall of a partition, as shares."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2.0 * self.precision * self.recall / total if total > 0.0 else 0.0


@dataclass(frozen=True)
class Metrics:
    """Every score of a predicted against a true partition of the same records.

    Attributes
    ----------
    n_records, n_found, n_true
        Records, predicted clusters, true clusters.
    found_pairs, true_pairs, correct_pairs
        Pairs of records in one predicted cluster, in one true cluster, and in both; exact.
    correct_clusters
        Clusters that are the same set of records in both.
    pairwise, b_cubed, cluster
        Over pairs, averaged over records, over whole clusters.
    """

    n_records: int
    n_found: int
    n_true: int
    found_pairs: int
    true_pairs: int
    correct_pairs: int
    correct_clusters: int
    pairwise: Score
    b_cubed: Score
    cluster: Score


def count_pairs(sizes: LongArray) -> int:
    """Return the number of pairs inside groups of these sizes, (n,) int64, exactly."""
    return int((sizes * (sizes - 1) // 2).sum(dtype=np.int64))


def evaluate_partition(found: ArrayLike, true: ArrayLike) -> Metrics:
    """Compare a predicted with a true partition.

    Parameters
    ----------
    found, true
        (N,) integer labels of the same records in the same order; only equality of labels matters.

    Raises
    ------
    ValueError
        If the labels are not two integer vectors of one length.
    """
    found_labels, true_labels = np.asarray(found), np.asarray(true)
    if found_labels.ndim != 1 or found_labels.shape != true_labels.shape:
        raise ValueError(
            f"labels of shapes {found_labels.shape} and {true_labels.shape} do not describe the same records"
        )
    if len(found_labels) and not (found_labels.dtype.kind in "iu" and true_labels.dtype.kind in "iu"):
        raise ValueError("labels must be integers")
    found_code, found_sizes = _compact(found_labels)
    true_code, true_sizes = _compact(true_labels)
    cells, cell_sizes = np.unique(found_code * max(len(true_sizes), 1) + true_code, return_counts=True)
    cell_sizes = cell_sizes.astype(np.int64)
    of_found = found_sizes[cells // max(len(true_sizes), 1)]
    of_true = true_sizes[cells % max(len(true_sizes), 1)]
    found_pairs, true_pairs, both = count_pairs(found_sizes), count_pairs(true_sizes), count_pairs(cell_sizes)
    same = int(((cell_sizes == of_found) & (cell_sizes == of_true)).sum())
    n = len(found_code)
    squares = cell_sizes.astype(np.float64) ** 2
    # fsum, because the order of the cells follows the labels' names, which must not matter.
    b_cubed = Score(_share(math.fsum(squares / of_found), n), _share(math.fsum(squares / of_true), n))
    return Metrics(
        n_records=n,
        n_found=len(found_sizes),
        n_true=len(true_sizes),
        found_pairs=found_pairs,
        true_pairs=true_pairs,
        correct_pairs=both,
        correct_clusters=same,
        pairwise=Score(_share(both, found_pairs), _share(both, true_pairs)),
        b_cubed=b_cubed,
        cluster=Score(_share(same, len(found_sizes)), _share(same, len(true_sizes))),
    )


def _compact(labels: NDArray[np.int64]) -> tuple[LongArray, LongArray]:
    """Return labels renumbered 0, 1, ... and the size of each."""
    _, code, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return code.astype(np.int64), sizes.astype(np.int64)


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 1.0


@dataclass(frozen=True)
class Bin:
    """One row of a calibration table: links whose probability lies in [low, high)."""

    low: float
    high: float
    n: int
    mean_probability: float
    share_true: float


@dataclass(frozen=True)
class Calibration:
    """Whether link probabilities come true.

    Attributes
    ----------
    n
        Pairs judged: the links, and the true pairs that are not listed (they count with probability 0).
    n_unlisted
        How many of them are true pairs that are not listed.
    brier
        Mean squared difference between probability and truth.
    expected_error
        Mean absolute difference between probability and share of true pairs, over the bins, weighted by their pairs.
    bins
        Those that hold pairs; the last one includes probability 1.
    """

    n: int
    n_unlisted: int
    brier: float
    expected_error: float
    bins: tuple[Bin, ...]


def calibrate(probability: ArrayLike, is_true: ArrayLike, n_unlisted: int = 0, n_bins: int = 10) -> Calibration:
    """Compare link probabilities with the truth.

    Parameters
    ----------
    probability
        (n,) float64 of the listed pairs.
    is_true
        (n,) bool, whether the two records of each are the same individual.
    n_unlisted
        True pairs that are not listed.
    n_bins
        Bins of equal width.
    """
    p = np.asarray(probability, dtype=np.float64)
    y = np.asarray(is_true, dtype=np.float64)
    total = len(p) + n_unlisted
    bin_of = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(bin_of, minlength=n_bins)
    sum_p = np.bincount(bin_of, weights=p, minlength=n_bins)
    sum_y = np.bincount(bin_of, weights=y, minlength=n_bins)
    n[0] += n_unlisted
    sum_y[0] += n_unlisted
    bins = tuple(
        Bin(b / n_bins, (b + 1) / n_bins, int(n[b]), float(sum_p[b] / n[b]), float(sum_y[b] / n[b]))
        for b in range(n_bins)
        if n[b]
    )
    return Calibration(
        n=total,
        n_unlisted=n_unlisted,
        brier=float(((p - y) ** 2).sum() + n_unlisted) / total if total else 0.0,
        expected_error=float(np.abs(sum_p - sum_y).sum()) / total if total else 0.0,
        bins=bins,
    )
