"""Kernels that change one partition of the candidate components: greedy merges, moves, and Gibbs sampling.

A partition is `label` (N,) int32: records with the same label are one block, and a label is the number of some record
of the component, so components never clash. Edges of a component are `edge_ptr[c] : edge_ptr[c + 1]` in `edge_a`,
`edge_b`; neighbours of a record are `nbr[nbr_ptr[r] : nbr_ptr[r + 1]]`. Blocks are kept as linked lists in arrays that
components share without overlapping, which is what lets threads work on different components at once.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from vber_cli.engine.partition_kernels import add_block_stats, block_evidence, log_predictive
from vber_cli.engine.special_kernels import mix64, next_uniform

_GAIN = 1e-9  # nats a move must gain to be taken: below lies rounding
_ALL_BLOCKS_UP_TO = 24  # in a component of so many records a record may join any block, not only its neighbours'


@nb.njit(cache=True, nogil=True)
def _link(records, label, head, follow, size):  # type: ignore[no-untyped-def]
    """Build the linked lists of one component's blocks."""
    for r in records:
        head[r] = -1
        size[r] = 0
    for i in range(len(records) - 1, -1, -1):
        r = records[i]
        follow[r] = head[label[r]]
        head[label[r]] = r
        size[label[r]] += 1


@nb.njit(cache=True, nogil=True)
def _unlink(r, label, head, follow, size):  # type: ignore[no-untyped-def]
    k = label[r]
    if head[k] == r:
        head[k] = follow[r]
    else:
        at = head[k]
        while follow[at] != r:
            at = follow[at]
        follow[at] = follow[r]
    size[k] -= 1


@nb.njit(cache=True, nogil=True)
def _insert(r, k, label, head, follow, size):  # type: ignore[no-untyped-def]
    follow[r] = head[k]
    head[k] = r
    label[r] = k
    size[k] += 1


@nb.njit(cache=True, nogil=True)
def _members(k, head, follow, out):  # type: ignore[no-untyped-def]
    n = 0
    r = head[k]
    while r >= 0:
        out[n] = r
        n += 1
        r = follow[r]
    return n


@nb.njit(cache=True, nogil=True)
def _free_label(records, start, size):  # type: ignore[no-untyped-def]
    """The first label of the component without a block, searching from a hint; there is one whenever a block splits."""
    m = len(records)
    for i in range(m):
        k = records[(start + i) % m]
        if size[k] == 0:
            return k
    return -1


@nb.njit(cache=True, nogil=True)
def merge_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, edge_ptr, edge_a, edge_b, edge_order, codes, theta, alpha, share,
    log_new, label, head, follow, size,
):  # fmt: skip
    """Merge blocks joined by an edge wherever that raises the bound; edges in `edge_order`, until none is left.

    Δ = log m(a ∪ b) − log m(a) − log m(b) − log_new. Returns the number of merges.
    """
    taken = 0
    work = np.empty((3, max(codes.shape[1], len(share))))
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        _link(records, label, head, follow, size)
        members = np.empty(len(records), np.int32)
        other = np.empty(len(records), np.int32)
        again = True
        while again:
            again = False
            for e in edge_order[edge_ptr[c] : edge_ptr[c + 1]]:
                a, b = label[edge_a[e]], label[edge_b[e]]
                if a == b:
                    continue
                if size[a] < size[b]:
                    a, b = b, a
                n = _members(a, head, follow, members)
                n_other = _members(b, head, follow, other)
                gain = -log_new - block_evidence(other, n_other, codes, theta, alpha, share, work)
                for i in range(n_other):
                    gain += log_predictive(other[i], members, n + i, codes, theta, alpha, share, work)
                    members[n + i] = other[i]
                if gain > _GAIN:
                    for i in range(n_other):
                        _unlink(other[i], label, head, follow, size)
                        _insert(other[i], a, label, head, follow, size)
                    taken += 1
                    again = True
    return taken


@nb.njit(cache=True, nogil=True)
def reassign_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, nbr_ptr, nbr, codes, theta, alpha, share, log_new, label, head, follow, size
):
    """Move single records to the block, or to a block of their own, that raises the bound most. Returns the moves."""
    taken = 0
    work = np.empty((3, max(codes.shape[1], len(share))))
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        _link(records, label, head, follow, size)
        members = np.empty(len(records), np.int32)
        for i in range(len(records)):
            r = records[i]
            home = label[r]
            if size[home] == 1:
                here = log_new
            else:
                _unlink(r, label, head, follow, size)
                n = _members(home, head, follow, members)
                here = log_predictive(r, members, n, codes, theta, alpha, share, work)
                _insert(r, home, label, head, follow, size)
            best, to = here, home
            if size[home] > 1 and log_new > best:
                best, to = log_new, -1
            for e in range(nbr_ptr[r], nbr_ptr[r + 1]):
                k = label[nbr[e]]
                if k == home or k == to:
                    continue
                n = _members(k, head, follow, members)
                score = log_predictive(r, members, n, codes, theta, alpha, share, work)
                if score > best:
                    best, to = score, k
            if to != home and best > here + _GAIN:
                _unlink(r, label, head, follow, size)
                if to < 0:
                    to = _free_label(records, i, size)
                _insert(r, to, label, head, follow, size)
                taken += 1
    return taken


@nb.njit(cache=True, nogil=True)
def split_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, codes, theta, alpha, share, log_new, label, head, follow, size
):
    """Split blocks in two, grown around their two least alike records, where that raises the bound."""
    taken = 0
    work = np.empty((3, max(codes.shape[1], len(share))))
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        if len(records) < 3:
            continue
        _link(records, label, head, follow, size)
        members = np.empty(len(records), np.int32)
        one = np.empty(len(records), np.int32)
        two = np.empty(len(records), np.int32)
        for i in range(len(records)):
            k = records[i]
            if size[k] < 3:
                continue
            n = _members(k, head, follow, members)
            worst, at_a, at_b = np.inf, 0, 1
            for p in range(min(n, 64)):
                one[0] = members[p]
                for q in range(p + 1, min(n, 64)):
                    score = log_predictive(members[q], one, 1, codes, theta, alpha, share, work)
                    if score < worst:
                        worst, at_a, at_b = score, p, q
            one[0], two[0] = members[at_a], members[at_b]
            n_one, n_two = 1, 1
            gain = log_new - block_evidence(members, n, codes, theta, alpha, share, work)
            for p in range(n):
                if p == at_a or p == at_b:
                    continue
                with_one = log_predictive(members[p], one, n_one, codes, theta, alpha, share, work)
                with_two = log_predictive(members[p], two, n_two, codes, theta, alpha, share, work)
                if with_one >= with_two:
                    one[n_one] = members[p]
                    n_one += 1
                    gain += with_one
                else:
                    two[n_two] = members[p]
                    n_two += 1
                    gain += with_two
            if gain > _GAIN:
                to = _free_label(records, i, size)
                for p in range(n_two):
                    _unlink(two[p], label, head, follow, size)
                    _insert(two[p], to, label, head, follow, size)
                taken += 1
    return taken


@nb.njit(cache=True, nogil=True)
def _joining(r, members, n, codes, theta, alpha, share, work):  # type: ignore[no-untyped-def]
    """Λ(b ∪ {r}) − Λ(b) for the members of b in any order; reorders them, and needs room for one more."""
    if len(share) == 1:
        return log_predictive(r, members, n, codes, theta, alpha, share, work)
    members[:n].sort()
    without = block_evidence(members, n, codes, theta, alpha, share, work)
    at = n
    while at > 0 and members[at - 1] > r:
        members[at] = members[at - 1]
        at -= 1
    members[at] = r
    return block_evidence(members, n + 1, codes, theta, alpha, share, work) - without


@nb.njit(cache=True, nogil=True)
def _split_merge(  # type: ignore[no-untyped-def]
    a, b, records, hint, codes, theta, alpha, share, log_new, label, head, follow, size, stream, members, one, two, work
):
    """One split–merge proposal for the blocks of a and b, accepted by Metropolis–Hastings.

    The two halves are grown around a and b, record by record in random order, each going to a half with the
    probability its fit gives; for a merge the same order gives the probability of the way back.
    """
    ka, kb = label[a], label[b]
    merging = ka != kb
    n = _members(ka, head, follow, members)
    if merging:
        tail = members[n:]
        n += _members(kb, head, follow, tail)
    for i in range(n - 1, 0, -1):
        j = int(next_uniform(stream) * (i + 1))
        members[i], members[j] = members[j], members[i]
    one[0], two[0] = a, b
    n_one, n_two = 1, 1
    log_q = 0.0
    for i in range(n):
        r = members[i]
        if r == a or r == b:
            continue
        with_one = log_predictive(r, one, n_one, codes, theta, alpha, share, work)
        with_two = log_predictive(r, two, n_two, codes, theta, alpha, share, work)
        log_p = -math.log1p(math.exp(min(with_two - with_one, 700.0)))
        log_not = -math.log1p(math.exp(min(with_one - with_two, 700.0)))
        first = label[r] == ka if merging else math.log(max(next_uniform(stream), 1e-300)) < log_p
        if first:
            one[n_one] = r
            n_one += 1
            log_q += log_p
        else:
            two[n_two] = r
            n_two += 1
            log_q += log_not
    one[:n_one].sort()
    two[:n_two].sort()
    members[:n].sort()
    ratio = log_new - log_q - block_evidence(members, n, codes, theta, alpha, share, work)
    ratio += block_evidence(one, n_one, codes, theta, alpha, share, work)
    ratio += block_evidence(two, n_two, codes, theta, alpha, share, work)
    if merging:
        ratio = -ratio
    if math.log(max(next_uniform(stream), 1e-300)) >= ratio:
        return
    if merging:
        for i in range(n_two):
            _unlink(two[i], label, head, follow, size)
            _insert(two[i], ka, label, head, follow, size)
    else:
        to = _free_label(records, hint, size)
        for i in range(n_two):
            _unlink(two[i], label, head, follow, size)
            _insert(two[i], to, label, head, follow, size)


@nb.njit(cache=True, nogil=True)
def gibbs_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, edge_ptr, edge_a, edge_b, nbr_ptr, nbr, codes, theta, alpha, share, log_new,
    n_burn, n_keep, seed, label, head, follow, size, weight,
    pair_probability, alone, repeats, stats, class_weight, blocks,
):  # fmt: skip
    """Collapsed Gibbs with split–merge proposals on components lo..hi-1, going on from `label`.

    Every kept sweep adds `weight` to the edges whose records are together and to the records alone; the statistics
    are those of the last partition, times `weight · n_keep`. `blocks` (n_keep,) is increased by the number of blocks.
    A record whose block holds none of its neighbours is not moved until one joins, which keeps the kernel reversible.
    """
    stream = np.zeros(1, np.uint64)
    work = np.empty((3, max(codes.shape[1], len(share))))
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        n_edges = edge_ptr[c + 1] - edge_ptr[c]
        _link(records, label, head, follow, size)
        members = np.empty(m, np.int32)
        one = np.empty(m, np.int32)
        two = np.empty(m, np.int32)
        order = records.copy()
        option = np.empty(m + 1, np.int32)
        score = np.empty(m + 1, np.float64)
        stream[0] = mix64(np.uint64(seed) ^ mix64(np.uint64(records[0] + 1)))
        for sweep in range(n_burn + n_keep):
            for i in range(m - 1, 0, -1):
                j = int(next_uniform(stream) * (i + 1))
                order[i], order[j] = order[j], order[i]
            for i in range(m):
                r = order[i]
                home = label[r]
                n_options = 1
                option[0] = -1
                score[0] = log_new
                reachable = size[home] == 1
                if m <= _ALL_BLOCKS_UP_TO:
                    n_near = m
                else:
                    n_near = nbr_ptr[r + 1] - nbr_ptr[r]
                _unlink(r, label, head, follow, size)
                for e in range(n_near):
                    s = records[e] if m <= _ALL_BLOCKS_UP_TO else nbr[nbr_ptr[r] + e]
                    if s == r:
                        continue
                    k = label[s]
                    known = False
                    for p in range(1, n_options):
                        if option[p] == k:
                            known = True
                            break
                    if known:
                        continue
                    reachable = reachable or k == home
                    n = _members(k, head, follow, members)
                    option[n_options] = k
                    score[n_options] = _joining(r, members, n, codes, theta, alpha, share, work)
                    n_options += 1
                to = home
                if reachable:
                    top = score[:n_options].max()
                    total = 0.0
                    for p in range(n_options):
                        score[p] = math.exp(score[p] - top)
                        total += score[p]
                    u = next_uniform(stream) * total
                    p = 0
                    while p < n_options - 1 and u >= score[p]:
                        u -= score[p]
                        p += 1
                    to = option[p]
                    if to < 0:
                        to = home if size[home] == 0 else _free_label(records, i, size)
                _insert(r, to, label, head, follow, size)
            for _ in range(max(1, m // 4)):
                e = edge_ptr[c] + min(int(next_uniform(stream) * n_edges), n_edges - 1)
                a, b = edge_a[e], edge_b[e]
                if next_uniform(stream) < 0.5:
                    a, b = b, a
                _split_merge(
                    a, b, records, e, codes, theta, alpha, share, log_new, label, head, follow, size, stream,
                    members, one, two, work,
                )  # fmt: skip
            if sweep < n_burn:
                continue
            for e in range(edge_ptr[c], edge_ptr[c + 1]):
                if label[edge_a[e]] == label[edge_b[e]]:
                    pair_probability[e] += weight
            for r in records:
                if size[label[r]] == 1:
                    alone[r] += weight
                if head[label[r]] == r:
                    blocks[sweep - n_burn] += 1.0
        for i in range(m):
            k = records[i]
            if size[k] > 1:
                n = _members(k, head, follow, members)
                members[:n].sort()
                add_block_stats(
                    members, n, weight * n_keep, codes, theta, alpha, share, work, stats, class_weight, repeats
                )


@nb.njit(cache=True, nogil=True)
def components_kernel(a, b, n_records):  # type: ignore[no-untyped-def]
    """Union–find: (N,) int32, the smallest record of each record's component."""
    root = np.arange(n_records).astype(np.int32)
    for i in range(len(a)):
        x, y = a[i], b[i]
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        while root[y] != y:
            root[y] = root[root[y]]
            y = root[y]
        if x < y:
            root[y] = x
        elif y < x:
            root[x] = y
    for r in range(n_records):
        x = r
        while root[x] != x:
            x = root[x]
        root[r] = x
    return root
