"""How many noise classes the clear links show, chosen by BIC (model.md section 6, criterion; `model.noise`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.noise import Noise
from vber_cli.model.types import FloatArray

CLASS_COUNTS = (1, 2, 3, 4, 6, 8)
_STARTS = 4
_ROUNDS = 200
_PRIOR_WEIGHT = 2.0  # comparisons; draws a class towards the field's overall mismatch share


@dataclass(frozen=True)
class Choice:
    """Noise classes fitted to clear links, and the BIC of every number of classes tried (larger is better)."""

    noise: Noise
    bic: dict[int, float]


def choose_classes(agreement: np.ndarray, weight: FloatArray, seed: int) -> Choice:
    """Fit mixtures of independent mismatches to pairs that are links, and keep the one with the best BIC.

    Parameters
    ----------
    agreement
        (P, F) int8: 1 agree, 0 differ, -1 missing on either side.
    weight
        (P,) float64, how far each pair is a link.
    seed
        Of the starts.
    """
    patterns, inverse = np.unique(agreement, axis=0, return_inverse=True)
    count = np.bincount(inverse.ravel(), weights=weight, minlength=len(patterns)).astype(np.float64)
    total = count.sum()
    observed = (patterns >= 0) * count[:, None]
    overall = ((patterns == 0) * count[:, None]).sum(axis=0)
    overall = (overall + 0.5) / (observed.sum(axis=0) + 10.0)
    best: Noise | None = None
    bic: dict[int, float] = {}
    rng = np.random.default_rng(seed)
    for n_classes in CLASS_COUNTS:
        if n_classes > 1 and total < 20 * n_classes:
            break
        fits = [_fit(patterns, count, overall, n_classes, rng) for _ in range(_STARTS if n_classes > 1 else 1)]
        log_likelihood, epsilon, share = max(fits, key=lambda fit: fit[0])
        parameters = n_classes * patterns.shape[1] + n_classes - 1
        bic[n_classes] = log_likelihood - 0.5 * parameters * np.log(max(total, 2.0))
        if best is None or bic[n_classes] > max(value for key, value in bic.items() if key != n_classes):
            best = Noise(epsilon / (1.0 - epsilon), share)
    if best is None:
        raise ValueError("no class count was tried")
    return Choice(best, bic)


def _fit(
    patterns: np.ndarray, count: FloatArray, overall: FloatArray, n_classes: int, rng: np.random.Generator
) -> tuple[float, FloatArray, FloatArray]:
    """EM for a mixture of products of Bernoullis with missing entries; (log likelihood, ε (Q, F), shares (Q,))."""
    differ = (patterns == 0).astype(np.float64)
    agree = (patterns == 1).astype(np.float64)
    responsibility = rng.dirichlet(np.full(n_classes, 0.5), len(patterns))
    before = -np.inf
    for _ in range(_ROUNDS):
        weighted = responsibility * count[:, None]
        bad = weighted.T @ differ + _PRIOR_WEIGHT * overall
        good = weighted.T @ agree + _PRIOR_WEIGHT * (1.0 - overall)
        epsilon = bad / (bad + good)
        share = (weighted.sum(axis=0) + 1.0) / (weighted.sum() + n_classes)
        log_p = differ @ np.log(epsilon).T + agree @ np.log1p(-epsilon).T + np.log(share)
        top = log_p.max(axis=1, keepdims=True)
        log_total = top[:, 0] + np.log(np.exp(log_p - top).sum(axis=1))
        now = float(count @ log_total)
        responsibility = np.exp(log_p - log_total[:, None])
        if now - before < 1e-4:
            break
        before = now
    return now, epsilon, share
