"""Linkage moves of SMERED: split–merge and single reassignments, given θ and β̃ (smered.md, section 3)."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.smered_kernels import (
    MERGED,
    MERGES,
    N_OCCUPIED,
    SHIFTED,
    SHIFTS,
    SPLIT,
    SPLITS,
    WASTED,
    add_record,
    block_weight,
    clear_record,
    form_block,
    free_block,
    gain_of_record,
    is_plain,
    pair_weight,
    start_sides,
    take_block,
)
from vber_cli.engine.special_kernels import log_sum, next_uniform
from vber_cli.model.compile_kernels import kernel, leaf


@leaf
def _gather(block, first, state, work, at):  # type: ignore[no-untyped-def]
    """Write a block's records to `work.member` from `at`, `first` in front; return where they end."""
    work.member[at] = first
    at += 1
    record = state.head[block]
    while record >= 0:
        if record != first:
            work.member[at] = record
            at += 1
        record = state.next_record[record]
    return at


@leaf
def _shuffle(records, stream):  # type: ignore[no-untyped-def]
    for k in range(len(records) - 1, 0, -1):
        other = int(next_uniform(stream) * (k + 1))
        records[k], records[other] = records[other], records[k]


@leaf
def _logistic(x):  # type: ignore[no-untyped-def]
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


@leaf
def _allocate(i, j, rest, follow, data, state, work):  # type: ignore[no-untyped-def]
    """Sequential allocation of `rest` to the sides of i (0) and j (1), in its order.

    With `follow` the sides are those in `work.side`, else they are drawn and written there. Returns the log
    probability of the allocation, and Λ of both sides.
    """
    plain = is_plain(len(rest) + 2, state)
    start_sides(rest, plain, data, work)
    for side in range(2):
        clear_record(side, i, plain, data, work)
        clear_record(side, j, plain, data, work)
    add_record(0, i, plain, data, state, work)
    add_record(1, j, plain, data, state, work)
    log_q = 0.0
    weight_i = 0.0
    weight_j = 0.0
    for k in range(len(rest)):
        gain_i = gain_of_record(0, rest[k], plain, data, state, work)
        gain_j = gain_of_record(1, rest[k], plain, data, state, work)
        if not follow:
            work.side[k] = 0 if next_uniform(state.stream) < _logistic(gain_i - gain_j) else 1
        if work.side[k] == 0:
            log_q -= log_sum(0.0, gain_j - gain_i)
            weight_i += gain_i
        else:
            log_q -= log_sum(0.0, gain_i - gain_j)
            weight_j += gain_j
        add_record(work.side[k], rest[k], plain, data, state, work)
    return log_q, weight_i, weight_j


@leaf
def _try_merge(i, j, n_individuals, data, state, work):  # type: ignore[no-untyped-def]
    """Propose to make one block of the blocks of i and j; accept by Metropolis–Hastings. Returns whether it did."""
    a = state.block_of[i]
    b = state.block_of[j]
    state.counter[MERGES] += 1
    m = state.n_in_block[a] + state.n_in_block[b]
    log_u = math.log(1.0 - next_uniform(state.stream))
    prior = -math.log(n_individuals - state.counter[N_OCCUPIED] + 1.0)
    if m == 2:
        weight = pair_weight(i, j, data, state)
        if log_u >= weight + prior:
            return False
        work.member[0] = i
        work.member[1] = j
    else:
        middle = _gather(a, i, state, work, 0)
        _gather(b, j, state, work, middle)
        weight = block_weight(work.member[:m], data, state, work)
        log_ratio = weight - state.weight[a] - state.weight[b] + prior
        if log_u >= log_ratio:  # the probability of the way back can only lower it
            return False
        # i and j to the front, the rest in random order
        work.member[middle] = work.member[1]
        work.member[1] = j
        rest = work.member[2:m]
        _shuffle(rest, state.stream)
        for k in range(m - 2):
            work.side[k] = 0 if state.block_of[rest[k]] == a else 1
        log_q, _, _ = _allocate(i, j, rest, True, data, state, work)
        if log_u >= log_ratio + log_q:
            return False
    state.counter[MERGED] += 1
    free_block(b, state)
    form_block(a, work.member[:m], weight, state)
    return True


@leaf
def _try_split(i, j, n_individuals, data, state, work):  # type: ignore[no-untyped-def]
    """Propose to give i and j blocks of their own, the others allocated to them; accept by Metropolis–Hastings."""
    block = state.block_of[i]
    m = state.n_in_block[block]
    state.counter[SPLITS] += 1
    log_u = math.log(1.0 - next_uniform(state.stream))
    if state.counter[N_OCCUPIED] >= n_individuals:
        return
    _gather(block, i, state, work, 0)
    for k in range(1, m):
        if work.member[k] == j:
            work.member[k] = work.member[1]
            work.member[1] = j
    rest = work.member[2:m]
    _shuffle(rest, state.stream)
    log_q = 0.0
    weight_i = 0.0
    weight_j = 0.0
    if m > 2:
        log_q, weight_i, weight_j = _allocate(i, j, rest, False, data, state, work)
    log_ratio = weight_i + weight_j - state.weight[block] - log_q
    log_ratio += math.log(n_individuals - float(state.counter[N_OCCUPIED]))
    if log_u >= log_ratio:
        return
    state.counter[SPLIT] += 1
    # members of i's side from the left, of j's side from the right
    sorted_out = work.spare[:m]
    n_left = 1
    n_right = 1
    sorted_out[0] = i
    sorted_out[m - 1] = j
    for k in range(m - 2):
        if work.side[k] == 0:
            sorted_out[n_left] = rest[k]
            n_left += 1
        else:
            n_right += 1
            sorted_out[m - n_right] = rest[k]
    form_block(block, sorted_out[:n_left], weight_i, state)
    form_block(take_block(state), sorted_out[n_left:], weight_j, state)


@leaf
def _try_shift(i, j, data, state, work):  # type: ignore[no-untyped-def]
    """Draw anew with which of two records, in different blocks, one other record of their blocks goes."""
    a = state.block_of[i]
    b = state.block_of[j]
    size_a = state.n_in_block[a]
    m = size_a + state.n_in_block[b]
    state.counter[SHIFTS] += 1
    _gather(a, i, state, work, 0)
    _gather(b, j, state, work, size_a)
    # any record but i (at 0) and j (at size_a)
    k = 1 + int(next_uniform(state.stream) * (m - 2))
    if k >= size_a:
        k += 1
    record = work.member[k]
    in_a = k < size_a
    plain = is_plain(m, state)
    start_sides(work.member[:m], plain, data, work)
    for at in range(m):
        if at != k:
            add_record(0 if at < size_a else 1, work.member[at], plain, data, state, work)
    gain_a = gain_of_record(0, record, plain, data, state, work)
    gain_b = gain_of_record(1, record, plain, data, state, work)
    to_a = next_uniform(state.stream) < _logistic(gain_a - gain_b)
    if to_a == in_a:
        return
    state.counter[SHIFTED] += 1
    if in_a:
        work.member[k] = work.member[size_a - 1]
        work.member[size_a - 1] = record
        size_a -= 1
        gain_a = -gain_a
    else:
        work.member[k] = work.member[size_a]
        work.member[size_a] = record
        size_a += 1
        gain_b = -gain_b
    form_block(a, work.member[:size_a], state.weight[a] + gain_a, state)
    form_block(b, work.member[size_a:m], state.weight[b] + gain_b, state)


@leaf
def choose_pair(pairs, stream):  # type: ignore[no-untyped-def]
    """Two records, as `Pairs` says; the same one twice where a group has no other."""
    n = pairs.group.shape[1]
    u = next_uniform(stream)
    if u < pairs.share[0]:
        k = int(next_uniform(stream) * len(pairs.a))
        return pairs.a[k], pairs.b[k]
    i = np.int32(next_uniform(stream) * n)
    if u < pairs.share[0] + pairs.share[1]:
        s = int(next_uniform(stream) * pairs.group.shape[0])
        lo = pairs.group_ptr[s, pairs.group[s, i]]
        hi = pairs.group_ptr[s, pairs.group[s, i] + 1]
        return i, pairs.group_record[s, lo + int(next_uniform(stream) * (hi - lo))]
    return i, np.int32(next_uniform(stream) * n)


@kernel
def moves_kernel(n_moves, n_individuals, data, pairs, state, work):  # type: ignore[no-untyped-def]
    """Make `n_moves` linkage moves; each leaves p(linkage | x, θ, β̃) as it is."""
    for _ in range(n_moves):
        i, j = choose_pair(pairs, state.stream)
        if i == j:
            state.counter[WASTED] += 1
            continue
        if state.block_of[i] == state.block_of[j]:
            _try_split(i, j, n_individuals, data, state, work)
        else:
            _try_merge(i, j, n_individuals, data, state, work)
        a = state.block_of[i]
        b = state.block_of[j]
        if a != b and state.n_in_block[a] + state.n_in_block[b] > 2:
            _try_shift(i, j, data, state, work)
