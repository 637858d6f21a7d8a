"""Exact sums over all partitions of small components (model.md section 7); weights as in `local_kernels`."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.local_kernels import COPIES, FRESH, SHOWN, add_stats, compare_kernel, predictive, scratch
from vber_cli.engine.unit_kernels import local_units, possible_blocks
from vber_cli.model.compile_kernels import inlined_leaf, kernel, leaf
from vber_cli.model.similar_kernels import record_levels

MAX_EXACT = 8  # components of at most so many records are summed over all their partitions
_NOTABLE = 1e-7  # weak pairs less probable than this leave no trace in the statistics
_POSSIBLE = 1e-12  # blocks less probable than this leave no trace in the statistics


@kernel
def pair_stats_kernel(a, b, weight, model, stats, class_weight, repeats):  # type: ignore[no-untyped-def]
    """`add_stats` of the pairs (a[i], b[i]), each as a block of two with the weight given."""
    n_classes, n_fields = model.alpha.shape
    level = np.empty(n_fields, np.int8)
    copies = np.empty((n_classes, n_fields))
    p = np.empty(n_classes)
    for i in range(len(a)):
        if weight[i] <= _NOTABLE:
            continue
        r = max(a[i], b[i])
        record_levels(min(a[i], b[i]), r, model, level)
        top = -np.inf
        for q in range(n_classes):
            score, product = 0.0, model.share[q]
            for f in range(n_fields):
                if level[f] > 3:
                    continue
                copies[q, f] = 0.0 if level[f] == 3 else model.copy[q, f, level[f]]
                if level[f] == 0:
                    copies[q, f] /= model.theta[r, f]
                product *= (model.alpha[q, f] + copies[q, f]) / (model.alpha[q, f] + 1.0)
                if product > 1e200 or product < 1e-200:
                    score, product = score + math.log(product), 1.0
            p[q] = score + math.log(product)
            top = max(top, p[q])
        total = 0.0
        for q in range(n_classes):
            p[q] = math.exp(p[q] - top)
            total += p[q]
        for q in range(n_classes):
            mine = weight[i] * p[q] / total
            class_weight[q] += mine
            for f in range(n_fields):
                if level[f] > 3:
                    continue
                copied = mine * copies[q, f] / (model.alpha[q, f] + copies[q, f])
                repeats[r, f] += copied
                stats[q, f, FRESH] += mine - copied
                if level[f] < 3:
                    stats[q, f, COPIES + level[f]] += copied
                stats[q, f, SHOWN + 1] += mine


@inlined_leaf
def _members_of(subset, m, members):  # type: ignore[no-untyped-def]
    """Fill in which of m records are in a subset, a bit mask; returns how many."""
    n = 0
    for i in range(m):
        if (subset >> i) & 1:
            members[n] = i
            n += 1
    return n


@leaf
def _subset_weights(records, levels, model, work, out, members):  # type: ignore[no-untyped-def]
    """Λ of every subset of the records, indexed by bit mask."""
    m = len(records)
    out[0] = 0.0
    for s in range(1, 1 << m):
        high = m - 1
        while not (s >> high) & 1:
            high -= 1
        below = s ^ (1 << high)
        if below == 0:
            out[s] = 0.0
            continue
        n = _members_of(below, high, members)
        out[s] = out[below] + predictive(high, members, n, records, levels, model, work)


@kernel
def _rule_out(records, constraints, out):  # type: ignore[no-untyped-def]
    """IMPOSSIBLE to the weight of every subset that constraints forbid as a block."""
    lead, _, barred = local_units(records, constraints)
    possible_blocks(len(records), lead, barred, out)


@leaf
def _sum_partitions(full, evidence, log_new, log_z, mean, square):  # type: ignore[no-untyped-def]
    """For every subset s of the records: log of the sum over its partitions, and E[n] and E[n²] of their blocks."""
    log_z[0] = 0.0
    mean[0] = 0.0
    square[0] = 0.0
    for s in range(1, full + 1):
        low = s & -s
        rest = s ^ low
        top = -np.inf
        t = rest
        while True:  # blocks t ∪ {lowest}, over all t ⊆ rest
            top = max(top, evidence[t | low] + log_z[rest ^ t])
            if t == 0:
                break
            t = (t - 1) & rest
        z = 0.0
        first = 0.0
        second = 0.0
        t = rest
        while True:
            value = evidence[t | low] + log_z[rest ^ t]
            if value > top - 45.0:
                p = math.exp(value - top)
                z += p
                first += p * (1.0 + mean[rest ^ t])
                second += p * (1.0 + 2.0 * mean[rest ^ t] + square[rest ^ t])
            if t == 0:
                break
            t = (t - 1) & rest
        log_z[s] = top + math.log(z) + log_new
        mean[s] = first / z
        square[s] = second / z


@leaf
def _add_component(  # type: ignore[no-untyped-def]
    records, first_pair, evidence, log_new, log_z, levels, model, work, members, count,
    pair_probability, alone, repeats, stats, class_weight,
):  # fmt: skip
    """What `enumerate_kernel` adds up, of one component."""
    m = len(records)
    full = (1 << m) - 1
    for s in range(1, full + 1):
        p = math.exp(evidence[s] + log_new + log_z[full ^ s] - log_z[full])
        if p < _POSSIBLE:
            continue
        n = _members_of(s, m, members)
        if n == 1:
            alone[records[members[0]]] += p
            continue
        for i in range(n):
            base = first_pair + members[i] * (2 * m - members[i] - 1) // 2 - members[i] - 1
            for j in range(i + 1, n):
                pair_probability[base + members[j]] += p
        if count:
            add_stats(members, n, p, records, levels, model, work, stats, class_weight, repeats)


@kernel
def enumerate_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, pair_ptr, model, log_new, count,
    pair_probability, alone, repeats, stats, class_weight,
):  # fmt: skip
    """Components lo..hi-1 of at most MAX_EXACT records: the exact posterior over all partitions.

    Adds P(same individual) of every pair of a component to `pair_probability` (pairs (i, j), i < j, in the order of
    the component's records, from `pair_ptr`), P(no partner) to `alone` (N,), and, with `count`, the expected statistics
    to `stats`, `class_weight` and `repeats`. Returns (E[number of blocks], its variance), summed over the components.
    """
    evidence = np.empty(1 << MAX_EXACT)
    log_z = np.empty(1 << MAX_EXACT)
    mean = np.empty(1 << MAX_EXACT)
    square = np.empty(1 << MAX_EXACT)
    members = np.empty(MAX_EXACT, np.int64)
    levels = np.zeros((MAX_EXACT, MAX_EXACT, model.codes.shape[1]), np.int8)
    work = scratch(model)
    total_mean = 0.0
    total_variance = 0.0
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        full = (1 << m) - 1
        compare_kernel(records, model, levels)
        _subset_weights(records, levels, model, work, evidence, members)
        if len(model.constraints.lead) > 0:
            _rule_out(records, model.constraints, evidence)
        _sum_partitions(full, evidence, log_new, log_z, mean, square)
        total_mean += mean[full]
        total_variance += square[full] - mean[full] * mean[full]
        _add_component(
            records, pair_ptr[c], evidence, log_new, log_z, levels, model, work, members, count,
            pair_probability, alone, repeats, stats, class_weight,
        )  # fmt: skip
    return total_mean, total_variance


@kernel
def count_weights_kernel(records, model):  # type: ignore[no-untyped-def]
    """log Σ over partitions with j blocks of exp Σ Λ, j = 0..m, and the same restricted to each pair being together.

    For at most MAX_EXACT records; with these, any weight of the number of blocks can be applied exactly.
    Returns ((m + 1,), (m, m, m + 1)).
    """
    m = len(records)
    full = (1 << m) - 1
    members = np.empty(MAX_EXACT, np.int64)
    evidence = np.empty(1 << m)
    levels = np.zeros((m, m, model.codes.shape[1]), np.int8)
    compare_kernel(records, model, levels)
    _subset_weights(records, levels, model, scratch(model), evidence, members)
    if len(model.constraints.lead) > 0:
        _rule_out(records, model.constraints, evidence)
    log_z = np.full((1 << m, m + 1), -np.inf)
    log_z[0, 0] = 0.0
    for s in range(1, full + 1):
        low = s & -s
        rest = s ^ low
        t = rest
        while True:
            for j in range(1, m + 1):
                log_z[s, j] = np.logaddexp(log_z[s, j], evidence[t | low] + log_z[rest ^ t, j - 1])
            if t == 0:
                break
            t = (t - 1) & rest
    together = np.full((m, m, m + 1), -np.inf)
    for s in range(1, full + 1):
        for i in range(m):
            for k in range(m):
                if i != k and (s >> i) & 1 and (s >> k) & 1:
                    for j in range(1, m + 1):
                        together[i, k, j] = np.logaddexp(together[i, k, j], evidence[s] + log_z[full ^ s, j - 1])
    return log_z[full].copy(), together
