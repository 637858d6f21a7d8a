"""How many noise classes the clear links show, chosen by BIC (model.md section 6, criterion; `model.noise`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vber_cli.arrays import distinct_rows
from vber_cli.model.noise import LEAST_CHANGED, Noise
from vber_cli.model.similar import N_LEVELS, OTHER
from vber_cli.model.types import FloatArray

CLASS_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
FEW_CLASSES = 3  # where they are fitted quickly
_STARTS = 8
_ROUNDS = 60
_PRIOR_WEIGHT = 2.0  # comparisons; draws a class towards the field's overall levels
_LEVEL_PRIOR = np.array([8.5, 0.4, 0.3, 0.8])  # comparisons; draws the overall levels towards mostly identical


@dataclass(frozen=True)
class Choice:
    """Noise classes fitted to clear links, and the BIC of every number of classes tried (larger is better)."""

    noise: Noise
    bic: dict[int, float]


def choose_classes(levels: np.ndarray, weight: FloatArray, possible: np.ndarray, seed: int) -> Choice:
    """Fit mixtures of independent levels to pairs that are links, and keep the one with the best BIC.

    Parameters
    ----------
    levels
        (P, F) int8: 0 to 3, or 9 where a value is missing on either side.
    weight
        (P,) float64, how far each pair is a link.
    possible
        (F, 4) bool, levels that two values of the field can be at.
    seed
        Of the starts.
    """
    indicator, count, overall = _tabulate(levels, weight, possible)
    total = count.sum()
    best: Noise | None = None
    bic: dict[int, float] = {}
    rng = np.random.default_rng(seed)
    free = int(possible.sum() - len(possible))
    for n_classes in CLASS_COUNTS:
        if n_classes > 1 and total < 20 * n_classes:
            break
        fits = [
            _fit(indicator, count, overall, n_classes, rng, _ROUNDS) for _ in range(_STARTS if n_classes > 1 else 1)
        ]
        log_likelihood, p, share = max(fits, key=lambda fit: fit[0])
        parameters = n_classes * free + n_classes - 1
        bic[n_classes] = log_likelihood - 0.5 * parameters * np.log(max(total, 2.0))
        if best is None or bic[n_classes] > max(value for key, value in bic.items() if key != n_classes):
            best = as_noise(p, share)
    if best is None:
        raise ValueError("no class count was tried")
    return Choice(best, bic)


def few_classes(levels: np.ndarray, weight: FloatArray, possible: np.ndarray, seed: int) -> Noise:
    """FEW_CLASSES noise classes, or one for few links, fitted quickly; parameters as in `choose_classes`."""
    indicator, count, overall = _tabulate(levels, weight, possible)
    n_classes = FEW_CLASSES if count.sum() >= 100 else 1
    _, p, share = _fit(indicator, count, overall, n_classes, np.random.default_rng(seed), 40)
    return as_noise(p, share)


def with_changed_parts(noise: Noise, parts: Sequence[np.ndarray]) -> Noise:
    """The noise with a class for every part of the records that draws all of its fields anew.

    Fields that depend on each other change together: whoever moved has another street, town and postcode. What is begun
    without such a class takes this for as many errors at once, too many for a link, and never learns of it. At first
    a class is as frequent as other fields are wrong, the more parts there are the less.

    Parameters
    ----------
    noise
        Classes to begin with.
    parts
        (F,) bool each: the fields of a part.
    """
    if not parts:
        return noise
    wrong = noise.share @ (noise.concentration / (1.0 + noise.concentration))
    rates = np.array([float(wrong[~part].mean()) if (~part).any() else 0.0 for part in parts])
    return noise.with_more(np.array(parts), np.maximum(rates, LEAST_CHANGED) / max(1.0, len(parts) / 2.0))


def _tabulate(
    levels: np.ndarray, weight: FloatArray, possible: np.ndarray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct level patterns as indicators (U, F, 4), their weights (U,), and the overall level shares (F, 4)."""
    patterns, pattern = distinct_rows(levels)
    count = np.bincount(pattern, weights=weight, minlength=len(patterns)).astype(np.float64)
    indicator = np.stack([patterns == level for level in range(N_LEVELS)], axis=2).astype(np.float64)
    overall = (indicator * count[:, None, None]).sum(axis=0) + _LEVEL_PRIOR * possible
    return indicator, count, overall / overall.sum(axis=1, keepdims=True)


def as_noise(p: FloatArray, share: FloatArray, anew: np.ndarray | None = None) -> Noise:
    """Noise classes from the level probabilities (Q, F, 4) of pairs: α / (1 + α) is that of the last level.

    `anew` as in `Noise`; of such fields the probabilities do not count.
    """
    other = np.clip(p[:, :, OTHER], 1e-6, 1 - 1e-6)
    copies = p[:, :, :OTHER]
    alpha, levels = other / (1.0 - other), copies / copies.sum(axis=2, keepdims=True)
    return Noise(alpha, levels, share) if anew is None or not len(anew) else Noise(alpha, levels, share).drawing(anew)


def _fit(
    indicator: FloatArray, count: FloatArray, overall: FloatArray, n_classes: int, rng: np.random.Generator, rounds: int
) -> tuple[float, FloatArray, FloatArray]:
    """EM for a mixture of products of categoricals with missing entries; (log likelihood, p (Q, F, 4), shares)."""
    n_patterns, n_fields, n_levels = indicator.shape
    flat = indicator.reshape(n_patterns, n_fields * n_levels)
    responsibility = rng.dirichlet(np.full(n_classes, 0.5), n_patterns)
    before = -np.inf
    for _ in range(rounds):
        weighted = responsibility * count[:, None]
        p = (weighted.T @ flat).reshape(n_classes, n_fields, n_levels) + _PRIOR_WEIGHT * overall
        p /= p.sum(axis=2, keepdims=True)
        share = (weighted.sum(axis=0) + 1.0) / (weighted.sum() + n_classes)
        log_p = flat @ np.log(np.maximum(p, 1e-300)).reshape(n_classes, -1).T + np.log(share)
        top = log_p.max(axis=1, keepdims=True)
        log_total = top[:, 0] + np.log(np.exp(log_p - top).sum(axis=1))
        now = float(count @ log_total)
        responsibility = np.exp(log_p - log_total[:, None])
        if now - before < 1e-3 + 1e-6 * abs(now):
            break
        before = now
    return now, p, share
