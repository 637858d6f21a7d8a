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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from vber_cli.model.types import FloatArray

# Where the search begins, and where it ends. Of a closed vocabulary log(−d) and log(V / k − 1), of an open one d and
# log(b / k).
_CLOSED = np.linspace(np.log(0.02), np.log(300.0), 21), np.linspace(np.log(1e-4), np.log(200.0), 21)
_OPEN = np.linspace(1e-3, 0.95, 21), np.linspace(np.log(1e-2), np.log(1e2), 21)
_ZOOM = np.linspace(-1.0, 1.0, 9)  # around the best point, in steps of the grid before
_ZOOMS = 4


@dataclass(frozen=True)
class Species:
    """The two parameters: a value seen c times among n draws has probability (c − discount) / (n + strength)."""

    discount: float
    strength: float

    def probability(self, counts: FloatArray, n: float) -> FloatArray:
        """Probability of values seen `counts` times (at least once) among `n` draws."""
        return np.asarray((counts - self.discount) / (n + self.strength))


def fit_species(counts: FloatArray) -> Species:
    """Parameters of greatest likelihood: the best point of a grid for either kind, then of finer ones around it.

    Parameters
    ----------
    counts
        (k,) float64 ≥ 1, how often each value seen was drawn; expected counts need not be whole.
    """
    k, n = len(counts), float(counts.sum())
    if k < 2 or n - k < 1.0 - 1e-9 or n < 3:
        # one value, or less than one repetition: nothing speaks of rarity, take the counts as they are
        return Species(0.0, 0.0)
    seen = _histogram(counts)

    def closed(x: FloatArray, y: FloatArray) -> _Grid:
        d, size = -np.exp(x)[:, None], k * (1.0 + np.exp(y))[None, :]
        fresh = (k - 1) * np.log(-d) + gammaln(size) - gammaln(size - k + 1)
        return _Grid(d, -d * size, fresh)

    def opened(x: FloatArray, y: FloatArray) -> _Grid:
        d, b = x[:, None], k * np.exp(y)[None, :]
        fresh = (k - 1) * np.log(d) + gammaln(b / d + k) - gammaln(b / d + 1)
        return _Grid(d, np.broadcast_to(b, fresh.shape), fresh)

    return max(_climb(closed, _CLOSED, seen, n), _climb(opened, _OPEN, seen, n), key=lambda found: found[0])[1]


@dataclass(frozen=True)
class _Grid:
    """Parameters to try, d in rows (X, 1), b (X, Y), and Σ_i log(b + i d) of each."""

    discount: FloatArray
    strength: FloatArray
    fresh: FloatArray


def _climb(
    grid_of: Callable[[FloatArray, FloatArray], _Grid],
    start: tuple[FloatArray, FloatArray],
    seen: tuple[FloatArray, FloatArray],
    n: float,
) -> tuple[float, Species]:
    """The greatest log likelihood on a grid, and around it on finer ones; and the parameters there."""
    x, y = start
    steps = x[1] - x[0], y[1] - y[0]
    counts, weight = seen
    for zoom in range(_ZOOMS + 1):
        grid = grid_of(x, y)
        again = (gammaln(counts - grid.discount) - gammaln(1.0 - grid.discount)) @ weight
        log_likelihood = grid.fresh - gammaln(grid.strength + n) + gammaln(grid.strength + 1) + again[:, None]
        i, j = np.unravel_index(int(np.argmax(log_likelihood)), log_likelihood.shape)
        found = float(log_likelihood[i, j]), Species(float(grid.discount[i, 0]), float(grid.strength[i, j]))
        scale = (len(_ZOOM) // 2) ** -zoom
        x, y = (
            np.minimum(np.maximum(at + _ZOOM * step * scale, ends[0]), ends[-1])
            for at, step, ends in zip((x[i], y[j]), steps, start, strict=True)
        )
    return found


def _histogram(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Counts on a grid of tenths up to 20 and of three percent above, with how many values lie at each point."""
    grid = np.where(counts < 20.0, np.round(counts, 1), np.exp(np.round(np.log(counts) / 0.03) * 0.03))
    points, weight = np.unique(grid, return_counts=True)
    return np.maximum(points, 1.0), weight.astype(np.float64)
