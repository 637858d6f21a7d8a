"""Roots of functions that rise or fall steadily."""

from __future__ import annotations

from collections.abc import Callable

_HALVINGS = 200  # more than halve any interval of doubles down to neighbours that matter


def bisect(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a monotone function is zero between `low` and `high`, to the last digits of a double.

    scipy.optimize has better ones, which every start would wait for (docs/decisions.md).

    Raises
    ------
    ValueError
        The function has one sign at both ends.
    """
    at_low, at_high = f(low), f(high)
    if at_low == 0.0:
        return low
    if at_high == 0.0:
        return high
    if (at_low > 0) == (at_high > 0):
        raise ValueError("the function has the same sign at both ends")
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        value = f(middle)
        if value == 0.0:
            return middle
        if (value > 0) == (at_low > 0):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
