"""Scalar functions for the kernels: digamma, trigamma, differences of log-gamma, and a counter-based random stream."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

_SERIES_FROM = 10.0  # from here on the asymptotic series below are exact to the last bits of a double


@nb.njit(cache=True, inline="never")
def digamma(x: float) -> float:
    """ψ(x) for x > 0: recurrence up to 10, then the asymptotic series; good to 1e-13."""
    shift = 0.0
    while x < _SERIES_FROM:
        shift -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12))))))
    return shift + math.log(x) - 0.5 / x - tail


@nb.njit(cache=True, inline="never")
def trigamma(x: float) -> float:
    """ψ'(x) for x > 0, by the same recurrence and series."""
    shift = 0.0
    while x < _SERIES_FROM:
        shift += 1.0 / (x * x)
        x += 1.0
    r = 1.0 / (x * x)
    tail = 1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * (5 / 66 - r * (691 / 2730 - r * 7 / 6)))))
    return shift + 1.0 / x + 0.5 * r + tail * r / x


@nb.njit(cache=True, inline="never")
def log_rising(a: float, c: float) -> float:
    """log Γ(a + c) − log Γ(a) for a > 0, c ≥ 0, without cancellation when c is tiny beside a, or a is large."""
    if c < 1e-7 * a:
        return c * (digamma(a) + 0.5 * c * trigamma(a))
    if a < _SERIES_FROM:
        return math.lgamma(a + c) - math.lgamma(a)
    b = a + c
    return (b - 0.5) * math.log1p(c / a) + c * (math.log(a) - 1.0) + _stirling_tail(b) - _stirling_tail(a)


@nb.njit(cache=True, inline="never")
def _stirling_tail(x: float) -> float:
    """log Γ(x) beyond (x − ½) log x − x + ½ log 2π, for x ≥ 10."""
    r = 1.0 / (x * x)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * 691 / 360360))))) / x


@nb.njit(cache=True)
def mix64(x):  # type: ignore[no-untyped-def]
    """The SplitMix64 finaliser: a bijection of 64-bit words that spreads every bit over all of them."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@nb.njit(cache=True)
def next_uniform(stream):  # type: ignore[no-untyped-def]
    """A uniform draw in [0, 1) from the stream, a (1,) uint64 array whose counter is advanced."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    return (mix64(stream[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
