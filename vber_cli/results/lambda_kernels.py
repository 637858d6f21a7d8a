"""The rows of λ."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel


@kernel
def lambda_rows_kernel(lo, hi, cell_ptr, cell_value, cell_count, n_observed, prior, prior_total):  # type: ignore[no-untyped-def]
    """Rows of individuals lo..hi-1 by field: the values that each was seen with, and one (−1) for all it was not.

    Returns per row (individual, field, value numbered through all fields, λ, its share of the field's Σλ, A); the cells
    are as in `cavi_kernels`, A (ΣV,) and A_f• (F,).
    """
    n_fields = n_observed.shape[1]
    n = cell_ptr[hi * n_fields] - cell_ptr[lo * n_fields] + (hi - lo) * n_fields
    individual, field, value = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    lam, share, own = np.empty(n), np.empty(n), np.empty(n)
    at = 0
    for k in range(lo, hi):
        for f in range(n_fields):
            total = prior_total[f] + n_observed[k, f]
            seen = 0.0
            for e in range(cell_ptr[k * n_fields + f], cell_ptr[k * n_fields + f + 1]):
                individual[at], field[at], value[at] = k, f, cell_value[e]
                own[at] = prior[cell_value[e]]
                lam[at] = own[at] + cell_count[e]
                share[at] = lam[at] / total
                seen += own[at]
                at += 1
            individual[at], field[at], value[at] = k, f, -1
            own[at] = lam[at] = max(prior_total[f] - seen, 0.0)
            share[at] = lam[at] / total
            at += 1
    return individual, field, value, lam, share, own
