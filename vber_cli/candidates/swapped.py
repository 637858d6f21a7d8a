"""Pairs of records that show the same two values the other way round, in fields whose values get swapped."""

from __future__ import annotations

import numpy as np

from vber_cli.arrays import distinct
from vber_cli.model.similar import Swaps
from vber_cli.model.types import IntArray, LongArray, Records


def swapped_pairs(records: Records, swaps: Swaps) -> tuple[IntArray, IntArray]:
    """(P,) records a < b of all such pairs, sorted by (a, b).

    Parameters
    ----------
    records
        The records.
    swaps
        The fields.
    """
    found = [np.zeros(0, dtype=np.int64)]
    for (f, g), begin in zip(swaps.fields.tolist(), swaps.ptr[:-1].tolist(), strict=True):
        first, second = records.codes[:, f].astype(np.int64), records.codes[:, g].astype(np.int64)
        twin = swaps.twin[begin : begin + int(records.n_values[f])].astype(np.int64)
        first = np.where(first >= 0, twin[np.maximum(first, 0)], -1)  # in the codes of g
        row = np.flatnonzero((first >= 0) & (second >= 0) & (first != second))
        low, high = np.minimum(first, second)[row], np.maximum(first, second)[row]
        key = low * int(records.n_values[g]) + high
        found.append(_across(row, key, first[row] == low))
    packed = distinct(np.concatenate(found))
    return (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)


def _across(row: LongArray, key: LongArray, one_way: np.ndarray) -> LongArray:
    """All pairs of rows of one key, one of either way, packed as a · 2^32 + b with a < b."""
    order = np.argsort(key[one_way], kind="stable")
    ones, keys = row[one_way][order], key[one_way][order]
    others, wanted = row[~one_way], key[~one_way]
    lo, hi = np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")
    size = hi - lo
    b = np.repeat(others, size)
    step = np.arange(len(b)) - np.repeat(np.cumsum(size) - size, size)
    a = ones[np.repeat(lo, size) + step]
    return np.asarray((np.minimum(a, b) << 32) | np.maximum(a, b))
