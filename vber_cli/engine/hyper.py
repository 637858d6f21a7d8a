"""Learning noise, θ, n and K from the link posterior: variational EM, and draws of what it leaves uncertain.

Where a value came from, drawn afresh or copied from an earlier record at some level, is a latent variable; with its
expected counts the log likelihood of α is fresh · log α − Σ_n shown_n log(α + n), and μ is multinomial (model.md
sections 4 and 5). θ is learned over individuals: a value that a record copies counts as one draw with the others, not
as another.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import betaln, softmax

from vber_cli.engine.local_kernels import COPIES, DEPTH, FRESH, SHOWN
from vber_cli.model.counting_kernels import draws_kernel
from vber_cli.model.noise import LEAST_CHANGED, Noise
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION, Prior, value_counts
from vber_cli.model.similar import CLOSE, N_LEVELS, NEAR, OTHER, SimilarValues
from vber_cli.model.species import fit_species
from vber_cli.model.types import FloatArray, LongArray, Records

# Weak priors, in comparisons. The mismatch share: that of all fields together, itself 1 in 20 beforehand; copies:
# mostly exact. With several classes each is drawn towards all of them together, with the weight of 4 comparisons.
_MISMATCHES = np.array([1.0, 19.0])
COPY_LEVELS = np.array([9.0, 0.6, 0.4])
CLASS_WEIGHT = 4.0
_MOSTLY_WRONG = np.array([1.8, 0.2])  # mismatches and matches, where a class is one of a field that has changed
_FIELD_WEIGHTS = np.array([32.0, 16.0, 8.0, 4.0])  # of equals the first
_CLASS_WEIGHTS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
_GRID = 161
_SHARE_WEIGHT = 50.0  # links, that the shares of classes are worth beforehand where some draw a part anew
_LEAST_NEAR = 0.25  # of the strangers that θ has near each other, if more than are left beside the links


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


def field_prior(wrong: FloatArray, shown: FloatArray, rng: np.random.Generator | None = None) -> FloatArray:
    """(2, ..., F) mismatches and matches that fields are given beforehand: the rate of all of them, drawn to 1 in 20.

    How strongly is what the fields show, as in `class_prior`; `wrong` and `shown` are (..., F) float64, what comes
    before the fields being draws that know nothing of each other.
    """
    wrong = np.clip(wrong, 0.0, shown)
    rate = (_MISMATCHES[0] + wrong.sum(axis=-1)) / (_MISMATCHES.sum() + shown.sum(axis=-1))
    share = np.broadcast_to(rate[..., None], wrong.shape)
    strength = _strength(_FIELD_WEIGHTS, _log_marginal(_FIELD_WEIGHTS, share, wrong, shown).sum(axis=-1), rng)
    return np.asarray(strength[..., None] * np.stack([share, 1.0 - share]))


def _log_marginal(weights: FloatArray, share: FloatArray, wrong: FloatArray, shown: FloatArray) -> FloatArray:
    """(W, ...) log marginal likelihood of the counts where the rates are worth so many comparisons beforehand."""
    weight = weights.reshape(-1, *[1] * wrong.ndim)
    right, other = weight * share, weight * (1.0 - share)
    return np.asarray(betaln(right + wrong, other + shown - wrong) - betaln(right, other))


def _strength(weights: FloatArray, log_p: FloatArray, rng: np.random.Generator | None) -> FloatArray:
    """(...) the weight of largest `log_p` (W, ...), or one drawn by it."""
    if rng is None:
        return np.asarray(weights[log_p.argmax(axis=0)])
    below = np.cumsum(softmax(log_p, axis=0), axis=0)
    at = (below < rng.random(below.shape[1:])).sum(axis=0)
    return np.asarray(weights[np.minimum(at, len(weights) - 1)])


def class_prior(
    wrong: FloatArray, shown: FloatArray, root: LongArray, rng: np.random.Generator | None = None
) -> FloatArray:
    """(2, ..., Q, F) mismatches and matches that classes are given beforehand: the rate of those that mostly are right.

    Classes often each go wrong in a field of their own, or in a part of fields that depend on each other. What they do
    in the others is what a class with few records should be thought to do as well, and not the rate over all records.
    How strongly is what the classes show: the weight of most marginal likelihood, or one drawn by it. In the one part
    that a class most often gets wrong it is given next to nothing, if it mostly gets it wrong. A class that was free to
    go wrong in a second part as well could take strangers for links, one part after the other.

    Parameters
    ----------
    wrong, shown
        (..., Q, F) float64, mismatches and comparisons of each class; what comes before the classes are draws that know
        nothing of each other.
    root
        (F,) from `model.dependence.tree_roots`: fields with the same one are a part.
    rng
        Draws the weight, where given.
    """
    wrong = np.clip(wrong, 0.0, shown)
    mostly_right = wrong <= 0.5 * shown
    mostly_right = mostly_right | ~mostly_right.any(axis=-2, keepdims=True)
    right_wrong, right_shown = (wrong * mostly_right).sum(axis=-2), (shown * mostly_right).sum(axis=-2)
    base = field_prior(right_wrong, right_shown, rng)
    share = ((base[0] + right_wrong) / (base.sum(axis=0) + right_shown))[..., None, :]
    fit = _log_marginal(_CLASS_WEIGHTS, share, wrong, shown) * mostly_right
    strength = _strength(_CLASS_WEIGHTS, fit.sum(axis=(-2, -1)), rng)[..., None, None]
    usual = strength * np.stack([share, 1.0 - share])
    parts = root[:, None] == np.unique(root)
    own = ((wrong @ parts) / np.maximum(shown @ parts, 1e-9)).argmax(axis=-1)
    mostly_wrong = _MOSTLY_WRONG.reshape(2, *[1] * wrong.ndim)
    return np.where(~mostly_right & parts.T[own], mostly_wrong, usual)


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
    """(F,) the most probable α_f given the statistics (F, N_STATS); the prior is `field_prior` if none is given."""
    if prior_counts is None:
        prior_counts = field_prior(stats[:, FRESH], stats[:, SHOWN + 1 :].sum(axis=1))
    grid, log_p = _grids(stats, prior_counts)
    return np.asarray(np.exp(grid[np.arange(len(grid)), log_p.argmax(axis=1)]))


def _copy_counts(stats: FloatArray, near: np.ndarray) -> FloatArray:
    """(Q, F, 3) pseudo-counts of how copies come out; levels that no two values of a field are at get none."""
    possible = np.column_stack([np.ones(len(near), bool), near])
    overall = stats[:, :, COPIES : COPIES + 3].sum(axis=0) + COPY_LEVELS * possible
    counts = stats[:, :, COPIES : COPIES + 3] + 0.0
    if len(stats) == 1:
        return np.asarray(overall[None])
    return np.asarray(counts + CLASS_WEIGHT * overall / overall.sum(axis=1, keepdims=True))


def share_prior(changes: np.ndarray, wrong: FloatArray, shown: FloatArray) -> FloatArray:
    """(..., Q) links that every class is given beforehand.

    Classes that draw a part anew get as many as other fields are wrong of _SHARE_WEIGHT links, the others the rest: how
    many links have changed so much that they are hardly told from strangers, the data say little about.

    Parameters
    ----------
    changes
        (Q,) bool, from `Noise.changes`.
    wrong, shown
        (..., F) float64, mismatches and comparisons of fields that were not drawn anew.
    """
    n = int(changes.sum())
    if n == 0:
        return np.ones((*wrong.shape[:-1], len(changes)))
    rate = np.clip(wrong.sum(axis=-1) / np.maximum(shown.sum(axis=-1), 1e-9), LEAST_CHANGED, 0.5) / max(1.0, n / 2.0)
    rate = rate[..., None]
    return np.asarray(
        _SHARE_WEIGHT * np.where(changes, rate, np.maximum(1.0 - n * rate, 0.1) / max(len(changes) - n, 1))
    )


def best_noise(
    stats: FloatArray, class_weight: FloatArray, near: np.ndarray, root: LongArray, anew: np.ndarray | None = None
) -> tuple[Noise, FloatArray]:
    """The most probable noise classes, and the (F,) α_f of all classes together.

    Parameters
    ----------
    stats, class_weight
        (Q, F, N_STATS) and (Q,) from the link posterior.
    near
        (F, 2) bool, whether a field has values at levels 1 and 2 at all.
    root
        (F,) the root of each field's tree.
    anew
        `Noise.anew` of the classes.
    """
    overall = best_concentration(stats.sum(axis=0))
    if anew is not None and len(anew):
        return _with_parts_anew(stats, class_weight, near, root, anew), overall
    copies = _copy_counts(stats, near)
    levels = copies / copies.sum(axis=2, keepdims=True)
    if len(stats) == 1:
        return Noise(overall[None], levels, np.ones(1)), overall
    shown = stats[:, :, SHOWN + 1 :].sum(axis=2)
    counts = class_prior(stats[:, :, FRESH], shown, root)
    share = (class_weight + 1.0) / (class_weight + 1.0).sum()
    alpha = np.array([best_concentration(one, counts[:, q]) for q, one in enumerate(stats)])
    return Noise(alpha, levels, share), overall


def _with_parts_anew(
    stats: FloatArray, class_weight: FloatArray, near: np.ndarray, root: LongArray, anew: np.ndarray
) -> Noise:
    """`best_noise` where some classes draw a part anew.

    In the rest these are as all links are: free in it, they would go wrong in more and more, and find links among
    strangers. All links teach what is usual, and the other classes are learned from their own.
    """
    changes = np.asarray(anew.any(axis=1))
    kept = stats * ~anew[:, :, None]
    usual = kept.sum(axis=0)
    copies = _copy_counts(usual[None], near)[0]
    own, _ = best_noise(stats[~changes], class_weight[~changes], near, root)
    alpha = np.tile(best_concentration(usual), (len(stats), 1))
    levels = np.tile(copies / copies.sum(axis=1, keepdims=True), (len(stats), 1, 1))
    alpha[~changes], levels[~changes] = own.concentration, own.levels
    prior = share_prior(changes, usual[:, FRESH], usual[:, SHOWN + 1 :].sum(axis=1))
    share = np.asarray(class_weight + prior)
    return Noise(alpha, levels, share / share.sum()).drawing(anew)


def learn_base(records: Records, prior: Prior, repeats: FloatArray, *, others_only: bool = True) -> Prior:
    """θ_f(v) from the draws of field f that gave v, copies counted out, rare values as `model.species` says.

    What θ is asked for is how probable it was that a record should show what another shows as well. The record's own
    draw does not count: of a value seen twice by chance it would make one twice as common as the other sighting tells,
    and every coincidence less of one. Of m records with the value the first is a draw, the others are draws or copies
    about alike: a record that is not the first counts (draws − 1) / (m − 1). Without `others_only` all draws count: as
    long as no links are known, and relatives are looked for, rare values come in families.
    """
    base = np.empty(len(prior.base))
    drawn, times = draws_kernel(records.codes, repeats, prior.value_ptr)
    drawn = np.maximum(drawn, 1.0)  # every value was drawn at least once
    for lo, hi in itertools.pairwise(prior.value_ptr.tolist()):
        draws, others = drawn[lo:hi], np.maximum(times[lo:hi] - 1.0, 1.0)
        counted = draws - (draws - 1.0) / others if others_only else draws
        base[lo:hi] = fit_species(draws).probability(counted, float(draws.sum()))
    return prior.with_base(base)


def learn_near(
    records: Records, prior: Prior, similar: SimilarValues, levels: np.ndarray, probability: FloatArray
) -> FloatArray:
    """(F, 2) how often values of different individuals are at levels 1 and 2: of all pairs of records, less the links.

    θ does not tell. It says how probable a value is that somebody else shows as well; of a misspelling seen once that
    is next to nothing, but together misspellings are many, and each is near the value that it stands for.

    Parameters
    ----------
    records, prior, similar
        The data, θ and the similar values.
    levels, probability
        (P, F) and (P,): all pairs that may be links, their levels and how probably they are.
    """
    counts = value_counts(records, prior.value_ptr)
    counted = records.remembered("near pairs", similar, lambda: similar.near_pairs(prior.value_ptr, counts))
    shown = (records.codes >= 0).sum(axis=0).astype(np.float64)
    near = np.stack([probability @ (levels == level) for level in (CLOSE, NEAR)], axis=1)
    others = shown * (shown - 1.0) / 2.0 - probability @ (levels < N_LEVELS)
    least = _LEAST_NEAR * similar.chance_levels(prior)[:, CLOSE:OTHER]
    return np.asarray(np.maximum((counted - near) / np.maximum(others, 1.0)[:, None], least))
