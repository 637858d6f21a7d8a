"""Learning α, θ, n and K from the link posterior: variational EM, and draws of what it leaves uncertain.

The log likelihood of α_f given a partition is Σ log(α θ + c) − Σ log(α + n) over its values in order (MODEL.md section
4 and `partition_kernels`). θ is learned over individuals: a value that a record copies from its individual counts as
one draw with the others, not as another.
"""

from __future__ import annotations

import numpy as np

from vber_cli.engine.partition_kernels import BINS, DEPTH
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION, Prior, normalise, value_counts
from vber_cli.model.types import FloatArray, Records

# A weak prior of the mismatch share ε = α / (1 + α): as if 1 mismatch had been seen among 20 comparisons.
_PRIOR_MISMATCHES, _PRIOR_MATCHES = 1.0, 19.0
_GRID = 161
_BIN_THETA = np.exp(-0.5 * (np.arange(BINS) + 0.5))


def log_likelihood(stats: FloatArray, alpha: FloatArray) -> FloatArray:
    """(F, G) log posterior of α on a grid (F, G) or (G,), up to a constant, the weak prior included."""
    alpha = np.broadcast_to(alpha, (stats.shape[1], alpha.shape[-1]))
    out = stats[0, :, 0, 0][:, None] * np.log(alpha)
    c = np.arange(1, DEPTH)
    events = stats[0, :, 1:, :]
    for f in range(stats.shape[1]):
        used = np.nonzero(events[f])
        out[f] += events[f][used] @ np.log(alpha[f][None, :] * _BIN_THETA[used[1]][:, None] + c[used[0]][:, None])
    n = np.arange(DEPTH)
    out -= (stats[1, :, :, 0][:, :, None] * np.log(alpha[:, None, :] + n[None, :, None])).sum(axis=1)
    share = alpha / (1.0 + alpha)
    return np.asarray(out + _PRIOR_MISMATCHES * np.log(share) + _PRIOR_MATCHES * np.log1p(-share))


def _grids(stats: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per field a grid of log α that holds the posterior, and its log density there; both (F, G)."""
    n_fields = stats.shape[1]
    grid = np.tile(np.linspace(np.log(MIN_CONCENTRATION), np.log(MAX_CONCENTRATION), _GRID), (n_fields, 1))
    for _ in range(3):
        log_p = log_likelihood(stats, np.exp(grid))
        high = log_p > log_p.max(axis=1, keepdims=True) - 18.0
        lo = np.maximum(high.argmax(axis=1) - 1, 0)
        hi = np.minimum(_GRID - high[:, ::-1].argmax(axis=1), _GRID - 1)
        rows = np.arange(n_fields)
        grid = np.linspace(grid[rows, lo], grid[rows, hi], _GRID, axis=1)
    return grid, log_likelihood(stats, np.exp(grid))


def best_concentration(stats: FloatArray) -> FloatArray:
    """(F,) the most probable α_f."""
    grid, log_p = _grids(stats)
    return np.asarray(np.exp(grid[np.arange(len(grid)), log_p.argmax(axis=1)]))


def draw_concentration(stats: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(F,) a draw of α_f from its posterior given the statistics of one partition."""
    grid, log_p = _grids(stats)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    cumulative = np.cumsum(p, axis=1)
    at = (cumulative < rng.random((len(grid), 1)) * cumulative[:, -1:]).sum(axis=1)
    return np.asarray(np.exp(grid[np.arange(len(grid)), np.minimum(at, _GRID - 1)]))


def learn_base(records: Records, prior: Prior, repeats: FloatArray) -> Prior:
    """θ_f(v) as the share of the draws of field f that gave v, copies counted out."""
    weight = np.zeros(len(prior.base))
    for f in range(records.n_fields):
        lo, hi = prior.value_ptr[f], prior.value_ptr[f + 1]
        column = records.codes[:, f]
        seen = column >= 0
        weight[lo:hi] = np.bincount(column[seen], weights=1.0 - repeats[seen, f], minlength=int(hi - lo))
    floor = np.where(value_counts(records, prior.value_ptr) > 0, 1e-3, 0.5)
    return prior.with_base(normalise(np.maximum(weight, floor), prior.value_ptr))
