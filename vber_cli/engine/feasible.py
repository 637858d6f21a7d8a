"""Partitions that keep to the constraints, made from ones that may not."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.start import relabel
from vber_cli.model.constraints import Constraints, TooFewIndividualsError
from vber_cli.model.types import IntArray


def may_join(constraints: Constraints, label: IntArray, one: int, other: int) -> bool:
    """Whether the blocks with these two labels may be one."""
    if not constraints.any:
        return True
    a, b = (np.flatnonzero(label == k).astype(np.int32) for k in (one, other))
    return not (constraints.standing(np.repeat(a, len(b)), np.tile(b, len(a))) < 0).any()


def keep_apart(constraints: Constraints, label: IntArray) -> IntArray:
    """(N,) int32: the blocks of `label` (N,) cut up so that none holds records that cannot be together.

    Units are whole in `label`. They are taken in order; each joins the first part of its block that it may.
    """
    out = np.full(len(label), -1, dtype=np.int32)
    order = np.lexsort((np.arange(len(label)), label))
    cuts = np.flatnonzero(np.diff(label[order])) + 1
    n = 0
    for block in np.split(order, cuts):
        first = n
        for lead in np.unique(constraints.lead[block]).tolist():
            placed = block[out[block] >= 0].astype(np.int32)
            known = constraints.standing(np.full(len(placed), lead, np.int32), placed)
            taken = set(out[placed[known < 0]].tolist())
            to = next((k for k in range(first, n) if k not in taken), n)
            n = max(n, to + 1)
            out[block[constraints.lead[block] == lead]] = to
    return out


def fit_in(constraints: Constraints, label: IntArray, n_individuals: int) -> IntArray:
    """(N,) int32: the K largest blocks with all others joined to the first of them that each may join.

    A block that may join none is taken apart, and each of its units joins the first that it may.

    Raises
    ------
    TooFewIndividualsError
        If some unit may join none.
    """
    out = relabel(label)
    size = np.bincount(out)
    rank = np.argsort(-size, kind="stable")
    kept = np.sort(rank[:n_individuals])
    everyone = np.arange(len(out), dtype=np.int32)

    def placed(members: IntArray) -> bool:
        """Join these records to the first block that they may."""
        barred = set()
        for r in members.tolist():
            barred |= set(out[constraints.standing(np.full(len(out), r, np.int32), everyone) < 0].tolist())
        to = next((j for j in kept.tolist() if j not in barred), None)
        if to is not None:
            out[members] = to
        return to is not None

    for k in rank[n_individuals:].tolist():
        members = np.flatnonzero(out == k).astype(np.int32)
        if not placed(members):
            lead = constraints.lead[members]
            if not all(placed(members[lead == unit]) for unit in np.unique(lead)):
                raise TooFewIndividualsError(n_individuals)
    return relabel(out)
