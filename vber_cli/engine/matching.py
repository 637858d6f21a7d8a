"""What drawn partitions say: pair probabilities, and the most probable maximal matching sets.

The maximal matching set of a record in a draw is everyone in its block. Its most probable one over the draws need not
be that of its other members; records that share it are put together, which makes a partition (Steorts, Hall, Fienberg).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vber_cli.engine.matching_kernels import modes_kernel, set_hash_kernel, together_kernel
from vber_cli.model.types import FloatArray, IntArray

_PENDING = 1 << 24  # pairs to gather before equal ones are counted


@dataclass(frozen=True)
class PairShares:
    """(P,) int32 a < b, and the share of the draws in which the two are together, in (0, 1]."""

    a: IntArray
    b: IntArray
    probability: FloatArray


@dataclass(frozen=True)
class MatchingSets:
    """The partition by most probable maximal matching sets.

    Attributes
    ----------
    label
        (N,) int32, 0..n−1.
    probability
        (N,) float64: share of the draws in which the record's block is that set.
    alone
        (N,) float64: share of the draws in which it is by itself.
    """

    label: IntArray
    probability: FloatArray
    alone: FloatArray


def pair_shares(draws: Iterable[IntArray]) -> PairShares:
    """Count in how many of the draws, each (N,) as `keep_partition` writes them, two records are together."""
    key, count = np.zeros(0, np.int64), np.zeros(0, np.int64)
    pending: list[np.ndarray] = []
    n_draws = waiting = 0
    for draw in draws:
        pending.append(together_kernel(draw))
        n_draws += 1
        waiting += len(pending[-1])
        if waiting > _PENDING:
            key, count = _counted(key, count, pending)
            pending, waiting = [], 0
    key, count = _counted(key, count, pending)
    return PairShares((key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32), count / max(n_draws, 1))


def _counted(key: np.ndarray, count: np.ndarray, pending: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    new, n_new = np.unique(np.concatenate([*pending, key[:0]]), return_counts=True)
    both, place = np.unique(np.concatenate([key, new]), return_inverse=True)
    total = np.zeros(len(both), np.int64)
    np.add.at(total, place, np.concatenate([count, n_new]))
    return both, total


def matching_sets(draws: list[IntArray]) -> MatchingSets:
    """Find the most probable maximal matching sets of at least one draw."""
    n = len(draws[0])
    hashes = np.empty((len(draws), n), np.uint64)
    alone = np.zeros(n, np.int64)
    for t, draw in enumerate(draws):
        set_hash_kernel(draw, hashes[t], alone)
    mode, count = modes_kernel(hashes)
    label = np.unique(mode, return_inverse=True)[1].astype(np.int32)
    return MatchingSets(label, count / len(draws), alone / len(draws))
