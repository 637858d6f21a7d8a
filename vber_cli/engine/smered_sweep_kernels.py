"""The sweep of SMERED over y, z̃, θ and β̃, and the iteration around it (smered.md, section 3)."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.smered_kernels import (
    ITERATION,
    N_DRAWS,
    N_MULTI,
    N_OCCUPIED,
    block_weight,
)
from vber_cli.engine.smered_move_kernels import moves_kernel
from vber_cli.engine.special_kernels import log_rising, log_sum, next_log_gamma, next_uniform
from vber_cli.model.compile_kernels import kernel, leaf

_LARGEST_LOG = 600.0  # of a number and its product with a few more


@kernel
def weigh_blocks(data, state, work):  # type: ignore[no-untyped-def]
    """Compute Λ of every block, and their sum, anew for the current θ and β̃."""
    state.total[0] = 0.0
    for at in range(state.counter[N_MULTI]):
        block = state.multi[at]
        m = _members(block, state, work)
        state.weight[block] = block_weight(work.member[:m], data, state, work)
        state.total[0] += state.weight[block]


@leaf
def _members(block, state, work):  # type: ignore[no-untyped-def]
    m = 0
    record = state.head[block]
    while record >= 0:
        work.member[m] = record
        m += 1
        record = state.next_record[record]
    return m


@kernel
def set_tables(data, state, log_clean):  # type: ignore[no-untyped-def]
    """Compute what the moves look up, from log θ, log β̃ and (F,) log(1 − β̃)."""
    largest = 1.0
    for f in range(len(state.log_beta)):
        log_w = log_clean[f] - state.log_beta[f]
        state.log_w[f] = log_w
        state.w[f] = math.exp(min(log_w, _LARGEST_LOG))
        state.beta[f] = math.exp(state.log_beta[f])
        largest = max(largest, -state.log_beta[f])
        state.pair_differ[f] = 2.0 * state.log_beta[f] + log_sum(0.0, math.log(2.0) + log_w)
        for v in range(data.value_ptr[f], data.value_ptr[f + 1]):
            log_theta = state.log_theta[v]
            theta = math.exp(log_theta)
            log_rho = log_sum(0.0, log_w - log_theta)
            state.log_rho[v] = log_rho
            state.rho[v] = math.exp(min(log_rho, _LARGEST_LOG))
            largest = max(largest, log_rho)
            log_rest = math.log1p(-theta) if theta < 1.0 else -math.inf
            state.pair_same[v] = 2.0 * state.log_beta[f] + log_sum(log_rest, log_theta + 2.0 * log_rho)
    state.plain[0] = int(_LARGEST_LOG / largest)


@leaf
def _distinct(f, m, data, work):  # type: ignore[no-untyped-def]
    """Count the values of a field among the first m of `work.member`; return how many records have one, and values."""
    n_seen = 0
    n_values = 0
    for k in range(m):
        v = data.value[work.member[k], f]
        if v >= 0:
            if work.tally[v] == 0:
                work.spare[n_values] = v
                n_values += 1
            work.tally[v] += 1
            n_seen += 1
    return n_seen, n_values


@leaf
def _draw_truth(n_values, state, work):  # type: ignore[no-untyped-def]
    """Draw y of a block in a field: the place of its value in `work.spare`, −1 if every record is distorted."""
    top = 0.0
    for k in range(n_values):
        v = work.spare[k]
        grown = work.tally[v] * state.log_rho[v]
        # θ (ρ^c − 1): y = v, and at least one of the c records shows it undistorted
        work.log_weight[k] = state.log_theta[v] + grown + math.log1p(-math.exp(-grown))
        top = max(top, work.log_weight[k])
    total = math.exp(-top)
    for k in range(n_values):
        total += math.exp(work.log_weight[k] - top)
    u = next_uniform(state.stream) * total - math.exp(-top)
    if u < 0.0:
        return -1
    for k in range(n_values):
        u -= math.exp(work.log_weight[k] - top)
        if u < 0.0:
            return k
    return n_values - 1


@leaf
def _draw_undistorted(count, log_rho, stream):  # type: ignore[no-untyped-def]
    """How many of `count` records that show y are undistorted, given that one is at least; each is not with 1/ρ."""
    n = 0
    distorted = math.exp(-log_rho)
    for k in range(count):
        p = 1.0 - distorted
        if n == 0:
            p /= -math.expm1(-(count - k) * log_rho)
        if next_uniform(stream) < p:
            n += 1
    return n


@leaf
def draw_distortion(data, state, work, used, distorted, undistorted):  # type: ignore[no-untyped-def]
    """Draw y and z̃ of every block given the linkage, θ and β̃, and count them.

    Parameters
    ----------
    used
        (ΣV,) int64: receives how many draws from θ gave each value. Undistorted records of one individual share one.
    distorted, undistorted
        (F,) int64: receive the values with z̃ = 1 and 0. Where an individual has one value in a field, z̃ is independent
        of everything else, and is left out.
    """
    for v in range(len(used)):
        used[v] = data.n_observed[v]
    distorted[:] = 0
    undistorted[:] = 0
    for at in range(state.counter[N_MULTI]):
        m = _members(state.multi[at], state, work)
        for f in range(data.value.shape[1]):
            n_seen, n_values = _distinct(f, m, data, work)
            if n_seen > 1:
                k = _draw_truth(n_values, state, work)
                n = 0
                if k >= 0:
                    v = work.spare[k]
                    n = _draw_undistorted(work.tally[v], state.log_rho[v], state.stream)
                    used[v] -= n - 1
                undistorted[f] += n
                distorted[f] += n_seen - n
            for k in range(n_values):
                work.tally[work.spare[k]] = 0


@leaf
def draw_parameters(data, state, prior, used, distorted, undistorted, log_clean):  # type: ignore[no-untyped-def]
    """Draw β̃ and θ given the counts of `draw_distortion`; `prior` is (a, b, μ). `log_clean` receives log(1 − β̃)."""
    for f in range(len(state.log_beta)):
        a = next_log_gamma(state.stream, prior[0] + distorted[f])
        b = next_log_gamma(state.stream, prior[1] + undistorted[f])
        both = log_sum(a, b)
        state.log_beta[f] = a - both
        log_clean[f] = b - both
        total = -math.inf
        for v in range(data.value_ptr[f], data.value_ptr[f + 1]):
            state.log_theta[v] = next_log_gamma(state.stream, prior[2] + used[v])
            total = log_sum(total, state.log_theta[v])
        for v in range(data.value_ptr[f], data.value_ptr[f + 1]):
            state.log_theta[v] -= total
    set_tables(data, state, log_clean)


@leaf
def log_joint(n_individuals, data, state, prior, log_clean):  # type: ignore[no-untyped-def]
    """log p(x, partition, θ, β̃), labels of individuals, y and z̃ summed out; `state.total` must be up to date."""
    n_records = len(state.block_of)
    n = state.counter[N_OCCUPIED]
    out = log_rising(n_individuals - n + 1.0, float(n)) - n_records * math.log(n_individuals) + state.total[0]
    log_norm = math.lgamma(prior[0] + prior[1]) - math.lgamma(prior[0]) - math.lgamma(prior[1])
    for f in range(len(state.log_beta)):
        out += (prior[0] - 1.0) * state.log_beta[f] + (prior[1] - 1.0) * log_clean[f] + log_norm
        n_values = data.value_ptr[f + 1] - data.value_ptr[f]
        if n_values > 0:
            out += math.lgamma(n_values * prior[2]) - n_values * math.lgamma(prior[2])
        for v in range(data.value_ptr[f], data.value_ptr[f + 1]):
            out += (data.n_observed[v] + prior[2] - 1.0) * state.log_theta[v]
    return out


@leaf
def keep_partition(state, first, out):  # type: ignore[no-untyped-def]
    """Write for each record the first record of its block to `out` (N,); `first` (B,) is scratch."""
    first[:] = -1
    for record in range(len(state.block_of)):
        block = state.block_of[record]
        if first[block] < 0:
            first[block] = record
        out[record] = first[block]


@kernel
def iterate_kernel(until, n_moves, burn_in, thin, n_individuals, prior, data, pairs, state, work, trace, draws):  # type: ignore[no-untyped-def]
    """Run a chain until it has made `until` iterations.

    Parameters
    ----------
    n_moves
        Linkage moves in each iteration, before the sweep.
    burn_in, thin
        After the first `burn_in` iterations, the last of every `thin` ones is kept in `draws`.
    prior
        (3,) float64: a and b of β̃, and μ of θ.
    trace
        (iterations, 2 + F) float64: receives n, the log joint, and β̃.
    draws
        (T, N) int32: receives the kept partitions, as `keep_partition` writes them.
    """
    n_fields = data.value.shape[1]
    used = np.empty(len(data.n_observed), np.int64)
    distorted = np.empty(n_fields, np.int64)
    undistorted = np.empty(n_fields, np.int64)
    log_clean = np.empty(n_fields)
    first = np.empty(len(state.head), np.int32)
    while state.counter[ITERATION] < until:
        moves_kernel(n_moves, n_individuals, data, pairs, state, work)
        draw_distortion(data, state, work, used, distorted, undistorted)
        draw_parameters(data, state, prior, used, distorted, undistorted, log_clean)
        weigh_blocks(data, state, work)
        at = state.counter[ITERATION]
        trace[at, 0] = state.counter[N_OCCUPIED]
        trace[at, 1] = log_joint(n_individuals, data, state, prior, log_clean)
        for f in range(n_fields):
            trace[at, 2 + f] = math.exp(state.log_beta[f])
        state.counter[ITERATION] += 1
        after = state.counter[ITERATION] - burn_in
        if after > 0 and after % thin == 0:
            keep_partition(state, first, draws[state.counter[N_DRAWS]])
            state.counter[N_DRAWS] += 1
