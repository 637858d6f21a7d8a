"""The assignment of least expected pairwise loss, and what it is worth (model.md section 7).

The loss of a partition is `fp` for every pair put together that does not belong together, and `fn` for every pair kept
apart that does. Putting a pair of link probability p together gains fn · p − fp · (1 − p); a partition's expected
loss is least where the gains of its pairs sum to most. Only pairs with a positive gain can hold a block together, so it
is found within the components these form: exactly up to eight records, by merges and single moves above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.arrays import stable_order
from vber_cli.engine import decide_kernels
from vber_cli.engine.graph import build_graph
from vber_cli.engine.start import relabel
from vber_cli.model.constraints import NO_CONSTRAINTS, Constraints
from vber_cli.model.types import FloatArray, IntArray


class PairTable:
    """Link probabilities that can be looked up by pair; pairs that are not listed have probability 0.

    Parameters
    ----------
    a, b, probability
        (P,) with a < b and no pair twice; any order.
    """

    def __init__(self, a: IntArray, b: IntArray, probability: FloatArray) -> None:
        key = (a.astype(np.int64) << 32) | b
        order = np.argsort(key)  # no two alike
        self._key = key[order]
        self._probability = probability[order]

    def probability(self, a: IntArray, b: IntArray) -> FloatArray:
        """(Q,) float64 of any pairs, in either order of their records."""
        if len(self._key) == 0:
            return np.zeros(len(a))
        key = (np.minimum(a, b).astype(np.int64) << 32) | np.maximum(a, b)
        at = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        return np.where(self._key[at] == key, self._probability[at], 0.0)


def decide(
    a: IntArray,
    b: IntArray,
    probability: FloatArray,
    n_records: int,
    loss: tuple[float, float],
    constraints: Constraints = NO_CONSTRAINTS,
) -> IntArray:
    """(N,) int32 labels 0..n−1 of the partition of least expected loss, among those that the constraints allow.

    Parameters
    ----------
    a, b, probability
        (P,) the candidate pairs, a < b, and their link probabilities.
    n_records
        N.
    loss
        (fp, fn), each ≥ 0.
    constraints
        All pairs that must be together are among (a, b).
    """
    false_pair, missed_pair = loss
    gain = missed_pair * probability - false_pair * (1.0 - probability)
    positive = gain > 0
    if constraints.any:
        positive |= constraints.standing(a, b) > 0
    graph = build_graph(a[positive], b[positive], n_records)
    label = np.arange(n_records, dtype=np.int32)
    table = PairTable(a, b, probability)
    p = table.probability(graph.pair_a, graph.pair_b)
    pair_gain = missed_pair * p - false_pair * (1.0 - p)
    decide_kernels.decide_small_kernel(
        graph.comp_ptr, graph.comp_record, graph.pair_ptr, pair_gain, graph.n_small, label, constraints
    )
    if graph.n_components > graph.n_small:
        # all listed pairs inside a large component count, not only the positive ones
        first = int(graph.comp_ptr[graph.n_small])
        large = np.full(n_records, -1, dtype=np.int64)
        large[graph.comp_record[first:]] = np.repeat(
            np.arange(graph.n_small, graph.n_components), np.diff(graph.comp_ptr[graph.n_small :])
        )
        inside = (large[a] >= 0) & (large[a] == large[b])
        ends = np.concatenate([a[inside], b[inside]])
        order = stable_order(ends)
        nbr = np.concatenate([b[inside], a[inside]])[order]
        nbr_gain = np.concatenate([gain[inside], gain[inside]])[order]
        nbr_ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_records))]).astype(np.int64)
        component = np.repeat(np.arange(graph.n_components), np.diff(graph.pair_ptr))
        edge_order = np.lexsort((-pair_gain, component)).astype(np.int64)
        decide_kernels.decide_large_kernel(
            graph.comp_ptr, graph.comp_record, graph.n_small, graph.n_components, edge_order, graph.pair_ptr,
            graph.pair_a, graph.pair_b, nbr_ptr, nbr, nbr_gain, -false_pair, label, constraints,
        )  # fmt: skip
    return relabel(label)


@dataclass(frozen=True)
class Membership:
    """How sure each record's place is.

    Attributes
    ----------
    probability
        (N,) mean link probability with the other records of its individual; alone in it: P(no partner).
    runner_up, runner_up_probability
        (N,) int32 and float64: the next best individual, −1 where that is one of its own (or there is none), and its
        probability.
    """

    probability: FloatArray
    runner_up: IntArray
    runner_up_probability: FloatArray


def membership(label: IntArray, a: IntArray, b: IntArray, probability: FloatArray, alone: FloatArray) -> Membership:
    """Membership of every record in the partition `label` (N,) with labels 0..n−1."""
    size = np.bincount(label, minlength=int(label.max(initial=-1)) + 1)
    return Membership(*decide_kernels.membership_kernel(label, size, a, b, probability, alone))


@dataclass(frozen=True)
class Expected:
    """Expected pairwise scores of an assignment, without labels; nan-free, 1 where there is nothing to find."""

    precision: float
    recall: float
    f1: float


def expected_scores(label: IntArray, a: IntArray, b: IntArray, probability: FloatArray, missed: float) -> Expected:
    """Expected precision, recall and F1 of the partition; `missed` is the link mass that candidates leave out."""
    size = np.bincount(label).astype(np.float64)
    together = float(np.sum(size * (size - 1) / 2))
    right = float(probability[label[a] == label[b]].sum())
    links = float(probability.sum()) + missed
    precision = right / together if together else 1.0
    recall = right / links if links > 0 else 1.0
    f1 = 2 * right / (together + links) if together + links > 0 else 1.0
    return Expected(min(precision, 1.0), min(recall, 1.0), min(f1, 1.0))
