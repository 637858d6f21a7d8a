"""What is decided about a pair of records, looked up."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel, leaf


@leaf
def _listed(u, v, constraints):  # type: ignore[no-untyped-def]
    """Whether some pair of the units led by u and v stands in the list of those that must not be together."""
    lo, hi = constraints.cannot_ptr[u], constraints.cannot_ptr[u + 1]
    while lo < hi:
        mid = (lo + hi) // 2
        if constraints.cannot_lead[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    return lo < constraints.cannot_ptr[u + 1] and constraints.cannot_lead[lo] == v


@leaf
def _by_database(a, b, constraints):  # type: ignore[no-untyped-def]
    """Whether a rule about databases keeps two records apart."""
    d, e = constraints.database[a], constraints.database[b]
    return constraints.sole[d] if d == e else constraints.within_only


@leaf
def standing(a, b, constraints):  # type: ignore[no-untyped-def]
    """+1 if the records must be one individual, −1 if they, or records of their units, cannot be, 0 if that is free."""
    if len(constraints.lead) == 0:
        return 0
    u, v = constraints.lead[a], constraints.lead[b]
    if u == v:
        return 1
    if len(constraints.cannot_lead) > 0 and _listed(u, v, constraints):
        return -1
    n_u = constraints.mate_ptr[u + 1] - constraints.mate_ptr[u]
    n_v = constraints.mate_ptr[v + 1] - constraints.mate_ptr[v]
    if n_u == 0 and n_v == 0:
        return -1 if _by_database(a, b, constraints) else 0
    for p in range(max(n_u, 1)):
        x = constraints.mate[constraints.mate_ptr[u] + p] if n_u > 0 else a
        for q in range(max(n_v, 1)):
            y = constraints.mate[constraints.mate_ptr[v] + q] if n_v > 0 else b
            if _by_database(x, y, constraints):
                return -1
    return 0


@kernel
def standing_kernel(a, b, constraints):  # type: ignore[no-untyped-def]
    """(P,) int8 `standing` of pairs."""
    out = np.zeros(len(a), np.int8)
    for i in range(len(a)):
        out[i] = standing(a[i], b[i], constraints)
    return out
