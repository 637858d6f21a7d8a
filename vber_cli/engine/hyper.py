"""Learning noise, θ, n and K from the link posterior: variational EM, and draws of what it leaves uncertain.

Where a value came from, drawn afresh or copied from an earlier record at some level, is a latent variable; with its
expected counts the log likelihood of α is fresh · log α − Σ_n shown_n log(α + n), and μ is multinomial (model.md
sections 4 and 5). θ is learned over individuals: a value that a record copies counts as one draw with the others, not
as another.
"""

from __future__ import annotations

import numpy as np

from vber_cli.engine.local_kernels import COPIES, DEPTH, FRESH, SHOWN
from vber_cli.model.noise import Noise
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION, Prior
from vber_cli.model.species import fit_species
from vber_cli.model.types import FloatArray, Records

# Weak priors, in comparisons. The mismatch share: 1 in 20; copies: mostly exact. With several classes each is drawn
# towards all of them together, with the weight of 4 comparisons.
_MISMATCHES = np.array([1.0, 19.0])
_COPY_LEVELS = np.array([9.0, 0.6, 0.4])
_CLASS_WEIGHT = 4.0
_GRID = 161


def log_likelihood(stats: FloatArray, alpha: FloatArray, prior_counts: FloatArray) -> FloatArray:
    """(F, G) log posterior of α on a grid (F, G), up to a constant.

    Parameters
    ----------
    stats
        (F, N_STATS) of one noise class.
    alpha
        (F, G) float64.
    prior_counts
        (2, F) float64: mismatches and matches that the weak prior is worth.
    """
    n = np.arange(1, DEPTH)
    out = stats[:, FRESH, None] * np.log(alpha)
    out -= (stats[:, SHOWN + 1 :, None] * np.log(alpha[:, None, :] + n[None, :, None])).sum(axis=1)
    share = alpha / (1.0 + alpha)
    return np.asarray(out + prior_counts[0][:, None] * np.log(share) + prior_counts[1][:, None] * np.log1p(-share))


def _weak_prior(n_fields: int) -> FloatArray:
    return np.tile(_MISMATCHES[:, None], (1, n_fields))


def _class_prior(overall: FloatArray) -> FloatArray:
    share = overall / (1.0 + overall)
    return _CLASS_WEIGHT * np.stack([share, 1.0 - share])


def _grids(stats: FloatArray, prior_counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Per field a grid of log α that holds the posterior, and its log density there; both (F, G)."""
    n_fields = len(stats)
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
    """(F,) the most probable α_f given the statistics (F, N_STATS)."""
    grid, log_p = _grids(stats, _weak_prior(len(stats)) if prior_counts is None else prior_counts)
    return np.asarray(np.exp(grid[np.arange(len(grid)), log_p.argmax(axis=1)]))


def _draw(stats: FloatArray, prior_counts: FloatArray, rng: np.random.Generator) -> FloatArray:
    grid, log_p = _grids(stats, prior_counts)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    cumulative = np.cumsum(p, axis=1)
    at = (cumulative < rng.random((len(grid), 1)) * cumulative[:, -1:]).sum(axis=1)
    return np.asarray(np.exp(grid[np.arange(len(grid)), np.minimum(at, _GRID - 1)]))


def _copy_counts(stats: FloatArray, near: np.ndarray) -> FloatArray:
    """(Q, F, 3) pseudo-counts of how copies come out; levels that no two values of a field are at get none."""
    possible = np.column_stack([np.ones(len(near), bool), near])
    overall = stats[:, :, COPIES : COPIES + 3].sum(axis=0) + _COPY_LEVELS * possible
    counts = stats[:, :, COPIES : COPIES + 3] + 0.0
    if len(stats) == 1:
        return np.asarray(overall[None])
    return np.asarray(counts + _CLASS_WEIGHT * overall / overall.sum(axis=1, keepdims=True))


def best_noise(stats: FloatArray, class_weight: FloatArray, near: np.ndarray) -> tuple[Noise, FloatArray]:
    """The most probable noise classes, and the (F,) α_f of all classes together.

    Parameters
    ----------
    stats, class_weight
        (Q, F, N_STATS) and (Q,) from the link posterior.
    near
        (F, 2) bool, whether a field has values at levels 1 and 2 at all.
    """
    overall = best_concentration(stats.sum(axis=0))
    copies = _copy_counts(stats, near)
    levels = copies / copies.sum(axis=2, keepdims=True)
    if len(stats) == 1:
        return Noise(overall[None], levels, np.ones(1)), overall
    counts = _class_prior(overall)
    share = (class_weight + 1.0) / (class_weight + 1.0).sum()
    return Noise(np.array([best_concentration(one, counts) for one in stats]), levels, share), overall


def draw_noise(stats: FloatArray, class_weight: FloatArray, near: np.ndarray, rng: np.random.Generator) -> Noise:
    """A draw of the noise classes from their posterior given the statistics of one partition."""
    gamma = rng.standard_gamma(_copy_counts(stats, near))
    levels = gamma / gamma.sum(axis=2, keepdims=True)
    if len(stats) == 1:
        return Noise(_draw(stats[0], _weak_prior(stats.shape[1]), rng)[None, :], levels, np.ones(1))
    counts = _class_prior(best_concentration(stats.sum(axis=0)))
    concentration = np.array([_draw(one, counts, rng) for one in stats])
    return Noise(concentration, levels, rng.dirichlet(class_weight + 1.0))


def learn_base(records: Records, prior: Prior, repeats: FloatArray) -> Prior:
    """θ_f(v) from the draws of field f that gave v, copies counted out, rare values as `model.species` says."""
    base = np.empty(len(prior.base))
    for f in range(records.n_fields):
        lo, hi = prior.value_ptr[f], prior.value_ptr[f + 1]
        column = records.codes[:, f]
        seen = column >= 0
        draws = np.bincount(column[seen], weights=1.0 - repeats[seen, f], minlength=int(hi - lo)).astype(np.float64)
        draws = np.maximum(draws, 1.0)  # every value was drawn at least once
        base[lo:hi] = fit_species(draws).probability(draws, float(draws.sum()))
    return prior.with_base(base)
