"""Candidate pairs for SMERED's linkage moves: those that agree on a key and are not too improbable."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.smered_kernels import pair_weight
from vber_cli.model.compile_kernels import kernel, leaf


@kernel
def candidates_kernel(group, group_ptr, group_record, largest, least, data, state):  # type: ignore[no-untyped-def]
    """Pairs of records that share a group, each once.

    Parameters
    ----------
    group, group_ptr, group_record
        As in `Pairs`.
    largest
        Groups of more records than this are passed over.
    least
        The least Λ of a pair that is kept.

    Returns
    -------
    (P,) and (P,) int32
    """
    n_keys = len(group)
    size = 1 << 16
    a = np.empty(size, np.int32)
    b = np.empty(size, np.int32)
    n_pairs = 0
    for s in range(n_keys):
        for g in range(group_ptr.shape[1] - 1):
            lo = group_ptr[s, g]
            hi = group_ptr[s, g + 1]
            if hi - lo > largest:
                continue
            for k in range(lo, hi):
                for other in range(k + 1, hi):
                    i = group_record[s, k]
                    j = group_record[s, other]
                    if pair_weight(i, j, data, state) < least or _met_before(s, i, j, group, group_ptr, largest):
                        continue
                    if n_pairs == size:
                        size *= 2
                        a = np.concatenate((a, np.empty_like(a)))
                        b = np.concatenate((b, np.empty_like(b)))
                    a[n_pairs] = i
                    b[n_pairs] = j
                    n_pairs += 1
    return a[:n_pairs].copy(), b[:n_pairs].copy()


@leaf
def _met_before(s, i, j, group, group_ptr, largest):  # type: ignore[no-untyped-def]
    """Whether an earlier key has paired the two."""
    for t in range(s):
        g = group[t, i]
        if g == group[t, j] and group_ptr[t, g + 1] - group_ptr[t, g] <= largest:
            return True
    return False
