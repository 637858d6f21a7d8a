"""Kernels for the records of one component, numbered 0..m−1: levels between them, and the weight of blocks.

A block's weight is that of its marginal beside its records on their own,
    Λ(b) = log m(b) − Σ_{r in b} log m({r}),
built by the chain rule over its records in ascending order. Given n earlier members that show field f, of which k_l are
at level l from the record's value x, a record's factor is
    Σ_q share_q Π_f [α_qf + k_0 μ_qf0 / θ_f(x) + Σ_{l=1,2} k_l μ_qfl / u_fl] / (α_qf + n),
times e^τ where an earlier member is of the same database (`model.presence`), less the doubt that it is related and not
the same: the mean over the members of log(1 + Σ_c odds_c LR_c). With one class of exact copies, no tilt and no
relations this is the paper's exact marginal (model.md sections 2, 5 and 6).

Statistics of the noise, for `engine.hyper`: `stats` (Q, F, 4 + DEPTH) holds, per class and field, fresh draws, copies
at levels 0, 1 and 2, and then how often a value was shown with n = 1, 2, … earlier ones; `class_weight` (Q,) counts
records.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from vber_cli.engine.special_kernels import mix64
from vber_cli.model.similar_kernels import value_level
from vber_cli.model.types import FloatArray

DEPTH = 32  # counts of earlier values beyond are kept at the last place
FRESH, COPIES, SHOWN = 0, 1, 4
N_STATS = 4 + DEPTH
_KEPT = 1 << 14  # weights of blocks that are remembered: samplers ask for the same few again and again


class Work(NamedTuple):
    """Scratch space of the functions below.

    Attributes
    ----------
    part
        Rows 0–2 levels seen, 3 values seen, 4 the classes' scores.
    block, weight
        Λ of blocks that were asked for, at a place that follows from their records; a later one takes the place.
    """

    part: FloatArray
    block: np.ndarray
    weight: FloatArray


@nb.njit(cache=True, nogil=True)
def level_of(v, w, f, model):  # type: ignore[no-untyped-def]
    """Level of two codes of field f (`model.similar_kernels`)."""
    return value_level(v, w, f, model.value_ptr, model.near_ptr, model.near_value, model.near_level)


@nb.njit(cache=True, nogil=True)
def doubt_of(r, levels, model):  # type: ignore[no-untyped-def]
    """log(1 + Σ_c odds_c LR_c): how much likelier a pair's levels are with relations than without; θ is that of r."""
    total = 1.0
    for c in range(len(model.relation_odds)):
        log_ratio = math.log(model.relation_odds[c])
        ratio = 1.0
        for f in range(len(levels)):
            level = levels[f]
            if level == 0:
                ratio *= model.relation_level[c, f, 0] / model.theta[r, f]
            elif level < 4:
                ratio *= model.relation_level[c, f, level] / model.unrelated[f, level]
            if ratio > 1e200 or ratio < 1e-200:
                log_ratio += math.log(ratio)
                ratio = 1.0
        total += math.exp(min(log_ratio + math.log(ratio), 600.0))
    return math.log(total)


@nb.njit(cache=True, nogil=True)
def compare_kernel(records, model, levels, doubt):  # type: ignore[no-untyped-def]
    """Fill levels (m, m, F) int8 and doubt (m, m) float64 for all pairs of the records."""
    m, n_fields = len(records), model.codes.shape[1]
    for i in range(m):
        for j in range(i):
            for f in range(n_fields):
                level = level_of(model.codes[records[i], f], model.codes[records[j], f], f, model)
                levels[i, j, f] = level
                levels[j, i, f] = level
            if len(model.relation_odds) > 0:
                doubt[i, j] = doubt_of(records[i], levels[i, j], model)
                doubt[j, i] = doubt[i, j]
            else:
                doubt[i, j] = 0.0
                doubt[j, i] = 0.0


@nb.njit(cache=True, nogil=True)
def scratch(model):  # type: ignore[no-untyped-def]
    """Scratch space for one model; in it no block is known yet."""
    part = np.empty((5, max(model.codes.shape[1], len(model.share))))
    return Work(part, np.zeros(_KEPT, np.uint64), np.empty(_KEPT))


@nb.njit(cache=True, nogil=True)
def copies_of(f, q, r, given, model, work):  # type: ignore[no-untyped-def]
    """What the copies at levels 0, 1 and 2 add to α, beside chance as it is where the parents are identical or not."""
    theta = model.theta_given[r, f] if given else model.theta[r, f]
    zero = work.part[0, f] * model.copy[q, f, 0] / theta
    one = work.part[1, f] * model.copy[q, f, 1]
    two = work.part[2, f] * model.copy[q, f, 2]
    if given:
        if one > 0:
            one *= model.unrelated[f, 1] / model.unrelated_given[f, 1]
        if two > 0:
            two *= model.unrelated[f, 2] / model.unrelated_given[f, 2]
    return zero, one, two


@nb.njit(cache=True, nogil=True)
def predictive(i, members, n_members, records, levels, doubt, model, work):  # type: ignore[no-untyped-def]
    """log p(x_i | members) − log p(x_i | no one), the doubt taken off; leaves its parts in `work`."""
    n_fields = model.codes.shape[1]
    r = records[i]
    work.part[:4, :n_fields] = 0.0
    off = 0.0
    for p in range(n_members):
        j = members[p]
        off += doubt[i, j]
        for f in range(n_fields):
            level = levels[i, j, f]
            if level < 4:
                work.part[3, f] += 1.0
                if level < 3:
                    work.part[level, f] += 1.0
    top = -np.inf
    for q in range(len(model.share)):
        total = math.log(model.share[q])
        product = 1.0
        for f in range(n_fields):
            n = work.part[3, f]
            if n > 0:
                given = model.parent[f] >= 0 and work.part[0, model.parent[f]] > 0
                copies = copies_of(f, q, r, given, model, work)
                product *= (model.alpha[q, f] + copies[0] + copies[1] + copies[2]) / (model.alpha[q, f] + n)
                if product > 1e200 or product < 1e-200:
                    total += math.log(product)
                    product = 1.0
        work.part[4, q] = total + math.log(product)
        top = max(top, work.part[4, q])
    if n_members == 0:
        return 0.0
    off /= n_members
    if len(model.tilt) > 0:
        for p in range(n_members):
            if model.database[records[members[p]]] == model.database[r]:
                off -= model.tilt[model.database[r]]
                break
    if len(model.share) == 1:
        return top - off
    total = 0.0
    for q in range(len(model.share)):
        total += math.exp(work.part[4, q] - top)
    return top + math.log(total) - off


@nb.njit(cache=True, nogil=True)
def _block_key(members, n_members, records):  # type: ignore[no-untyped-def]
    """What a block is remembered by: the same whatever the order of its members."""
    key = np.uint64(0)
    for p in range(n_members):
        key ^= mix64(np.uint64(records[members[p]] + 1))
    return key


@nb.njit(cache=True, nogil=True)
def _sum_chain(key, members, n_members, records, levels, doubt, model, work):  # type: ignore[no-untyped-def]
    """Λ of a block with ascending members, by the chain rule; remembered."""
    total = 0.0
    for p in range(1, n_members):
        total += predictive(members[p], members, p, records, levels, doubt, model, work)
    at = np.int64(key & np.uint64(_KEPT - 1))
    work.block[at] = key
    work.weight[at] = total
    return total


@nb.njit(cache=True, nogil=True)
def block_weight(members, n_members, records, levels, doubt, model, work):  # type: ignore[no-untyped-def]
    """Λ(b), by the chain rule over the members, which ascend (in the paper's model any order gives the same)."""
    if n_members < 2:
        return 0.0
    key = _block_key(members, n_members, records)
    at = np.int64(key & np.uint64(_KEPT - 1))
    if work.block[at] == key:
        return work.weight[at]
    return _sum_chain(key, members, n_members, records, levels, doubt, model, work)


@nb.njit(cache=True, nogil=True)
def _any_order(model):  # type: ignore[no-untyped-def]
    """Whether a block's weight is the same in any order of its records."""
    for g in model.parent:
        if g >= 0:
            return False
    return len(model.share) == 1 and len(model.relation_odds) == 0 and len(model.near_value) == 0


@nb.njit(cache=True, nogil=True)
def joining(i, members, n, records, levels, doubt, model, work):  # type: ignore[no-untyped-def]
    """Λ(b ∪ {i}) − Λ(b) for the members of b in any order; reorders them, and needs room for one more."""
    if _any_order(model):
        return predictive(i, members, n, records, levels, doubt, model, work)
    key = _block_key(members, n, records)
    at = np.int64(key & np.uint64(_KEPT - 1))
    without = 0.0
    if n > 1:
        if work.block[at] == key:
            without = work.weight[at]
        else:
            members[:n].sort()
            without = _sum_chain(key, members, n, records, levels, doubt, model, work)
    key ^= mix64(np.uint64(records[i] + 1))
    at = np.int64(key & np.uint64(_KEPT - 1))
    if work.block[at] == key:
        return work.weight[at] - without
    members[:n].sort()
    at = n
    while at > 0 and members[at - 1] > i:
        members[at] = members[at - 1]
        at -= 1
    members[at] = i
    return _sum_chain(key, members, n + 1, records, levels, doubt, model, work) - without


@nb.njit(cache=True, nogil=True)
def add_stats(  # type: ignore[no-untyped-def]
    members, n_members, weight, records, levels, doubt, model, work, stats, class_weight, repeats
):
    """Add a block's events to the statistics, and to `repeats` (N, F) how far each value is a copy, not a draw."""
    for p in range(1, n_members):
        i = members[p]
        r = records[i]
        predictive(i, members, p, records, levels, doubt, model, work)
        top = work.part[4, : len(model.share)].max()
        total = 0.0
        for q in range(len(model.share)):
            total += math.exp(work.part[4, q] - top)
        for q in range(len(model.share)):
            part = weight * math.exp(work.part[4, q] - top) / total
            class_weight[q] += part
            for f in range(model.codes.shape[1]):
                n = int(work.part[3, f])
                if n == 0:
                    continue
                fresh = model.alpha[q, f]
                given = model.parent[f] >= 0 and work.part[0, model.parent[f]] > 0
                copies = copies_of(f, q, r, given, model, work)
                share = part / (fresh + copies[0] + copies[1] + copies[2])
                stats[q, f, FRESH] += fresh * share
                for level in range(3):
                    stats[q, f, COPIES + level] += copies[level] * share
                stats[q, f, SHOWN + min(n, DEPTH - 1)] += part
                repeats[r, f] += part - fresh * share
