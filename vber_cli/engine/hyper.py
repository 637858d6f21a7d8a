"""Learning noise, θ, n and K from the link posterior: variational EM, and draws of what it leaves uncertain.

The log likelihood of α_qf given a partition is Σ log(α θ + c) − Σ log(α + n) over its values in order (model.md section
4 and `partition_kernels`). θ is learned over individuals: a value that a record copies from its individual counts as
one draw with the others, not as another.
"""

from __future__ import annotations

import numpy as np

from vber_cli.engine.partition_kernels import BINS, DEPTH
from vber_cli.model.noise import Noise
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION, Prior
from vber_cli.model.species import fit_species
from vber_cli.model.types import FloatArray, Records

# A weak prior of the mismatch share ε = α / (1 + α), in comparisons: 1 mismatch in 20. With several classes each is
# drawn towards the share over all classes instead, with the weight of 4 comparisons.
_PRIOR_MISMATCHES, _PRIOR_MATCHES = 1.0, 19.0
_CLASS_PRIOR_WEIGHT = 4.0
_GRID = 161
_BIN_THETA = np.exp(-0.5 * (np.arange(BINS) + 0.5))


def log_likelihood(stats: FloatArray, alpha: FloatArray, prior_counts: FloatArray) -> FloatArray:
    """(F, G) log posterior of α on a grid (F, G), up to a constant.

    Parameters
    ----------
    stats
        (2, F, DEPTH, BINS) of one noise class.
    alpha
        (F, G) float64.
    prior_counts
        (2, F) float64: mismatches and matches that the weak prior is worth.
    """
    out = stats[0, :, 0, 0][:, None] * np.log(alpha)
    c = np.arange(1, DEPTH)
    events = stats[0, :, 1:, :]
    for f in range(stats.shape[1]):
        used = np.nonzero(events[f])
        out[f] += events[f][used] @ np.log(alpha[f][None, :] * _BIN_THETA[used[1]][:, None] + c[used[0]][:, None])
    n = np.arange(1, DEPTH)
    out -= (stats[1, :, 1:, 0][:, :, None] * np.log(alpha[:, None, :] + n[None, :, None])).sum(axis=1)
    share = alpha / (1.0 + alpha)
    return np.asarray(out + prior_counts[0][:, None] * np.log(share) + prior_counts[1][:, None] * np.log1p(-share))


def _weak_prior(n_fields: int) -> FloatArray:
    return np.stack([np.full(n_fields, _PRIOR_MISMATCHES), np.full(n_fields, _PRIOR_MATCHES)])


def _class_prior(overall: FloatArray) -> FloatArray:
    share = overall / (1.0 + overall)
    return _CLASS_PRIOR_WEIGHT * np.stack([share, 1.0 - share])


def _grids(stats: FloatArray, prior_counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per field a grid of log α that holds the posterior, and its log density there; both (F, G)."""
    n_fields = stats.shape[1]
    grid = np.tile(np.linspace(np.log(MIN_CONCENTRATION), np.log(MAX_CONCENTRATION), _GRID), (n_fields, 1))
    rows = np.arange(n_fields)
    for _ in range(3):
        log_p = log_likelihood(stats, np.exp(grid), prior_counts)
        high = log_p > log_p.max(axis=1, keepdims=True) - 18.0
        lo = np.maximum(high.argmax(axis=1) - 1, 0)
        hi = np.minimum(_GRID - high[:, ::-1].argmax(axis=1), _GRID - 1)
        grid = np.linspace(grid[rows, lo], grid[rows, hi], _GRID, axis=1)
    return grid, log_likelihood(stats, np.exp(grid), prior_counts)


def best_concentration(stats: FloatArray, prior_counts: FloatArray | None = None) -> FloatArray:
    """(F,) the most probable α_f given the statistics (2, F, DEPTH, BINS)."""
    grid, log_p = _grids(stats, _weak_prior(stats.shape[1]) if prior_counts is None else prior_counts)
    return np.asarray(np.exp(grid[np.arange(len(grid)), log_p.argmax(axis=1)]))


def _draw(stats: FloatArray, prior_counts: FloatArray, rng: np.random.Generator) -> FloatArray:
    grid, log_p = _grids(stats, prior_counts)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    cumulative = np.cumsum(p, axis=1)
    at = (cumulative < rng.random((len(grid), 1)) * cumulative[:, -1:]).sum(axis=1)
    return np.asarray(np.exp(grid[np.arange(len(grid)), np.minimum(at, _GRID - 1)]))


def best_noise(stats: FloatArray, class_weight: FloatArray) -> tuple[Noise, FloatArray]:
    """The most probable noise classes given (Q, 2, F, DEPTH, BINS), and the (F,) α_f of all classes together."""
    overall = best_concentration(stats.sum(axis=0))
    if len(stats) == 1:
        return Noise.single(overall), overall
    counts = _class_prior(overall)
    share = (class_weight + 1.0) / (class_weight + 1.0).sum()
    return Noise(np.array([best_concentration(one, counts) for one in stats]), share), overall


def draw_noise(stats: FloatArray, class_weight: FloatArray, rng: np.random.Generator) -> Noise:
    """A draw of the noise classes from their posterior given the statistics of one partition."""
    if len(stats) == 1:
        return Noise(_draw(stats[0], _weak_prior(stats.shape[2]), rng)[None, :], np.ones(1))
    counts = _class_prior(best_concentration(stats.sum(axis=0)))
    return Noise(np.array([_draw(one, counts, rng) for one in stats]), rng.dirichlet(class_weight + 1.0))


def learn_base(records: Records, prior: Prior, repeats: FloatArray) -> Prior:
    """θ_f(v) from the draws of field f that gave v, copies counted out, rare values as `model.species` says."""
    base = np.empty(len(prior.base))
    for f in range(records.n_fields):
        lo, hi = prior.value_ptr[f], prior.value_ptr[f + 1]
        column = records.codes[:, f]
        seen = column >= 0
        draws = np.bincount(column[seen], weights=1.0 - repeats[seen, f], minlength=int(hi - lo))
        draws = np.maximum(draws.astype(np.float64), 1.0)  # every value was drawn at least once
        base[lo:hi] = fit_species(draws).probability(draws, float(draws.sum()))
    return prior.with_base(base)
