"""Scalar functions for the kernels: digamma, trigamma, differences of log-gamma, and a counter-based random stream."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.model.compile_kernels import kernel, leaf

_SERIES_FROM = 10.0  # from here on the asymptotic series below are exact to the last bits of a double
_PRODUCT_UP_TO = 8.0  # factors, which are sooner multiplied than two log-gammas computed


@kernel
def digamma(x: float) -> float:
    """ψ(x) for x > 0: recurrence up to 10, then the asymptotic series; good to 1e-13."""
    shift = 0.0
    while x < _SERIES_FROM:
        shift -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12))))))
    return shift + math.log(x) - 0.5 / x - tail


@kernel
def trigamma(x: float) -> float:
    """ψ'(x) for x > 0, by the same recurrence and series."""
    shift = 0.0
    while x < _SERIES_FROM:
        shift += 1.0 / (x * x)
        x += 1.0
    r = 1.0 / (x * x)
    tail = 1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * (5 / 66 - r * (691 / 2730 - r * 7 / 6)))))
    return shift + 1.0 / x + 0.5 * r + tail * r / x


@kernel
def log_rising(a: float, c: float) -> float:
    """log Γ(a + c) − log Γ(a) for a > 0, c ≥ 0, without cancellation when c is tiny beside a, or a is large."""
    if c < 1e-7 * a:
        return float(c * (digamma(a) + 0.5 * c * trigamma(a)))
    if c <= _PRODUCT_UP_TO and c == math.floor(c):
        product = a
        for i in range(1, int(c)):
            product *= a + i
        return math.log(product)
    if a < _SERIES_FROM:
        return math.lgamma(a + c) - math.lgamma(a)
    b = a + c
    return float((b - 0.5) * math.log1p(c / a) + c * (math.log(a) - 1.0) + _stirling_tail(b) - _stirling_tail(a))


@kernel
def _stirling_tail(x: float) -> float:
    """log Γ(x) beyond (x − ½) log x − x + ½ log 2π, for x ≥ 10."""
    r = 1.0 / (x * x)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * 691 / 360360))))) / x


@leaf
def sort_first(values, n):  # type: ignore[no-untyped-def]
    """Sort the first n values in place (Shell's method: they are few, or nearly in order)."""
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            value = values[i]
            at = i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 2


@kernel
def mix64(x):  # type: ignore[no-untyped-def]
    """The SplitMix64 finaliser: a bijection of 64-bit words that spreads every bit over all of them."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def next_uniform(stream):  # type: ignore[no-untyped-def]
    """A uniform draw in [0, 1) from the stream, a (1,) uint64 array whose counter is advanced."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    return (mix64(stream[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def log_sum(a, b):  # type: ignore[no-untyped-def]
    """log(e^a + e^b); either may be −∞."""
    if a < b:
        a, b = b, a
    if b == -math.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@kernel
def next_normal(stream):  # type: ignore[no-untyped-def]
    """A standard normal draw, by the polar method."""
    while True:
        u = 2.0 * next_uniform(stream) - 1.0
        v = 2.0 * next_uniform(stream) - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * math.sqrt(-2.0 * math.log(s) / s)


@kernel
def next_log_gamma(stream, shape):  # type: ignore[no-untyped-def]
    """The logarithm of a draw from Gamma(shape, 1), shape > 0, after Marsaglia and Tsang (2000).

    In logarithms, because draws of a small shape fall below the smallest double.
    """
    if shape < 1.0:
        boost = math.log(1.0 - next_uniform(stream)) / shape
        return next_log_gamma(stream, shape + 1.0) + boost
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = next_normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        log_v = 3.0 * math.log(v)
        u = 1.0 - next_uniform(stream)
        if math.log(u) < 0.5 * x * x + d - d * math.exp(log_v) + d * log_v:
            return math.log(d) + log_v
