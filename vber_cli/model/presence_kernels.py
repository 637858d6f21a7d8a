"""Products over the partners of each record (`model.presence`)."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel


@kernel
def alone_kernel(database, n_databases, a, b, probability, node, weight):  # type: ignore[no-untyped-def]
    """(D,) sums over the records of Σ_i weight_i Π_partners (1 − p (1 − node_i)), partners in the same database.

    `node` and `weight` (I,) are a quadrature over 0..1 whose weights add up to 1.
    """
    place = np.full(len(database), -1, np.int32)
    out = np.zeros(n_databases, np.float64)
    m = 0
    for i in range(len(a)):
        if database[a[i]] == database[b[i]]:
            for r in (a[i], b[i]):
                if place[r] < 0:
                    place[r] = m
                    m += 1
    product = np.ones((m, len(node)), np.float64)
    for i in range(len(a)):
        if database[a[i]] == database[b[i]]:
            for r in (a[i], b[i]):
                for j in range(len(node)):
                    product[place[r], j] *= 1.0 - probability[i] * (1.0 - node[j])
    for r in range(len(database)):
        if place[r] < 0:
            out[database[r]] += 1.0
        else:
            for j in range(len(node)):
                out[database[r]] += weight[j] * product[place[r], j]
    return out
