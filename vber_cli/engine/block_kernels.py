"""Kernels that change one partition of the candidate components: greedy merges, moves, and Gibbs sampling.

A partition is `label` (N,) int32: records with the same label are one block, and a label is the number of some record
of the component, so components never clash. Within a component everything is numbered locally, 0..m−1, as in
`local_kernels`. Edges of a component are `edge_ptr[c] : edge_ptr[c + 1]` in `edge_a`, `edge_b`. Records that must be
together move together (`unit_kernels`), and no step joins records that cannot be: partitions that keep to the
constraints at the start do so ever after.

Local numbers are int64 everywhere: of another type they would have every function they are given to compiled once more.
"""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.block_list_kernels import (
    free_block,
    insert,
    insert_unit,
    link_blocks,
    members_of,
    neighbours_of,
    publish_labels,
    unlink,
    unlink_unit,
)
from vber_cli.engine.component_kernels import compared
from vber_cli.engine.local_kernels import add_stats, block_weight, compare_kernel, predictive, scratch
from vber_cli.engine.special_kernels import mix64, next_uniform, sort_first
from vber_cli.engine.unit_kernels import (
    append_unit,
    bars,
    bars_any,
    following,
    leads,
    local_units,
    unit_alone,
    unit_fit,
    unit_joining,
)
from vber_cli.model.compile_kernels import kernel, leaf

_GAIN = 1e-9  # nats a move must gain to be taken: below lies rounding
_ALL_BLOCKS_UP_TO = 10  # in a component of so many records a record may join any block, not only its neighbours'


@kernel
def merge_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, edge_ptr, edge_a, edge_b, edge_order, model, log_new, label, version, seen
):
    """Merge blocks joined by an edge wherever that may be and gains; edges in `edge_order`, until none is left.

    Δ = Λ(a ∪ b) − Λ(a) − Λ(b) − log_new. Returns the number of merges. Of each component, `version` (C,) int32 is
    raised by whatever changes it, and `seen` is the one in which this kernel has found nothing to do; then it is left.
    """
    taken = 0
    work = scratch(model)
    for c in range(lo, hi):
        if seen[c] == version[c]:
            continue
        before = taken
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
        compare_kernel(records, model, levels)
        _, _, barred = local_units(records, model.constraints)
        block, head = np.empty(m, np.int64), np.empty(m, np.int64)
        follow, size = np.empty(m, np.int64), np.empty(m, np.int64)
        members, other = np.empty(m, np.int64), np.empty(m, np.int64)
        link_blocks(records, label, block, head, follow, size)
        weight = np.zeros(m)
        for k in range(m):
            n = members_of(k, head, follow, members)
            sort_first(members, n)
            weight[k] = block_weight(members, n, records, levels, model, work)
        again = True
        while again:
            again = False
            for e in edge_order[edge_ptr[c] : edge_ptr[c + 1]]:
                a = block[np.searchsorted(records, edge_a[e])]
                b = block[np.searchsorted(records, edge_b[e])]
                if a == b:
                    continue
                if size[a] < size[b]:
                    a, b = b, a
                n_other = members_of(b, head, follow, other)
                n = members_of(a, head, follow, members)
                if bars_any(other, n_other, members, n, barred):
                    continue
                members[n : n + n_other] = other[:n_other]
                n += n_other
                sort_first(members, n)
                together = block_weight(members, n, records, levels, model, work)
                if together - weight[a] - weight[b] - log_new > _GAIN:
                    for p in range(n_other):
                        unlink(other[p], block, head, follow, size)
                        insert(other[p], a, block, head, follow, size)
                    weight[a] = together
                    weight[b] = 0.0
                    taken += 1
                    again = True
        publish_labels(records, label, block)
        version[c] += taken > before
        seen[c] = version[c]
    return taken


@kernel
def reassign_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, edge_ptr, edge_a, edge_b, model, log_new, label, version, seen
):
    """Move single units to the block, or to a block of their own, that gains most. Returns the moves made.

    `version` and `seen` as in `merge_kernel`.
    """
    taken = 0
    work = scratch(model)
    for c in range(lo, hi):
        if seen[c] == version[c]:
            continue
        before = taken
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
        compare_kernel(records, model, levels)
        lead, mate, barred = local_units(records, model.constraints)
        nbr_ptr, nbr, _ = neighbours_of(records, edge_a, edge_b, edge_ptr[c], edge_ptr[c + 1])
        block, head = np.empty(m, np.int64), np.empty(m, np.int64)
        follow, size = np.empty(m, np.int64), np.empty(m, np.int64)
        members = np.empty(m, np.int64)
        link_blocks(records, label, block, head, follow, size)
        for i in range(m):
            if not leads(i, lead):
                continue
            home = block[i]
            alone = log_new + unit_alone(i, mate, members, records, levels, model, work)
            here = alone
            unlink_unit(i, mate, block, head, follow, size)
            if size[home] > 0:
                n = members_of(home, head, follow, members)
                here = unit_joining(i, mate, members, n, records, levels, model, work)
            best, to = here, home
            if size[home] > 0 and alone > best:
                best, to = alone, -1
            x = i
            while x >= 0:
                for e in range(nbr_ptr[x], nbr_ptr[x + 1]):
                    k = block[nbr[e]]
                    if k == home or k == to:
                        continue
                    n = members_of(k, head, follow, members)
                    if bars(i, members, n, barred):
                        continue
                    score = unit_joining(i, mate, members, n, records, levels, model, work)
                    if score > best:
                        best, to = score, k
                x = following(x, mate)
            if to != home and best > here + _GAIN:
                if to < 0:
                    to = free_block(i, size)
                taken += 1
            else:
                to = home
            insert_unit(i, to, mate, block, head, follow, size)
        publish_labels(records, label, block)
        version[c] += taken > before
        if taken == before:
            seen[c] = version[c]
    return taken


@kernel
def split_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, model, log_new, label, version, seen
):
    """Split blocks in two, grown around their two least alike units, where that gains. Returns the splits made.

    `version` and `seen` as in `merge_kernel`.
    """
    taken = 0
    work = scratch(model)
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        if m < 3 or seen[c] == version[c]:
            continue
        before = taken
        levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
        compare_kernel(records, model, levels)
        lead, mate, _ = local_units(records, model.constraints)
        block, head = np.empty(m, np.int64), np.empty(m, np.int64)
        follow, size = np.empty(m, np.int64), np.empty(m, np.int64)
        members, one, two = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
        link_blocks(records, label, block, head, follow, size)
        for k in range(m):
            if size[k] < 3:
                continue
            n = members_of(k, head, follow, members)
            sort_first(members, n)
            worst, at_a, at_b = np.inf, 0, 1
            for p in range(min(n, 64)):
                one[0] = members[p]
                for q in range(p + 1, min(n, 64)):
                    if len(lead) > 0 and lead[members[p]] == lead[members[q]]:
                        continue
                    score = predictive(members[q], one, np.int64(1), records, levels, model, work)
                    if score < worst:
                        worst, at_a, at_b = score, p, q
            if worst == np.inf:
                continue  # nothing but one unit
            a, b = members[at_a], members[at_b]
            if len(lead) > 0:
                a, b = lead[a], lead[b]
            n_one, n_two = append_unit(a, mate, one, 0), append_unit(b, mate, two, 0)
            for p in range(n):
                i = members[p]
                if i == a or i == b or not leads(i, lead):
                    continue
                with_one = unit_fit(i, mate, one, n_one, records, levels, model, work)
                with_two = unit_fit(i, mate, two, n_two, records, levels, model, work)
                if with_one >= with_two:
                    n_one = append_unit(i, mate, one, n_one)
                else:
                    n_two = append_unit(i, mate, two, n_two)
            sort_first(one, n_one)
            sort_first(two, n_two)
            gain = log_new - block_weight(members, n, records, levels, model, work)
            gain += block_weight(one, n_one, records, levels, model, work)
            gain += block_weight(two, n_two, records, levels, model, work)
            if gain > _GAIN:
                to = free_block(k, size)
                for p in range(n_two):
                    unlink(two[p], block, head, follow, size)
                    insert(two[p], to, block, head, follow, size)
                taken += 1
        publish_labels(records, label, block)
        version[c] += taken > before
        if taken == before:
            seen[c] = version[c]
    return taken


@leaf
def _split_merge(  # type: ignore[no-untyped-def]
    a, b, hint, records, levels, model, lead, mate, barred, log_new, block, head, follow, size, stream,
    members, one, two, work,
):  # fmt: skip
    """One split–merge proposal for the blocks of a and b, accepted by Metropolis–Hastings.

    The two halves are grown around a and b, unit by unit in random order, each going to a half with the probability
    its fit gives; for a merge the same order gives the probability of the way back.
    """
    if len(lead) > 0:
        a, b = lead[a], lead[b]
        if a == b:
            return
    ka, kb = block[a], block[b]
    merging = ka != kb
    n = members_of(ka, head, follow, members)
    if merging:
        n_two = members_of(kb, head, follow, two)
        if bars_any(two, n_two, members, n, barred):
            return
        for p in range(n_two):
            members[n + p] = two[p]
        n += n_two
    for i in range(n - 1, 0, -1):
        j = int(next_uniform(stream) * (i + 1))
        members[i], members[j] = members[j], members[i]
    n_one, n_two = append_unit(a, mate, one, 0), append_unit(b, mate, two, 0)
    log_q = 0.0
    for p in range(n):
        i = members[p]
        if i == a or i == b or not leads(i, lead):
            continue
        with_one = unit_fit(i, mate, one, n_one, records, levels, model, work)
        with_two = unit_fit(i, mate, two, n_two, records, levels, model, work)
        log_p = -math.log1p(math.exp(min(with_two - with_one, 700.0)))
        log_not = -math.log1p(math.exp(min(with_one - with_two, 700.0)))
        first = block[i] == ka if merging else math.log(max(next_uniform(stream), 1e-300)) < log_p
        if first:
            n_one = append_unit(i, mate, one, n_one)
            log_q += log_p
        else:
            n_two = append_unit(i, mate, two, n_two)
            log_q += log_not
    sort_first(one, n_one)
    sort_first(two, n_two)
    sort_first(members, n)
    ratio = log_new - log_q - block_weight(members, n, records, levels, model, work)
    ratio += block_weight(one, n_one, records, levels, model, work)
    ratio += block_weight(two, n_two, records, levels, model, work)
    if merging:
        ratio = -ratio
    if math.log(max(next_uniform(stream), 1e-300)) >= ratio:
        return
    to = ka if merging else free_block(hint, size)
    for p in range(n_two):
        unlink(two[p], block, head, follow, size)
        insert(two[p], to, block, head, follow, size)


@leaf
def _swap(  # type: ignore[no-untyped-def]
    records, levels, model, lead, mate, barred, block, head, follow, size, stream, one, two, work
):
    """Propose that two units which cannot be together change places, by Metropolis–Hastings.

    Where each would fit the other's block, single moves would have to pass through far less probable partitions. The
    pair is drawn whatever the partition, and the way back is the same pair.
    """
    m = len(records)
    u, v = lead[int(next_uniform(stream) * m)], lead[int(next_uniform(stream) * m)]
    if not barred[u, v]:
        return
    ku, kv = block[u], block[v]
    n_one, n_two = members_of(ku, head, follow, one), members_of(kv, head, follow, two)
    sort_first(one, n_one)
    sort_first(two, n_two)
    gain = -block_weight(one, n_one, records, levels, model, work)
    gain -= block_weight(two, n_two, records, levels, model, work)
    unlink_unit(u, mate, block, head, follow, size)
    unlink_unit(v, mate, block, head, follow, size)
    n_one, n_two = members_of(ku, head, follow, one), members_of(kv, head, follow, two)
    if n_one + n_two > 0 and not bars(v, one, n_one, barred) and not bars(u, two, n_two, barred):
        n_one, n_two = append_unit(v, mate, one, n_one), append_unit(u, mate, two, n_two)
        sort_first(one, n_one)
        sort_first(two, n_two)
        gain += block_weight(one, n_one, records, levels, model, work)
        gain += block_weight(two, n_two, records, levels, model, work)
        if math.log(max(next_uniform(stream), 1e-300)) < gain:
            ku, kv = kv, ku
    insert_unit(u, ku, mate, block, head, follow, size)
    insert_unit(v, kv, mate, block, head, follow, size)


@leaf
def _gibbs_sweep(  # type: ignore[no-untyped-def]
    order, nbr_ptr, nbr, records, levels, model, lead, mate, barred, log_new, block, head, follow, size, stream,
    members, option, score, work,
):  # fmt: skip
    """Draw every unit's block given the others, in random order.

    A unit whose block holds none of its neighbours is not moved until one joins, which keeps the sweep reversible.
    """
    m = len(records)
    everyone = m <= _ALL_BLOCKS_UP_TO
    for i in range(m - 1, 0, -1):
        j = int(next_uniform(stream) * (i + 1))
        order[i], order[j] = order[j], order[i]
    for i in order:
        if not leads(i, lead):
            continue
        home = block[i]
        n_options = 1
        option[0] = -1
        score[0] = log_new + unit_alone(i, mate, members, records, levels, model, work)
        unlink_unit(i, mate, block, head, follow, size)
        reachable = size[home] == 0
        x = i
        while x >= 0:
            n_near = m if everyone else nbr_ptr[x + 1] - nbr_ptr[x]
            for e in range(n_near):
                j = e if everyone else nbr[nbr_ptr[x] + e]
                if j == i or (len(lead) > 0 and lead[j] == i):
                    continue
                k = block[j]
                known = False
                for p in range(1, n_options):
                    if option[p] == k:
                        known = True
                        break
                if known:
                    continue
                reachable = reachable or k == home
                n = members_of(k, head, follow, members)
                if bars(i, members, n, barred):
                    continue
                option[n_options] = k
                score[n_options] = unit_joining(i, mate, members, n, records, levels, model, work)
                n_options += 1
            x = -1 if everyone else following(x, mate)
        to = home
        if reachable:
            top = score[0]
            for p in range(1, n_options):
                top = max(top, score[p])
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
                to = home if size[home] == 0 else free_block(i, size)
        insert_unit(i, to, mate, block, head, follow, size)


@kernel
def gibbs_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comps, model, log_new, n_burn, n_keep, seed, count, label, weight, pair_probability, alone, repeats, stats,
    class_weight, blocks,
):  # fmt: skip
    """Collapsed Gibbs with split–merge proposals on components lo..hi-1, going on from `label`.

    Every kept sweep adds `weight` to the edges whose records are together (and, behind all edges, to the inner pairs)
    and to the records alone; the statistics, with `count`, are those of the last partition, times `weight · n_keep`.
    `blocks` (n_keep,) is increased by the number of blocks.
    """
    stream = np.zeros(1, np.uint64)
    work = scratch(model)
    for c in range(lo, hi):
        records, levels = compared(comps, c)
        m = len(records)
        lead, mate, barred = local_units(records, model.constraints)
        nbr_ptr, nbr, ends = neighbours_of(
            records, comps.edge_a, comps.edge_b, comps.edge_ptr[c], comps.edge_ptr[c + 1]
        )
        block, head = np.empty(m, np.int64), np.empty(m, np.int64)
        follow, size = np.empty(m, np.int64), np.empty(m, np.int64)
        members, one, two = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
        link_blocks(records, label, block, head, follow, size)
        _, _, inner = neighbours_of(records, comps.inner_a, comps.inner_b, comps.inner_ptr[c], comps.inner_ptr[c + 1])
        order = np.arange(m)
        option, score = np.empty(m + 1, np.int64), np.empty(m + 1, np.float64)
        stream[0] = mix64(np.uint64(seed) ^ mix64(np.uint64(records[0] + 1)))
        for sweep in range(n_burn + n_keep):
            _gibbs_sweep(
                order, nbr_ptr, nbr, records, levels, model, lead, mate, barred, log_new, block, head, follow,
                size, stream, members, option, score, work,
            )  # fmt: skip
            for _ in range(max(1, m // 8)):
                e = min(int(next_uniform(stream) * len(ends)), len(ends) - 1)
                a, b = ends[e, 0], ends[e, 1]
                if next_uniform(stream) < 0.5:
                    a, b = b, a
                _split_merge(
                    a, b, e, records, levels, model, lead, mate, barred, log_new, block, head, follow, size,
                    stream, members, one, two, work,
                )  # fmt: skip
            if len(barred) > 0:
                for _ in range(m):
                    _swap(
                        records, levels, model, lead, mate, barred, block, head, follow, size, stream,
                        one, two, work,
                    )  # fmt: skip
            if sweep < n_burn:
                continue
            for e in range(len(ends)):
                if block[ends[e, 0]] == block[ends[e, 1]]:
                    pair_probability[comps.edge_ptr[c] + e] += weight
            at = len(comps.edge_a) + comps.inner_ptr[c]
            for e in range(len(inner)):
                if block[inner[e, 0]] == block[inner[e, 1]]:
                    pair_probability[at + e] += weight
            for i in range(m):
                if size[block[i]] == 1:
                    alone[records[i]] += weight
                if head[block[i]] == i:
                    blocks[sweep - n_burn] += 1.0
        for k in range(m):
            if count and size[k] > 1:
                n = members_of(k, head, follow, members)
                sort_first(members, n)
                add_stats(members, n, weight * n_keep, records, levels, model, work, stats, class_weight, repeats)
        publish_labels(records, label, block)


@kernel
def blocks_weight_kernel(block_ptr, block_record, model):  # type: ignore[no-untyped-def]
    """Λ of blocks given as CSR with ascending records, (B,) float64."""
    out = np.zeros(len(block_ptr) - 1)
    work = scratch(model)
    for k in range(len(out)):
        records = block_record[block_ptr[k] : block_ptr[k + 1]]
        m = len(records)
        if m > 1:
            levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
            compare_kernel(records, model, levels)
            out[k] = block_weight(np.arange(m), m, records, levels, model, work)
    return out
