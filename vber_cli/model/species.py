"""How probable a value is that was seen c times among n draws (species sampling).

The share c / n overrates rare values: what was seen once among a thousand draws is mostly one of many values as rare,
of which the others happened not to be seen. Under a Gibbs-type prior the probability of a value seen c times is
(c − d) / (n + b). With 0 ≤ d < 1 this is the Pitman–Yor process, for vocabularies with a heavy tail without end such as
surnames; with d < 0 and b = −d V it is the symmetric Dirichlet over V values, for closed ones such as days of the year.
Both parameters are those of greatest likelihood,

    Σ_{i=1}^{k−1} log(b + i d) − log Γ(b + n) + log Γ(b + 1) + Σ_v [log Γ(c_v − d) − log Γ(1 − d)]

for k values seen; the observed ones share less than the whole probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from vber_cli.model.types import FloatArray

_CLOSED = -np.exp(np.linspace(np.log(0.02), np.log(300.0), 30))
_SIZES = np.array([1.0, 1.02, 1.1, 1.25, 1.5, 2, 3, 5, 8, 15, 40, 200])  # V as multiples of k
_OPEN = np.concatenate([[0.0], np.linspace(0.05, 0.95, 19)])
_STRENGTHS = np.exp(np.linspace(np.log(1e-2), np.log(1e2), 30))  # b as multiples of k


@dataclass(frozen=True)
class Species:
    """The two parameters: a value seen c times among n draws has probability (c − discount) / (n + strength)."""

    discount: float
    strength: float

    def probability(self, counts: FloatArray, n: float) -> FloatArray:
        """Probability of values seen `counts` times (at least once) among `n` draws."""
        return np.asarray((counts - self.discount) / (n + self.strength))


def fit_species(counts: FloatArray) -> Species:
    """Parameters of greatest likelihood on a grid.

    Parameters
    ----------
    counts
        (k,) float64 ≥ 1, how often each value seen was drawn; expected counts need not be whole.
    """
    k, n = len(counts), float(counts.sum())
    if k < 2 or n - k < 1.0 - 1e-9 or n < 3:
        # one value, or less than one repetition: nothing speaks of rarity, take the counts as they are
        return Species(0.0, 0.0)
    binned, weight = _histogram(counts)
    closed = np.repeat(_CLOSED, len(_SIZES))
    sizes = np.tile(_SIZES, len(_CLOSED)) * k
    new_closed = (k - 1) * np.log(-closed) + gammaln(sizes) - gammaln(sizes - k + 1)
    discount = np.repeat(_OPEN, len(_STRENGTHS))
    strength = np.tile(_STRENGTHS, len(_OPEN)) * k
    safe = np.where(discount > 0, discount, 1.0)
    new_open = np.where(
        discount > 0,
        (k - 1) * np.log(safe) + gammaln(strength / safe + k) - gammaln(strength / safe + 1),
        (k - 1) * np.log(strength),
    )
    d = np.concatenate([closed, discount])
    b = np.concatenate([-closed * sizes, strength])
    grid, place = np.unique(d, return_inverse=True)
    seen = ((gammaln(binned[None, :] - grid[:, None]) - gammaln(1.0 - grid)[:, None]) * weight).sum(axis=1)
    log_likelihood = np.concatenate([new_closed, new_open]) - gammaln(b + n) + gammaln(b + 1) + seen[place]
    best = int(np.argmax(log_likelihood))
    return Species(float(d[best]), float(b[best]))


def _histogram(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Counts on a grid of tenths up to 20 and of three percent above, with how many values lie at each point."""
    grid = np.where(counts < 20.0, np.round(counts, 1), np.exp(np.round(np.log(counts) / 0.03) * 0.03))
    points, weight = np.unique(grid, return_counts=True)
    return np.maximum(points, 1.0), weight.astype(np.float64)
