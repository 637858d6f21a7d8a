"""Columns that hold the same kind of values: across databases under other names, or twice in one database."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vber_cli.encode.fields import name_key
from vber_cli.model.types import FloatArray, LongArray

_LEAST_OVERLAP = 0.05  # a column's overlap with itself counts as this at least, so that few shared values say little
_ENOUGH = 20  # values; fewer say nothing
_SAME_VALUES = 0.6
_FEW, _SAME_FEW_VALUES = 5, 0.9  # columns of so few distinct values are easily alike by chance
_ALIKE_NAMES, _NOT_OTHER_VALUES = 0.7, 0.2
_SWAP_MARGIN = 0.3
_EQUAL, _ONE_TO_ONE = 0.95, 0.98
_REPEATS = 5  # values a one-to-one coding must occur, on average, to be more than a coincidence


@dataclass(frozen=True)
class ColumnSample:
    """The values of a column, as they are compared, in a random sample of its database's records.

    Attributes
    ----------
    database
        Its number.
    kind
        The type.
    codes
        (n,) int64, -1 where missing; equal codes are equal values in whatever column.
    """

    database: int
    column: str
    kind: str
    codes: LongArray

    @cached_property
    def shares(self) -> tuple[LongArray, FloatArray]:
        """Distinct values and their shares among the values."""
        return _shares(self.codes[self.codes >= 0])

    @cached_property
    def n_present(self) -> int:
        """Values that are not missing."""
        return int((self.codes >= 0).sum())

    @cached_property
    def self_overlap(self) -> float:
        """Shared mass of the two halves of the column: how alike two samples of the same values are."""
        values = self.codes[self.codes >= 0]
        return _shared_mass(_shares(values[::2]), _shares(values[1::2]))


@dataclass(frozen=True)
class Likeness:
    """Overlap of values (None: too few to tell) and likeness of names, both 0 to 1."""

    values: float | None
    names: float

    @property
    def rank(self) -> float:
        """What decides between several columns: the values first."""
        return (0.5 if self.values is None else self.values) + 0.5 * self.names


@dataclass(frozen=True)
class NearDuplicate:
    """Two columns of one database that say the same: `equal` values, or one value of each for one of the other."""

    first: str
    second: str
    equal: bool
    share: float


def _shares(values: LongArray) -> tuple[LongArray, FloatArray]:
    distinct, count = np.unique(values, return_counts=True)
    return distinct, count / max(len(values), 1)


def _shared_mass(a: tuple[LongArray, FloatArray], b: tuple[LongArray, FloatArray]) -> float:
    _, at_a, at_b = np.intersect1d(a[0], b[0], assume_unique=True, return_indices=True)
    return float(np.minimum(a[1][at_a], b[1][at_b]).sum())


def value_overlap(a: ColumnSample, b: ColumnSample) -> float | None:
    """How alike the values of two columns are.

    The mass their distributions share, as a part of what the halves of one column share with each other; so columns of
    many rare values need not agree more with another database than with themselves.

    Returns
    -------
    float or None
        0 to 1; None with fewer than 20 values on either side.
    """
    if min(a.n_present, b.n_present) < _ENOUGH:
        return None
    own = np.sqrt(max(a.self_overlap, _LEAST_OVERLAP) * max(b.self_overlap, _LEAST_OVERLAP))
    return float(min(_shared_mass(a.shares, b.shares) / own, 1.0))


def name_likeness(a: str, b: str) -> float:
    """How alike two column names are, 0 to 1; 1 if they differ in case and separators only."""
    first, second = sorted((name_key(a), name_key(b)))  # the measure is not symmetric
    return float(difflib.SequenceMatcher(None, first, second, autojunk=False).ratio())


def likeness(a: ColumnSample, b: ColumnSample) -> Likeness | None:
    """How alike two columns of different databases are; None if they hardly mean the same."""
    names, values = name_likeness(a.column, b.column), value_overlap(a, b)
    found = Likeness(values, names)
    if values is None:
        return found if names >= _ALIKE_NAMES else None
    few = min(len(a.shares[0]), len(b.shares[0])) <= _FEW
    by_values = values >= (_SAME_FEW_VALUES if few else _SAME_VALUES)
    by_names = names >= _ALIKE_NAMES and values >= _NOT_OTHER_VALUES
    return found if by_values or by_names else None


def swapped(a: tuple[ColumnSample, ColumnSample], b: tuple[ColumnSample, ColumnSample]) -> bool:
    """Whether two fields, each in the databases a and b, hold each other's values in one of them."""
    straight = [value_overlap(a[i], b[i]) for i in (0, 1)]
    crossed = [value_overlap(a[i], b[1 - i]) for i in (0, 1)]
    if any(one is None for one in (*straight, *crossed)):
        return False
    best_straight = max(one for one in straight if one is not None)
    least_crossed = min(one for one in crossed if one is not None)
    return least_crossed >= max(_SAME_VALUES, best_straight + _SWAP_MARGIN)


def near_duplicates(samples: Sequence[ColumnSample]) -> list[NearDuplicate]:
    """Find the columns of one database that repeat another one, as it is or in another coding.

    Parameters
    ----------
    samples
        Its columns, over the same sampled records.
    """
    found = []
    for i, a in enumerate(samples):
        for b in samples[i + 1 :]:
            both = (a.codes >= 0) & (b.codes >= 0)
            n = int(both.sum())
            if n < _ENOUGH:
                continue
            x, y = a.codes[both], b.codes[both]
            if len(np.unique(x)) < 3 or len(np.unique(y)) < 3:
                continue
            equal = float((x == y).mean())
            if equal >= _EQUAL:
                found.append(NearDuplicate(a.column, b.column, True, equal))
            elif (share := _one_to_one(x, y)) >= _ONE_TO_ONE:
                found.append(NearDuplicate(a.column, b.column, False, share))
    return found


def _one_to_one(x: LongArray, y: LongArray) -> float:
    """Share of the records in which x has the value that usually goes with y, and y that which usually goes with x."""
    _, x = np.unique(x, return_inverse=True)
    _, y = np.unique(y, return_inverse=True)
    if max(x.max(), y.max()) + 1 > len(x) / _REPEATS:
        return 0.0
    pairs, count = np.unique(x * (y.max() + 1) + y, return_counts=True)
    px, py = pairs // (y.max() + 1), pairs % (y.max() + 1)
    usual_y, usual_x = np.zeros(x.max() + 1, np.int64), np.zeros(y.max() + 1, np.int64)
    order = np.argsort(count, kind="stable")
    usual_y[px[order]], usual_x[py[order]] = py[order], px[order]  # the most frequent is written last
    return float(count[(usual_y[px] == py) & (usual_x[py] == px)].sum() / len(x))
