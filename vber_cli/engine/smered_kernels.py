"""State of a SMERED chain, and the weights of its blocks given θ and β̃ (smered.md, section 3).

A block is the records of one individual. Its weight Λ is log p(its values | θ, β̃) − Σ log θ(x), with the true values
and the distortion indicators summed out. Per field, with c_v records that show v, w = (1 − β)/β and ρ_v = 1 + w/θ_v,

    Λ_f = m log β + log S,    S = 1 + Σ_v θ_v (ρ_v^c_v − 1),

which one more record of value v raises by w ρ_v^c_v. In large blocks ρ^c passes every double; S is a logarithm there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vber_cli.engine.special_kernels import log_sum
from vber_cli.model.compile_kernels import leaf
from vber_cli.model.types import FloatArray, IntArray, LongArray

N_OCCUPIED, N_MULTI, ITERATION, N_DRAWS, MERGES, MERGED, SPLITS, SPLIT, SHIFTS, SHIFTED, WASTED = range(11)
N_COUNTERS = 11
_TINY, _HUGE = 1e-150, 1e150


class Data(NamedTuple):
    """What never changes.

    Attributes
    ----------
    value
        (N, F) int32: the values, numbered through all fields; −1 where missing.
    value_ptr
        (F + 1,) int64: values of field f are value_ptr[f] .. value_ptr[f + 1] − 1.
    n_observed
        (ΣV,) int64: records that show each value.
    """

    value: IntArray
    value_ptr: LongArray
    n_observed: LongArray


class Pairs(NamedTuple):
    """Where pairs of records come from; the probabilities do not depend on the state of the chain.

    Attributes
    ----------
    a, b
        (P,) int32: candidate pairs, one of which is drawn with probability share[0].
    group, group_ptr, group_record
        (S, N), (S, G + 1), (S, N) int32: of each key set the group of every record, and the groups' records. A record,
        a key set and another record of that group are drawn with probability share[1]; else any two records.
    """

    a: IntArray
    b: IntArray
    group: IntArray
    group_ptr: IntArray
    group_record: IntArray
    share: FloatArray


class State(NamedTuple):
    """Where a chain is. The arrays are changed in place; together they determine every later draw.

    Attributes
    ----------
    block_of, next_record
        (N,) int32: block of each record; next record of its block, −1 at the end.
    head, n_in_block, weight
        (B,) int32, int32 and float64: first record of each block, records in it (0: free), Λ.
    free, multi, multi_place
        (B,) int32: free blocks (a stack); the blocks of two or more records, and where each stands among them.
    counter
        (N_COUNTERS,) int64: occupied blocks, blocks of two or more, iterations, draws kept; merges, splits and
        reassignments proposed and accepted; pairs of one record with itself.
    total
        (1,) float64: Σ Λ over the blocks.
    stream
        (1,) uint64: the random stream.
    log_theta, log_rho, pair_same
        (ΣV,) float64: log θ, log ρ, and Λ_f of two records that both show the value.
    log_beta, log_w, pair_differ
        (F,) float64: log β̃, log w, and Λ_f of two records that differ.
    rho, beta, w, plain
        (ΣV,), (F,), (F,) float64 and (1,) int64: ρ, β̃ and w themselves, and up to how many records they can be used.
    """

    block_of: IntArray
    next_record: IntArray
    head: IntArray
    n_in_block: IntArray
    weight: FloatArray
    free: IntArray
    multi: IntArray
    multi_place: IntArray
    counter: LongArray
    total: FloatArray
    stream: np.ndarray
    log_theta: FloatArray
    log_rho: FloatArray
    pair_same: FloatArray
    log_beta: FloatArray
    log_w: FloatArray
    pair_differ: FloatArray
    rho: FloatArray
    beta: FloatArray
    w: FloatArray
    plain: LongArray


class Work(NamedTuple):
    """Scratch.

    Attributes
    ----------
    power, level
        (2, ΣV) and (2, F) float64: ρ^c of each value and S, of the two sides of a move.
    member, spare, side, log_weight
        (N,) int32, int32, int8 and float64.
    tally
        (ΣV,) int32, zero between uses.
    """

    power: FloatArray
    level: FloatArray
    member: IntArray
    spare: IntArray
    side: np.ndarray
    log_weight: FloatArray
    tally: IntArray


@leaf
def is_plain(m, state):  # type: ignore[no-untyped-def]
    """Whether blocks of m records can be weighed without overflow in plain doubles."""
    return m <= state.plain[0]


@leaf
def gain_of_record(side, record, plain, data, state, work):  # type: ignore[no-untyped-def]
    """By how much a side's Λ rises if a record joins it."""
    gain = 0.0
    product = 1.0
    for f in range(data.value.shape[1]):
        v = data.value[record, f]
        if v < 0:
            continue
        if plain:
            before = work.level[side, f]
            product *= state.beta[f] * (before + state.w[f] * work.power[side, v]) / before
            if product < _TINY or product > _HUGE:
                gain += math.log(product)
                product = 1.0
        else:
            before = work.level[side, f]
            gain += state.log_beta[f] - before + log_sum(before, state.log_w[f] + work.power[side, v])
    return gain + math.log(product)


@leaf
def add_record(side, record, plain, data, state, work):  # type: ignore[no-untyped-def]
    """Put a record to a side; `level` and `power` are S and ρ^c, as they are or as logarithms."""
    for f in range(data.value.shape[1]):
        v = data.value[record, f]
        if v < 0:
            continue
        if plain:
            work.level[side, f] += state.w[f] * work.power[side, v]
            work.power[side, v] *= state.rho[v]
        else:
            work.level[side, f] = log_sum(work.level[side, f], state.log_w[f] + work.power[side, v])
            work.power[side, v] += state.log_rho[v]


@leaf
def clear_record(side, record, plain, data, work):  # type: ignore[no-untyped-def]
    """Empty a side in all that a record of it has touched."""
    nothing = 1.0 if plain else 0.0
    for f in range(data.value.shape[1]):
        v = data.value[record, f]
        if v >= 0:
            work.power[side, v] = nothing
            work.level[side, f] = nothing


@leaf
def start_sides(members, plain, data, work):  # type: ignore[no-untyped-def]
    """Make both sides empty for these records; nothing else in the scratch is read before it is set."""
    for record in members:
        clear_record(0, record, plain, data, work)
        clear_record(1, record, plain, data, work)


@leaf
def block_weight(members, data, state, work):  # type: ignore[no-untyped-def]
    """Λ of a block of these records."""
    m = len(members)
    if m == 1:
        return 0.0
    if m == 2:
        return pair_weight(members[0], members[1], data, state)
    plain = is_plain(m, state)
    for record in members:
        clear_record(0, record, plain, data, work)
    weight = 0.0
    for record in members:
        weight += gain_of_record(0, record, plain, data, state, work)
        add_record(0, record, plain, data, state, work)
    return weight


@leaf
def pair_weight(i, j, data, state):  # type: ignore[no-untyped-def]
    """Λ of a block of two."""
    weight = 0.0
    for f in range(data.value.shape[1]):
        v = data.value[i, f]
        u = data.value[j, f]
        if v >= 0 and u >= 0:
            weight += state.pair_same[v] if u == v else state.pair_differ[f]
    return weight


@leaf
def form_block(block, members, weight, state):  # type: ignore[no-untyped-def]
    """Make these records the block, which had other records or none; counts of blocks are kept elsewhere."""
    m = len(members)
    for k in range(m):
        state.block_of[members[k]] = block
        state.next_record[members[k]] = members[k + 1] if k + 1 < m else -1
    state.head[block] = members[0]
    if m > 1 and state.n_in_block[block] <= 1:
        state.multi[state.counter[N_MULTI]] = block
        state.multi_place[block] = state.counter[N_MULTI]
        state.counter[N_MULTI] += 1
    elif m == 1 and state.n_in_block[block] > 1:
        _leave_multi(block, state)
    state.n_in_block[block] = m
    if m == 1:
        weight = 0.0
    state.total[0] += weight - state.weight[block]
    state.weight[block] = weight


@leaf
def _leave_multi(block, state):  # type: ignore[no-untyped-def]
    last = state.counter[N_MULTI] - 1
    place = state.multi_place[block]
    state.multi[place] = state.multi[last]
    state.multi_place[state.multi[last]] = place
    state.counter[N_MULTI] = last


@leaf
def free_block(block, state):  # type: ignore[no-untyped-def]
    """Empty a block, whose records go elsewhere, and count it as free."""
    if state.n_in_block[block] > 1:
        _leave_multi(block, state)
    state.total[0] -= state.weight[block]
    state.weight[block] = 0.0
    state.n_in_block[block] = 0
    state.counter[N_OCCUPIED] -= 1
    state.free[len(state.head) - state.counter[N_OCCUPIED] - 1] = block


@leaf
def take_block(state):  # type: ignore[no-untyped-def]
    """A free block, now counted as occupied; there must be one."""
    block = state.free[len(state.head) - state.counter[N_OCCUPIED] - 1]
    state.counter[N_OCCUPIED] += 1
    return block
