"""Kernels that choose, within components, the partition of least expected pairwise loss."""

from __future__ import annotations

import numba as nb
import numpy as np

from vber_cli.engine.partition_kernels import MAX_EXACT


@nb.njit(cache=True, nogil=True)
def decide_small_kernel(comp_ptr, comp_record, pair_ptr, gain, n_small, label):  # type: ignore[no-untyped-def]
    """Components of at most MAX_EXACT records: the partition whose blocks' pairs gain most, over all partitions.

    `gain` belongs to all pairs of a component, (0,1), (0,2) …; among equals the one found first wins.
    """
    within = np.empty(1 << MAX_EXACT)
    best = np.empty(1 << MAX_EXACT)
    choice = np.empty(1 << MAX_EXACT, np.int64)
    for c in range(n_small):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        full = (1 << m) - 1
        within[0] = 0.0
        for s in range(1, full + 1):
            low = 0
            while not (s >> low) & 1:
                low += 1
            rest = s & ~(1 << low)
            total = within[rest]
            base = pair_ptr[c] + low * (2 * m - low - 1) // 2 - low - 1
            for j in range(low + 1, m):
                if (rest >> j) & 1:
                    total += gain[base + j]
            within[s] = total
        best[0] = 0.0
        for s in range(1, full + 1):
            low_bit = s & -s
            rest = s ^ low_bit
            t = rest
            best[s] = -np.inf
            while True:
                value = within[t | low_bit] + best[rest ^ t]
                if value > best[s]:
                    best[s] = value
                    choice[s] = t | low_bit
                if t == 0:
                    break
                t = (t - 1) & rest
        s = full
        while s:
            block = choice[s]
            first = -1
            for i in range(m):
                if (block >> i) & 1:
                    if first < 0:
                        first = records[i]
                    label[records[i]] = first
            s ^= block


@nb.njit(cache=True, nogil=True)
def _block_gain(r, k, label, nbr_ptr, nbr, nbr_gain, size, unlisted):  # type: ignore[no-untyped-def]
    """Sum of the gains of r with the members of block k other than r, given the block's size without r."""
    total = 0.0
    listed = 0
    for e in range(nbr_ptr[r], nbr_ptr[r + 1]):
        if label[nbr[e]] == k:
            total += nbr_gain[e]
            listed += 1
    return total + unlisted * (size - listed)


@nb.njit(cache=True, nogil=True)
def decide_large_kernel(  # type: ignore[no-untyped-def]
    comp_ptr, comp_record, lo, hi, edge_order, edge_ptr, edge_a, edge_b, nbr_ptr, nbr, nbr_gain, unlisted, label
):
    """Larger components: merges along edges by falling gain, then single moves, until nothing gains."""
    n = len(label)
    size = np.zeros(n, np.int32)
    follow = np.full(n, -1, np.int32)
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        for r in records:
            label[r] = r
            size[r] = 1
            follow[r] = -1
        for _ in range(50):
            changed = False
            for e in edge_order[edge_ptr[c] : edge_ptr[c + 1]]:
                a, b = label[edge_a[e]], label[edge_b[e]]
                if a == b:
                    continue
                total = 0.0
                r = b
                while r >= 0:
                    total += _block_gain(r, a, label, nbr_ptr, nbr, nbr_gain, size[a], unlisted)
                    r = follow[r]
                if total > 1e-12:
                    r = b
                    last = b
                    while r >= 0:
                        label[r] = a
                        last = r
                        r = follow[r]
                    follow[last] = follow[a]
                    follow[a] = b
                    size[a] += size[b]
                    size[b] = 0
                    changed = True
            for r in records:
                home = label[r]
                if size[home] == 1:
                    here = 0.0
                else:
                    here = _block_gain(r, home, label, nbr_ptr, nbr, nbr_gain, size[home] - 1, unlisted)
                best, to = here, home
                if best < -1e-12 and r != home:
                    best, to = 0.0, r
                for e in range(nbr_ptr[r], nbr_ptr[r + 1]):
                    k = label[nbr[e]]
                    if k == home or k == to or r == home:
                        continue
                    value = _block_gain(r, k, label, nbr_ptr, nbr, nbr_gain, size[k], unlisted)
                    if value > best + 1e-12:
                        best, to = value, k
                if to != home:
                    at = home
                    while follow[at] != r:
                        at = follow[at]
                    follow[at] = follow[r]
                    size[home] -= 1
                    if to == r:
                        follow[r] = -1
                    else:
                        follow[r] = follow[to]
                        follow[to] = r
                    label[r] = to
                    size[to] += 1
                    changed = True
            if not changed:
                break
