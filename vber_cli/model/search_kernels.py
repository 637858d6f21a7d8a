"""A number looked up in a part of an array that ascends."""

from __future__ import annotations

from vber_cli.model.compile_kernels import leaf

LINEAR_BELOW = 12  # so few are looked through one by one


@leaf
def place_of(wanted, lo, hi, values):  # type: ignore[no-untyped-def]
    """The place among lo..hi-1 where the ascending `values` have the number; −1 if nowhere."""
    while hi - lo > LINEAR_BELOW:
        mid = (lo + hi) // 2
        if values[mid] <= wanted:
            lo = mid
        else:
            hi = mid
    found = -1
    for e in range(lo, hi):
        if values[e] == wanted:
            found = e
            break
    return found
