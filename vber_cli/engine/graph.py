"""The components of the candidate graph: the units over which the link posterior factorises (model.md section 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.engine.block_kernels import components_kernel
from vber_cli.engine.partition_kernels import MAX_EXACT
from vber_cli.model.types import FloatArray, IntArray, LongArray

MAX_COMPONENT = 80  # larger ones are thinned: the work grows with the square and more


@dataclass(frozen=True)
class Graph:
    """Components of two or more records, the small ones (summed over exactly) first, by size.

    Attributes
    ----------
    n_records, n_small
        N, and how many of the components have at most MAX_EXACT records.
    comp_ptr, comp_record
        CSR: the records of each component, ascending.
    pair_ptr, pair_a, pair_b
        CSR over components: of a small one all its pairs, (0,1), (0,2) … in the order of its records; of a large one
        its candidate edges.
    """

    n_records: int
    n_small: int
    comp_ptr: LongArray
    comp_record: IntArray
    pair_ptr: LongArray
    pair_a: IntArray
    pair_b: IntArray

    @property
    def n_components(self) -> int:
        """Components of two or more records."""
        return len(self.comp_ptr) - 1

    @property
    def n_alone(self) -> int:
        """Records without any candidate edge."""
        return self.n_records - len(self.comp_record)


def build_graph(a: IntArray, b: IntArray, n_records: int) -> Graph:
    """Components of the graph with edges (a, b), each given once."""
    root = components_kernel(a, b, n_records)
    size_of_root = np.bincount(root, minlength=n_records)
    size = size_of_root[root]
    inside = np.flatnonzero(size > 1)
    # by component size, then component, then record: small components of one size lie side by side
    order = inside[np.lexsort((inside, root[inside], size[inside]))].astype(np.int32)
    sizes = size_of_root[root[order]]
    starts = np.flatnonzero(np.concatenate([[True], root[order][1:] != root[order][:-1]])) if len(order) else order
    comp_ptr = np.concatenate([starts, [len(order)]]).astype(np.int64)
    comp_size = np.diff(comp_ptr)
    n_small = int(np.searchsorted(comp_size, MAX_EXACT, side="right"))
    firsts, seconds = [], []
    counts = np.zeros(len(comp_size), dtype=np.int64)
    for m in range(2, MAX_EXACT + 1):
        members = order[sizes == m].reshape(-1, m)
        i, j = np.triu_indices(m, 1)
        firsts.append(members[:, i].ravel())
        seconds.append(members[:, j].ravel())
        counts[comp_size == m] = len(i)
    # edges of the large components, by component
    comp_of_record = np.full(n_records, -1, dtype=np.int64)
    comp_of_record[order] = np.repeat(np.arange(len(comp_size)), comp_size)
    large = comp_of_record[a] >= n_small
    edge_a, edge_b = a[large], b[large]
    by_component = np.argsort(comp_of_record[edge_a], kind="stable")
    edge_a, edge_b = edge_a[by_component], edge_b[by_component]
    counts[n_small:] = np.bincount(comp_of_record[edge_a] - n_small, minlength=len(comp_size) - n_small)
    return Graph(
        n_records,
        n_small,
        comp_ptr,
        order,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([*firsts, edge_a]).astype(np.int32),
        np.concatenate([*seconds, edge_b]).astype(np.int32),
    )


def thin(
    a: IntArray, b: IntArray, strength: FloatArray, n_records: int, needed: np.ndarray | None = None
) -> np.ndarray:
    """(E,) bool: the edges to keep so that no component has more than MAX_COMPONENT records.

    Within a component that is too large the weaker half of the edges is dropped, again and again. What is dropped is
    still counted, pair by pair; only its effect on the pairs around it is lost. Edges that are `needed` (E,) stay, even
    if these alone make a component that large.
    """
    keep = np.ones(len(a), dtype=bool)
    while True:
        root = components_kernel(a[keep], b[keep], n_records)
        large = np.bincount(root, minlength=n_records) > MAX_COMPONENT
        inside = np.flatnonzero(keep & large[root[a]] & (True if needed is None else ~needed))
        if len(inside) == 0:
            return keep
        owner = root[a[inside]]
        order = np.lexsort((inside, strength[inside], owner))
        rank = np.arange(len(order)) - np.searchsorted(owner[order], owner[order], side="left")
        count = np.bincount(owner, minlength=n_records)[owner[order]]
        keep[inside[order[rank < (count + 1) // 2]]] = False
