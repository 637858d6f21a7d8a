"""Pairs of different individuals that are alike for a reason: relatives, neighbours, namesakes (model.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray


@dataclass(frozen=True)
class Relations:
    """Latent classes of related but different pairs; none of them is the model of section 1.

    Attributes
    ----------
    odds
        (C,) float64, pairs of each class per unrelated pair.
    levels
        (C, F, 4) float64, probability of each level in each field.
    """

    odds: FloatArray
    levels: FloatArray

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.odds)

    @classmethod
    def none(cls, n_fields: int) -> Relations:
        """Return no relations: records of different individuals are unrelated."""
        return cls(np.zeros(0), np.zeros((0, n_fields, N_LEVELS)))
