"""Mean-field coordinate ascent for the paper's model, sparse and exact (model.md section 1).

One sweep is `local` (φ from λ), `accumulate` (λ from φ) and `elbo` (the bound, right after the λ step).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vber_cli.engine import cavi_kernels as kernels
from vber_cli.engine import global_kernels
from vber_cli.engine.checkpoints import NO_CHECKPOINTS, Checkpoints
from vber_cli.engine.settle_kernels import settle_kernel
from vber_cli.model.prior import Prior, value_counts
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.parallel import in_threads, map_ranges, ranges

_MANY_STORED = 20_000  # individuals from which on they are looked up by two values
_VOTES, _PAIRS_LOOKED_UP = 5_000, 5
_RECORDS_PER_PART = _INDIVIDUALS_PER_PART = 16384
_MAX_PASSES = 1_000  # over the records that still move, between two sweeps over all
_CLOSER = 0.1  # of the tolerance, to which these are brought


@dataclass(frozen=True)
class Linkage:
    """φ: which individual each record describes.

    Individuals that some record leans on are *stored*, numbered 0..n_stored-1; the other K − n_stored are alike (their
    λ is the same by symmetry) and share the mass `rest`. A record without any observed value is spread evenly over all
    K individuals; nothing is stored for it.

    Attributes
    ----------
    ptr, individual, phi
        CSR over records: (N + 1,) int64, (E,) int32 ascending within a row, (E,) float64.
    rest
        (N,) float64, Σ of φ over the individuals that are not stored.
    blank
        (N,) bool, records without any observed value.
    n_individuals, n_stored
        K and the number of stored individuals.
    """

    ptr: LongArray
    individual: IntArray
    phi: FloatArray
    rest: FloatArray
    blank: np.ndarray
    n_individuals: int
    n_stored: int

    @property
    def n_rest(self) -> int:
        """K − n_stored."""
        return self.n_individuals - self.n_stored

    def likeliest(self) -> tuple[LongArray, IntArray]:
        """(N,) the place of each record's largest φ, and whose it is, the first of several; −1 where there is none."""
        at = kernels.largest_kernel(self.ptr, self.phi)
        whose = np.full(len(at), -1, dtype=np.int32)
        whose[at >= 0] = self.individual[at[at >= 0]]
        return at, whose

    def part(self, rows: LongArray) -> Linkage:
        """φ of some records, ascending."""
        chosen = np.zeros(len(self.blank), dtype=bool)
        chosen[rows] = True
        entries = np.repeat(chosen, np.diff(self.ptr))
        ptr = np.concatenate([[0], np.cumsum(np.diff(self.ptr)[rows])]).astype(np.int64)
        return replace(
            self, ptr=ptr, individual=self.individual[entries], phi=self.phi[entries], rest=self.rest[rows],
            blank=self.blank[rows],
        )  # fmt: skip


@dataclass(frozen=True)
class FieldCounts:
    """c = λ − A, where it is positive (model.md section 1).

    Attributes
    ----------
    cell_ptr, cell_value, cell_count
        CSR over (individual, field) pairs: (n_stored · F + 1,) int64; (C,) int32 values numbered through all fields,
        ascending within a pair; (C,) float64.
    n_observed
        (n_stored, F) float64, N_kf.
    rest_count, rest_observed
        (ΣV_f,) and (F,) float64: c and N of one individual of the rest.
    """

    cell_ptr: LongArray
    cell_value: IntArray
    cell_count: FloatArray
    n_observed: FloatArray
    rest_count: FloatArray
    rest_observed: FloatArray

    @property
    def n_stored(self) -> int:
        """Individuals that some record leans on."""
        return int(self.n_observed.shape[0])


@dataclass(frozen=True)
class Sweep:
    """What one sweep did: the ELBO after it and the largest change of any φ (nan in the first)."""

    number: int
    elbo: float
    max_change: float


@dataclass(frozen=True)
class Fit:
    """A fixed point, or where the sweeps ended."""

    linkage: Linkage
    counts: FieldCounts
    elbo: float
    n_sweeps: int
    converged: bool


def blank_records(records: Records) -> np.ndarray:
    """(N,) bool: records without any observed value."""
    return np.asarray((records.codes < 0).all(axis=1))


def hard_linkage(
    records: Records, individual_of_record: IntArray, n_individuals: int, placed: np.ndarray | None = None
) -> Linkage:
    """φ = 1 for the individual given; `individual_of_record` (N,) int32 must use 0..n−1 without gaps.

    Of records without any value only those that are `placed` (N,) bool stay where they are put.
    """
    blank = blank_records(records)
    if placed is not None:
        blank &= ~placed
    n_stored = int(individual_of_record.max()) + 1 if len(individual_of_record) else 0
    ptr = np.concatenate([[0], np.cumsum(~blank)]).astype(np.int64)
    individual = np.ascontiguousarray(individual_of_record[~blank], dtype=np.int32)
    rest = np.where(blank, (n_individuals - n_stored) / n_individuals, 0.0)
    return Linkage(ptr, individual, np.ones(len(individual)), rest, blank, n_individuals, n_stored)


def accumulate(records: Records, prior: Prior, linkage: Linkage, threads: int = 1) -> FieldCounts:
    """The global step: c_kfv = Σ_dr φ_drk 1{x_drf = v}."""
    ptr, record, weight = global_kernels.transpose_kernel(
        linkage.ptr, linkage.individual, linkage.phi, linkage.n_stored
    )
    parts = map_ranges(
        lambda lo, hi: global_kernels.cells_kernel(lo, hi, records.codes, prior.value_ptr, ptr, record, weight),
        ranges(linkage.n_stored, _INDIVIDUALS_PER_PART),
        threads,
    )
    n_fields = records.n_fields
    sizes = _concatenate([part[0] for part in parts], np.int64)
    cell_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cell_value = _concatenate([part[1] for part in parts], np.int32)
    cell_count = _concatenate([part[2] for part in parts], np.float64)
    n_observed = _concatenate([part[3] for part in parts], np.float64).reshape(linkage.n_stored, n_fields)
    return FieldCounts(cell_ptr, cell_value, cell_count, n_observed, *_of_rest(records, prior, linkage))


def _of_rest(records: Records, prior: Prior, linkage: Linkage) -> tuple[FloatArray, FloatArray]:
    """c and N of one individual of the rest, (ΣV_f,) and (F,)."""
    n_fields = records.n_fields
    if linkage.n_rest == 0:
        return np.zeros(int(prior.value_ptr[-1])), np.zeros(n_fields)
    share = np.where(linkage.blank, 0.0, linkage.rest) / linkage.n_rest
    count = value_counts(records, prior.value_ptr, share)
    observed = np.add.reduceat(np.append(count, 0.0), prior.value_ptr[:-1]) if n_fields else np.zeros(0)
    return count, np.where(np.diff(prior.value_ptr) > 0, observed, 0.0)


def expectations(prior: Prior, counts: FieldCounts, threads: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ψ(A_fv + c_kfv) of every cell, ψ(A_f• + N_kf) of every (individual, field), and the least of these by field."""
    psi_cell, psi_total = np.empty(len(counts.cell_value)), np.empty(counts.n_observed.shape)
    psi_once = kernels.digamma_kernel(prior.alpha + 1.0)
    least = map_ranges(
        lambda lo, hi: kernels.expectations_kernel(
            lo, hi, counts.cell_ptr, counts.cell_value, counts.cell_count, prior.alpha, prior.concentration,
            counts.n_observed, psi_once, psi_cell, psi_total,
        ),
        ranges(counts.n_stored, _INDIVIDUALS_PER_PART),
        threads,
    )  # fmt: skip
    nobody = np.zeros(len(prior.concentration))
    return psi_cell, psi_total, np.minimum.reduce(least) if least else nobody


def local(
    records: Records,
    prior: Prior,
    counts: FieldCounts,
    n_individuals: int,
    threads: int = 1,
    before: Linkage | None = None,
) -> Linkage:
    """The local step: φ_drk ∝ exp Σ_f [ψ(λ_kf,x) − ψ(Σ_u λ_kfu)].

    `before` is a φ over the same individuals, whose largest entries tell where to look first; it changes nothing else.
    """
    alpha, n_stored = prior.alpha, counts.n_stored
    psi_prior = kernels.digamma_kernel(alpha)
    psi_cell, psi_total, unshared_total = expectations(prior, counts, threads)
    post_ptr, post_individual, post_best = kernels.postings_kernel(
        counts.cell_ptr, counts.cell_value, psi_cell, psi_total, len(alpha)
    )
    psi_rest = kernels.digamma_kernel(alpha + counts.rest_count)
    psi_rest_total = kernels.digamma_kernel(prior.concentration + counts.rest_observed)
    n_rest = n_individuals - n_stored
    hint = np.full(records.n_records, -1, dtype=np.int32)
    if before is not None and before.n_stored == n_stored:
        _, hint = before.likeliest()
    pair_fields = _pairs_to_look_up(records, prior, post_ptr, n_stored)
    holders = _holders(counts, pair_fields, threads)
    parts = map_ranges(
        lambda lo, hi: kernels.local_kernel(
            lo, hi, records.codes, prior.value_ptr, counts.cell_ptr, counts.cell_value, psi_cell, psi_total, psi_prior,
            unshared_total, post_ptr, post_individual, post_best, psi_rest, psi_rest_total, n_rest, hint, pair_fields,
            holders,
        ),
        ranges(records.n_records, _RECORDS_PER_PART),
        threads,
    )  # fmt: skip
    ptr = np.concatenate([[0], np.cumsum(_concatenate([part[0] for part in parts], np.int64))]).astype(np.int64)
    blank = blank_records(records)
    rest = np.where(blank, n_rest / n_individuals, _concatenate([part[3] for part in parts], np.float64))
    return Linkage(
        ptr,
        _concatenate([part[1] for part in parts], np.int32),
        _concatenate([part[2] for part in parts], np.float64),
        rest,
        blank,
        n_individuals,
        n_stored,
    )


def _pairs_to_look_up(records: Records, prior: Prior, post_ptr: LongArray, n_stored: int) -> LongArray:
    """(P, 2) int64 pairs of fields whose values together find an individual, where single values find too many."""
    if n_stored < _MANY_STORED:
        return np.zeros((0, 2), dtype=np.int64)
    some = np.arange(0, records.n_records, max(records.n_records // _VOTES, 1))
    count = kernels.usual_pairs_kernel(some, records.codes, prior.value_ptr, post_ptr)
    usual = np.argsort(-count, axis=None, kind="stable")[:_PAIRS_LOOKED_UP]
    usual = usual[count.ravel()[usual] > 0]
    return np.stack(np.unravel_index(usual, count.shape), axis=1).astype(np.int64)


def _holders(counts: FieldCounts, pair_fields: LongArray, threads: int) -> tuple[np.ndarray, ...]:
    """Individuals by the values they hold of each pair of fields (P, 2), as `holders_kernel` says, heads (P, M)."""
    n_fields = counts.n_observed.shape[1]
    sizes = np.diff(counts.cell_ptr).reshape(-1, n_fields)
    begin = np.concatenate([[0], np.cumsum([sizes[:, f] @ sizes[:, g] for f, g in pair_fields], dtype=np.int64)])
    head = np.full((len(pair_fields), 1 << counts.n_stored.bit_length()), -1, np.int32)
    follow, individual = np.empty((2, begin[-1]), np.int32)

    def fill(p: int) -> None:
        f, g = pair_fields[p]
        kernels.holders_kernel(
            counts.cell_ptr, counts.cell_value, n_fields, f, g, head[p], follow, individual, begin[p]
        )

    in_threads(fill, range(len(pair_fields)), threads)
    return head, follow, individual


def entropy(linkage: Linkage) -> float:
    """H(φ) in nats."""
    phi = linkage.phi[linkage.phi > 0]
    rest = linkage.rest[(linkage.rest > 0) & ~linkage.blank]
    total = -float(np.sum(phi * np.log(phi)))
    if linkage.n_rest > 0:
        total -= float(np.sum(rest * (np.log(rest) - math.log(linkage.n_rest))))
    return total + float(linkage.blank.sum()) * math.log(linkage.n_individuals)


def log_partitions(prior: Prior, counts: FieldCounts, threads: int) -> FloatArray:
    """(n_stored,) Σ_f [log B(λ_kf) − log B(A_f)] of every individual that some record leans on."""
    own, once = np.zeros(counts.n_stored), global_kernels.rising_kernel(prior.alpha)
    map_ranges(
        lambda lo, hi: global_kernels.log_partition_kernel(
            lo, hi, counts.cell_ptr, counts.cell_value, counts.cell_count, prior.alpha, prior.concentration,
            counts.n_observed, once, own,
        ),
        ranges(counts.n_stored, _INDIVIDUALS_PER_PART),
        threads,
    )  # fmt: skip
    return own


def elbo(
    records: Records,
    prior: Prior,
    linkage: Linkage,
    counts: FieldCounts,
    entropy_of: Callable[[Linkage], float] = entropy,
    threads: int = 1,
) -> float:
    """The paper's bound right after a global step: −N log K + H(φ) + Σ_kf [log B(λ_kf) − log B(A_f)]."""
    own = log_partitions(prior, counts, threads)
    rest = 0.0
    if linkage.n_rest > 0:
        rest = linkage.n_rest * global_kernels.rest_log_partition_kernel(
            counts.rest_count, counts.rest_observed, prior.alpha, prior.concentration
        )
    return -records.n_records * math.log(linkage.n_individuals) + entropy_of(linkage) + float(np.sum(own)) + rest


def fit(
    records: Records,
    prior: Prior,
    start: Linkage,
    *,
    max_sweeps: int,
    tol: float,
    threads: int = 1,
    on_sweep: Callable[[Sweep], None] | None = None,
    local_step: Callable[[Records, Prior, FieldCounts, int, int, Linkage], Linkage] = local,
    entropy_of: Callable[[Linkage], float] = entropy,
    settle_between: bool = False,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Fit:
    """Sweep until no φ changes by more than `tol` in a sweep, or `max_sweeps` have been made, or the time is up.

    Parameters
    ----------
    records, prior
        The data and A.
    start
        The φ from which the first λ is computed.
    max_sweeps
        At least 1.
    tol
        The stop criterion: the largest change of any φ in the last sweep is at most this.
    threads
        Has no influence on the result.
    on_sweep
        Called after every sweep.
    local_step, entropy_of
        φ from λ, and H(φ), of the family of distributions; other than the defaults they come from `family`.
    settle_between
        Whether the records that still move are settled among themselves after every sweep (`settle`): a part of that
        sweep then, as far as the trace goes. Not for another family.
    checkpoints
        Told of every sweep, and asked for those of an earlier run.

    Returns
    -------
    Fit
        φ, λ − A and the ELBO after the last sweep; λ = A + Σφ1 holds exactly for them.
    """
    done, (linkage, value) = checkpoints.begun((start, -math.inf))
    counts = accumulate(records, prior, linkage, threads)
    for number in range(done + 1, max_sweeps + 1):
        previous = linkage
        linkage = local_step(records, prior, counts, start.n_individuals, threads, previous)
        del counts  # before the next are made: they are the largest there is
        counts = accumulate(records, prior, linkage, threads)
        change = largest_change(linkage, previous)
        if settle_between and change > tol:
            linkage, counts = settle(records, prior, linkage, previous, counts, _CLOSER * tol)
        value = elbo(records, prior, linkage, counts, entropy_of, threads)
        if on_sweep is not None:
            on_sweep(Sweep(number, value, change))
        if change <= tol:
            return Fit(linkage, counts, value, number, True)
        if checkpoints.time_is_up():
            return Fit(linkage, counts, value, number, False)
        if number < max_sweeps:
            checkpoints.round_done(number, (linkage, value))
    return Fit(linkage, counts, value, max_sweeps, False)


def settle(
    records: Records, prior: Prior, linkage: Linkage, previous: Linkage, counts: FieldCounts, least: float
) -> tuple[Linkage, FieldCounts]:
    """φ of the records that still move brought to rest, each with the λ it leans on; the bound rises with every one.

    Only those are looked at which lean on an individual that has moved since `previous`, and they keep to the
    individuals they lean on; whether they would lean on others, the next sweep says.

    Parameters
    ----------
    records, prior
        The data and A.
    linkage, previous, counts
        φ after a sweep and before it, and λ − A after it; the latter is written to.
    least
        No φ is changed that would change by less.

    Returns
    -------
    tuple
        φ, and λ − A as `accumulate` would find it.
    """
    moved = kernels.restless_kernel(
        linkage.ptr, linkage.individual, linkage.phi, previous.ptr, previous.individual, previous.phi,
        max(linkage.n_stored, previous.n_stored), least,
    )  # fmt: skip
    rows = np.flatnonzero(moved)
    phi, rest = linkage.phi.copy(), linkage.rest.copy()
    settle_kernel(
        rows, records.codes, prior.value_ptr, linkage.ptr, linkage.individual, phi, rest, counts.cell_ptr,
        counts.cell_value, counts.cell_count, counts.n_observed, prior.alpha, prior.concentration,
        kernels.digamma_kernel(prior.alpha + counts.rest_count),
        kernels.digamma_kernel(prior.concentration + counts.rest_observed), linkage.n_rest, least, _MAX_PASSES,
    )  # fmt: skip
    linkage = replace(linkage, phi=phi, rest=rest)
    global_kernels.recount_kernel(
        rows, records.codes, prior.value_ptr, linkage.ptr, linkage.individual, phi, counts.cell_ptr, counts.cell_value,
        counts.cell_count, counts.n_observed,
    )  # fmt: skip
    rest_count, rest_observed = _of_rest(records, prior, linkage)
    return linkage, replace(counts, rest_count=rest_count, rest_observed=rest_observed)


def largest_change(linkage: Linkage, previous: Linkage) -> float:
    """Largest |Δφ| over all (record, individual) entries, the rest included."""
    largest = kernels.change_kernel(
        linkage.ptr, linkage.individual, linkage.phi, previous.ptr, previous.individual, previous.phi
    )
    return max(float(largest), float(np.max(np.abs(linkage.rest - previous.rest), initial=0.0)))


def _concatenate(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
