"""Units of records that must be together, within one component: moved as one, and kept out of blocks they may not join.

Local numbering as in `local_kernels`. Where nothing is constrained `lead`, `mate` and `barred` are empty, every record
is a unit of its own, and the functions below are those of single records.
"""

from __future__ import annotations

import numpy as np

from vber_cli.engine.local_kernels import _any_order, block_weight, joining, predictive
from vber_cli.engine.special_kernels import sort_first
from vber_cli.model.compile_kernels import inlined_leaf, kernel, leaf
from vber_cli.model.constraints_kernels import standing

IMPOSSIBLE = -1e9  # nats; finite, so that differences of impossible weights stay numbers


@kernel
def local_units(records, constraints):  # type: ignore[no-untyped-def]
    """Each record's unit by its first record (m,), the unit's next record or −1 (m,), and the barred pairs (m, m)."""
    m = len(records)
    if len(constraints.lead) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0), np.bool_)
    lead, mate = np.empty(m, np.int64), np.full(m, -1, np.int64)
    barred = np.zeros((m, m), np.bool_)
    for i in range(m):
        lead[i] = i
        for j in range(i - 1, -1, -1):
            now = standing(records[i], records[j], constraints)
            barred[i, j] = barred[j, i] = now < 0
            if now > 0 and lead[i] == i:
                lead[i] = lead[j]
                mate[j] = i
    return lead, mate, barred


@inlined_leaf
def leads(i, lead):  # type: ignore[no-untyped-def]
    """Whether the record is the first of its unit."""
    return len(lead) == 0 or lead[i] == i


@inlined_leaf
def following(i, mate):  # type: ignore[no-untyped-def]
    """The next record of the unit, −1 after the last."""
    return -1 if len(mate) == 0 else mate[i]


@leaf
def bars(i, members, n, barred):  # type: ignore[no-untyped-def]
    """Whether some of the members cannot be with the unit of i."""
    if len(barred) == 0:
        return False
    barring = 0
    for p in range(n):
        barring += barred[i, members[p]]
    return barring > 0


@leaf
def bars_any(ones, n_ones, others, n_others, barred):  # type: ignore[no-untyped-def]
    """Whether two blocks hold a pair that cannot be together."""
    if len(barred) == 0:
        return False
    barring = 0
    for p in range(n_ones):
        barring += bars(ones[p], others, n_others, barred)
    return barring > 0


@inlined_leaf
def unit_joining(i, mate, members, n, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Λ(b ∪ u) − Λ(b) for the unit u that i leads; reorders the members of b, and needs room for u behind them."""
    if following(i, mate) < 0:
        return joining(i, members, n, records, levels, model, work)
    free = _any_order(model)
    without = 0.0
    if not free:
        sort_first(members, n)
        without = block_weight(members, n, records, levels, model, work)
    total = 0.0
    at = n
    while i >= 0:
        if free:
            total += predictive(i, members, at, records, levels, model, work)
        members[at] = i
        at += 1
        i = mate[i]
    if free:
        return total
    sort_first(members, at)
    return block_weight(members, at, records, levels, model, work) - without


@leaf
def unit_alone(i, mate, members, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Λ of the unit that i leads, as a block; `members` is overwritten."""
    if following(i, mate) < 0:
        return 0.0
    return unit_joining(i, mate, members, np.int64(0), records, levels, model, work)


@leaf
def unit_fit(i, mate, half, n, records, levels, model, work):  # type: ignore[no-untyped-def]
    """Σ of the predictives of the unit's records, one after the other, beside a half; needs room behind it."""
    total = 0.0
    while i >= 0:
        total += predictive(i, half, n, records, levels, model, work)
        half[n] = i
        n += 1
        i = following(i, mate)
    return total


@leaf
def append_unit(i, mate, members, n):  # type: ignore[no-untyped-def]
    """Put the unit that i leads behind n members; returns how many there are then."""
    while i >= 0:
        members[n] = i
        n += 1
        i = following(i, mate)
    return n


@kernel
def possible_blocks(m, lead, barred, out):  # type: ignore[no-untyped-def]
    """Set the weight of each subset of m records (bit mask) that splits a unit or holds a barred pair to IMPOSSIBLE."""
    if len(lead) == 0:
        return
    unit, against = np.zeros(m, np.int64), np.zeros(m, np.int64)
    for i in range(m):
        for j in range(m):
            if lead[i] == lead[j]:
                unit[i] |= 1 << j
            elif barred[i, j]:
                against[i] |= 1 << j
    for s in range(1, 1 << m):
        for i in range(m):
            if (s >> i) & 1 and ((unit[i] & ~s) or (against[i] & s)):
                out[s] = IMPOSSIBLE
                break
