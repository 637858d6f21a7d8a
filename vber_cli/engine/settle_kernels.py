"""Coordinate ascent on the records that still move, one at a time, each with the λ it leans on right behind it."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.special_kernels import digamma
from vber_cli.model.compile_kernels import kernel
from vber_cli.model.search_kernels import place_of


@kernel
def settle_kernel(  # type: ignore[no-untyped-def]
    rows, codes, value_ptr, ptr, individual, phi, rest, cell_ptr, cell_value, cell_count, n_observed, prior,
    prior_total, psi_rest, psi_rest_total, n_rest, least, max_passes,
):  # fmt: skip
    """Update φ of the rows in turn, and λ with each, until none changes by more than `least`; in place.

    A row keeps the individuals it has; the λ of the rest stays as it is. Later passes look only at rows that lean on an
    individual which has moved since. Returns the number of passes.
    """
    n_fields = codes.shape[1]
    touched = np.full(n_observed.shape[0], 1, np.int64)  # the pass in which an individual last moved
    most = 0
    for i in range(len(rows)):
        most = max(most, ptr[rows[i] + 1] - ptr[rows[i]])
    new = np.empty(most)
    cell = np.empty((most, n_fields), np.int64)
    for number in range(1, max_passes + 1):
        moved = False
        for i in range(len(rows)):
            r = rows[i]
            lo, hi = ptr[r], ptr[r + 1]
            due = False
            for e in range(lo, hi):
                due = due or touched[individual[e]] >= number - 1
            if not due:
                continue
            best = -np.inf
            for e in range(lo, hi):
                k = individual[e]
                score = 0.0
                for f in range(n_fields):
                    v = codes[r, f]
                    if v < 0:
                        continue
                    g = value_ptr[f] + v
                    at = place_of(g, cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1], cell_value)
                    cell[e - lo, f] = at
                    score += digamma(prior[g] + max(cell_count[at], 0.0))
                    score -= digamma(prior_total[f] + max(n_observed[k, f], 0.0))
                new[e - lo] = score
                best = max(best, score)
            others = -np.inf
            if n_rest > 0:
                others = math.log(n_rest)
                for f in range(n_fields):
                    if codes[r, f] >= 0:
                        others += psi_rest[value_ptr[f] + codes[r, f]] - psi_rest_total[f]
                best = max(best, others)
            total = math.exp(others - best) if n_rest > 0 else 0.0
            left = total
            for e in range(hi - lo):
                new[e] = math.exp(new[e] - best)
                total += new[e]
            change = abs(left / total - rest[r])
            for e in range(lo, hi):
                new[e - lo] /= total
                change = max(change, abs(new[e - lo] - phi[e]))
            if change <= least:
                continue
            moved = True
            rest[r] = left / total
            for e in range(lo, hi):
                k = individual[e]
                more = new[e - lo] - phi[e]
                phi[e] = new[e - lo]
                touched[k] = number
                for f in range(n_fields):
                    if codes[r, f] >= 0:
                        cell_count[cell[e - lo, f]] += more
                        n_observed[k, f] += more
        if not moved:
            return number
    return max_passes
