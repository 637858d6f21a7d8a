"""Fields that depend on each other between different individuals: a tree over the fields (model.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, IntArray, LongArray

MAX_PARTS = 16  # connected parts of the trees, each of which links may draw anew


@dataclass(frozen=True)
class Dependence:
    """Each field's parent, and how the field is distributed where the parents agree.

    Attributes
    ----------
    parent
        (F,) int64, −1 for a field without one.
    strength
        (F,) float64, κ_f: θ_f(v | u) = (n_uv + κ_f θ_f(v)) / (n_u + κ_f); not used without a parent.
    levels
        (F, 4) float64, levels of two different individuals whose parent values are identical.
    gain
        (F,) float64 nats a pair, what knowing the parent is worth.
    drawn
        (N,) float64, how much of an individual each record stands for: one over the number of its records; empty where
        that is not known, and each record counts as one.
    hidden, apart
        (F, 3) float64 each, by the level 1, 2 or 3 of two different individuals' values: how often these hide the same
        value, misspelt; and, by the level of the parent's values where they do not, how many times likelier than by
        chance the field is identical. Empty where it was not counted.
    """

    parent: LongArray
    strength: FloatArray
    levels: FloatArray
    gain: FloatArray
    drawn: FloatArray = field(default_factory=lambda: np.zeros(0))
    hidden: FloatArray = field(default_factory=lambda: np.zeros((0, N_LEVELS - 1)))
    apart: FloatArray = field(default_factory=lambda: np.zeros((0, N_LEVELS - 1)))

    @classmethod
    def none(cls, n_fields: int) -> Dependence:
        """Return independence of all fields."""
        return cls(
            np.full(n_fields, -1, dtype=np.int64), np.zeros(n_fields), np.ones((n_fields, N_LEVELS)), np.zeros(n_fields)
        )

    def alone(self) -> Dependence:
        """Return the same without what is known of the records."""
        return replace(self, drawn=np.zeros(0))

    @property
    def edges(self) -> LongArray:
        """(E, 2) int64: the fields that have a parent, and the parent, by parents, then ascending."""
        children = np.flatnonzero(self.parent >= 0)
        children = children[np.argsort(self.parent[children], kind="stable")]
        return np.column_stack([children, self.parent[children]])

    @property
    def n_edges(self) -> int:
        """Fields that have a parent."""
        return int((self.parent >= 0).sum())


def tree_roots(edges: LongArray, n_fields: int) -> LongArray:
    """(F,) the root of each field's tree; `edges` as in `Dependence.edges`."""
    root = np.arange(n_fields)
    for _ in range(len(edges)):
        root[edges[:, 0]] = root[edges[:, 1]]
    return root


def tree_parts(edges: LongArray, n_fields: int) -> list[np.ndarray]:
    """(F,) bool for each tree of two or more fields: the fields of it; `edges` as in `Dependence.edges`."""
    root = tree_roots(edges, n_fields)
    return [root == r for r in np.unique(root[edges[:, 1]])]


def connected_parts(edges: LongArray, n_fields: int) -> list[np.ndarray]:
    """(F,) bool for each connected set of two fields or more, small ones first; `edges` as in `Dependence.edges`.

    In a tree of many fields these are too many: beyond MAX_PARTS only the whole trees are given.
    """
    pairs = [(int(f), int(g)) for f, g in edges]
    found = new = {frozenset(pair) for pair in pairs}
    while new and len(found) <= MAX_PARTS:
        new = {part | {f, g} for part in new for f, g in pairs if (f in part) != (g in part)} - found
        found = found | new
    if len(found) > MAX_PARTS:
        return tree_parts(edges, n_fields)
    ordered = sorted((sorted(part) for part in found), key=lambda part: (len(part), part))
    return [np.isin(np.arange(n_fields), part) for part in ordered]


def individual_shares(n_records: int, pairs: tuple[IntArray, IntArray], probability: FloatArray) -> FloatArray:
    """(N,) float64: how much of an individual each record stands for, one over the expected number of its records.

    Parameters
    ----------
    n_records
        N.
    pairs, probability
        (P,) and (P,) ends, and (P,) probabilities that they are one individual.
    """
    partners = np.zeros(n_records)
    for end in pairs:
        partners += np.bincount(end, weights=probability, minlength=n_records)
    return np.asarray(1.0 / (1.0 + partners))
