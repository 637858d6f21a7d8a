"""The link posterior given the hyperparameters: exact in small components, sampled in large ones (model.md 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vber_cli.engine import block_kernels, component_kernels, partition_kernels
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.graph import Graph
from vber_cli.engine.local_kernels import N_STATS
from vber_cli.model.similar import N_LEVELS
from vber_cli.model.types import FloatArray, IntArray
from vber_cli.parallel import map_ranges

# The components are worked through in so many ranges, whatever the number of threads, or in fewer where a range would
# have less than so many pairs.
_PARTS, _LEAST = 64, 500
_SMALL_BLOCK = 8  # up to so many records a block costs a sweep no more than a pair does
_SWEEP_BUDGET = 1e8  # elementary steps that Gibbs sampling may take in one call, over all large components


@dataclass(frozen=True)
class Expectation:
    """What one pass over the components yields.

    Attributes
    ----------
    pair_probability
        (P,) float64, P(same individual) of the graph's pairs, then of its inner pairs.
    alone
        (N,) float64, P(no other record describes the same individual).
    stats
        (Q, F, N_STATS) sufficient statistics of the noise classes (`local_kernels`).
    class_weight
        (Q,) float64, records by noise class.
    repeats
        (N, F) float64: how far each value is a copy of another record's rather than a draw of its own.
    n_mean, n_variance
        Of the number of recorded individuals, given the hyperparameters.
    chain_pairs, chain_n
        (C, P_large) pair probabilities and (C, sweeps) numbers of blocks in the large components, chain by chain.
    part_n
        (S, 2) float64, mean and variance of the number of blocks in each part of the small components.
    """

    pair_probability: FloatArray
    alone: FloatArray
    stats: FloatArray
    class_weight: FloatArray
    repeats: FloatArray
    n_mean: float
    n_variance: float
    chain_pairs: FloatArray
    chain_n: FloatArray
    part_n: FloatArray


class Chains:
    """The state of the Gibbs chains in the large components; one chain starts from each of two extremes in turn."""

    def __init__(self, model: BlockModel, graph: Graph, n_chains: int, greedy: IntArray, threads: int = 1) -> None:
        """Even chains start from the partition `greedy` (N,), odd ones from every record, or unit, alone.

        The records are compared under `model` once and for all: it may change in the noise only.
        """
        apart = model.constraints.leads(graph.n_records)
        self.labels = [(greedy if c % 2 == 0 else apart).copy() for c in range(n_chains)]
        self.n_calls = 0
        self.compared = _compared(model, graph, threads)

    def put(self, labels: Sequence[IntArray], n_calls: int) -> None:
        """Put the chains where they stood after so many calls; the labels (N,) of each stay as they are."""
        self.labels = [label.copy() for label in labels]
        self.n_calls = n_calls

    def crowding(self, graph: Graph) -> float:
        """How much longer sweeps take than among small blocks, for a record is weighed beside all pairs of a block."""
        records = graph.comp_record[graph.comp_ptr[graph.n_small] :]
        total = 0.0
        for label in self.labels:
            size = np.bincount(np.unique(label[records], return_inverse=True)[1].ravel()).astype(np.float64)
            total += max(float((size**2).sum()) / (_SMALL_BLOCK * max(len(records), 1)), 1.0)
        return total / len(self.labels)


def sweep_steps(model: BlockModel, graph: Graph, chains: Chains) -> float:
    """About how many elementary steps one sweep of all chains takes."""
    n_pairs = float(graph.pair_ptr[graph.n_components] - graph.pair_ptr[graph.n_small])
    steps = n_pairs * model.codes.shape[1] * N_LEVELS * 2 * len(chains.labels) * len(model.share)
    return float(steps * chains.crowding(graph))


def _compared(model: BlockModel, graph: Graph, threads: int) -> component_kernels.Compared:
    sizes = np.diff(graph.comp_ptr)
    sizes[: graph.n_small] = 0
    square_ptr = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.int64)
    n = int(square_ptr[-1])
    comps = component_kernels.Compared(
        graph.comp_ptr, graph.comp_record, graph.pair_ptr, graph.pair_a, graph.pair_b,
        graph.inner_ptr, graph.inner_a, graph.inner_b,
        square_ptr, np.zeros((n, model.codes.shape[1]), np.int8),
    )  # fmt: skip
    map_ranges(
        lambda lo, hi: component_kernels.compare_components_kernel(lo, hi, comps, model),
        component_parts(graph, graph.n_small, graph.n_components),
        threads,
    )
    return comps


def component_parts(graph: Graph, lo: int, hi: int) -> list[tuple[int, int]]:
    """Ranges of components with about equal numbers of pairs, the same for any number of threads."""
    if hi <= lo:
        return []
    work = graph.pair_ptr[lo : hi + 1] - graph.pair_ptr[lo]
    parts = min(n_parts(int(work[-1])), hi - lo)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], parts + 1)[1:-1], side="left")
    edges = np.unique(np.concatenate([[0], cuts, [hi - lo]])) + lo
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def n_parts(n_pairs: int) -> int:
    """Ranges that so many pairs are worked through in, whatever the number of threads."""
    return int(np.clip(n_pairs // _LEAST, 1, _PARTS))


def expect(
    model: BlockModel,
    log_new: float,
    graph: Graph,
    chains: Chains | None,
    *,
    seed: int,
    count: bool,
    n_sweeps: int,
    threads: int,
    known: Expectation | None = None,
    among: slice = slice(None),
) -> Expectation:
    """One pass over all components.

    Parameters
    ----------
    model, log_new
        What weighs blocks, and the log weight of one more individual.
    graph, chains
        The components, and the state of the chains in the large ones (None where there are none); advanced.
    seed
        Of this pass.
    count
        Whether the statistics of the noise are collected.
    n_sweeps
        Gibbs sweeps in the large components, of which the first third is not kept; half as many where the components
        are so large that these would take too long.
    threads
        Has no influence on the result.
    known, among
        What a pass under other noise has found: then only these parts of the small components are passed over, for what
        the noise makes of the number of blocks. Everything else that is said of small components stays as it is known.
    """
    n, n_fields = model.codes.shape
    n_classes = len(model.share)
    shape = (n_classes, n_fields, N_STATS)
    probability = np.zeros(len(graph.pair_a) + len(graph.inner_a))
    alone = np.ones(n)
    alone[graph.comp_record] = 0.0
    repeats = np.zeros((n, n_fields))

    def small(lo: int, hi: int) -> tuple[FloatArray, FloatArray, float, float]:
        stats, class_weight = np.zeros(shape), np.zeros(n_classes)
        mean, variance = partition_kernels.enumerate_kernel(
            lo, hi, graph.comp_ptr, graph.comp_record, graph.pair_ptr, model, log_new, count,
            probability, alone, repeats, stats, class_weight,
        )  # fmt: skip
        return stats, class_weight, mean, variance

    results = map_ranges(small, component_parts(graph, 0, graph.n_small)[among], threads)
    stats = sum((part[0] for part in results), np.zeros(shape))
    class_weight = sum((part[1] for part in results), np.zeros(n_classes))
    part_n = np.array([part[2:] for part in results]).reshape(-1, 2)
    mean, variance = part_n.sum(axis=0).tolist()
    if known is not None:
        in_small = int(graph.pair_ptr[graph.n_small]) if graph.n_components else 0
        probability[:in_small] = known.pair_probability[:in_small]
        records = graph.comp_record[: graph.comp_ptr[graph.n_small]]
        alone[records] = known.alone[records]
        before, variance = known.part_n.sum(axis=0).tolist()
        mean = before * mean / max(float(known.part_n[among, 0].sum()), 1.0)
        part_n = known.part_n
    chain_pairs, chain_n = np.zeros((0, 0)), np.zeros((0, 0))
    if chains is not None and graph.n_components > graph.n_small:
        chain_pairs, chain_n = _sample(
            model, log_new, graph, chains, seed, count, n_sweeps, threads, alone, repeats, stats, class_weight
        )
        first = graph.pair_ptr[graph.n_small]
        probability[first:] = chain_pairs.mean(axis=0)
        mean += float(chain_n.mean())
        variance += float(chain_n.var())
    return Expectation(
        probability,
        alone,
        stats,
        class_weight,
        repeats,
        mean + graph.n_alone,
        variance,
        chain_pairs,
        chain_n,
        part_n,
    )


def _sample(
    model: BlockModel,
    log_new: float,
    graph: Graph,
    chains: Chains,
    seed: int,
    count: bool,
    n_sweeps: int,
    threads: int,
    alone: FloatArray,
    repeats: FloatArray,
    stats: FloatArray,
    class_weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Advance every chain in the large components, adding to the statistics; pair probabilities and block counts."""
    lo, hi = graph.n_small, graph.n_components
    first = graph.pair_ptr[lo]
    most = max(n_sweeps * 2 // 3, 1)
    n_keep = int(np.clip(_SWEEP_BUDGET / max(sweep_steps(model, graph, chains), 1.0), max(most // 2, 1), most))
    n_burn = n_keep // 2
    weight = 1.0 / (n_keep * len(chains.labels))
    stats_shape, classes = stats.shape, len(class_weight)
    pairs, counts = [], []
    for c, label in enumerate(chains.labels):
        probability = np.zeros(len(graph.pair_a) + len(graph.inner_a))
        chain_seed = np.uint64((seed * 1_000_003 + chains.n_calls * 101 + c) & 0xFFFFFFFFFFFFFFFF)

        def large(
            lo: int,
            hi: int,
            label: IntArray = label,
            probability: FloatArray = probability,
            chain_seed: np.uint64 = chain_seed,
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            part_stats, part_class, blocks = np.zeros(stats_shape), np.zeros(classes), np.zeros(n_keep)
            block_kernels.gibbs_kernel(
                lo, hi, chains.compared, model, log_new, n_burn, n_keep, chain_seed, count, label, weight, probability,
                alone, repeats, part_stats, part_class, blocks,
            )  # fmt: skip
            return part_stats, part_class, blocks

        results = map_ranges(large, component_parts(graph, lo, hi), threads)
        for part in results:
            stats += part[0]
            class_weight += part[1]
        counts.append(np.sum([part[2] for part in results], axis=0))
        pairs.append(probability[first:] * len(chains.labels))
    chains.n_calls += 1
    return np.array(pairs), np.array(counts)


def tiny_posterior(model: BlockModel, log_h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Exact pair probabilities (N, N) and distribution of n (N + 1,) of at most MAX_EXACT records, for any h(n).

    Parameters
    ----------
    model
        What weighs blocks.
    log_h
        (N + 1,) float64, log weight of a partition by its number of blocks.
    """
    members = np.arange(len(model.codes), dtype=np.int32)
    total, together = partition_kernels.count_weights_kernel(members, model)
    top = np.max(total + log_h)
    weight = np.exp(total + log_h - top)
    pair = np.exp(together + log_h - top).sum(axis=2) / weight.sum()
    return pair, weight / weight.sum()


def log_weights_by_blocks(model: BlockModel, members: IntArray) -> FloatArray:
    """(M + 1,) log Σ exp Σ Λ over the partitions of M ≤ MAX_EXACT records with j blocks, j = 0..M."""
    total, _ = partition_kernels.count_weights_kernel(members, model)
    return np.asarray(total)
