"""Twins of the kernels over blocks and partitions: plain loops over the equations; imports nothing from the engine.

A block's weight is its marginal beside its records on their own (docs/model.md section 2), built by the chain rule over
its records in ascending order. Given m earlier records of the block of which n show field f and c show the record's own
value, the record's factor is Σ_q share_q Π_f (α_qf θ + c) / ((α_qf + n) θ).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logsumexp

from tests import exact
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records

N_VALUES = (4, 3, 7)
UGLY = ("random", "missing", "constant", "tied", "blank")
DEPTH, BINS, BIN_WIDTH = 16, 40, 0.5


def make_codes(rng, n, kind):
    """(n, 3) codes that kernels find hard: mostly missing, all alike, copies of two records, records without values."""
    codes = np.stack([rng.integers(0, v, n) for v in N_VALUES], axis=1)
    if kind == "missing":
        codes[rng.random(codes.shape) < 0.5] = -1
    elif kind == "constant":
        codes[:] = codes[0]
    elif kind == "tied":
        codes = codes[rng.integers(0, min(n, 2), n)]
        codes[0, 0] = -1
    elif kind == "blank":
        codes[rng.random(n) < 0.4] = -1
    elif kind == "people":
        people = codes[rng.integers(0, max(n // 3, 1), n)]
        codes = np.where(rng.random(codes.shape) < 0.15, codes, people)
        codes[rng.random(codes.shape) < 0.1] = -1
    return np.ascontiguousarray(codes, dtype=np.int32)


def make_records(rng, n, kind):
    return Records(make_codes(rng, n, kind), np.zeros(n, np.int32), np.array(N_VALUES, np.int64))


def make_case(rng, n, kind, n_classes=1):
    """Records, a prior with a random base, and noise classes."""
    records = make_records(rng, n, kind)
    base = np.concatenate([rng.dirichlet(np.ones(v)) for v in N_VALUES])
    prior = make_prior(records, "uniform", rng.choice([0.01, 0.2, 1.0, 5.0], 3)).with_base(np.maximum(base, 1e-4))
    if n_classes == 1:
        return records, prior, Noise.single(prior.concentration)
    concentration = rng.choice([0.01, 0.1, 0.7, 4.0], (n_classes, 3))
    return records, prior, Noise(concentration, rng.dirichlet(np.full(n_classes, 3.0)))


def own_theta(records, prior):
    """θ of every record's own value, 1 where it is missing."""
    out = np.ones(records.codes.shape)
    for r in range(records.n_records):
        for f in range(records.n_fields):
            if records.codes[r, f] >= 0:
                out[r, f] = prior.base[prior.value_ptr[f] + records.codes[r, f]]
    return out


def alpha_by_field(prior):
    """A_f = α_f θ_f, a list over fields."""
    return [
        prior.concentration[f] * prior.base[prior.value_ptr[f] : prior.value_ptr[f + 1]]
        for f in range(len(prior.concentration))
    ]


def copies(codes, r, f, earlier):
    """(c, n): how many of the earlier records show the record's own value, and how many show the field at all."""
    if codes[r, f] < 0:
        return 0, 0
    shown = [codes[s, f] for s in earlier if codes[s, f] >= 0]
    return shown.count(codes[r, f]), len(shown)


def class_scores(codes, theta, noise, r, earlier):
    """(Q,) log of each noise class's part in the record's factor."""
    out = np.log(noise.share)
    for q in range(noise.n_classes):
        for f in range(codes.shape[1]):
            c, n = copies(codes, r, f, earlier)
            a, t = noise.concentration[q, f], theta[r, f]
            out[q] += np.log((a * t + c) / ((a + n) * t)) if n else 0.0
    return out


def block_weight(codes, theta, noise, block):
    order = sorted(block)
    return sum(logsumexp(class_scores(codes, theta, noise, r, order[:i])) for i, r in enumerate(order) if i)


def block_statistics(codes, theta, noise, block, weight=1.0):
    """Events of a block: ((Q, 2, F, DEPTH, BINS), (Q,), (N, F)), the last how far each value is a copy."""
    stats = np.zeros((noise.n_classes, 2, codes.shape[1], DEPTH, BINS))
    class_weight, repeats = np.zeros(noise.n_classes), np.zeros(codes.shape)
    order = sorted(block)
    for i, r in enumerate(order[1:], start=1):
        scores = class_scores(codes, theta, noise, r, order[:i])
        for q, part in enumerate(weight * np.exp(scores - logsumexp(scores))):
            class_weight[q] += part
            for f in range(codes.shape[1]):
                c, n = copies(codes, r, f, order[:i])
                if n == 0:
                    continue
                theta_bin = min(int(np.floor(-np.log(theta[r, f]) / BIN_WIDTH)), BINS - 1) if c else 0
                stats[q, 0, f, min(c, DEPTH - 1), theta_bin] += part
                stats[q, 1, f, min(n, DEPTH - 1), 0] += part
                repeats[r, f] += part * c / (noise.concentration[q, f] * theta[r, f] + c)
    return stats, class_weight, repeats


@cache
def labellings(n):
    """(Bell(n), n): every partition of 0..n-1, each record labelled with the first record of its block."""
    out = []
    for part in exact.partitions(list(range(n))):
        label = np.zeros(n, np.int64)
        for block in part:
            label[block] = min(block)
        out.append(label)
    return np.array(out)


@dataclass(frozen=True)
class Posterior:
    """Every partition of a few records with its probability."""

    labels: np.ndarray
    probability: np.ndarray

    @property
    def pair(self):
        """(N, N) probability of being together, 0 on the diagonal."""
        together = np.einsum("p,pij->ij", self.probability, self.labels[:, :, None] == self.labels[:, None, :])
        return together - np.diag(np.diag(together))

    @property
    def n_blocks(self):
        return (self.labels == np.arange(self.labels.shape[1])).sum(axis=1)

    @property
    def n(self):
        """(N + 1,) distribution of the number of blocks."""
        return np.bincount(self.n_blocks, weights=self.probability, minlength=self.labels.shape[1] + 1)

    @property
    def moments(self):
        mean = self.probability @ self.n_blocks
        return mean, self.probability @ (self.n_blocks - mean) ** 2

    @property
    def alone(self):
        together = (self.labels[:, :, None] == self.labels[:, None, :]).sum(axis=2)
        return self.probability @ (together == 1)


def posterior(codes, theta, noise, log_h):
    """The posterior over partitions with weight h(n) Π of the blocks' weights; `log_h` (N + 1,)."""
    n = len(codes)
    labels = labellings(n)
    by_mask = np.zeros(1 << n)
    for mask in range(1, 1 << n):
        by_mask[mask] = block_weight(codes, theta, noise, [r for r in range(n) if mask >> r & 1])
    masks = ((labels[:, None, :] == np.arange(n)[None, :, None]) << np.arange(n)).sum(axis=2)
    log_weight = by_mask[masks].sum(axis=1) + np.asarray(log_h)[(masks > 0).sum(axis=1)]
    return Posterior(labels, np.exp(log_weight - logsumexp(log_weight)))


def four_errors(variance, n):
    """How far the mean of n draws in [0, 1] may stray: four standard errors, and Bernstein's term for rare events."""
    return 4 * np.sqrt(variance / n) + 16 / (3 * n)


def blocks_of(label):
    """The blocks of a labelling, as sorted lists of records."""
    groups = {}
    for r, k in enumerate(np.asarray(label).tolist()):
        groups.setdefault(k, []).append(r)
    return sorted(groups.values())


def connected(n, a, b):
    """Components with two or more records, each a sorted list, by breadth-first search."""
    near = {r: set() for r in range(n)}
    for x, y in zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True):
        near[x].add(y)
        near[y].add(x)
    seen, out = set(), []
    for r in range(n):
        if r in seen:
            continue
        group, queue = {r}, [r]
        while queue:
            fresh = near[queue.pop()] - group
            group |= fresh
            queue.extend(fresh)
        seen |= group
        if len(group) > 1:
            out.append(sorted(group))
    return out
