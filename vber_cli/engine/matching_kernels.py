"""Pairs and maximal matching sets of partitions that were drawn."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.special_kernels import mix64
from vber_cli.model.compile_kernels import kernel


@kernel
def together_kernel(draw):  # type: ignore[no-untyped-def]
    """(P,) int64: i · 2³² + j for every i < j in one block of a partition.

    Parameters
    ----------
    draw
        (N,) int32: for each record the first record of its block.
    """
    n = len(draw)
    start = np.zeros(n + 1, np.int64)
    for r in range(n):
        start[draw[r] + 1] += 1
    n_pairs = 0
    for r in range(n):
        n_pairs += start[r + 1] * (start[r + 1] - 1) // 2
        start[r + 1] += start[r]
    fill = start[:n].copy()
    member = np.empty(n, np.int32)
    out = np.empty(n_pairs, np.int64)
    at = 0
    for r in range(n):
        block = draw[r]
        for k in range(start[block], fill[block]):
            out[at] = (np.int64(member[k]) << 32) | r
            at += 1
        member[fill[block]] = r
        fill[block] += 1
    return out


@kernel
def set_hash_kernel(draw, out, alone):  # type: ignore[no-untyped-def]
    """Write a hash of each record's block to `out` (N,) uint64, and add 1 to `alone` (N,) where it has no other."""
    n = len(draw)
    total = np.zeros(n, np.uint64)
    size = np.zeros(n, np.int32)
    for r in range(n):
        total[draw[r]] += mix64(np.uint64(r + 1))
        size[draw[r]] += 1
    for r in range(n):
        out[r] = total[draw[r]]
        if size[draw[r]] == 1:
            alone[r] += 1


@kernel
def modes_kernel(hashes):  # type: ignore[no-untyped-def]
    """Of each column of (T, N) uint64 the most frequent entry (the least of several), and how often it is there."""
    n_draws, n = hashes.shape
    mode = np.empty(n, np.uint64)
    count = np.zeros(n, np.int64)
    for r in range(n):
        column = np.sort(hashes[:, r])
        run = 0
        for t in range(n_draws):
            run = run + 1 if t > 0 and column[t] == column[t - 1] else 1
            if run > count[r]:
                count[r] = run
                mode[r] = column[t]
    return mode, count
