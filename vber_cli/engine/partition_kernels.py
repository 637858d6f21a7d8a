"""Kernels over partitions of the records of one component of the candidate graph (MODEL.md sections 2 and 7).

A block's weight is that of its exact marginal beside its records on their own,
    Λ(b) = log m(b) − Σ_{r in b} log m({r}),
and `log_new`, the log weight of one more individual. `theta` is θ of every record's own value, (N, F) float64.

Sufficient statistics of the concentrations (for `engine.hyper`): with a block's records taken in order, a value seen
c times among n before contributes log(α θ + c) − log(α + n). `stats` (2, F, DEPTH, BINS) counts the events: slab 0 by
(c, bin of log θ), where all of c = 0 lie in bin 0; slab 1 by n, in bin 0.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from vber_cli.engine.special_kernels import mix64, next_uniform

MAX_EXACT = 8  # components of at most so many records are summed over all their partitions
DEPTH = 16  # counts beyond are kept at the last place
BINS = 40  # of log θ, from 1 down to e^-20
_BIN_WIDTH = 0.5
_POSSIBLE = 1e-12  # blocks less probable than this leave no trace in the statistics


@nb.njit(cache=True, nogil=True)
def theta_bin(theta):  # type: ignore[no-untyped-def]
    """The bin of log θ."""
    return min(max(int(-math.log(theta) / _BIN_WIDTH), 0), BINS - 1)


@nb.njit(cache=True, nogil=True)
def log_predictive(r, members, n_members, codes, theta, alpha):  # type: ignore[no-untyped-def]
    """log p(x_r | members) − log p(x_r | no one): Σ_f log [(α θ + c) / ((α + n) θ)]."""
    total = 0.0
    product = 1.0
    for f in range(codes.shape[1]):
        v = codes[r, f]
        if v < 0:
            continue
        c = 0
        n = 0
        for j in range(n_members):
            w = codes[members[j], f]
            if w >= 0:
                n += 1
                if w == v:
                    c += 1
        if n > 0:
            t = theta[r, f]
            product *= (alpha[f] * t + c) / ((alpha[f] + n) * t)
            if product > 1e200 or product < 1e-200:
                total += math.log(product)
                product = 1.0
    return total + math.log(product)


@nb.njit(cache=True, nogil=True)
def add_block_stats(members, n_members, weight, codes, theta, alpha, stats, repeats):  # type: ignore[no-untyped-def]
    """Add a block's events to `stats`, and to `repeats` (N, F) how far each value is a copy, not a draw of its own."""
    for i in range(n_members):
        r = members[i]
        for f in range(codes.shape[1]):
            v = codes[r, f]
            if v < 0:
                continue
            c = 0
            n = 0
            for j in range(i):
                w = codes[members[j], f]
                if w >= 0:
                    n += 1
                    if w == v:
                        c += 1
            stats[1, f, min(n, DEPTH - 1), 0] += weight
            if c == 0:
                stats[0, f, 0, 0] += weight
            else:
                stats[0, f, min(c, DEPTH - 1), theta_bin(theta[r, f])] += weight
                repeats[r, f] += weight * c / (alpha[f] * theta[r, f] + c)


@nb.njit(cache=True, nogil=True)
def block_evidence(members, n_members, codes, theta, alpha):  # type: ignore[no-untyped-def]
    """Λ(b), by the chain rule over the members in the order given (any order gives the same)."""
    total = 0.0
    for i in range(1, n_members):
        total += log_predictive(members[i], members, i, codes, theta, alpha)
    return total


@nb.njit(cache=True, nogil=True)
def _subset_evidence(records, codes, theta, alpha, out, members):  # type: ignore[no-untyped-def]
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
        n = 0
        for i in range(high):
            if (below >> i) & 1:
                members[n] = records[i]
                n += 1
        out[s] = out[below] + log_predictive(records[high], members, n, codes, theta, alpha)


@nb.njit(cache=True, nogil=True)
def enumerate_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, pair_ptr, codes, theta, alpha, log_new, seed, draw,
    pair_probability, alone, repeats, label, stats,
):  # fmt: skip
    """Components lo..hi-1 of at most MAX_EXACT records: the exact posterior over all partitions.

    Adds P(same individual) of every pair of a component to `pair_probability` (pairs (i, j), i < j, in the order of
    the component's records, from `pair_ptr`), P(no partner) to `alone` (N,), the statistics (expected; or, with
    `draw`, of one partition drawn from the posterior) to `stats` and `repeats`, and writes the drawn partition's labels
    to `label` (N,). Returns (E[number of blocks], its variance), summed over the components.
    """
    evidence = np.empty(1 << MAX_EXACT)
    log_z = np.empty(1 << MAX_EXACT)
    mean = np.empty(1 << MAX_EXACT)
    square = np.empty(1 << MAX_EXACT)
    members = np.empty(MAX_EXACT, np.int32)
    stream = np.zeros(1, np.uint64)
    total_mean = 0.0
    total_variance = 0.0
    for c in range(lo, hi):
        records = comp_record[comp_ptr[c] : comp_ptr[c + 1]]
        m = len(records)
        full = (1 << m) - 1
        _subset_evidence(records, codes, theta, alpha, evidence, members)
        log_z[0] = 0.0
        mean[0] = 0.0
        square[0] = 0.0
        for s in range(1, full + 1):
            low = s & -s
            rest = s ^ low
            top = -np.inf
            t = rest
            while True:  # blocks t ∪ {lowest}, over all t ⊆ rest
                value = evidence[t | low] + log_z[rest ^ t]
                if value > top:
                    top = value
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
        total_mean += mean[full]
        total_variance += square[full] - mean[full] * mean[full]
        for s in range(1, full + 1):
            p = math.exp(evidence[s] + log_new + log_z[full ^ s] - log_z[full])
            if p < _POSSIBLE:
                continue
            n = 0
            for i in range(m):
                if (s >> i) & 1:
                    members[n] = i
                    n += 1
            if n == 1:
                alone[records[members[0]]] += p
                continue
            for i in range(n):
                base = pair_ptr[c] + members[i] * (2 * m - members[i] - 1) // 2 - members[i] - 1
                for j in range(i + 1, n):
                    pair_probability[base + members[j]] += p
            if not draw:
                for i in range(n):
                    members[i] = records[members[i]]
                add_block_stats(members, n, p, codes, theta, alpha, stats, repeats)
        if draw:
            stream[0] = mix64(np.uint64(seed) ^ mix64(np.uint64(records[0] + 1)))
            s = full
            while s:
                low = s & -s
                rest = s ^ low
                u = next_uniform(stream)
                t = rest
                while True:
                    u -= math.exp(evidence[t | low] + log_new + log_z[rest ^ t] - log_z[s])
                    if u < 0.0 or t == 0:
                        break
                    t = (t - 1) & rest
                n = 0
                for i in range(m):
                    if ((t | low) >> i) & 1:
                        members[n] = records[i]
                        label[records[i]] = members[0]
                        n += 1
                if n > 1:
                    add_block_stats(members, n, 1.0, codes, theta, alpha, stats, repeats)
                s = rest ^ t
    return total_mean, total_variance


@nb.njit(cache=True, nogil=True)
def count_weights_kernel(records, codes, theta, alpha):  # type: ignore[no-untyped-def]
    """log Σ over partitions with j blocks of exp Σ Λ, j = 0..m, and the same restricted to each pair being together.

    For at most MAX_EXACT records; with these, any weight of the number of blocks can be applied exactly.
    Returns ((m + 1,), (m, m, m + 1)).
    """
    m = len(records)
    full = (1 << m) - 1
    members = np.empty(MAX_EXACT, np.int32)
    evidence = np.empty(1 << m)
    _subset_evidence(records, codes, theta, alpha, evidence, members)
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
