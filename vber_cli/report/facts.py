"""What a report counts: sizes, overlap, levels, doubtful pairs and individuals; arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vber_cli.report.source import MISSING_LEVEL, FloatArray, Links, LongArray, Records

LEVELS = (0, 1, 2, 3)
_Z90 = 1.6448536269514722  # of the normal distribution, for intervals of 90 %


@dataclass(frozen=True)
class Members:
    """The records of every individual.

    Attributes
    ----------
    individual
        (n,) int64, the ids, increasing.
    ptr, record
        (n + 1,) and (N,) int64: `record[ptr[i]:ptr[i + 1]]` are those of individual i, in their order.
    """

    individual: LongArray
    ptr: LongArray
    record: LongArray

    @property
    def n_records(self) -> LongArray:
        """(n,) int64."""
        return np.diff(self.ptr)


def members_of(records: Records) -> Members:
    """Group the records by individual."""
    order = np.argsort(records.individual, kind="stable").astype(np.int64)
    individual, first = np.unique(records.individual[order], return_index=True)
    return Members(individual, np.append(first, len(order)).astype(np.int64), order)


def size_counts(members: Members) -> list[tuple[int, int]]:
    """How many individuals have how many records: (records, individuals), fewest records first."""
    sizes, counts = np.unique(members.n_records, return_counts=True)
    return list(zip(sizes.tolist(), counts.tolist(), strict=True))


def overlap(records: Records, members: Members, n_databases: int) -> list[tuple[tuple[int, ...], int]]:
    """How many individuals are in exactly which databases, the most frequent combination first.

    Returns
    -------
    list
        (positions of the databases, individuals); ties in the order of the databases.
    """
    n = len(members.individual)
    n_bytes = (n_databases + 7) // 8
    bits = np.zeros((n, n_bytes), dtype=np.uint8)
    owner = np.repeat(np.arange(n), members.n_records)
    database = records.database[members.record]
    np.bitwise_or.at(bits, (owner, database // 8), (1 << (database % 8)).astype(np.uint8))
    rows, counts = np.unique(bits, axis=0, return_counts=True) if n else (bits, np.zeros(0, dtype=np.int64))
    sets = [tuple(np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist()) for row in rows]
    return sorted(zip(sets, counts.tolist(), strict=True), key=lambda item: (-item[1], item[0]))


def level_shares(links: Links) -> tuple[FloatArray, FloatArray]:
    """How the fields of linked records compare, every pair weighted by its probability of being one individual.

    Returns
    -------
    share : (F, 4) float64
        Identical, one slip apart, similar, different, among the pairs where both have a value; NaN without any.
    missing : (F,) float64
        Share of the pairs in which either has none.
    """
    n_fields = links.levels.shape[1]
    weight = np.array(
        [
            [links.probability[links.levels[:, f] == level].sum() for level in (*LEVELS, MISSING_LEVEL)]
            for f in range(n_fields)
        ]
    ).reshape(n_fields, 5)
    present = weight[:, :4].sum(axis=1, keepdims=True)
    share = np.divide(weight[:, :4], present, out=np.full((n_fields, 4), np.nan), where=present > 0)
    total = weight.sum(axis=1)
    missing = np.divide(weight[:, 4], total, out=np.zeros(n_fields), where=total > 0)
    return share, missing


def histogram(probability: FloatArray, n_bins: int = 10) -> LongArray:
    """(n_bins,) int64, how many probabilities lie in each of the equal parts of [0, 1]."""
    return np.bincount(np.minimum((probability * n_bins).astype(np.int64), n_bins - 1), minlength=n_bins)


@dataclass(frozen=True)
class Decisions:
    """What the assignment makes of the links.

    Attributes
    ----------
    together
        (P,) bool, whether the pair's records are one individual.
    loss
        (P,) float64, the expected loss of that: `fp` (1 − p) for a pair together, `fn` p for one apart.
    """

    together: NDArray[np.bool_]
    loss: FloatArray

    def most_doubtful(self, most: int, at_least: float) -> LongArray:
        """(≤ most,) int64, the links of largest expected loss, if that is `at_least`; the largest first."""
        order = np.argsort(-self.loss, kind="stable")[:most].astype(np.int64)
        return np.asarray(order[self.loss[order] >= at_least], dtype=np.int64)


def decisions(records: Records, links: Links, loss: tuple[float, float]) -> Decisions:
    """Compare the links with the assignment; `loss` is (fp, fn)."""
    together = records.individual[links.a] == records.individual[links.b]
    false_pair, missed_pair = loss
    p = links.probability
    return Decisions(together, np.where(together, false_pair * (1.0 - p), missed_pair * p))


def hardest(records: Records, members: Members, most: int, below: float) -> list[tuple[int, float]]:
    """Individuals of the least confidence, the mean probability of their records: (position, confidence)."""
    owner = np.repeat(np.arange(len(members.individual)), members.n_records)
    total = np.bincount(owner, weights=records.probability[members.record], minlength=len(members.individual))
    confidence = total / members.n_records
    order = np.argsort(confidence, kind="stable")[:most]
    return [(int(i), float(confidence[i])) for i in order if confidence[i] < below]


def wilson(share: float, n: float) -> tuple[float, float]:
    """A 90 % interval of a share seen in n cases (Wilson 1927)."""
    if n <= 0:
        return 0.0, 1.0
    spread = _Z90**2 / n
    centre = (share + spread / 2.0) / (1.0 + spread)
    half = _Z90 / (1.0 + spread) * float(np.sqrt(share * (1.0 - share) / n + spread / (4.0 * n)))
    return max(centre - half, 0.0), min(centre + half, 1.0)
