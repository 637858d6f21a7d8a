"""Fields that depend on each other between different individuals: a tree over the fields (model.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, LongArray


@dataclass(frozen=True)
class Dependence:
    """Each field's parent, and how the field is distributed where the parents agree.

    Attributes
    ----------
    parent
        (F,) int64, −1 for a field without one.
    strength
        (F,) float64, κ_f: θ_f(v | u) = (n_uv + κ_f θ_f(v)) / (n_u + κ_f); not used without a parent.
    levels
        (F, 4) float64, levels of two different individuals whose parent values are identical.
    gain
        (F,) float64 nats a pair, what knowing the parent is worth.
    """

    parent: LongArray
    strength: FloatArray
    levels: FloatArray
    gain: FloatArray

    @classmethod
    def none(cls, n_fields: int) -> Dependence:
        """Return independence of all fields."""
        return cls(
            np.full(n_fields, -1, dtype=np.int64), np.zeros(n_fields), np.ones((n_fields, N_LEVELS)), np.zeros(n_fields)
        )

    @property
    def n_edges(self) -> int:
        """Fields that have a parent."""
        return int((self.parent >= 0).sum())
