"""Candidate pairs tabulated, so that what is fitted to millions of them is fitted to the thousands that differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.engine.alike_kernels import classes_kernel
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.evidence_kernels import relation_evidence, tree_evidence
from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, IntArray

_RARITY_BIN = 0.5  # nats; pairs alike up to so much are taken for one, with their number as its weight
_TELLING = 3.0  # nats of collision entropy that make a field telling
_ANCHOR_BINS = np.array([1e-4, 1e-3, 0.02, 0.2, 0.5, 0.8, 0.95, 0.99])


@dataclass(frozen=True)
class Classes:
    """What each class of pairs is made of.

    Attributes
    ----------
    part
        (P, C) float64, probability of every class.
    number, shown
        (C,) and (C, F, 4) float64: pairs of each class, and how many of them are at each level.
    likelihood
        Σ_pairs log(T + Σ odds LR).
    """

    part: FloatArray
    number: FloatArray
    shown: FloatArray
    likelihood: float


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
        (P, F) int32: 5 · field + level, where level 4 is a missing value.
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
    shown: IntArray
    by_chance: FloatArray
    by_tree: FloatArray

    def classes(
        self,
        odds: FloatArray,
        level: FloatArray,
        n_link: int,
        *,
        link: FloatArray | None = None,
        weight: FloatArray | None = None,
    ) -> Classes:
        """How far every pair is of every class, the first `n_link` of which are links.

        Parameters
        ----------
        odds, level
            (C,) odds of each class against unrelated pairs, and (C, F, 4) the levels of its pairs.
        n_link
            The prior is the links', and pairs known to be links belong to these alone.
        link
            (P,) nats: evidence for the first class, where it is not its levels that give it.
        weight
            (P,) what each pair counts for in the classes that are no links; all count as `count` for the links.
        """
        n_fields = self.levels.shape[1]
        # a row for every level of every field, and one for values that are missing
        table = np.zeros((n_fields, N_LEVELS + 1, len(odds)))
        table[:, :N_LEVELS] = np.moveaxis(np.log(np.maximum(level, 1e-300)), 0, 2)
        part, sums = np.empty((len(self.b), len(odds))), np.zeros(table.shape)
        likelihood = classes_kernel(
            self.shown, self.certain, self.by_chance, self.by_tree, self.prior,
            np.zeros(0) if link is None else link, np.log(np.maximum(odds, 1e-300)), table.reshape(-1, len(odds)),
            n_link, self.count, self.count if weight is None else weight, part, sums.reshape(-1, len(odds)),
        )  # fmt: skip
        shown = np.ascontiguousarray(np.moveaxis(sums[:, :N_LEVELS], 2, 0))
        return Classes(part, sums[0].sum(axis=0), shown, likelihood)


def telling_fields(unrelated: FloatArray) -> np.ndarray:
    """(F,) bool: fields whose values different individuals hardly ever share, by `unrelated` (F, 4)."""
    return nats_shared(unrelated) > _TELLING


def nats_shared(unrelated: FloatArray) -> FloatArray:
    """(F,) nats that identical values of a field tell, by `unrelated` (F, 4)."""
    return np.asarray(-np.log(np.maximum(unrelated[:, 0], 1e-300)))


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
    shown = (np.minimum(levels[chosen], N_LEVELS) + (N_LEVELS + 1) * np.arange(n_fields)).astype(np.int32)
    return AlikePairs(
        model, b[chosen], levels[chosen], prior[chosen],
        np.add.reduceat(anchor[order], begin) / count if len(b) else anchor,
        certain[chosen], count, shown, by_chance[chosen], by_tree[chosen],
    )  # fmt: skip
