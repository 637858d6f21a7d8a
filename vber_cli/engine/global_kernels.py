"""Kernels of the global step, λ from φ, and of what λ adds to the bound. Cells as in `cavi_kernels`."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.special_kernels import log_rising
from vber_cli.model.compile_kernels import kernel
from vber_cli.model.search_kernels import place_of

_FEW_RECORDS = 24  # of an individual, whose values are sorted in as they come


@kernel
def transpose_kernel(ptr, individual, phi, n_stored):  # type: ignore[no-untyped-def]
    """φ by individual instead of by record: (row pointers, records, φ), records ascending within an individual."""
    out_ptr = np.zeros(n_stored + 1, np.int64)
    for e in range(len(individual)):
        out_ptr[individual[e] + 1] += 1
    for k in range(n_stored):
        out_ptr[k + 1] += out_ptr[k]
    fill = out_ptr[:-1].copy()
    record = np.empty(len(individual), np.int32)
    weight = np.empty(len(individual), np.float64)
    for r in range(len(ptr) - 1):
        for e in range(ptr[r], ptr[r + 1]):
            k = individual[e]
            record[fill[k]] = r
            weight[fill[k]] = phi[e]
            fill[k] += 1
    return out_ptr, record, weight


@kernel
def cells_kernel(lo, hi, codes, value_ptr, ptr, record, weight):  # type: ignore[no-untyped-def]
    """Cells of individuals lo..hi-1, c_kfv = Σ_r φ_rk 1{x_rf = v}.

    Returns (cells per (individual, field), value, count, Σ_v c_kfv per (individual, field)).
    """
    n_fields = codes.shape[1]
    size = np.zeros((hi - lo) * n_fields, np.int64)
    observed = np.zeros((hi - lo) * n_fields, np.float64)
    capacity = (ptr[hi] - ptr[lo]) * n_fields
    value = np.empty(capacity, np.int32)
    count = np.empty(capacity, np.float64)
    used = 0
    for k in range(lo, hi):
        m = ptr[k + 1] - ptr[k]
        for f in range(n_fields):
            first = used
            if m <= _FEW_RECORDS:
                for e in range(ptr[k], ptr[k + 1]):
                    v = codes[record[e], f]
                    if v < 0:
                        continue
                    g = value_ptr[f] + v
                    at = used
                    while at > first and value[at - 1] > g:
                        at -= 1
                    if at > first and value[at - 1] == g:
                        count[at - 1] += weight[e]
                        continue
                    for j in range(used, at, -1):
                        value[j] = value[j - 1]
                        count[j] = count[j - 1]
                    value[at] = g
                    count[at] = weight[e]
                    used += 1
            else:
                order = np.argsort(codes[record[ptr[k] : ptr[k + 1]], f], kind="mergesort")
                for j in order:
                    e = ptr[k] + j
                    v = codes[record[e], f]
                    if v < 0:
                        continue
                    g = value_ptr[f] + v
                    if used > first and value[used - 1] == g:
                        count[used - 1] += weight[e]
                    else:
                        value[used] = g
                        count[used] = weight[e]
                        used += 1
            size[(k - lo) * n_fields + f] = used - first
            for e in range(first, used):
                observed[(k - lo) * n_fields + f] += count[e]
    return size, value[:used].copy(), count[:used].copy(), observed


@kernel
def recount_kernel(  # type: ignore[no-untyped-def]
    rows, codes, value_ptr, ptr, individual, phi, cell_ptr, cell_value, cell_count, n_observed
):
    """Count anew, in place, what the individuals hold that these records lean on, and no others.

    Their cells are known: φ has changed, but not whom a record leans on. Sums are in the order of `cells_kernel`.
    """
    n_fields = codes.shape[1]
    due = np.zeros(n_observed.shape[0], np.bool_)
    for r in rows:
        for e in range(ptr[r], ptr[r + 1]):
            due[individual[e]] = True
    for k in range(len(due)):
        if due[k]:
            cell_count[cell_ptr[k * n_fields] : cell_ptr[(k + 1) * n_fields]] = 0.0
            n_observed[k] = 0.0
    for r in range(len(ptr) - 1):
        for e in range(ptr[r], ptr[r + 1]):
            k = individual[e]
            if not due[k]:
                continue
            for f in range(n_fields):
                if codes[r, f] >= 0:
                    g = value_ptr[f] + codes[r, f]
                    at = place_of(g, cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1], cell_value)
                    cell_count[at] += phi[e]
    for k in range(len(due)):
        if due[k]:
            for f in range(n_fields):
                for e in range(cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1]):
                    n_observed[k, f] += cell_count[e]


@kernel
def log_partition_kernel(  # type: ignore[no-untyped-def]
    lo, hi, cell_ptr, cell_value, cell_count, prior, prior_total, n_observed, rising_once, out
):
    """Σ_f [log B(λ_kf) − log B(A_f)] of individuals lo..hi-1, in `out` (n_stored,).

    Most of them were seen with a value once: `rising_once` (ΣV,) is log Γ(A + 1) − log Γ(A).
    """
    n_fields = n_observed.shape[1]
    once = rising_kernel(prior_total)
    for k in range(lo, hi):
        total = 0.0
        for f in range(n_fields):
            n = n_observed[k, f]
            total -= once[f] if n == 1.0 else log_rising(prior_total[f], n)
            for e in range(cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1]):
                v = cell_value[e]
                total += rising_once[v] if cell_count[e] == 1.0 else log_rising(prior[v], cell_count[e])
        out[k] = total


@kernel
def rising_kernel(x):  # type: ignore[no-untyped-def]
    """log Γ(x + 1) − log Γ(x) of every element of a one-dimensional array."""
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = log_rising(x[i], 1.0)
    return out


@kernel
def rest_log_partition_kernel(rest_count, rest_observed, prior, prior_total):  # type: ignore[no-untyped-def]
    """Σ_f [log B(λ) − log B(A_f)] of one individual of the rest."""
    total = 0.0
    for f in range(len(rest_observed)):
        total -= log_rising(prior_total[f], rest_observed[f])
    for v in range(len(rest_count)):
        if rest_count[v] > 0.0:
            total += log_rising(prior[v], rest_count[v])
    return total
