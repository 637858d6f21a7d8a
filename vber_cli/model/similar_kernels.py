"""The levels of two values, and of two records' values, looked up."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel, leaf
from vber_cli.model.counting_kernels import ends_kernel
from vber_cli.model.search_kernels import place_of


@leaf
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


@kernel
def both_ways_kernel(a, b, level, n_values):  # type: ignore[no-untyped-def]
    """Pairs a < b, ascending by a and then b, as CSR over all values: (pointers, others ascending, levels)."""
    ptr = ends_kernel(a, b, n_values)
    fill = ptr[:-1].copy()
    other, of_other = np.empty(2 * len(a), np.int32), np.empty(2 * len(a), np.int8)
    # smaller others come before larger ones
    for i in range(len(a)):
        other[fill[b[i]]] = a[i]
        of_other[fill[b[i]]] = level[i]
        fill[b[i]] += 1
    for i in range(len(a)):
        other[fill[a[i]]] = b[i]
        of_other[fill[a[i]]] = level[i]
        fill[a[i]] += 1
    return ptr, other, of_other


@kernel
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


@leaf
def record_levels(r, s, model, out):  # type: ignore[no-untyped-def]
    """Fill (F,) levels of two records' values; 1 or 2 in two fields whose values changed places (`similar.Swaps`)."""
    codes, value_ptr = model.codes, model.value_ptr
    near_ptr, near_value, near_level = model.near_ptr, model.near_value, model.near_level
    for f in range(codes.shape[1]):
        out[f] = value_level(codes[r, f], codes[s, f], f, value_ptr, near_ptr, near_value, near_level)
    for i in range(len(model.swap_fields)):
        f, g = model.swap_fields[i, 0], model.swap_fields[i, 1]
        if 0 < out[f] < 4 and 0 < out[g] < 4:
            level = swap_level(r, s, i, model)
            if level > 0 and 2 * level < out[f] + out[g]:
                out[f] = level
                out[g] = level


@leaf
def swap_level(r, s, i, model):  # type: ignore[no-untyped-def]
    """Level of both fields of the i-th pair that may change places if they did: 1, 2 if one value is only similar.

    0 where they did not. All four values are shown.
    """
    f, g = model.swap_fields[i, 0], model.swap_fields[i, 1]
    codes = model.codes
    begin = model.swap_ptr[i]
    one = model.swap_twin[begin + codes[r, f]] == codes[s, g]
    other = model.swap_twin[begin + codes[s, f]] == codes[r, g]
    if one and other:
        return 1
    if model.swap_worst[i] < 2:
        return 0
    if one and _crossed_near(codes[s, f], codes[r, g], i, model):
        return 2
    if other and _crossed_near(codes[r, f], codes[s, g], i, model):
        return 2
    return 0


@leaf
def _crossed_near(v, w, i, model):  # type: ignore[no-untyped-def]
    """Whether value v of a pair's first field is similar to value w of its second, as far as either field has both."""
    f, g = model.swap_fields[i, 0], model.swap_fields[i, 1]
    value_ptr, near_ptr, near_value, near_level = model.value_ptr, model.near_ptr, model.near_value, model.near_level
    there = model.swap_twin[model.swap_ptr[i] + v]
    if there >= 0 and value_level(there, w, g, value_ptr, near_ptr, near_value, near_level) < 3:
        return True
    here = model.swap_back[model.swap_back_ptr[i] + w]
    return here >= 0 and value_level(v, here, f, value_ptr, near_ptr, near_value, near_level) < 3


@kernel
def swapped_fields(a, b, levels, model, out):  # type: ignore[no-untyped-def]
    """Fill (P, F) with the field that each field of a pair has changed places with, as its levels tell."""
    for p in range(len(a)):
        for i in range(len(model.swap_fields)):
            f, g = model.swap_fields[i, 0], model.swap_fields[i, 1]
            level = levels[p, f]
            if 0 < level < 3 and levels[p, g] == level and swap_level(a[p], b[p], i, model) == level:
                out[p, f] = g
                out[p, g] = f
