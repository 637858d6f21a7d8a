"""How records of one individual differ: noise classes, each with a concentration and copy levels per field.

With one class that copies exactly this is the paper's model (model.md section 1) with A_f = α_f θ_f. With several, a
record draws a class with probability `share` and its fields then differ independently as that class says: whoever moved
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
    levels
        (Q, F, 3) float64, μ: how a copied value comes out, identical, close or near; sums to 1.
    share
        (Q,) float64, sums to 1.
    """

    concentration: FloatArray
    levels: FloatArray
    share: FloatArray

    @property
    def n_classes(self) -> int:
        """Q."""
        return len(self.share)

    @classmethod
    def single(cls, concentration: FloatArray, levels: FloatArray | None = None) -> Noise:
        """Return one class with α_f (F,), whose copies are exact unless μ (F, 3) is given."""
        exact = np.tile([1.0, 0.0, 0.0], (len(concentration), 1)) if levels is None else levels
        return cls(np.array([concentration], dtype=np.float64), exact[None].astype(np.float64), np.ones(1))
