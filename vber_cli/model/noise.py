"""How records of one individual differ: noise classes, each with a concentration per field.

With one class this is the paper's model (model.md section 1) with A_f = α_f θ_f. With several, a record draws a class
with probability `share` and its fields then differ independently with that class's concentrations: whoever moved
differs in street, town and postcode at once, and a typist who errs once a record rarely errs twice (model.md 6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.types import FloatArray


@dataclass(frozen=True)
class Noise:
    """Noise classes.

    Attributes
    ----------
    concentration
        (Q, F) float64, α_qf > 0.
    share
        (Q,) float64, sums to 1.
    """

    concentration: FloatArray
    share: FloatArray

    @property
    def n_classes(self) -> int:
        """Q."""
        return len(self.share)

    @classmethod
    def single(cls, concentration: FloatArray) -> Noise:
        """Return the paper's model: one class with α_f, (F,)."""
        return cls(np.array([concentration], dtype=np.float64), np.ones(1))
