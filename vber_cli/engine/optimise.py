"""The loop that maximises the bound: merges, moves and sweeps, each of which may only raise it (model.md section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vber_cli.engine import cavi
from vber_cli.engine.cavi import Fit, Linkage, Sweep
from vber_cli.engine.evidence_kernels import pair_evidence
from vber_cli.engine.graph import Graph, build_graph
from vber_cli.engine.moves import Partition, symmetrised
from vber_cli.engine.start import relabel
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.types import IntArray, Records

_MAX_ROUNDS = 20


@dataclass(frozen=True)
class Step:
    """One line of the trace.

    Attributes
    ----------
    kind
        merge, reassign, split or sweep.
    bound, elbo
        The symmetrised bound and the paper's, after the step.
    max_change
        Largest change of any φ in a sweep; for moves, how many were made.
    n
        Occupied individuals.
    """

    kind: str
    bound: float
    elbo: float
    max_change: float
    n: int


@dataclass(frozen=True)
class Optimum:
    """Where the loop ended.

    Attributes
    ----------
    fit
        φ and λ, fixed under the updates to the tolerance if it converged.
    bound
        The symmetrised bound.
    forced
        Whether more individuals than K remained after all moves that gain, so that merges against the evidence had to
        follow, or, where candidates ran out, the records of all but the K largest individuals had to join these.
    """

    fit: Fit
    bound: float
    forced: bool


def argmax_labels(linkage: Linkage) -> IntArray:
    """(N,) int32: each record's most probable individual, relabelled 0..n−1; the rest and blanks stand alone."""
    n = len(linkage.ptr) - 1
    sizes = np.diff(linkage.ptr)
    label = np.arange(n, dtype=np.int64) + linkage.n_stored  # an individual of one's own
    record = np.repeat(np.arange(n), sizes)
    order = np.lexsort((linkage.individual, -linkage.phi, record))
    top = order[np.flatnonzero(np.diff(record[order], prepend=-1))]
    lone = linkage.rest / max(linkage.n_rest, 1)  # one unoccupied individual's share
    sure = linkage.phi[top] >= lone[record[top]]
    label[record[top[sure]]] = linkage.individual[top[sure]]
    return relabel(label)


def optimise(
    records: Records,
    prior: Prior,
    n_individuals: int,
    log_new: float,
    graph: Graph,
    pairs: tuple[IntArray, IntArray],
    start: Linkage | None,
    *,
    max_sweeps: int,
    tol: float,
    threads: int,
    on_step: Callable[[Step], None],
) -> Optimum:
    """Raise the bound until neither moves nor sweeps do.

    Parameters
    ----------
    records, prior, n_individuals
        The data, A and K.
    log_new
        Log weight of one more individual, used to judge moves; the bound itself is always computed exactly.
    graph
        Candidate components; moves follow its edges.
    pairs
        All candidates (a, b), along which individuals are merged further if K is fewer than the moves leave.
    start
        φ to sweep from before the first moves; None starts from greedy merges.
    max_sweeps, tol, threads
        As in `cavi.fit`; the sweeps of all rounds count together.
    on_step
        Called after every step.
    """
    loop = _Loop(records, prior, n_individuals, log_new, max_sweeps, tol, threads, on_step)
    if start is None:
        label = np.arange(records.n_records, dtype=np.int32)
    else:
        fitted = loop.sweep(start)
        label = argmax_labels(fitted.linkage)
        graph = _with_blocks(graph, label)
        label = _as_members(label)
        if not fitted.converged:
            return Optimum(fitted, loop.bound, False)
    label = loop.moves(graph, label, greedy=start is None)
    n_blocks = len(np.unique(label))
    if n_blocks > n_individuals:
        label = _force(records, prior, pairs, relabel(label), n_individuals)
        return Optimum(loop.sweep(_keep_largest(records, label, n_individuals)), loop.bound, True)
    best = loop.sweep(cavi.hard_linkage(records, relabel(label), n_individuals))
    for _ in range(_MAX_ROUNDS):
        if not best.converged:
            break
        found = argmax_labels(best.linkage)
        wider = _with_blocks(graph, found)
        before = loop.bound
        label = loop.moves(wider, _as_members(found), greedy=False)
        if loop.bound <= before:
            break
        best = loop.sweep(cavi.hard_linkage(records, relabel(label), n_individuals))
    return Optimum(best, loop.bound, False)


class _Loop:
    """The bound so far, and the steps that raise it."""

    def __init__(
        self,
        records: Records,
        prior: Prior,
        n_individuals: int,
        log_new: float,
        max_sweeps: int,
        tol: float,
        threads: int,
        on_step: Callable[[Step], None],
    ) -> None:
        self.records, self.prior, self.n_individuals, self.log_new = records, prior, n_individuals, log_new
        self.sweeps_left, self.tol, self.threads, self.on_step = max_sweeps, tol, threads, on_step
        self.sweeps_done = 0
        self.bound = -np.inf

    def sweep(self, start: Linkage) -> Fit:
        """CAVI sweeps to tolerance from a given φ."""

        def on_sweep(sweep: Sweep, n: int) -> None:
            self.bound = symmetrised(sweep.elbo, self.n_individuals, n)
            self.on_step(Step("sweep", self.bound, sweep.elbo, sweep.max_change, n))

        n = min(start.n_stored, self.n_individuals)
        fitted = cavi.fit(
            self.records, self.prior, start, max_sweeps=max(self.sweeps_left, 1), tol=self.tol, threads=self.threads,
            on_sweep=lambda sweep: on_sweep(sweep, n),
        )  # fmt: skip
        self.sweeps_left -= fitted.n_sweeps
        self.sweeps_done += fitted.n_sweeps
        return Fit(fitted.linkage, fitted.counts, fitted.elbo, self.sweeps_done, fitted.converged)

    def moves(self, graph: Graph, label: IntArray, *, greedy: bool) -> IntArray:
        """Moves until none is accepted; returns the labels of the best partition found.

        Moves are judged with a common weight of a new individual, which is exact to the last link or two. A pass that
        would lower the bound all the same is undone and ends the moves.
        """
        partition = Partition(self.records, self.prior, self.log_new, graph, label.copy(), self.threads)
        steps = {"merge": partition.merge, "reassign": partition.reassign, "split": partition.split}
        kinds = ["merge", "reassign", "split"] if greedy else ["reassign", "split", "merge"]
        best = label
        for _ in range(_MAX_ROUNDS):
            made = 0
            for kind in kinds:
                count = steps[kind]()
                if count == 0:
                    continue
                made += count
                feasible = partition.n_blocks <= self.n_individuals
                # once there are no more than K individuals it stays so
                settled = feasible or self.bound > -np.inf
                if settled and not (feasible and self._accept(kind, partition.label, count)):
                    return best
                best = partition.label.copy()
            if made == 0:
                break
        return best

    def _accept(self, kind: str, label: IntArray, count: int) -> bool:
        linkage = cavi.hard_linkage(self.records, relabel(label), self.n_individuals)
        counts = cavi.accumulate(self.records, self.prior, linkage, self.threads)
        elbo = cavi.elbo(self.records, self.prior, linkage, counts)
        bound = symmetrised(elbo, self.n_individuals, linkage.n_stored)
        if bound <= self.bound:
            return False
        self.bound = bound
        self.on_step(Step(kind, bound, elbo, float(count), linkage.n_stored))
        return True


def _as_members(label: IntArray) -> IntArray:
    """The same partition, each block labelled by its first record."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return first[inverse].astype(np.int32)


def _with_blocks(graph: Graph, label: IntArray) -> Graph:
    """The graph with an edge from each record to the first of its block, so that no block spans two components."""
    first = _as_members(label)
    other = np.flatnonzero(first != np.arange(len(label))).astype(np.int32)
    a = np.concatenate([graph.pair_a, first[other]])
    b = np.concatenate([graph.pair_b, other])
    key = np.unique((np.minimum(a, b).astype(np.int64) << 32) | np.maximum(a, b))
    return build_graph((key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32), len(label))


def _force(
    records: Records, prior: Prior, pairs: tuple[IntArray, IntArray], label: IntArray, n_individuals: int
) -> IntArray:
    """Merge on against the evidence, the best candidate pairs first, until K individuals (or no candidates) are left.

    In each round the block pairs with the most evidence are merged, each block at most once.
    """
    a, b = pairs
    weight = pair_evidence(records, prior, Noise.single(prior.concentration), a, b)
    order = np.argsort(-weight, kind="stable")
    a, b = a[order], b[order]
    excess = int(label.max()) + 1 - n_individuals
    while excess > 0:
        x, y = label[a], label[b]
        apart = x != y
        a, b, x, y = a[apart], b[apart], x[apart], y[apart]
        used: set[int] = set()
        target = np.arange(int(label.max()) + 1, dtype=np.int32)
        for i, j in zip(x.tolist(), y.tolist(), strict=True):
            if excess == 0:
                break
            if i in used or j in used:
                continue
            used.update((i, j))
            target[max(i, j)] = min(i, j)
            excess -= 1
        if not used:
            break
        label = relabel(target[label])
    return label


def _keep_largest(records: Records, label: IntArray, n_individuals: int) -> Linkage:
    """φ = 1 within the K largest blocks (ties: the earlier first); the other records are placed by the first sweep."""
    tidy = relabel(label)
    size = np.bincount(tidy)
    kept = np.sort(np.argsort(-size, kind="stable")[:n_individuals])
    place = np.full(len(size), -1, dtype=np.int32)
    place[kept] = np.arange(len(kept), dtype=np.int32)
    blank = cavi.blank_records(records)
    individual = place[tidy]
    has = (individual >= 0) & ~blank
    ptr = np.concatenate([[0], np.cumsum(has)]).astype(np.int64)
    rest = np.where(blank, (n_individuals - len(kept)) / n_individuals, 0.0)
    return Linkage(ptr, individual[has], np.ones(int(has.sum())), rest, blank, n_individuals, len(kept))
