"""Joint moves on a hard partition that raise the symmetrised bound (model.md section 2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vber_cli.engine import block_kernels
from vber_cli.engine.evidence_kernels import pair_evidence
from vber_cli.engine.graph import Graph
from vber_cli.engine.parallel import map_ranges
from vber_cli.engine.posterior import component_parts, record_theta
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, Records

_ONE = np.ones(1)


class Partition:
    """A partition of the records and the moves that change it; the weights are the paper's exact block marginals.

    Parameters
    ----------
    records, prior
        The data and A.
    log_new
        Log weight of one more individual.
    graph
        Moves follow its edges.
    label
        (N,) int32, changed in place; a label is the number of some record of the block's component.
    threads
        Has no influence on the result.
    """

    def __init__(
        self, records: Records, prior: Prior, log_new: float, graph: Graph, label: IntArray, threads: int
    ) -> None:
        self.label = label
        self._records = records
        self._graph = graph
        self._log_new = log_new
        self._threads = threads
        self._theta = record_theta(records, prior)
        self._alpha = prior.concentration[None, :]
        self._lists = [np.zeros(records.n_records, np.int32) for _ in range(3)]
        self._order = _edge_order(records, prior, graph)
        ends = np.concatenate([graph.pair_a, graph.pair_b])
        order = np.argsort(ends, kind="stable")
        self._nbr = np.concatenate([graph.pair_b, graph.pair_a])[order]
        counts = np.bincount(ends, minlength=records.n_records)
        self._nbr_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._parts = component_parts(graph, 0, graph.n_components)

    def merge(self) -> int:
        """Merge blocks along edges, the strongest first, wherever that gains; returns how many were merged."""
        g = self._graph
        return self._run(
            lambda lo, hi: block_kernels.merge_kernel(
                lo, hi, g.comp_ptr, g.comp_record, g.pair_ptr, g.pair_a, g.pair_b, self._order,
                self._records.codes, self._theta, self._alpha, _ONE, self._log_new, self.label, *self._lists,
            )
        )  # fmt: skip

    def reassign(self) -> int:
        """Move single records wherever that gains; returns how many moved."""
        g = self._graph
        return self._run(
            lambda lo, hi: block_kernels.reassign_kernel(
                lo, hi, g.comp_ptr, g.comp_record, self._nbr_ptr, self._nbr,
                self._records.codes, self._theta, self._alpha, _ONE, self._log_new, self.label, *self._lists,
            )
        )  # fmt: skip

    def split(self) -> int:
        """Split blocks in two wherever that gains; returns how many were split."""
        g = self._graph
        return self._run(
            lambda lo, hi: block_kernels.split_kernel(
                lo, hi, g.comp_ptr, g.comp_record,
                self._records.codes, self._theta, self._alpha, _ONE, self._log_new, self.label, *self._lists,
            )
        )  # fmt: skip

    def _run(self, work: Callable[[int, int], int]) -> int:
        return sum(int(n) for n in map_ranges(work, self._parts, self._threads))

    @property
    def n_blocks(self) -> int:
        """Number of blocks, single records included."""
        return len(np.unique(self.label))


def greedy_labels(records: Records, prior: Prior, log_new: float, graph: Graph, threads: int) -> IntArray:
    """(N,) int32 labels after greedy merges along the edges."""
    partition = Partition(records, prior, log_new, graph, np.arange(records.n_records, dtype=np.int32), threads)
    partition.merge()
    return partition.label


def symmetrised(elbo: float, n_individuals: int, n_occupied: int) -> float:
    """ELBO + log K! − log (K − n)!: the bound averaged over the equivalent labellings (model.md section 2)."""
    return elbo + math.lgamma(n_individuals + 1) - math.lgamma(n_individuals - n_occupied + 1)


def _edge_order(records: Records, prior: Prior, graph: Graph) -> np.ndarray:
    """(P,) int64: the pairs of each component, by falling evidence."""
    weight: FloatArray = pair_evidence(records, prior, Noise.single(prior.concentration), graph.pair_a, graph.pair_b)
    component = np.repeat(np.arange(graph.n_components), np.diff(graph.pair_ptr))
    return np.lexsort((-weight, component)).astype(np.int64)
