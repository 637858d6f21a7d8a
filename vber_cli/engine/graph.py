"""The components of the candidate graph: the units over which the link posterior factorises (model.md section 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vber_cli.arrays import among, lex_order, stable_order
from vber_cli.engine.component_kernels import capped_kernel, components_kernel
from vber_cli.engine.partition_kernels import MAX_EXACT
from vber_cli.model.types import FloatArray, IntArray, LongArray

MAX_LISTED = 80  # components of at most so many records list all their pairs
# Components are capped where their work, which grows with the square, would be more than this in all, and at no less
# than MAX_LISTED records.
MAX_SQUARES = 4_000_000


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
    inner_ptr, inner_a, inner_b
        CSR over components: of a large one the pairs that are no edges and whose probability is wanted all the same
        (`with_inner`).
    """

    n_records: int
    n_small: int
    comp_ptr: LongArray
    comp_record: IntArray
    pair_ptr: LongArray
    pair_a: IntArray
    pair_b: IntArray
    inner_ptr: LongArray
    inner_a: IntArray
    inner_b: IntArray

    @property
    def n_components(self) -> int:
        """Components of two or more records."""
        return len(self.comp_ptr) - 1

    @property
    def n_alone(self) -> int:
        """Records without any candidate edge."""
        return self.n_records - len(self.comp_record)

    def component_of(self) -> LongArray:
        """(N,) int64 component of each record, −1 where it has no edge."""
        of = np.full(self.n_records, -1, dtype=np.int64)
        of[self.comp_record] = np.repeat(np.arange(self.n_components), np.diff(self.comp_ptr))
        return of


def build_graph(a: IntArray, b: IntArray, n_records: int) -> Graph:
    """Components of the graph with edges (a, b), each given once."""
    root = components_kernel(a, b, n_records)
    size_of_root = np.bincount(root, minlength=n_records)
    size = size_of_root[root]
    inside = np.flatnonzero(size > 1)
    # by component size, then component, then record: small components of one size lie side by side
    order = inside[lex_order(root[inside], size[inside])].astype(np.int32)
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
    by_component = stable_order(comp_of_record[edge_a])
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
        np.zeros(len(comp_size) + 1, dtype=np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int32),
    )


def with_inner(graph: Graph, a: IntArray, b: IntArray) -> Graph:
    """The graph with pairs inside its large components that are no edges.

    Of components of at most MAX_LISTED records these are all their other pairs, of larger ones those of the pairs
    (a, b), each a < b, that lie inside.
    """
    of, sizes = graph.component_of(), np.diff(graph.comp_ptr)
    listed = int(np.searchsorted(sizes, MAX_LISTED, side="right"))
    inside = (of[a] == of[b]) & (of[a] >= listed)
    firsts, seconds = [a[inside]], [b[inside]]
    for m in np.unique(sizes[graph.n_small : listed]).tolist():
        lo, hi = np.searchsorted(sizes, [m, m + 1])
        members = graph.comp_record[graph.comp_ptr[lo] : graph.comp_ptr[hi]].reshape(-1, m)
        i, j = np.triu_indices(m, 1)
        firsts.append(members[:, i].ravel())
        seconds.append(members[:, j].ravel())
    first, second = np.concatenate(firsts).astype(np.int32), np.concatenate(seconds).astype(np.int32)
    at = graph.pair_ptr[graph.n_small]
    edge_a, edge_b = graph.pair_a[at:], graph.pair_b[at:]
    edges = (np.minimum(edge_a, edge_b).astype(np.int64) << 32) | np.maximum(edge_a, edge_b)
    other = ~among((first.astype(np.int64) << 32) | second, edges)
    first, second = first[other], second[other]
    order = lex_order(second, first, of[first])
    counts = np.bincount(of[first], minlength=graph.n_components)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(graph, inner_ptr=ptr, inner_a=first[order], inner_b=second[order])


def thin(
    a: IntArray, b: IntArray, strength: FloatArray, n_records: int, needed: np.ndarray | None = None
) -> np.ndarray:
    """(E,) bool: the edges to keep so that no component is larger than can be worked through (`largest_component`).

    The strongest edges are kept first; one that would make a component too large is dropped. What is dropped is still
    counted, pair by pair; only its effect on the pairs around it is lost. Edges that are `needed` (E,) stay, even if
    these alone make a component that large.
    """
    keep = np.ones(len(a), dtype=bool)
    root = components_kernel(a, b, n_records)
    size = np.bincount(root, minlength=n_records)
    largest = largest_component(size)
    inside = np.flatnonzero(size[root[a]] > largest)
    if len(inside) == 0:
        return keep
    must = np.zeros(len(inside), dtype=bool) if needed is None else needed[inside]
    order = np.lexsort((inside, -strength[inside], ~must))
    inside, must = inside[order], must[order]
    keep[inside] = capped_kernel(a[inside], b[inside], must, n_records, largest)
    return keep


def largest_component(sizes: LongArray) -> int:
    """How many records a component may have, so that the squares of those above MAX_LISTED add up to MAX_SQUARES."""
    large = sizes[sizes > MAX_LISTED].astype(np.int64)
    cap = max(MAX_LISTED, int(large.max(initial=0)))
    while cap > MAX_LISTED and int(np.sum(large * np.minimum(large, cap))) > MAX_SQUARES:
        cap = max(cap // 2, MAX_LISTED)
    return cap
