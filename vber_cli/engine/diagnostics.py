"""Convergence of several chains: split-R̂ and effective sample size (Gelman et al. 2013, sections 11.4 and 11.5)."""

from __future__ import annotations

import numpy as np

from vber_cli.model.types import FloatArray

_FEWEST = 4  # draws of half a chain, for a variance and a few lags


def split_r_hat(draws: FloatArray) -> float | None:
    """R̂ of the halves of all chains; 1 where nothing varies, None with too few draws.

    Parameters
    ----------
    draws
        (chains, iterations) of one quantity.
    """
    halves = _halves(draws)
    if halves is None:
        return None
    within, pooled = _variances(halves)
    if pooled == 0.0:
        return 1.0
    return float(np.sqrt(pooled / within)) if within > 0.0 else None


def effective_sample_size(draws: FloatArray) -> float | None:
    """How many independent draws tell as much about the mean as all chains do; None with too few draws.

    Autocorrelations are summed in pairs as long as these are positive, and made to fall (Geyer's initial monotone
    sequence).

    Parameters
    ----------
    draws
        (chains, iterations) of one quantity.
    """
    halves = _halves(draws)
    if halves is None:
        return None
    n_chains, n = halves.shape
    within, pooled = _variances(halves)
    if pooled == 0.0:
        return float(n_chains * n)
    rho = 1.0 - (within - _autocovariance(halves).mean(axis=0)) / pooled
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = np.minimum.accumulate(pairs[: negative[0] if len(negative) else len(pairs)])
    time = max(-1.0 + 2.0 * float(kept.sum()), 1.0 / np.log10(n_chains * n))
    return float(n_chains * n / time)


def _halves(draws: FloatArray) -> FloatArray | None:
    half = draws.shape[1] // 2
    if half < _FEWEST:
        return None
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]]).astype(np.float64)


def _variances(halves: FloatArray) -> tuple[float, float]:
    """Mean variance within the chains, and the pooled estimate."""
    n = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    return within, (n - 1) / n * within + between


def _autocovariance(halves: FloatArray) -> FloatArray:
    """(chains, n): of each chain at every lag, with divisor n − 1 so that lag 0 is the variance."""
    n = halves.shape[1]
    centred = halves - halves.mean(axis=1, keepdims=True)
    size = 1 << int(2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    return np.asarray(np.fft.irfft(power, size)[:, :n] / (n - 1))
