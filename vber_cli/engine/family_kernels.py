"""Kernels of the variational family under constraints (`family`)."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.cavi_kernels import _score
from vber_cli.model.compile_kernels import kernel
from vber_cli.model.constraints_kernels import standing


@kernel
def support_kernel(lead, individual, constraints):  # type: ignore[no-untyped-def]
    """(E,) bool: entries to keep so that no individual has two units that cannot be together; the earlier ones stay.

    Entries (lead of a unit, individual) are sorted by individual.
    """
    keep = np.ones(len(lead), np.bool_)
    first = 0
    for e in range(len(lead)):
        if individual[e] != individual[first]:
            first = e
        for d in range(first, e):
            if keep[d] and standing(lead[d], lead[e], constraints) < 0:
                keep[e] = False
                break
    return keep


@kernel
def unit_scores_kernel(  # type: ignore[no-untyped-def]
    lead, ptr, individual, mate_ptr, mate, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior,
    psi_rest, psi_rest_total,
):  # fmt: skip
    """Σ over a unit's records of their scores: (E,) for the entries of its row, (U,) for an individual of the rest."""
    out = np.zeros(len(individual))
    rest = np.zeros(len(lead))
    for u in range(len(lead)):
        size = max(mate_ptr[lead[u] + 1] - mate_ptr[lead[u]], 1)
        for p in range(size):
            r = lead[u] if p == 0 else mate[mate_ptr[lead[u]] + p]
            for e in range(ptr[u], ptr[u + 1]):
                out[e] += _score(
                    individual[e], r, codes, value_ptr, cell_ptr, cell_value, psi_cell, psi_total, psi_prior
                )
            for f in range(codes.shape[1]):
                if codes[r, f] >= 0:
                    rest[u] += psi_rest[value_ptr[f] + codes[r, f]] - psi_rest_total[f]
    return out, rest
