"""Where the loop starts: K of the records, a random assignment, or a given partition."""

from __future__ import annotations

import numpy as np

from vber_cli.arrays import first_alike
from vber_cli.engine.cavi import Linkage, blank_records, hard_linkage
from vber_cli.model.types import IntArray, Records


def start_from_records(records: Records, n_individuals: int, seed: int) -> Linkage:
    """Individuals 0..k−1 are k ≤ K records, all different, chosen by the seed; the rest stay unoccupied.

    Only the chosen records carry mass (φ = 1); the first local step places all the others. Records that say the same
    would make slots that can never be told apart (model.md section 2), so no two chosen records are identical.
    """
    order = np.random.default_rng(seed).permutation(records.n_records)
    _, first = np.unique(records.codes[order], axis=0, return_index=True)
    distinct = order[np.sort(first)]
    distinct = distinct[~blank_records(records)[distinct]]
    chosen = np.sort(distinct[:n_individuals])
    blank = blank_records(records)
    is_chosen = np.zeros(records.n_records, dtype=bool)
    is_chosen[chosen] = True
    n_stored = len(chosen)
    ptr = np.concatenate([[0], np.cumsum(is_chosen)]).astype(np.int64)
    rest = np.where(blank, (n_individuals - n_stored) / n_individuals, 0.0)
    individual = np.arange(n_stored, dtype=np.int32)
    return Linkage(ptr, individual, np.ones(n_stored), rest, blank, n_individuals, n_stored)


def start_at_random(records: Records, n_individuals: int, seed: int) -> Linkage:
    """Every record belongs to one of the K individuals, drawn uniformly."""
    drawn = np.random.default_rng(seed).integers(0, n_individuals, records.n_records)
    drawn[blank_records(records)] = drawn.max(initial=0)
    return hard_linkage(records, relabel(drawn), n_individuals)


def relabel(labels: np.ndarray) -> IntArray:
    """The same partition with labels 0..n−1 in order of first appearance, (N,) int32."""
    first = first_alike(labels)
    rank = np.cumsum(first == np.arange(len(first)), dtype=np.int32) - 1
    return np.asarray(rank[first], dtype=np.int32)
