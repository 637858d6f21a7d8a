"""How records of one individual differ: noise classes, each with a concentration and copy levels per field.

With one class that copies exactly this is the paper's model (model.md section 1) with A_f = α_f θ_f. With several, a
record draws a class with probability `share` and its fields then differ independently as that class says: whoever moved
differs in street, town and postcode at once, and a typist who errs once a record rarely errs twice (model.md 6).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vber_cli.model.types import FloatArray

ANEW = 99.0  # α of a field that a class draws anew: one value in a hundred is still the individual's
LEAST_CHANGED = 0.02  # of links, that have changed some part, as long as nothing is known of it


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
    anew
        (Q, F) bool, the fields that a class draws anew, as those who move do with an address; in all others it is as
        the other classes are. Empty where no class draws any.
    """

    concentration: FloatArray
    levels: FloatArray
    share: FloatArray
    anew: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), bool))

    @property
    def n_classes(self) -> int:
        """Q."""
        return len(self.share)

    @property
    def changes(self) -> np.ndarray:
        """(Q,) bool: the classes that draw some fields anew."""
        return np.asarray(self.anew.any(axis=1)) if len(self.anew) else np.zeros(self.n_classes, bool)

    def drawing(self, anew: np.ndarray) -> Noise:
        """Return it with classes that draw these fields (Q, F) anew, whatever they did before."""
        return Noise(np.where(anew, ANEW, self.concentration), self.levels, self.share, anew)

    def with_more(self, parts: np.ndarray, share: FloatArray) -> Noise:
        """Return it with a class more for every part (P, F) bool that is drawn anew, with their shares (P,)."""
        weight, n = self.share[:, None], len(parts)
        usual = (weight * self.concentration).sum(axis=0)
        copies = (weight[:, :, None] * self.levels).sum(axis=0)
        before = self.anew if len(self.anew) else np.zeros(self.concentration.shape, bool)
        shares = np.concatenate([self.share, share])
        return Noise(
            np.concatenate([self.concentration, np.where(parts, ANEW, usual)]),
            np.concatenate([self.levels, np.tile(copies, (n, 1, 1))]),
            shares / shares.sum(),
            np.concatenate([before, parts]),
        )

    def only(self, kept: np.ndarray) -> Noise:
        """Return it with these classes (Q,) bool alone, one at least."""
        if kept.all():
            return self
        share, anew = self.share[kept], self.anew[kept] if len(self.anew) else self.anew
        return Noise(self.concentration[kept], self.levels[kept], share / share.sum(), anew)

    def without_rare(self, least: float) -> Noise:
        """Return it without the classes that draw fields anew and are rarer than that."""
        return self.only(~self.changes | (self.share >= least))

    @classmethod
    def single(cls, concentration: FloatArray, levels: FloatArray | None = None) -> Noise:
        """Return one class with α_f (F,), whose copies are exact unless μ (F, 3) is given."""
        exact = np.tile([1.0, 0.0, 0.0], (len(concentration), 1)) if levels is None else levels
        return cls(np.array([concentration], dtype=np.float64), exact[None].astype(np.float64), np.ones(1))
