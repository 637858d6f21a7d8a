"""Pairs of different individuals that are alike for a reason: relatives, neighbours, namesakes (model.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, LongArray


@dataclass(frozen=True)
class Relations:
    """Latent classes of related but different pairs; none of them is the model of section 1.

    Attributes
    ----------
    odds
        (C,) float64, pairs of each class per unrelated pair.
    levels
        (C, F, 4) float64, probability of each level in each field.
    redrawn
        (C,) int64: −1 of a class with levels of its own. Else the field that is drawn anew, with what depends on it, in
        pairs that agree as records of one individual do in all others: twins, whose given names differ. There is one
        such class for every noise class. Empty where all have levels of their own.
    """

    odds: FloatArray
    levels: FloatArray
    redrawn: LongArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.odds)

    @property
    def own(self) -> np.ndarray:
        """(C,) bool: classes with levels of their own."""
        return self.redrawn < 0 if len(self.redrawn) else np.ones(self.n_classes, dtype=bool)

    @classmethod
    def none(cls, n_fields: int) -> Relations:
        """Return no relations: records of different individuals are unrelated."""
        return cls(np.zeros(0), np.zeros((0, n_fields, N_LEVELS)))
