"""The loop that maximises the bound: merges, moves and sweeps, each of which may only raise it (model.md section 2).

The bound of a partition is log p(x, partition | K) with every equivalent labelling counted; in the paper's model that
is the ELBO of its hard φ plus log K! / (K − n)!. Moves are judged by the weights of the full model, with near values,
noise classes and relations; the sweeps are the paper's, and add to the bound what the ELBO gains when φ becomes soft.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from vber_cli.arrays import distinct, first_alike, n_distinct
from vber_cli.engine import cavi
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.cavi import Fit, Linkage, Sweep
from vber_cli.engine.checkpoints import NO_CHECKPOINTS, Checkpoints
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.family import Family, bound_records
from vber_cli.engine.feasible import fit_in, keep_apart, may_join
from vber_cli.engine.graph import Graph, build_graph
from vber_cli.engine.moves import Partition, symmetrised
from vber_cli.engine.partition_bound import PartitionBound
from vber_cli.engine.start import relabel
from vber_cli.model.constraints import NO_CONSTRAINTS, Constraints
from vber_cli.model.prior import Prior
from vber_cli.model.types import IntArray, Records

_MAX_ROUNDS = 20
T = TypeVar("T")


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


def argmax_labels(linkage: Linkage, constraints: Constraints = NO_CONSTRAINTS) -> IntArray:
    """(N,) int32: each record's most probable individual, relabelled 0..n−1; the rest and blanks stand alone."""
    n = len(linkage.ptr) - 1
    label = np.arange(n, dtype=np.int64) + linkage.n_stored  # an individual of one's own
    at, whose = linkage.likeliest()
    lone = linkage.rest / max(linkage.n_rest, 1)  # one unoccupied individual's share
    sure = at >= 0
    sure[sure] = linkage.phi[at[sure]] >= lone[sure]
    label[sure] = whose[sure]
    return relabel(label[constraints.leads(n)])


@dataclass(frozen=True)
class Limits:
    """When the sweeps stop, as in `cavi.fit`, and how many threads run; the sweeps of all rounds count together."""

    max_sweeps: int
    tol: float
    threads: int
    checkpoints: Checkpoints = NO_CHECKPOINTS


def optimise(
    records: Records,
    prior: Prior,
    model: BlockModel,
    n_individuals: int,
    log_new: float,
    graph: Graph,
    pairs: tuple[IntArray, IntArray],
    start: Linkage | None,
    limits: Limits,
    on_step: Callable[[Step], None],
    merged: Partition | None = None,
) -> Optimum:
    """Raise the bound until neither moves nor sweeps do.

    Parameters
    ----------
    records, prior, model, n_individuals
        The data, A of the sweeps, the weights of the moves, and K.
    log_new
        Log weight of one more individual, used to judge moves; the bound itself is always computed exactly.
    graph
        Candidate components; moves follow its edges.
    pairs
        All candidates (a, b), along which individuals are merged further if K is fewer than the moves leave.
    start
        φ to sweep from before the first moves; None starts from greedy merges.
    limits
        Of the sweeps. Once the time is up no further round begins, and sweeps end unconverged.
    on_step
        Called after every step.
    merged
        The greedy merges, if they are known (`Partition.merge` by the same weights along the same edges, from every
        record or unit alone), to begin with.

    Raises
    ------
    TooFewIndividualsError
        The constraints leave no way that was found to place all records in K individuals.
    """
    loop = _Loop(records, prior, model, n_individuals, log_new, limits, on_step)
    constraints = model.constraints
    label = constraints.leads(records.n_records)
    fitted: Fit | None = None
    if constraints.any:
        if start is not None:
            label = first_alike(keep_apart(constraints, argmax_labels(start, constraints)))
            graph = _with_blocks(graph, label)
        loop.begin(label)
    elif start is not None:
        fitted = loop.kept("first sweeps", lambda: loop.first_sweeps(start))
        if not fitted.converged:
            return Optimum(fitted, loop.bound, False)
        label = first_alike(argmax_labels(fitted.linkage))
        graph = _with_blocks(graph, label)
    begun = loop.bound
    label = loop.kept("moves", lambda: loop.moves(graph, label, greedy=start is None, merged=merged))
    if n_distinct(label) > n_individuals:
        label = _force(model, pairs, relabel(label), n_individuals)
        if constraints.any:
            return Optimum(loop.settle(fit_in(constraints, label, n_individuals)), loop.bound, True)
        return Optimum(loop.sweep(_keep_largest(records, label, n_individuals)), loop.bound, True)
    # if no move was accepted the soft φ stays, which may be worth more than its own labels
    best = fitted if fitted is not None and loop.bound <= begun else loop.kept("sweeps", lambda: loop.settle(label))
    for _ in range(_MAX_ROUNDS):
        if not best.converged or limits.checkpoints.time_is_up():
            break
        before = loop.bound
        found = first_alike(argmax_labels(best.linkage, constraints))
        label = loop.kept("moves", lambda found=found: loop.moves(_with_blocks(graph, found), found, greedy=False))  # type: ignore[misc]
        if loop.bound <= before:
            break
        best = loop.kept("sweeps", lambda label=label: loop.settle(label))  # type: ignore[misc]
    return Optimum(best, loop.bound, False)


class _WithSteps(Checkpoints):
    """Checkpoints of sweeps whose steps are told later, and are a part of their state until then."""

    def __init__(self, checkpoints: Checkpoints, steps: list[Step]) -> None:
        self._checkpoints, self._steps = checkpoints, steps

    def begun(self, start: T) -> tuple[int, T]:
        """The state, and the steps that led to it."""
        steps: tuple[Step, ...] = ()
        done, (state, steps) = self._checkpoints.begun((start, steps))
        self._steps[:] = steps
        return done, state

    def round_done(self, number: int, state: object) -> None:
        """The same with the steps."""
        self._checkpoints.round_done(number, (state, tuple(self._steps)))

    def time_is_up(self) -> bool:
        """As the run says."""
        return self._checkpoints.time_is_up()


class _Loop:
    """The bound so far, and the steps that raise it."""

    def __init__(
        self,
        records: Records,
        prior: Prior,
        model: BlockModel,
        n_individuals: int,
        log_new: float,
        limits: Limits,
        on_step: Callable[[Step], None],
    ) -> None:
        self.records, self.prior, self.model = records, prior, model
        self.n_individuals, self.log_new, self.limits, self.on_step = n_individuals, log_new, limits, on_step
        self.placed = bound_records(model.constraints) if model.constraints.any else None
        self.weigh = PartitionBound(records, prior, model, n_individuals, self.placed, limits.threads)
        self.sweeps_done = 0
        self.settled: IntArray | None = None  # labels that no move changed, along the edges of the first graph at least
        self.bound = -np.inf
        self.beyond = 0.0  # what the full model adds to the symmetrised ELBO of the present partition

    def kept(self, name: str, work: Callable[[], T]) -> T:
        """A step of the run, with the bound it led to."""

        def make() -> tuple[T, tuple[int, float, float]]:
            return work(), (self.sweeps_done, self.bound, self.beyond)

        made, (self.sweeps_done, self.bound, self.beyond) = self.limits.checkpoints.step(name, make)
        return made

    def begin(self, label: IntArray) -> None:
        """Take the bound of a partition as the one to raise, if it has no more than K individuals."""
        if n_distinct(label) <= self.n_individuals:
            weighed = self.weigh.of(label)
            self.bound = weighed.bound
            self.beyond = weighed.bound - symmetrised(weighed.elbo, self.n_individuals, weighed.n)

    def sweep(self, start: Linkage, untold: list[Step] | None = None, family: Family | None = None) -> Fit:
        """CAVI sweeps to tolerance from a given φ; steps are told, or added to those `untold`."""
        checkpoints = self.limits.checkpoints
        on_step = self.on_step
        if untold is not None:
            checkpoints, on_step = _WithSteps(checkpoints, untold), untold.append
        n = min(start.n_stored, self.n_individuals)

        def on_sweep(sweep: Sweep) -> None:
            self.bound = symmetrised(sweep.elbo, self.n_individuals, n) + self.beyond
            on_step(Step("sweep", self.bound, sweep.elbo, sweep.max_change, n))

        fitted = cavi.fit(
            self.records,
            self.prior,
            start,
            max_sweeps=max(self.limits.max_sweeps - self.sweeps_done, 1),
            tol=self.limits.tol,
            threads=self.limits.threads,
            on_sweep=on_sweep,
            local_step=cavi.local if family is None else family.local,
            entropy_of=cavi.entropy if family is None else family.entropy,
            settle_between=family is None,
            checkpoints=checkpoints,
        )
        self.sweeps_done += fitted.n_sweeps
        return Fit(fitted.linkage, fitted.counts, fitted.elbo, self.sweeps_done, fitted.converged)

    def settle(self, label: IntArray) -> Fit:
        """Sweeps from the hard φ of a partition."""
        tidy = relabel(label)
        start = cavi.hard_linkage(self.records, tidy, self.n_individuals, self.placed)
        if self.placed is None:
            return self.sweep(start)
        return self.sweep(start, family=Family(self.records, self.model.constraints, tidy))

    def first_sweeps(self, start: Linkage) -> Fit:
        """Sweeps from a given φ, whose bounds are told once it is known what the full model adds to them.

        n is that of the labels they end in: individuals that share a record would be counted as many times over.
        """
        steps: list[Step] = []
        fitted = self.sweep(start, steps)
        label = argmax_labels(fitted.linkage)
        n = int(label.max(initial=0)) + 1
        if n <= self.n_individuals:
            weighed = self.weigh.of(label)
            self.beyond = weighed.bound - symmetrised(weighed.elbo, self.n_individuals, n)
            steps = [replace(step, bound=symmetrised(step.elbo, self.n_individuals, n), n=n) for step in steps]
        for step in steps:
            self.bound = step.bound + self.beyond
            self.on_step(replace(step, bound=self.bound))
        return fitted

    def moves(self, graph: Graph, label: IntArray, *, greedy: bool, merged: Partition | None = None) -> IntArray:
        """Moves until none is accepted; returns the labels of the best partition found.

        Moves are judged with a common weight of a new individual, which is exact to the last link or two. A pass that
        would lower the bound all the same is undone and ends the moves.
        """
        partition = merged
        if partition is None or not greedy:
            partition = Partition(
                self.model, self.log_new, graph, label.copy(), self.limits.threads, settled=self.settled
            )
        steps = {"merge": partition.merge, "reassign": partition.reassign, "split": partition.split}
        kinds = ["merge", "reassign", "split"] if greedy else ["reassign", "split", "merge"]
        best = label
        for _ in range(_MAX_ROUNDS):
            made = 0
            for kind in kinds:
                count = steps[kind]()
                if kind == "merge" and partition is merged:
                    count, merged = count + n_distinct(label) - partition.n_blocks, None
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
                self.settled = best
                break
        return best

    def _accept(self, kind: str, label: IntArray, count: int) -> bool:
        weighed = self.weigh.of(label)
        if weighed.bound <= self.bound:
            return False
        self.bound = weighed.bound
        self.beyond = weighed.bound - symmetrised(weighed.elbo, self.n_individuals, weighed.n)
        self.on_step(Step(kind, weighed.bound, weighed.elbo, float(count), weighed.n))
        return True


def _with_blocks(graph: Graph, label: IntArray) -> Graph:
    """The graph with an edge from each record to the first of its block, so that no block spans two components."""
    first = first_alike(label)
    other = np.flatnonzero(first != np.arange(len(label))).astype(np.int32)
    a = np.concatenate([graph.pair_a, first[other]])
    b = np.concatenate([graph.pair_b, other])
    key = distinct((np.minimum(a, b).astype(np.int64) << 32) | np.maximum(a, b))
    return build_graph((key >> 32).astype(np.int32), (key & 0xFFFFFFFF).astype(np.int32), len(label))


def _force(model: BlockModel, pairs: tuple[IntArray, IntArray], label: IntArray, n_individuals: int) -> IntArray:
    """Merge on against the evidence, the best candidate pairs first, until K individuals (or no candidates) are left.

    In each round the block pairs with the most evidence are merged, each block at most once, and only where they may be
    one individual.
    """
    a, b = pairs
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
    order = np.argsort(doubt - link, kind="stable")
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
            if i in used or j in used or not may_join(model.constraints, label, i, j):
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
