"""Kernels that choose, within components, the partition of least expected pairwise loss."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.partition_kernels import MAX_EXACT
from vber_cli.engine.unit_kernels import local_units, possible_blocks
from vber_cli.model.compile_kernels import kernel, leaf
from vber_cli.model.constraints_kernels import standing
from vber_cli.model.counting_kernels import ends_kernel


@kernel
def decide_small_kernel(comp_ptr, comp_record, pair_ptr, gain, n_small, label, constraints):  # type: ignore[no-untyped-def]
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
        lead, _, barred = local_units(records, constraints)
        possible_blocks(m, lead, barred, within)
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


@leaf
def _block_gain(r, k, label, nbr_ptr, nbr, nbr_gain, size, unlisted):  # type: ignore[no-untyped-def]
    """Sum of the gains of r with the members of block k other than r, given the block's size without r."""
    total = 0.0
    listed = 0
    for e in range(nbr_ptr[r], nbr_ptr[r + 1]):
        if label[nbr[e]] == k:
            total += nbr_gain[e]
            listed += 1
    return total + unlisted * (size - listed)


@leaf
def _unit_size(r, constraints):  # type: ignore[no-untyped-def]
    """How many records the unit that r leads has."""
    if len(constraints.lead) == 0:
        return 1
    return max(constraints.mate_ptr[r + 1] - constraints.mate_ptr[r], 1)


@leaf
def _unit_record(r, p, constraints):  # type: ignore[no-untyped-def]
    """The p-th record of the unit that r leads."""
    return r if p == 0 else constraints.mate[constraints.mate_ptr[r] + p]


@leaf
def _barred(a, b, follow, constraints):  # type: ignore[no-untyped-def]
    """Whether the lists of records that begin with a and b hold a pair that cannot be together."""
    if len(constraints.lead) == 0:
        return False
    r = a
    while r >= 0:
        q = b
        while q >= 0:
            if standing(r, q, constraints) < 0:
                return True
            q = follow[q]
        r = follow[r]
    return False


@leaf
def _bars(r, k, follow, constraints):  # type: ignore[no-untyped-def]
    """Whether the unit of r cannot be with some record of block k."""
    if len(constraints.lead) > 0:
        while k >= 0:
            if standing(r, k, constraints) < 0:
                return True
            k = follow[k]
    return False


@leaf
def _unit_gain(r, k, size, label, nbr_ptr, nbr, nbr_gain, unlisted, constraints):  # type: ignore[no-untyped-def]
    """Sum of the gains of the records of a unit with block k, which has `size` records besides."""
    total = 0.0
    for p in range(_unit_size(r, constraints)):
        total += _block_gain(_unit_record(r, p, constraints), k, label, nbr_ptr, nbr, nbr_gain, size, unlisted)
    return total


@leaf
def _best_block(r, label, nbr_ptr, nbr, nbr_gain, size, follow, unlisted, constraints):  # type: ignore[no-untyped-def]
    """The block that the unit which r leads should be in: its present one, another, or (r) one of its own."""
    home = label[r]
    n = _unit_size(r, constraints)
    for p in range(n):
        label[_unit_record(r, p, constraints)] = -1  # so that it is not counted among its neighbours
    here = 0.0
    if size[home] > n:
        here = _unit_gain(r, home, size[home] - n, label, nbr_ptr, nbr, nbr_gain, unlisted, constraints)
    best, to = here, home
    if best < -1e-12 and r != home:
        best, to = 0.0, r
    if r != home:
        for p in range(n):
            x = _unit_record(r, p, constraints)
            for e in range(nbr_ptr[x], nbr_ptr[x + 1]):
                k = label[nbr[e]]
                if k < 0 or k == home or k == to or _bars(r, k, follow, constraints):
                    continue
                value = _unit_gain(r, k, size[k], label, nbr_ptr, nbr, nbr_gain, unlisted, constraints)
                if value > best + 1e-12:
                    best, to = value, k
    for p in range(n):
        label[_unit_record(r, p, constraints)] = home
    return to


@leaf
def _move(r, to, label, size, follow):  # type: ignore[no-untyped-def]
    """Move a record, not the first of its block, to another block, or to one of its own (to = r)."""
    home = label[r]
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


@kernel
def decide_large_kernel(  # type: ignore[no-untyped-def]
    comp_ptr, comp_record, lo, hi, edge_order, edge_ptr, edge_a, edge_b, nbr_ptr, nbr, nbr_gain, unlisted, label,
    constraints,
):  # fmt: skip
    """Larger components: merges along edges by falling gain, then moves of single units, until nothing gains."""
    n = len(label)
    size = np.zeros(n, np.int32)
    follow = np.full(n, -1, np.int32)
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        for r in records:
            label[r] = r
            size[r] = 1
            follow[r] = -1
        if len(constraints.lead) > 0:
            for r in records:
                if constraints.lead[r] != r:
                    size[r] = 0
                    label[r] = constraints.lead[r]
                    size[label[r]] += 1
                    follow[r] = follow[label[r]]
                    follow[label[r]] = r
        for _ in range(50):
            changed = False
            for e in edge_order[edge_ptr[c] : edge_ptr[c + 1]]:
                a, b = label[edge_a[e]], label[edge_b[e]]
                if a == b or _barred(a, b, follow, constraints):
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
                if len(constraints.lead) > 0 and constraints.lead[r] != r:
                    continue
                to = _best_block(r, label, nbr_ptr, nbr, nbr_gain, size, follow, unlisted, constraints)
                if to == label[r]:
                    continue
                for p in range(_unit_size(r, constraints)):
                    x = _unit_record(r, p, constraints)
                    _move(x, to, label, size, follow)
                changed = True
            if not changed:
                break


@kernel
def membership_kernel(label, size, a, b, probability, alone):  # type: ignore[no-untyped-def]
    """(N,) probability, runner-up and its probability, as in `decide.Membership`; `size` (n,) of the blocks."""
    n = len(label)
    ptr = ends_kernel(a, b, n)
    fill = ptr[:-1].copy()
    pair = np.empty(2 * len(a), np.int64)
    for i in range(len(a)):
        pair[fill[a[i]]] = i
        pair[fill[b[i]]] = i
        fill[a[i]] += 1
        fill[b[i]] += 1
    out, runner_up, second = np.zeros(n), np.full(n, -1, np.int32), np.zeros(n)
    total = np.zeros(len(size))  # of the record at hand, by block
    for r in range(n):
        own = label[r]
        if size[own] == 1:
            out[r] = alone[r]
        else:
            second[r] = alone[r]
        for e in range(ptr[r], ptr[r + 1]):
            i = pair[e]
            total[label[b[i] if a[i] == r else a[i]]] += probability[i]
        for e in range(ptr[r], ptr[r + 1]):
            i = pair[e]
            k = label[b[i] if a[i] == r else a[i]]
            if k == own:
                out[r] = total[k] / max(size[k] - 1, 1)
            else:
                mean = total[k] / size[k]
                if mean > second[r] or (mean == second[r] and runner_up[r] > k):
                    second[r], runner_up[r] = mean, k
        for e in range(ptr[r], ptr[r + 1]):
            i = pair[e]
            total[label[b[i] if a[i] == r else a[i]]] = 0.0
        out[r] = min(max(out[r], 0.0), 1.0)
        second[r] = min(max(second[r], 0.0), 1.0)
    return out, runner_up, second
