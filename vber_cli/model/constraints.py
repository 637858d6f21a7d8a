"""Who must be one individual, and who cannot be (model.md section 9).

Records that must be together form a *unit*, named by the first of its records, its *lead*; every other record is a unit
of its own. Two units cannot be together if any pair of their records cannot: by a list of pairs, or by a rule about
databases. So everything that follows from what was said holds without being said.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vber_cli.arrays import distinct
from vber_cli.model.constraints_kernels import standing_kernel
from vber_cli.model.types import IntArray, LongArray


class Constraints(NamedTuple):
    """Units and what keeps them apart, in flat arrays; without any constraint all arrays are empty.

    Attributes
    ----------
    lead
        (N,) int32, the first record of each record's unit.
    mate_ptr, mate
        (N + 1,) int64 and int32: the records of a unit, ascending, at its lead; nothing for a unit of one.
    cannot_ptr, cannot_lead
        (N + 1,) int64 and int32: at each lead, the leads of the units it is listed apart from, ascending.
    database
        (N,) int32.
    sole
        (D,) bool: databases in which no two records are one individual.
    within_only
        Whether records of different databases are never one individual.
    """

    lead: IntArray
    mate_ptr: LongArray
    mate: IntArray
    cannot_ptr: LongArray
    cannot_lead: IntArray
    database: IntArray
    sole: np.ndarray
    within_only: bool

    @property
    def any(self) -> bool:
        """Whether anything is constrained at all."""
        return len(self.lead) > 0

    @property
    def grouped(self) -> np.ndarray:
        """(N,) bool: records in a unit of two or more."""
        return np.asarray((np.diff(self.mate_ptr) > 0)[self.lead])

    def leads(self, n_records: int) -> IntArray:
        """(N,) int32: each record's lead, itself where nothing is constrained."""
        return self.lead.copy() if self.any else np.arange(n_records, dtype=np.int32)

    def standing(self, a: IntArray, b: IntArray) -> np.ndarray:
        """(P,) int8 of pairs: 1 must be one individual, −1 cannot be, 0 free."""
        return np.asarray(standing_kernel(a, b, self)) if self.any else np.zeros(len(a), np.int8)

    def listed(self, a: IntArray, b: IntArray) -> np.ndarray:
        """(P,) int8, the same by the lists of pairs alone, which say who is who.

        Rules about databases say what is to be linked: what a rule leaves apart may be one person all the same, and is
        no example of different ones.
        """
        return self._replace(sole=np.zeros_like(self.sole), within_only=False).standing(a, b)


NO_CONSTRAINTS = Constraints(
    np.empty(0, np.int32),
    np.zeros(1, np.int64),
    np.empty(0, np.int32),
    np.zeros(1, np.int64),
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    np.zeros(0, np.bool_),
    False,
)


class ContradictionError(ValueError):
    """A pair of records that must and cannot be one individual.

    Parameters
    ----------
    a, b
        The records.
    reason
        listed: the pair itself is listed as apart; within: both are of a database without duplicates; across: their
        databases differ, and only records of one database are linked.
    """

    def __init__(self, a: int, b: int, reason: str) -> None:
        super().__init__(f"records {a} and {b} must and cannot be one individual ({reason})")
        self.a, self.b, self.reason = a, b, reason


class TooFewIndividualsError(ValueError):
    """The records were not placed in so few individuals as K without breaking a constraint."""

    def __init__(self, n_individuals: int) -> None:
        super().__init__(f"not all records fit into {n_individuals} individuals")
        self.n_individuals = n_individuals


def make_constraints(
    database: IntArray,
    must: tuple[IntArray, IntArray],
    cannot: tuple[IntArray, IntArray],
    sole: np.ndarray,
    *,
    within_only: bool,
) -> Constraints:
    """Close what was said, and check that it can be.

    Parameters
    ----------
    database
        (N,) int32, the database of each record.
    must, cannot
        Pairs of records, in any order, as often as you like; a pair of a record with itself says nothing in `must`.
    sole
        (D,) bool: databases without duplicates.
    within_only
        Whether records of different databases are never one individual.

    Raises
    ------
    ContradictionError
        Naming the first pair that must and cannot be one individual.
    """
    n = len(database)
    if not (len(must[0]) or len(cannot[0]) or sole.any() or within_only):
        return NO_CONSTRAINTS
    lead = _leads(must, n)
    members = np.argsort(lead, kind="stable").astype(np.int32)
    size = np.bincount(lead, minlength=n)
    grouped = size > 1
    mate_ptr = np.concatenate([[0], np.cumsum(np.where(grouped, size, 0))]).astype(np.int64)
    mate = members[grouped[lead[members]]]
    _check_listed(lead, cannot)
    _check_databases(mate_ptr, mate, database, sole, within_only=within_only)
    u, v = lead[cannot[0]].astype(np.int64), lead[cannot[1]].astype(np.int64)
    keys = distinct(np.concatenate([(u << 32) | v, (v << 32) | u]))
    cannot_ptr = np.concatenate([[0], np.cumsum(np.bincount(keys >> 32, minlength=n))]).astype(np.int64)
    return Constraints(
        lead,
        mate_ptr,
        mate,
        cannot_ptr,
        (keys & 0xFFFFFFFF).astype(np.int32),
        np.ascontiguousarray(database, dtype=np.int32),
        np.ascontiguousarray(sole, dtype=np.bool_),
        bool(within_only),
    )


def _leads(must: tuple[IntArray, IntArray], n_records: int) -> IntArray:
    """(N,) int32: the first record of each record's unit, by union and find."""
    root = list(range(n_records))

    def find(r: int) -> int:
        while root[r] != r:
            root[r] = root[root[r]]
            r = root[r]
        return r

    for a, b in zip(must[0].tolist(), must[1].tolist(), strict=True):
        x, y = find(a), find(b)
        root[max(x, y)] = min(x, y)
    return np.array([find(r) for r in range(n_records)], dtype=np.int32)


def _check_listed(lead: IntArray, cannot: tuple[IntArray, IntArray]) -> None:
    wrong = np.flatnonzero(lead[cannot[0]] == lead[cannot[1]])
    if len(wrong):
        raise ContradictionError(int(cannot[0][wrong[0]]), int(cannot[1][wrong[0]]), "listed")


def _check_databases(
    mate_ptr: LongArray, mate: IntArray, database: IntArray, sole: np.ndarray, *, within_only: bool
) -> None:
    for unit in np.flatnonzero(np.diff(mate_ptr) > 0).tolist():
        seen: dict[int, int] = {}
        for r in mate[mate_ptr[unit] : mate_ptr[unit + 1]].tolist():
            d = int(database[r])
            if d in seen and sole[d]:
                raise ContradictionError(seen[d], r, "within")
            if within_only and seen and d not in seen:
                raise ContradictionError(next(iter(seen.values())), r, "across")
            seen.setdefault(d, r)


def allowed_pairs(constraints: Constraints, pairs: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Candidates that may be one individual, with all pairs that must be, and whole units for any of their records.

    Whoever is a candidate for one record of a unit is one for all of them, so that the pairs' probabilities say what
    the partitions say.

    Parameters
    ----------
    constraints
        What is decided.
    pairs
        (a, b), a < b.

    Returns
    -------
    tuple
        (a, b) with a < b, each once, sorted.
    """
    if not constraints.any:
        return pairs
    a, b = pairs
    keep = constraints.standing(a, b) == 0
    a, b = a[keep], b[keep]
    grouped = constraints.grouped
    joint = grouped[a] | grouped[b]
    keys = [(a[~joint].astype(np.int64) << 32) | b[~joint]]
    lead = constraints.lead.astype(np.int64)
    u, v = lead[a[joint]], lead[b[joint]]
    keys += [
        _products(_unit(constraints, key >> 32), _unit(constraints, key & 0xFFFFFFFF))
        for key in np.unique((np.minimum(u, v) << 32) | np.maximum(u, v)).tolist()
    ]
    for unit in np.flatnonzero(np.diff(constraints.mate_ptr) > 0).tolist():
        members = _unit(constraints, unit)
        i, j = np.triu_indices(len(members), 1)
        keys.append((members[i] << 32) | members[j])
    packed = distinct(np.concatenate(keys))
    return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)


def _unit(constraints: Constraints, lead: int) -> LongArray:
    lo, hi = constraints.mate_ptr[lead], constraints.mate_ptr[lead + 1]
    return constraints.mate[lo:hi].astype(np.int64) if hi > lo else np.array([lead], dtype=np.int64)


def _products(one: LongArray, two: LongArray) -> LongArray:
    x, y = np.repeat(one, len(two)), np.tile(two, len(one))
    return np.asarray((np.minimum(x, y) << 32) | np.maximum(x, y))


def unit_maximum(constraints: Constraints, a: IntArray, b: IntArray, value: np.ndarray) -> np.ndarray:
    """(P,) the value of each pair, raised to the largest among the pairs of the same two units."""
    if not constraints.any:
        return value
    grouped = constraints.grouped
    joint = np.flatnonzero(grouped[a] | grouped[b])
    lead = constraints.lead.astype(np.int64)
    u, v = lead[a[joint]], lead[b[joint]]
    _, place = np.unique((np.minimum(u, v) << 32) | np.maximum(u, v), return_inverse=True)
    top = np.full(int(place.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(top, place.ravel(), value[joint])
    out = value.copy()
    out[joint] = top[place.ravel()]
    return np.asarray(out)


def n_free_pairs(constraints: Constraints, n_records: int) -> float:
    """Pairs of records that the rules about databases leave open; lists of pairs are too short to matter."""
    total = n_records * (n_records - 1) / 2
    if not constraints.any:
        return total
    size = np.bincount(constraints.database, minlength=len(constraints.sole)).astype(np.float64)
    within = size * (size - 1) / 2
    left = within[~constraints.sole].sum()
    return float(max(left if constraints.within_only else total - within.sum() + left, 1.0))


def fewest_individuals(constraints: Constraints) -> int:
    """A number of individuals below which the rules about databases leave no partition."""
    if not constraints.any:
        return 1
    size = np.bincount(constraints.database, minlength=len(constraints.sole))
    least = np.where(constraints.sole, size, np.minimum(size, 1))
    return int(max(least.sum() if constraints.within_only else least.max(initial=0), 1))
