"""Evidence that two records describe one individual, from the pair's exact marginal (model.md sections 2 and 4).

For two records that both show a value of field f, log m({a, b}) − log m({a}) − log m({b}) is
log (α θ + 1) / ((α + 1) θ) where the values agree and log α / (α + 1) where they do not; a missing value says nothing.
"""

from __future__ import annotations

import numpy as np

from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray


def match_evidence(prior: Prior) -> FloatArray:
    """(ΣV_f,) float64 nats: what agreeing on each value is worth."""
    alpha = np.repeat(prior.concentration, np.diff(prior.value_ptr))
    return np.asarray(np.log(alpha * prior.base + 1.0) - np.log((alpha + 1.0) * prior.base))


def mismatch_evidence(prior: Prior) -> FloatArray:
    """(F,) float64 nats, negative: what two different values cost."""
    return np.asarray(np.log(prior.concentration) - np.log1p(prior.concentration))


def agreement_rate(prior: Prior) -> FloatArray:
    """(F,) float64: share of agreeing values among two records of one individual, α θ² summed with the copies."""
    return np.asarray((1.0 + prior.concentration * prior.collisions()) / (1.0 + prior.concentration))


def collision_entropy(prior: Prior) -> FloatArray:
    """(F,) float64 nats, H2 = −log Σ θ²; 0 for a field without values."""
    chance = prior.collisions()
    return np.asarray(-np.log(np.where(chance > 0, chance, 1.0)))
