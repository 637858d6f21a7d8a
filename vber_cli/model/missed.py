"""Links that are not among the candidate pairs (model.md section 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.types import FloatArray


@dataclass(frozen=True)
class MissedLinks:
    """How many links there are beside the candidates: Poisson, with a rate that is partly known.

    Attributes
    ----------
    seen
        Expected links among pairs that were looked at.
    shape, scale
        Of the Gamma distribution of how many are expected among the others.
    """

    seen: float = 0.0
    shape: float = 0.5
    scale: float = 0.0

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """(n_draws,) numbers of links, float64."""
        rate = self.seen + self.scale * rng.standard_gamma(self.shape, n_draws)
        return rng.poisson(rate).astype(np.float64)


NONE_MISSED = MissedLinks()
