"""Counting of values among records, alone and together with others."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel
def ends_kernel(a, b, n):  # type: ignore[no-untyped-def]
    """(n + 1,) int64: where the pairs (a, b) that each of n things is an end of begin, in a list by things."""
    ptr = np.zeros(n + 1, np.int64)
    for i in range(len(a)):
        ptr[a[i] + 1] += 1
        ptr[b[i] + 1] += 1
    for k in range(n):
        ptr[k + 1] += ptr[k]
    return ptr


@kernel
def numbered_kernel(values):  # type: ignore[no-untyped-def]
    """(N,) int64: which of the distinct values ≥ 0 each is, in the order in which they are met first."""
    width = 16
    while width < 2 * len(values):
        width *= 2
    known = np.full(width, -1, np.int64)
    number = np.empty(width, np.int64)
    out = np.empty(len(values), np.int64)
    used = 0
    for i in range(len(values)):
        mixed = np.uint64(values[i]) * _MIX
        at = np.int64((mixed ^ (mixed >> _SHIFT)) & np.uint64(width - 1))
        while known[at] >= 0 and known[at] != values[i]:
            at = at + 1 if at + 1 < width else 0
        if known[at] < 0:
            known[at] = values[i]
            number[at] = used
            used += 1
        out[i] = number[at]
    return out


@kernel
def draws_kernel(codes, repeats, value_ptr):  # type: ignore[no-untyped-def]
    """(ΣV,) and (ΣV,) float64: Σ (1 − repeats) over the records with each value, and how many these are."""
    draws, times = np.zeros(value_ptr[-1], np.float64), np.zeros(value_ptr[-1], np.float64)
    for r in range(codes.shape[0]):
        for f in range(codes.shape[1]):
            if codes[r, f] >= 0:
                v = value_ptr[f] + codes[r, f]
                draws[v] += 1.0 - repeats[r, f]
                times[v] += 1.0
    return draws, times


@kernel
def together_kernel(seen, pair, value, weight, both, parent):  # type: ignore[no-untyped-def]
    """Fill (N,) `both` and `parent`, of the records `seen` (S,), with the weights of those of the same pair and value.

    `pair` and `value` are (S,) numbers from 0 on; without weights all weigh 1.
    """
    of_pair, of_value = np.zeros(pair.max() + 1 if len(pair) else 0), np.zeros(value.max() + 1 if len(value) else 0)
    for i in range(len(seen)):
        w = weight[seen[i]] if len(weight) else 1.0
        of_pair[pair[i]] += w
        of_value[value[i]] += w
    for i in range(len(seen)):
        both[seen[i]] = of_pair[pair[i]]
        parent[seen[i]] = of_value[value[i]]
