"""Kernels over partitions of the records of one component of the candidate graph (model.md sections 2 and 7).

A block's weight is that of its marginal beside its records on their own,
    Λ(b) = log m(b) − Σ_{r in b} log m({r}),
built by the chain rule over its records in ascending order. Given earlier members of which n show field f and c show
the record's own value, a record's factor is Σ_q share_q Π_f (α_qf θ + c) / ((α_qf + n) θ): with one noise class this
is the paper's exact marginal; with several, records differ in which fields they get wrong together. `theta` is θ of
every record's own value, (N, F) float64; `alpha` is (Q, F), `share` (Q,).

Sufficient statistics of the noise (for `engine.hyper`): `stats` (Q, 2, F, DEPTH, BINS) counts, per class, slab 0 by (c,
bin of log θ), where all of c = 0 lie in bin 0, and slab 1 by n, in bin 0; `class_weight` (Q,) counts records.
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
_NOTABLE = 2e-3  # weak pairs less probable than this say more about chance than about noise
_POSSIBLE = 1e-12  # blocks less probable than this leave no trace in the statistics


@nb.njit(cache=True, nogil=True)
def theta_bin(theta):  # type: ignore[no-untyped-def]
    """The bin of log θ."""
    return min(max(int(-math.log(theta) / _BIN_WIDTH), 0), BINS - 1)


@nb.njit(cache=True, nogil=True)
def _class_scores(r, members, n_members, codes, theta, alpha, share, work):  # type: ignore[no-untyped-def]
    """Fill work[2, q] with log share_q + Σ_f log [(α_qf θ + c) / ((α_qf + n) θ)], and work[0], work[1] with c and n."""
    n_fields = codes.shape[1]
    for f in range(n_fields):
        v = codes[r, f]
        c = 0
        n = 0
        if v >= 0:
            for j in range(n_members):
                w = codes[members[j], f]
                if w >= 0:
                    n += 1
                    if w == v:
                        c += 1
        work[0, f] = c
        work[1, f] = n
    for q in range(len(share)):
        total = math.log(share[q])
        product = 1.0
        for f in range(n_fields):
            n = work[1, f]
            if n > 0:
                t = theta[r, f]
                product *= (alpha[q, f] * t + work[0, f]) / ((alpha[q, f] + n) * t)
                if product > 1e200 or product < 1e-200:
                    total += math.log(product)
                    product = 1.0
        work[2, q] = total + math.log(product)


@nb.njit(cache=True, nogil=True)
def log_predictive(r, members, n_members, codes, theta, alpha, share, work):  # type: ignore[no-untyped-def]
    """log p(x_r | members) − log p(x_r | no one); `work` is scratch, (3, max(F, Q)) float64."""
    _class_scores(r, members, n_members, codes, theta, alpha, share, work)
    top = work[2, 0]
    if len(share) == 1:
        return top
    for q in range(1, len(share)):
        top = max(top, work[2, q])
    total = 0.0
    for q in range(len(share)):
        total += math.exp(work[2, q] - top)
    return top + math.log(total)


@nb.njit(cache=True, nogil=True)
def add_block_stats(  # type: ignore[no-untyped-def]
    members, n_members, weight, codes, theta, alpha, share, work, stats, class_weight, repeats
):
    """Add a block's events to `stats`, and to `repeats` (N, F) how far each value is a copy, not a draw of its own."""
    for i in range(1, n_members):
        r = members[i]
        log_total = log_predictive(r, members, i, codes, theta, alpha, share, work)
        for q in range(len(share)):
            part = weight * math.exp(work[2, q] - log_total)
            if part <= 0.0:
                continue
            class_weight[q] += part
            for f in range(codes.shape[1]):
                c, n = int(work[0, f]), int(work[1, f])
                if n == 0:
                    continue
                stats[q, 1, f, min(n, DEPTH - 1), 0] += part
                if c == 0:
                    stats[q, 0, f, 0, 0] += part
                else:
                    stats[q, 0, f, min(c, DEPTH - 1), theta_bin(theta[r, f])] += part
                    repeats[r, f] += part * c / (alpha[q, f] * theta[r, f] + c)


@nb.njit(cache=True, nogil=True)
def pair_stats_kernel(  # type: ignore[no-untyped-def]
    a, b, weight, codes, theta, alpha, share, stats, class_weight, repeats
):
    """`add_block_stats` of the pairs (a[i], b[i]), each as a block of two with the weight given."""
    work = np.empty((3, max(codes.shape[1], len(share))))
    members = np.empty(2, np.int32)
    for i in range(len(a)):
        if weight[i] > _NOTABLE:
            members[0] = a[i]
            members[1] = b[i]
            add_block_stats(members, 2, weight[i], codes, theta, alpha, share, work, stats, class_weight, repeats)


@nb.njit(cache=True, nogil=True)
def block_evidence(members, n_members, codes, theta, alpha, share, work):  # type: ignore[no-untyped-def]
    """Λ(b), by the chain rule over the members in the order given (with one noise class any order gives the same)."""
    total = 0.0
    for i in range(1, n_members):
        total += log_predictive(members[i], members, i, codes, theta, alpha, share, work)
    return total


@nb.njit(cache=True, nogil=True)
def _subset_evidence(records, codes, theta, alpha, share, work, out, members):  # type: ignore[no-untyped-def]
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
        out[s] = out[below] + log_predictive(records[high], members, n, codes, theta, alpha, share, work)


@nb.njit(cache=True, nogil=True)
def enumerate_kernel(  # type: ignore[no-untyped-def]
    lo, hi, comp_ptr, comp_record, pair_ptr, codes, theta, alpha, share, log_new, seed, draw,
    pair_probability, alone, repeats, label, stats, class_weight,
):  # fmt: skip
    """Components lo..hi-1 of at most MAX_EXACT records: the exact posterior over all partitions.

    Adds P(same individual) of every pair of a component to `pair_probability` (pairs (i, j), i < j, in the order of
    the component's records, from `pair_ptr`), P(no partner) to `alone` (N,), the statistics (expected; or, with
    `draw`, of one partition drawn from the posterior) to `stats` and `repeats`, and writes the drawn partition's labels
    to `label` (N,). Returns (E[number of blocks], its variance), summed over the components.
    """
    evidence = np.empty(1 << MAX_EXACT)
    work = np.empty((3, max(codes.shape[1], len(share))))
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
        _subset_evidence(records, codes, theta, alpha, share, work, evidence, members)
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
                add_block_stats(members, n, p, codes, theta, alpha, share, work, stats, class_weight, repeats)
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
                    add_block_stats(members, n, 1.0, codes, theta, alpha, share, work, stats, class_weight, repeats)
                s = rest ^ t
    return total_mean, total_variance


@nb.njit(cache=True, nogil=True)
def count_weights_kernel(records, codes, theta, alpha, share):  # type: ignore[no-untyped-def]
    """log Σ over partitions with j blocks of exp Σ Λ, j = 0..m, and the same restricted to each pair being together.

    For at most MAX_EXACT records; with these, any weight of the number of blocks can be applied exactly.
    Returns ((m + 1,), (m, m, m + 1)).
    """
    m = len(records)
    full = (1 << m) - 1
    members = np.empty(MAX_EXACT, np.int32)
    evidence = np.empty(1 << m)
    work = np.empty((3, max(codes.shape[1], len(share))))
    _subset_evidence(records, codes, theta, alpha, share, work, evidence, members)
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
