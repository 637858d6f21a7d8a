"""The level of two values, looked up."""

from __future__ import annotations

import numba as nb

_BINARY_SEARCH_FROM = 16


@nb.njit(cache=True, nogil=True)
def value_level(v, w, f, value_ptr, near_ptr, near_value, near_level):  # type: ignore[no-untyped-def]
    """Level of two codes of field f: 0 identical, 1 close, 2 near, 3 other, 9 missing on either side."""
    if v < 0 or w < 0:
        return 9
    if v == w:
        return 0
    g = value_ptr[f] + v
    h = value_ptr[f] + w
    lo, hi = near_ptr[g], near_ptr[g + 1]
    while hi - lo > _BINARY_SEARCH_FROM:
        mid = (lo + hi) // 2
        if near_value[mid] <= h:
            lo = mid
        else:
            hi = mid
    for e in range(lo, hi):
        if near_value[e] == h:
            return near_level[e]
    return 3
