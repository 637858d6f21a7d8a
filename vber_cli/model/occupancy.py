"""How many individuals there are: n recorded ones among the K of the population (model.md section 3).

A partition of N records into n blocks has prior weight h(n) = K! / (K − n)! / K^N for fixed K. For unknown K it is the
same summed over p(K) ∝ 1/K. That prior needs an end, or records without a single duplicate would put K at infinity:
above `10 N²` fewer than one chance coincidence in twenty such data sets is left, so the data cannot tell,
and K ends there.

A database without duplicates is drawn without replacement: of its R records none repeats another, and its factor is
(K − R)! / K! in place of K^−R. Where only records of one database are linked, the K individuals are shared out among
the databases in proportion to their records, and one more individual of a database weighs its share of K − n; the mean
logarithm of the shares is what that takes off log_new (model.md section 9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, polygamma

from vber_cli.model.types import FloatArray

_EXACT_BELOW = 20_000  # sum over the integers K that matter if they are no more, else integrate over log K
_GRID, _ZOOMS = 1201, 3
_FREE_SLACK = 2.5
_NOBODY_LEFT = 1e-300  # what K − n counts as at least, where databases hold everybody


def log_labellings(n_individuals: FloatArray | float, n: FloatArray | float) -> FloatArray:
    """log [K! / ((K − n)! K^n)], −inf where n > K; stable for K ≫ n."""
    k, m = np.broadcast_arrays(np.asarray(n_individuals, dtype=np.float64), np.asarray(n, dtype=np.float64))
    left = k - m
    out = np.full(k.shape, -np.inf)
    near = (left >= 0) & (left < 20)
    out[near] = gammaln(k[near] + 1) - gammaln(left[near] + 1) - m[near] * np.log(k[near])
    far = left >= 20
    a, b, c = k[far], left[far], m[far]
    out[far] = -(b + 0.5) * np.log1p(-c / a) - c + 1 / (12 * a) - 1 / (12 * b) - 1 / (360 * a**3) + 1 / (360 * b**3)
    return out


@dataclass(frozen=True)
class Occupancy:
    """The prior over partitions by their number of blocks.

    Attributes
    ----------
    n_records
        N.
    n_individuals
        K when it is fixed, None when it is learned.
    present
        How many individuals each database holds, where this is known apart from n (`model.presence`): then K follows
        from how far the databases overlap, as in capture and recapture, and n has the weight
        K! / (K − n)! / Π_d [K! / (K − n_d)!].
    sole
        Records of each database without duplicates.
    dispersion
        Entropy of the databases' shares of the records where individuals lie within one database, else 0.
    """

    n_records: int
    n_individuals: int | None = None
    present: tuple[float, ...] | None = None
    sole: tuple[int, ...] = ()
    dispersion: float = 0.0

    @property
    def limit(self) -> float:
        """The largest K considered when K is learned."""
        return 10.0 * max(self.n_records, 2) ** 2

    def _log_weights(self, n: float) -> tuple[FloatArray, FloatArray]:
        """Points of K and the log of their share of h(n), unnormalised; one point when K is fixed."""
        if self.n_individuals is not None:
            k = np.array([float(self.n_individuals)])
            return k, self._log_h_given(k, np.log(k), n, 0)
        lo = max(float(n), 1.0, float(max(self.sole, default=0)))
        begin, end = np.log(lo), np.log(self.limit)
        for zoom in range(_ZOOMS + 1):
            first, last = max(np.floor(np.exp(begin)), np.ceil(lo)), np.ceil(np.exp(end))
            if last - first <= _EXACT_BELOW:
                k = np.arange(first, min(last, self.limit) + 1)
                return k, self._log_h_given(k, np.log(k), n, 1)
            if zoom == _ZOOMS:
                break
            grid = np.linspace(begin, end, _GRID)
            k = np.exp(grid)
            k[0] = max(k[0], lo)
            log_w = self._log_h_given(k, grid, n, 0)
            high = np.flatnonzero(log_w > log_w.max() - 45.0)
            begin, end = grid[max(high[0] - 1, 0)], grid[min(high[-1] + 1, _GRID - 1)]
        log_w[[0, -1]] -= np.log(2.0)  # trapezoids: without a duplicate the posterior has not fallen to 0 at the limit
        return k, log_w + np.log(grid[1] - grid[0])

    def _log_h_given(self, k: FloatArray, log_k: FloatArray, n: float, power: int) -> FloatArray:
        """log [h(n) K^−power] for each K; −inf where a database without duplicates would not fit."""
        if self.present is not None:
            out = log_labellings(k, n) - (max(sum(self.present) - n, 0.0) + power) * log_k
            for held in self.present:
                out = out - log_labellings(k, min(held, n))
            return out
        out = log_labellings(k, n) - (self.n_records - n + power) * log_k - n * self.dispersion
        for size in self.sole:
            fits = k >= size
            out[fits] -= log_labellings(k[fits], size)
            out[~fits] = -np.inf
        return out

    def log_h(self, n: float) -> float:
        """log h(n), up to a constant that does not depend on n."""
        return float(logsumexp(self._log_weights(n)[1]))

    def log_new(self, n: float) -> float:
        """log [h(n + 1) / h(n)], the log weight of one more individual: log E[K − n]; finite at n = K as well."""
        if self.n_individuals is not None:
            return float(digamma(max(self.n_individuals - n, 0.0) + 1.0)) - self.dispersion
        whole = np.floor(n)
        low, high = _log_left(self, float(whole)), _log_left(self, float(whole + 1))
        return float(low + (n - whole) * (high - low)) - self.dispersion

    def next_log_new(self, log_new: float, n: float, n_variance: float) -> float:
        """One Newton step towards the weight that agrees with the n it leads to, log_new = log_new(E[n | log_new]).

        E[n] rises with log_new at the rate Var[n], so with K fixed near n plain iteration would swing ever wider. With
        K below what the data show there is no such weight: it is kept within a factor of e^-2.5 of what a free K gives,
        so that no pair needs to be considered that the data speak against.

        Parameters
        ----------
        log_new
            The weight under which the posterior was computed.
        n, n_variance
            Mean and variance of the number of individuals under it.
        """
        target = self.log_new(n)
        if self.n_individuals is None:
            return target
        slope = -float(polygamma(1, max(self.n_individuals - n, 0.0) + 1.0))
        step = log_new + (target - log_new) / (1.0 - n_variance * slope)
        return max(step, replace(self, n_individuals=None).log_new(n) - _FREE_SLACK)

    def posterior(self, n: float) -> tuple[FloatArray, FloatArray]:
        """Points of K and their probabilities given n."""
        k, log_w = self._log_weights(n)
        return k, np.exp(log_w - logsumexp(log_w))

    def draw(self, n: float, rng: np.random.Generator) -> tuple[float, float]:
        """A draw of K given the whole number nearest to n, and the mean of what it is drawn from."""
        k, below, mean = _population(self, float(np.round(n)))
        at = np.searchsorted(below, rng.random() * below[-1], side="right")
        return float(k[min(int(at), len(k) - 1)]), mean

    def mean(self, n: float) -> float:
        """The most probable K given n, as the number of slots the mean-field loop uses; at least n."""
        if self.n_individuals is not None:
            return float(self.n_individuals)
        k, w = self.posterior(n)
        # where the points of K lie apart, the probability of one is that of all the K it stands for
        return float(max(k[np.argmax(w / np.gradient(k))], n))


@lru_cache(maxsize=64)
def _population(occupancy: Occupancy, n: float) -> tuple[FloatArray, FloatArray, float]:
    """Points of K, the probability of no more than each, and the mean; draws come back to the same few n."""
    k, weight = occupancy.posterior(n)
    return k, np.cumsum(weight), float(weight @ k)


@lru_cache(maxsize=4096)
def _log_left(occupancy: Occupancy, n: float) -> float:
    """log E[K − n] given n; draws of the hyperparameters ask for the same few n again and again."""
    k, weight = occupancy.posterior(n)
    return float(np.log(max(float(np.sum(weight * (k - n))), _NOBODY_LEFT)))
