"""Joint moves on a hard partition (model.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from vber_cli.arrays import first_alike, n_distinct, stable_order
from vber_cli.engine import block_kernels
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.graph import Graph
from vber_cli.engine.posterior import component_parts
from vber_cli.model.types import IntArray
from vber_cli.parallel import map_ranges


class Partition:
    """A partition of the records and the moves that change it.

    Parameters
    ----------
    model
        What weighs blocks; `block_model.exact_model` for moves on the symmetrised bound.
    log_new
        Log weight of one more individual.
    graph
        Moves follow its edges.
    label
        (N,) int32, changed in place; a label is the number of some record of the block's component.
    threads
        Has no influence on the result.
    first
        The component from which on they move.
    settled
        (N,) int32, labels that no move changed, with the same weights and along fewer edges: components that are as
        they were there are looked at only once something in them has changed.
    """

    def __init__(
        self,
        model: BlockModel,
        log_new: float,
        graph: Graph,
        label: IntArray,
        threads: int,
        first: int = 0,
        settled: IntArray | None = None,
    ) -> None:
        self.label = label
        self._model, self._log_new, self._graph, self._threads = model, log_new, graph, threads
        self._first = first
        self._parts = component_parts(graph, first, graph.n_components)
        self._version = np.ones(graph.n_components, dtype=np.int32)
        seen = np.zeros(graph.n_components, dtype=np.int32)
        if settled is not None and graph.n_components:
            same = (first_alike(label) == first_alike(settled))[graph.comp_record]
            seen[np.logical_and.reduceat(same, graph.comp_ptr[:-1])] = 1
        self._seen = {kind: seen.copy() for kind in ("merge", "reassign", "split")}

    def merge(self) -> int:
        """Merge blocks along edges, the strongest first, wherever that gains; returns how many were merged."""
        g, seen = self._graph, self._seen["merge"]
        if np.array_equal(seen[self._first :], self._version[self._first :]):
            return 0
        order = self._order
        return self._run(
            lambda lo, hi: block_kernels.merge_kernel(
                lo, hi, g.comp_ptr, g.comp_record, g.pair_ptr, g.pair_a, g.pair_b, order, self._model,
                self._log_new, self.label, self._version, seen,
            )
        )  # fmt: skip

    def reassign(self) -> int:
        """Move single records wherever that gains; returns how many moved."""
        g = self._graph
        return self._run(
            lambda lo, hi: block_kernels.reassign_kernel(
                lo,
                hi,
                g.comp_ptr,
                g.comp_record,
                g.pair_ptr,
                g.pair_a,
                g.pair_b,
                self._model,
                self._log_new,
                self.label,
                self._version,
                self._seen["reassign"],
            )
        )

    def split(self) -> int:
        """Split blocks in two wherever that gains; returns how many were split."""
        g = self._graph
        return self._run(
            lambda lo, hi: block_kernels.split_kernel(
                lo, hi, g.comp_ptr, g.comp_record, self._model, self._log_new, self.label, self._version,
                self._seen["split"],
            )
        )  # fmt: skip

    @cached_property
    def _order(self) -> np.ndarray:
        return _edge_order(self._model, self._graph, self._threads, self._first)

    def _run(self, work: Callable[[int, int], int]) -> int:
        return sum(int(n) for n in map_ranges(work, self._parts, self._threads))

    @property
    def n_blocks(self) -> int:
        """Number of blocks, single records included."""
        return n_distinct(self.label)


def greedy_labels(model: BlockModel, log_new: float, graph: Graph, threads: int, first: int = 0) -> IntArray:
    """(N,) int32 labels after greedy merges of units along the edges of the components `first` and after."""
    partition = Partition(model, log_new, graph, model.constraints.leads(graph.n_records), threads, first)
    partition.merge()
    return partition.label


def symmetrised(elbo: float, n_individuals: int, n_occupied: int) -> float:
    """ELBO + log K! − log (K − n)!: the bound averaged over the equivalent labellings (model.md section 2)."""
    return elbo + math.lgamma(n_individuals + 1) - math.lgamma(n_individuals - n_occupied + 1)


def _edge_order(model: BlockModel, graph: Graph, threads: int, first: int) -> np.ndarray:
    """(P,) int64: the pairs of each component by falling evidence, as they are in components before `first`."""
    begin = int(graph.pair_ptr[first]) if graph.n_components else 0
    a, b = graph.pair_a[begin:], graph.pair_b[begin:]
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b, threads), threads)
    component = np.repeat(np.arange(first, graph.n_components), np.diff(graph.pair_ptr[first:]))
    order = np.argsort(doubt - link, kind="stable")
    return np.concatenate([np.arange(begin), begin + order[stable_order(component[order])]])
