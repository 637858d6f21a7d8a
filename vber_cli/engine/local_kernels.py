"""Kernels for the records of one component, numbered 0..m−1: levels between them, and the weight of blocks.

A block's weight is that of its marginal beside its records on their own,
    Λ(b) = log m(b) − Σ_{r in b} log m({r}),
built by the chain rule over its records in ascending order. Given n earlier members that show field f, of which k_l are
at level l from the record's value x, a record's factor is
    Σ_q share_q Π_f [α_qf + k_0 μ_qf0 / θ_f(x) + Σ_{l=1,2} k_l μ_qfl / u_fl] / (α_qf + n),
times e^τ where an earlier member is of the same database (`model.presence`), less the doubt that it is alike and not
the same: the log of the mean over the members of T + Σ_c odds_c LR_c, where T is how much likelier the tree makes the
levels between different individuals, and in LR_c a value that a member does not show counts as the others' do on
average. With one class of exact copies, no tilt, no tree and no relations this is the paper's exact marginal (model.md
sections 2, 5 and 6).

Statistics of the noise, for `engine.hyper`: `stats` (Q, F, 4 + DEPTH) holds, per class and field, fresh draws, copies
at levels 0, 1 and 2, and then how often a value was shown with n = 1, 2, … earlier ones; `class_weight` (Q,) counts
records.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vber_cli.engine.special_kernels import mix64, sort_first
from vber_cli.model.compile_kernels import inlined_leaf, kernel, leaf
from vber_cli.model.similar_kernels import record_levels
from vber_cli.model.types import FloatArray

DEPTH = 32  # counts of earlier values beyond are kept at the last place
FRESH, COPIES, SHOWN = 0, 1, 4
N_STATS = 4 + DEPTH
PATTERNS = 1 << 12  # levels of pairs that are remembered
_KEPT = 1 << 14  # weights of blocks that are remembered: samplers ask for the same few again and again


class Memory(NamedTuple):
    """(M,) numbers by a 64-bit key, M a power of two, at a place that follows from it; a later one takes the place."""

    key: np.ndarray
    value: FloatArray


class Work(NamedTuple):
    """Scratch space of the functions below.

    Attributes
    ----------
    part
        Rows 0–2 levels seen, then what they add to α beside μ; 3 values seen, 4 the classes' scores, 5 what stands for
        values that are not shown.
    block
        Λ of blocks that were asked for, by their records.
    related
        `log_related` of pairs by their levels.
    """

    part: FloatArray
    block: Memory
    related: Memory


@leaf
def _related(odds, theta, levels, level_of, unrelated, gap):  # type: ignore[no-untyped-def]
    """odds · LR of levels (F,) under one relation (F, 4); a value that is not shown counts as `gap` (F,) says."""
    log_ratio = 0.0
    ratio = odds
    for f in range(len(levels)):
        level = levels[f]
        if level == 0:
            ratio *= level_of[f, 0] / theta[f]
        elif level < 4:
            ratio *= level_of[f, level] / unrelated[f, level]
        else:
            ratio *= gap[f]
        if ratio > 1e200 or ratio < 1e-200:
            log_ratio += math.log(ratio)
            ratio = 1.0
    if log_ratio == 0.0:
        return min(ratio, 1e260)
    return math.exp(min(log_ratio + math.log(ratio), 600.0))


@leaf
def tree_ratio(levels, theta, theta_given, tree, hidden, apart, unrelated, unrelated_given):  # type: ignore[no-untyped-def]
    """T: how much likelier levels (F,) of different individuals are by the tree than if fields were independent.

    A parent that is not identical may be so but for an error or a gap, as probably as `hidden` says of its level; if it
    is not, its children are identical as much oftener than by chance as `apart` says of that.
    """
    ratio = 1.0
    e = 0
    while e < len(tree):
        g = tree[e, 1]
        seen = levels[g] == 0
        at = levels[g] if levels[g] < 4 else 0
        children, others = 1.0, 1.0
        while e < len(tree) and tree[e, 1] == g:
            f = tree[e, 0]
            level = levels[f]
            if level == 0:
                children *= (theta_given[e] if seen else unrelated_given[f, 0]) / theta[f]
                others *= apart[f, at]
            elif level < 4:
                children *= unrelated_given[f, level] / unrelated[f, level]
            e += 1
        if not seen:
            share = hidden[g, at]
            children = (1.0 - share) * others + share * children
        ratio *= children
    return ratio


@leaf
def _log_relation(levels, level_of, unrelated):  # type: ignore[no-untyped-def]
    """log LR of levels (F,) under one relation (F, 4), but for the θ of identical values; missing ones say nothing."""
    log_ratio, ratio = 0.0, 1.0
    for f in range(len(levels)):
        level = levels[f]
        if level < 4:
            ratio *= level_of[f, level] if level == 0 else level_of[f, level] / unrelated[f, level]
        if ratio > 1e200 or ratio < 1e-200:
            log_ratio += math.log(ratio)
            ratio = 1.0
    return log_ratio + math.log(ratio)


@leaf
def log_related(levels, odds, relation_level, unrelated, memory):  # type: ignore[no-untyped-def]
    """log Σ_c odds_c LR_c of a pair's levels (F,), but for the θ of identical values; remembered by the levels.

    Without θ it is the same for all pairs with these levels, and there are far fewer of them than pairs.
    """
    key = np.uint64(0)
    for f in range(len(levels)):
        key = mix64(key + np.uint64(levels[f] + 1))
    at = np.int64(key & np.uint64(len(memory.key) - 1))
    if memory.key[at] != key:
        top = -1e300  # were no relation possible
        for c in range(len(odds)):
            top = max(top, _log_relation(levels, relation_level[c], unrelated))
        total = 0.0
        for c in range(len(odds)):
            total += odds[c] * math.exp(_log_relation(levels, relation_level[c], unrelated) - top)
        memory.key[at] = key
        memory.value[at] = top + math.log(total)
    return memory.value[at]


@leaf
def related_ratio(log_ratio, theta, levels):  # type: ignore[no-untyped-def]
    """Σ_c odds_c LR_c from `log_related`, with θ (F,) of the later record."""
    product = 1.0
    for f in range(len(levels)):
        if levels[f] == 0:
            product *= theta[f]
            if product < 1e-200:
                log_ratio -= math.log(product)
                product = 1.0
    return math.exp(min(log_ratio - math.log(product), 600.0))


@leaf
def compare_kernel(records, model, levels):  # type: ignore[no-untyped-def]
    """Fill levels (m, m, F) int8 for all pairs of the records."""
    m, n_fields = len(records), model.codes.shape[1]
    for i in range(m):
        for j in range(i):
            record_levels(records[i], records[j], model, levels[i, j])
            for f in range(n_fields):
                levels[j, i, f] = levels[i, j, f]


@kernel
def empty_memory(size):  # type: ignore[no-untyped-def]
    """Room for so many numbers, a power of two; none is known yet."""
    return Memory(np.zeros(size, np.uint64), np.empty(size))


@kernel
def scratch(model):  # type: ignore[no-untyped-def]
    """Scratch space for one model; in it no block is known yet."""
    part = np.empty((6, max(model.codes.shape[1], len(model.share))))
    return Work(part, empty_memory(_KEPT), empty_memory(PATTERNS))


@inlined_leaf
def _count_levels(i, members, n_members, levels, part):  # type: ignore[no-untyped-def]
    """Rows 0–2 of `part`: how many members are at each level of record i's value, row 3: how many show one."""
    n_fields = levels.shape[2]
    for f in range(n_fields):
        part[0, f] = 0.0
        part[1, f] = 0.0
        part[2, f] = 0.0
        part[3, f] = 0.0
    for p in range(n_members):
        j = members[p]
        for f in range(n_fields):
            level = levels[i, j, f]
            if level < 4:
                part[3, f] += 1.0
                if level < 3:
                    part[level, f] += 1.0


@leaf
def _doubt_in(  # type: ignore[no-untyped-def]
    i,
    members,
    n_members,
    levels,
    theta,
    theta_given,
    tree,
    hidden,
    apart,
    odds,
    relation_level,
    unrelated,
    unrelated_given,
    part,
    memory,
):
    """log(T + Σ_c odds_c LR_c) of record i beside the members counted in `part`, with θ (F,) of its values.

    So much likelier its levels beside them are than if all different individuals were unrelated and their fields
    independent. Each member is as likely to show whom it is related to; what it does not show, it is taken to share
    with the others.
    """
    if n_members == 1:
        shown = levels[i, members[0]]
        total = tree_ratio(shown, theta, theta_given, tree, hidden, apart, unrelated, unrelated_given)
        if len(odds) > 0:
            total += related_ratio(log_related(shown, odds, relation_level, unrelated, memory), theta, shown)
        return math.log(total)
    total = 0.0
    for p in range(n_members):
        total += tree_ratio(levels[i, members[p]], theta, theta_given, tree, hidden, apart, unrelated, unrelated_given)
    total /= n_members
    for c in range(len(odds)):
        for f in range(len(theta)):
            n = part[3, f]
            part[5, f] = 1.0
            if n > 0 and n < n_members:
                shown = part[0, f] * relation_level[c, f, 0] / theta[f]
                left = n - part[0, f]
                for level in range(1, 3):
                    if part[level, f] > 0:
                        shown += part[level, f] * relation_level[c, f, level] / unrelated[f, level]
                        left -= part[level, f]
                if left > 0:
                    shown += left * relation_level[c, f, 3] / unrelated[f, 3]
                part[5, f] = shown / n
        for p in range(n_members):
            total += _related(odds[c] / n_members, theta, levels[i, members[p]], relation_level[c], unrelated, part[5])
    return math.log(total)


@inlined_leaf
def _score_classes(alpha, copy, share, part):  # type: ignore[no-untyped-def]
    """Row 4 of `part`: log share_q Π_f of the classes; returns log Σ_q."""
    n_classes, n_fields = alpha.shape
    top = -np.inf
    for q in range(n_classes):
        total = 0.0
        product = share[q]
        for f in range(n_fields):
            n = part[3, f]
            if n > 0:
                copies = part[0, f] * copy[q, f, 0] + part[1, f] * copy[q, f, 1] + part[2, f] * copy[q, f, 2]
                product *= (alpha[q, f] + copies) / (alpha[q, f] + n)
                if product > 1e200 or product < 1e-200:
                    total += math.log(product)
                    product = 1.0
        part[4, q] = total + math.log(product)
        top = max(top, part[4, q])
    if n_classes == 1:
        return top
    total = 0.0
    for q in range(n_classes):
        total += math.exp(part[4, q] - top)
    return top + math.log(total)


@inlined_leaf
def predictive(i, members, n_members, records, levels, model, work):  # type: ignore[no-untyped-def]
    """log p(x_i | members) − log p(x_i | no one), the doubt taken off; leaves its parts in `work`."""
    if n_members == 0:
        return 0.0
    r = records[i]
    part = work.part
    _count_levels(i, members, n_members, levels, part)
    off = 0.0
    if len(model.relation_odds) > 0 or len(model.tree) > 0:
        off = _doubt_in(
            i,
            members,
            n_members,
            levels,
            model.theta[r],
            model.theta_given[r],
            model.tree,
            model.hidden,
            model.apart,
            model.relation_odds,
            model.relation_level,
            model.unrelated,
            model.unrelated_given,
            part,
            work.related,
        )
    for f in range(levels.shape[2]):
        part[0, f] /= model.theta[r, f]
    score = _score_classes(model.alpha, model.copy, model.share, part)
    if len(model.tilt) > 0:
        for p in range(n_members):
            if model.database[records[members[p]]] == model.database[r]:
                off -= model.tilt[model.database[r]]
                break
    return score - off


@inlined_leaf
def _block_key(members, n_members, records):  # type: ignore[no-untyped-def]
    """What a block is remembered by: the same whatever the order of its members."""
    key = np.uint64(0)
    for p in range(n_members):
        key ^= mix64(np.uint64(records[members[p]] + 1))
    return key


@leaf
def _sum_chain(key, members, n_members, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Λ of a block with ascending members, by the chain rule; remembered."""
    total = 0.0
    for p in range(1, n_members):
        total += predictive(members[p], members, p, records, levels, model, work)
    at = np.int64(key & np.uint64(_KEPT - 1))
    work.block.key[at] = key
    work.block.value[at] = total
    return total


@leaf
def block_weight(members, n_members, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Λ(b), by the chain rule over the members, which ascend (in the paper's model any order gives the same)."""
    if n_members < 2:
        return 0.0
    key = _block_key(members, n_members, records)
    at = np.int64(key & np.uint64(_KEPT - 1))
    if work.block.key[at] == key:
        return work.block.value[at]
    return _sum_chain(key, members, n_members, records, levels, model, work)


@inlined_leaf
def _any_order(model):  # type: ignore[no-untyped-def]
    """Whether a block's weight is the same in any order of its records."""
    plain = len(model.relation_odds) == 0 and len(model.tree) == 0
    return plain and len(model.share) == 1 and len(model.near_value) == 0


@inlined_leaf
def joining(i, members, n, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Λ(b ∪ {i}) − Λ(b) for the members of b in any order; reorders them, and needs room for one more."""
    if _any_order(model):
        return predictive(i, members, n, records, levels, model, work)
    key = _block_key(members, n, records)
    at = np.int64(key & np.uint64(_KEPT - 1))
    without = 0.0
    if n > 1:
        if work.block.key[at] == key:
            without = work.block.value[at]
        else:
            sort_first(members, n)
            without = _sum_chain(key, members, n, records, levels, model, work)
    key ^= mix64(np.uint64(records[i] + 1))
    at = np.int64(key & np.uint64(_KEPT - 1))
    if work.block.key[at] == key:
        return work.block.value[at] - without
    sort_first(members, n)
    at = n
    while at > 0 and members[at - 1] > i:
        members[at] = members[at - 1]
        at -= 1
    members[at] = i
    return _sum_chain(key, members, n + 1, records, levels, model, work) - without


@leaf
def add_stats(  # type: ignore[no-untyped-def]
    members, n_members, weight, records, levels, model, work, stats, class_weight, repeats
):
    """Add a block's events to the statistics, and to `repeats` (N, F) how far each value is a copy, not a draw."""
    part, alpha, copy = work.part, model.alpha, model.copy
    n_classes, n_fields = alpha.shape
    for p in range(1, n_members):
        i = members[p]
        r = records[i]
        predictive(i, members, p, records, levels, model, work)
        top = part[4, 0]
        for q in range(1, n_classes):
            top = max(top, part[4, q])
        total = 0.0
        for q in range(n_classes):
            total += math.exp(part[4, q] - top)
        for q in range(n_classes):
            mine = weight * math.exp(part[4, q] - top) / total
            class_weight[q] += mine
            for f in range(n_fields):
                n = int(part[3, f])
                if n == 0:
                    continue
                fresh = alpha[q, f]
                zero, one, two = part[0, f] * copy[q, f, 0], part[1, f] * copy[q, f, 1], part[2, f] * copy[q, f, 2]
                share = mine / (fresh + zero + one + two)
                stats[q, f, FRESH] += fresh * share
                stats[q, f, COPIES] += zero * share
                stats[q, f, COPIES + 1] += one * share
                stats[q, f, COPIES + 2] += two * share
                stats[q, f, SHOWN + min(n, DEPTH - 1)] += mine
                repeats[r, f] += mine - fresh * share
