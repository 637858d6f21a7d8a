"""The variational family under constraints (model.md section 9).

Records of one unit share one variable, so their φ is one row. Units that cannot be together must have no individual in
common: each may lean on the individuals in its *support* only, and of the units that compete for an individual those
keep it whose records sit there, or else lean on it most. Both make the family smaller and leave the updates what they
were: λ from φ, and φ_u ∝ exp Σ_{r in u} score(r, k) over the support; so the bound still never falls. Units without any
constraint are updated as in `cavi`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vber_cli.arrays import lex_order
from vber_cli.engine import cavi
from vber_cli.engine import cavi_kernels as kernels
from vber_cli.engine.cavi import FieldCounts, Linkage
from vber_cli.engine.family_kernels import support_kernel, unit_scores_kernel
from vber_cli.model.constraints import Constraints
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records


def rivals(constraints: Constraints) -> np.ndarray:
    """(N,) bool: records that some other record cannot be with."""
    n, lead = len(constraints.lead), constraints.lead
    size = np.bincount(constraints.database, minlength=len(constraints.sole))
    by_database = constraints.sole[constraints.database] & (size[constraints.database] > 1)
    if constraints.within_only and np.count_nonzero(size) > 1:
        by_database = np.ones(n, dtype=bool)
    unit = (np.diff(constraints.cannot_ptr) > 0) | (np.bincount(lead, weights=by_database, minlength=n) > 0)
    return np.asarray(unit[lead])


def bound_records(constraints: Constraints) -> np.ndarray:
    """(N,) bool: records whose φ is restricted, since they must be, or cannot be, with another."""
    return np.asarray(constraints.grouped | rivals(constraints))


class Family:
    """Updates and entropy of φ under constraints, from a partition that keeps to them on.

    Parameters
    ----------
    records, constraints
        The data, and what is decided (something is).
    label
        (N,) int32 labels 0..n−1 of the partition that the sweeps start from.
    """

    def __init__(self, records: Records, constraints: Constraints, label: IntArray) -> None:
        self._constraints, self._label = constraints, label
        self._bound = bound_records(constraints)
        self._free = np.flatnonzero(~self._bound)
        self._free_records = Records(
            np.ascontiguousarray(records.codes[self._free]), records.db_of_record[self._free], records.n_values
        )
        self._leads = np.unique(constraints.lead[self._bound]).astype(np.int32)
        self._closed = rivals(constraints)[self._leads]
        self._unit = np.zeros(records.n_records, dtype=np.int64)
        self._unit[self._leads] = np.arange(len(self._leads))
        self._support: tuple[LongArray, IntArray] | None = None

    def local(
        self,
        records: Records,
        prior: Prior,
        counts: FieldCounts,
        n_individuals: int,
        threads: int = 1,
        before: Linkage | None = None,
    ) -> Linkage:
        """The local step: as `cavi.local` for unconstrained records, over the supports for units."""
        if self._support is None:
            self._support = self._find_support(cavi.local(records, prior, counts, n_individuals, threads))
        likely = None if before is None else before.part(self._free)
        free = cavi.local(self._free_records, prior, counts, n_individuals, threads, likely)
        rows = self._unit_rows(self._support, records, prior, counts, n_individuals)
        return self._joined(free, *rows, records.n_records)

    def entropy(self, linkage: Linkage) -> float:
        """H(φ) in nats, each unit's counted once."""
        once = np.ones(len(self._label), dtype=bool)
        once[self._bound] = False
        once[self._leads] = True
        rows = np.repeat(once, np.diff(linkage.ptr))
        return cavi.entropy(
            replace(linkage, phi=np.where(rows, linkage.phi, 1.0), rest=np.where(once, linkage.rest, 0))
        )

    def _find_support(self, first: Linkage) -> tuple[LongArray, IntArray]:
        """CSR over units: its place in the partition, and where its records lean if nobody it cannot be with does."""
        row = np.repeat(np.arange(len(self._label)), np.diff(first.ptr))
        inside = self._bound[row]
        unit = self._unit[self._constraints.lead[row[inside]]]
        unit = np.concatenate([unit, np.arange(len(self._leads))])
        individual = np.concatenate([first.individual[inside], self._label[self._leads]])
        weight = np.concatenate([first.phi[inside], np.full(len(self._leads), np.inf)])
        # by individual; there, residents first, then the more probable
        order = np.lexsort((unit, -weight, individual))
        key = (unit[order] << 32) | individual[order]
        _, at = np.unique(key, return_index=True)
        order = order[np.sort(at)]
        unit, individual = unit[order], individual[order].astype(np.int32)
        kept = support_kernel(self._leads[unit], individual, self._constraints)
        unit, individual = unit[kept], individual[kept]
        order = lex_order(individual, unit)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(unit, minlength=len(self._leads)))]).astype(np.int64)
        return ptr, individual[order]

    def _unit_rows(
        self,
        support: tuple[LongArray, IntArray],
        records: Records,
        prior: Prior,
        counts: FieldCounts,
        n_individuals: int,
    ) -> tuple[LongArray, IntArray, FloatArray, FloatArray]:
        """CSR over units of φ, and the φ of the rest; units that cannot be with others have none there."""
        ptr, individual = support
        alpha, n_rest = prior.alpha, n_individuals - counts.n_stored
        psi_cell, psi_total, _ = cavi.expectations(prior, counts, 1)
        score, rest = unit_scores_kernel(
            self._leads, ptr, individual, self._constraints.mate_ptr, self._constraints.mate, records.codes,
            prior.value_ptr, counts.cell_ptr, counts.cell_value, psi_cell, psi_total, kernels.digamma_kernel(alpha),
            kernels.digamma_kernel(alpha + counts.rest_count),
            kernels.digamma_kernel(prior.concentration + counts.rest_observed),
        )  # fmt: skip
        rest = np.where(self._closed | (n_rest <= 0), -np.inf, rest + np.log(max(n_rest, 1)))
        unit = np.repeat(np.arange(len(self._leads)), np.diff(ptr))
        top = np.maximum(np.maximum.reduceat(score, ptr[:-1]), rest) if len(score) else rest
        phi, rest = np.exp(score - top[unit]), np.exp(rest - top)
        total = np.bincount(unit, weights=phi, minlength=len(self._leads)) + rest
        kept = score >= top[unit] - kernels.NEGLIGIBLE
        size = np.bincount(unit[kept], minlength=len(self._leads))
        ptr = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        return ptr, individual[kept], (phi / total[unit])[kept], rest / total

    def _joined(
        self,
        free: Linkage,
        ptr: LongArray,
        individual: IntArray,
        phi: FloatArray,
        rest: FloatArray,
        n_records: int,
    ) -> Linkage:
        """φ of all records, each unit's row given to all its records."""
        held = np.flatnonzero(self._bound)
        unit = self._unit[self._constraints.lead[held]]
        size = np.zeros(n_records, dtype=np.int64)
        size[self._free], size[held] = np.diff(free.ptr), np.diff(ptr)[unit]
        out_ptr = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        out_individual, out_phi = np.empty(out_ptr[-1], np.int32), np.empty(out_ptr[-1])
        for rows, source_ptr, source, value in (
            (self._free, free.ptr[:-1], free.individual, free.phi),
            (held, ptr[unit], individual, phi),
        ):
            count = size[rows]
            step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            to, of = np.repeat(out_ptr[rows], count) + step, np.repeat(source_ptr, count) + step
            out_individual[to], out_phi[to] = source[of], value[of]
        out_rest, blank = np.empty(n_records), np.zeros(n_records, dtype=bool)
        out_rest[self._free], out_rest[held] = free.rest, rest[unit]
        blank[self._free] = free.blank
        return Linkage(out_ptr, out_individual, out_phi, out_rest, blank, free.n_individuals, free.n_stored)
