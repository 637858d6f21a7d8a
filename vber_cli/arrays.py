"""Sorting and counting of long arrays of whole numbers, faster than by numpy's general routines."""

from __future__ import annotations

import numpy as np

_BITS = 63  # of a whole number that is not negative
_BYTES = 8  # of a number
_LONGER = 8  # times as long as the codes a table of them may be


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct values, ascending: `np.unique`, which hashes them first, and takes many times as long."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def n_distinct(codes: np.ndarray) -> int:
    """How many of the codes 0, 1, …, no larger than a few times their number, occur."""
    return int(np.count_nonzero(np.bincount(codes)))


def first_alike(codes: np.ndarray) -> np.ndarray:
    """(N,) int32: the place of the first of those with the same code."""
    if len(codes) and (codes.min() < 0 or codes.max() > _LONGER * len(codes)):
        codes = np.unique(codes, return_inverse=True)[1].ravel()
    first = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int32)
    # of several values for one place the last stays
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1, dtype=np.int32)
    return np.asarray(first[codes])


def stable_order(codes: np.ndarray) -> np.ndarray:
    """(N,) int64: `np.argsort(codes, kind="stable")` of whole numbers from 0 on.

    A code and its place are sorted as one number where they fit into it.
    """
    n = len(codes)
    bits = max(n - 1, 1).bit_length()
    if n == 0 or int(codes.max()) >> (_BITS - bits):
        return np.argsort(codes, kind="stable")
    packed = (codes.astype(np.int64) << bits) | np.arange(n)
    packed.sort()
    return packed & ((1 << bits) - 1)


def lex_order(*codes: np.ndarray) -> np.ndarray:
    """(N,) int64: `np.lexsort(codes)`, the last the most important, of whole numbers from 0 on."""
    order = stable_order(codes[0])
    for key in codes[1:]:
        order = order[stable_order(key[order])]
    return order


def among(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(N,) bool: which of the values are among those wanted; `np.isin`."""
    ordered = np.sort(wanted)
    if len(ordered) == 0:
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values)


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of an (N, M) array of bytes from 0 to 127, and (N,) which of them each is.

    As `np.unique` with axis=0, which compares rows field by field and takes many times as long; eight fields are one
    number here.
    """
    n, m = rows.shape
    place = np.zeros(n, dtype=np.int64)
    for lo in range(0, m, _BYTES):
        word = np.zeros((n, _BYTES), dtype=np.uint8)
        word[:, : min(m - lo, _BYTES)] = rows[:, lo : lo + _BYTES]
        value, here = np.unique(word.view(">u8").ravel().astype(np.uint64), return_inverse=True)
        place = np.unique(place * len(value) + here.ravel(), return_inverse=True)[1].ravel() if lo else here.ravel()
    first = np.flatnonzero(first_alike(place) == np.arange(n))
    return rows[first[np.argsort(place[first])]], place
