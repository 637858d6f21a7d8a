"""Candidate pairs tabulated, so that what is fitted to millions of them is fitted to the thousands that differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.evidence_kernels import relation_evidence, tree_evidence
from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, IntArray

_RARITY_BIN = 0.5  # nats; pairs alike up to so much are taken for one, with their number as its weight
_TELLING = 3.0  # nats of collision entropy that make a field telling
_ANCHOR_BINS = np.array([1e-4, 1e-3, 0.02, 0.2, 0.5, 0.8, 0.95, 0.99])


@dataclass(frozen=True)
class AlikePairs:
    """Pairs that stand for all that are like them.

    Attributes
    ----------
    model, b, levels
        As in `pair_evidence`.
    prior, anchor, certain
        (P,) nats of prior evidence, link probabilities to start from, and whether it is known that they are links.
    count
        (P,) float64, how many pairs each stands for.
    shown
        (P, F · 4) float64, marks the level of each field, nothing where a value is missing.
    by_chance
        (P,) float64, log probability of the levels between unrelated individuals, fields being independent.
    by_tree
        (P,) float64 nats, log T: how much more probable the tree makes them.
    """

    model: BlockModel
    b: IntArray
    levels: np.ndarray
    prior: FloatArray
    anchor: FloatArray
    certain: np.ndarray
    count: FloatArray
    shown: FloatArray
    by_chance: FloatArray
    by_tree: FloatArray

    def log_ratio(self, level: FloatArray) -> FloatArray:
        """(P, C) log likelihood ratio of classes with levels (C, F, 4) to unrelated pairs of independent fields."""
        log_level = np.log(np.maximum(level, 1e-300)).reshape(len(level), self.shown.shape[1])
        return np.asarray(self.shown @ log_level.T - self.by_chance[:, None])

    def responsibilities(self, log_odds: FloatArray, n_link: int) -> tuple[FloatArray, FloatArray]:
        """(P, C) probability of every class from log odds (P, C), and log(T + Σ odds) (P,) of every pair.

        The first `n_link` classes are links; pairs known to be links belong to these alone.
        """
        top = np.maximum(log_odds.max(axis=1), self.by_tree)
        part = np.exp(log_odds - top[:, None])
        total = np.exp(self.by_tree - top) + part.sum(axis=1)
        part /= total[:, None]
        sure = part[self.certain, :n_link]
        part[self.certain] = 0.0
        part[self.certain, :n_link] = sure / np.maximum(sure.sum(axis=1, keepdims=True), 1e-300)
        return part, top + np.log(total)


def telling_fields(unrelated: FloatArray) -> np.ndarray:
    """(F,) bool: fields whose values different individuals hardly ever share, by `unrelated` (F, 4)."""
    return np.asarray(-np.log(np.maximum(unrelated[:, 0], 1e-300)) > _TELLING)


def alike_pairs(
    model: BlockModel,
    b: IntArray,
    levels: np.ndarray,
    prior: FloatArray,
    anchor: FloatArray,
    certain: np.ndarray,
) -> AlikePairs:
    """Make one of all pairs with the same levels, about the same rarity and anchor, and the same prior.

    The pair in the middle of each cell's rarities stands for it.
    """
    n_fields = levels.shape[1]
    by_chance = -relation_evidence(model, b, levels, np.ones((1, n_fields, N_LEVELS)))[:, 0]
    by_tree = tree_evidence(model, b, levels).sum(axis=1)
    key = np.zeros(len(b), dtype=np.uint64)
    for column in (
        *levels.T,
        np.round(by_chance / _RARITY_BIN),
        np.round(by_tree / _RARITY_BIN),
        np.digitize(anchor, _ANCHOR_BINS),
        np.unique(prior, return_inverse=True)[1],
        certain,
    ):
        key = (key ^ column.astype(np.int64).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    order = np.lexsort((by_chance, key))
    begin = np.flatnonzero(np.concatenate([[True], np.diff(key[order]) != 0])) if len(b) else np.zeros(0, np.int64)
    size = np.diff(np.append(begin, len(b)))
    chosen = order[begin + size // 2]
    count = size.astype(np.float64)
    shown = np.stack([levels[chosen] == level for level in range(N_LEVELS)], axis=2)
    return AlikePairs(
        model, b[chosen], levels[chosen], prior[chosen],
        np.add.reduceat(anchor[order], begin) / count if len(b) else anchor,
        certain[chosen], count, shown.reshape(len(chosen), n_fields * N_LEVELS).astype(np.float64), by_chance[chosen],
        by_tree[chosen],
    )  # fmt: skip
