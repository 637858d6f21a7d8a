"""The levels of two values, and of two records' values, looked up."""

from __future__ import annotations

import numba as nb
import numpy as np

from vber_cli.model.search_kernels import place_of


@nb.njit(cache=True, nogil=True)
def value_level(v, w, f, value_ptr, near_ptr, near_value, near_level):  # type: ignore[no-untyped-def]
    """Level of two codes of field f: 0 identical, 1 close, 2 near, 3 other, 9 missing on either side."""
    if v < 0 or w < 0:
        return 9
    if v == w:
        return 0
    g = value_ptr[f] + v
    h = value_ptr[f] + w
    at = place_of(h, near_ptr[g], near_ptr[g + 1], near_value)
    return near_level[at] if at >= 0 else 3


@nb.njit(cache=True, nogil=True)
def near_mass_kernel(value_ptr, near_ptr, near_value, near_level, base):  # type: ignore[no-untyped-def]
    """(F, 3) float64: Σ θ(v) θ(w) over the pairs of values of a field at levels 0, 1 and 2."""
    n_fields = len(value_ptr) - 1
    out = np.zeros((n_fields, 3), np.float64)
    for f in range(n_fields):
        for g in range(value_ptr[f], value_ptr[f + 1]):
            out[f, 0] += base[g] * base[g]
            for e in range(near_ptr[g], near_ptr[g + 1]):
                out[f, near_level[e]] += base[g] * base[near_value[e]]
    return out


@nb.njit(cache=True, nogil=True)
def record_levels(r, s, model, out):  # type: ignore[no-untyped-def]
    """Fill (F,) levels of two records' values; 1 in two fields whose values have changed places (`similar.Swaps`)."""
    codes, value_ptr = model.codes, model.value_ptr
    near_ptr, near_value, near_level = model.near_ptr, model.near_value, model.near_level
    for f in range(codes.shape[1]):
        out[f] = value_level(codes[r, f], codes[s, f], f, value_ptr, near_ptr, near_value, near_level)
    for i in range(len(model.swap_fields)):
        f, g = model.swap_fields[i, 0], model.swap_fields[i, 1]
        if 0 < out[f] < 4 and 0 < out[g] < 4:
            begin = model.swap_ptr[i]
            if (
                model.swap_twin[begin + codes[r, f]] == codes[s, g]
                and model.swap_twin[begin + codes[s, f]] == codes[r, g]
            ):
                out[f] = 1
                out[g] = 1
