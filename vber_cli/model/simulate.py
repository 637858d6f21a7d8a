"""Databases drawn from the model of model.md section 1, with A_f = α_f θ_f, and the truth about them.

The individuals' field distributions β_kf are never drawn. Integrated out, the values of one individual in one field
follow a Pólya urn: the first is from θ_f; the one after j others is from θ_f with probability α_f / (α_f + j), else a
copy of one of the j, each as likely. So memory is a multiple of N F, whatever K and V are.

Two things can be added that real records have and the paper's model has not. A field may depend on another one
(model.md section 6): its fresh values are from θ_f(v | u), drawn by an urn for each value u of the parent, and whoever
has a fresh value in the parent has one here, too: one event, several mismatches. And a value may have a typing error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vber_cli.model.dependence import Dependence
from vber_cli.model.prior import Prior
from vber_cli.model.types import MISSING, FloatArray, LongArray, Records


@dataclass(frozen=True)
class Simulation:
    """Simulated records and what they were drawn from.

    Attributes
    ----------
    records
        The records, the databases as equal in size as they can be.
    z
        (N,) int64 in 0..K - 1, the individual of each record.
    prior
        The true α and θ.
    n_individuals
        K, the size of the population.
    misspelt
        (N, F) bool, values that are written with a typing error.
    """

    records: Records
    z: LongArray
    prior: Prior
    n_individuals: int
    misspelt: NDArray[np.bool_]

    @property
    def n_occupied(self) -> int:
        """n, the individuals that have a record."""
        return len(np.unique(self.z))

    @property
    def n_pairs(self) -> int:
        """Pairs of records of one individual."""
        sizes = np.unique(self.z, return_counts=True)[1].astype(np.int64)
        return int((sizes * (sizes - 1) // 2).sum())


def zipf_base(n_values: int, exponent: float) -> FloatArray:
    """θ(v) ∝ (v + 1)^−exponent, (V,) float64; exponent 0 is uniform."""
    log_weight = -exponent * np.log(np.arange(1, n_values + 1, dtype=np.float64))
    weight = np.exp(np.maximum(log_weight, -700.0))  # θ must stay positive
    return np.asarray(weight / weight.sum())


def simulate(
    prior: Prior,
    n_records: int,
    n_databases: int,
    n_individuals: int,
    *,
    missing: float | FloatArray = 0.0,
    misspelt: float = 0.0,
    dependence: Dependence | None = None,
    seed: int = 0,
) -> Simulation:
    """Draw databases from the model.

    Each field draws from a random stream of its own, so that one more field leaves the others as they are.

    Parameters
    ----------
    prior
        α_f > 0 and θ_f.
    n_records
        N, over all databases.
    n_databases
        D, at most N.
    n_individuals
        K; each record describes one of them, uniformly.
    missing
        Probability that a value is missing, completely at random; one number or (F,).
    misspelt
        Probability that a value that is there has a typing error.
    dependence
        The fields' parents, without a circle, and κ. The concentration of a field with a parent says how often it is
        wrong by itself.
    seed
        The same seed gives the same records.
    """
    n_fields = len(prior.concentration)
    of_z, *of_field = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n_fields + 1))
    z = of_z.integers(n_individuals, size=n_records, dtype=np.int64)
    order = np.argsort(z, kind="stable")
    tree = Dependence.none(n_fields) if dependence is None else dependence
    in_tree = tree.parent >= 0
    in_tree[tree.parent[in_tree]] = True
    rates = np.broadcast_to(np.asarray(missing, dtype=np.float64), (n_fields,))
    codes = np.full((n_records, n_fields), MISSING, dtype=np.int32)
    wrong = np.zeros((n_records, n_fields), dtype=bool)
    whole: dict[int, _Column] = {}
    for f in parents_first(tree.parent):
        rng, alpha = of_field[f], float(prior.concentration[f])
        base = prior.base[prior.value_ptr[f] : prior.value_ptr[f + 1]]
        there = rng.random(n_records) >= rates[f]
        shown = order[there]
        if in_tree[f]:  # what a record copies is the same in parent and child, so also for those that show it in one
            above = whole.get(int(tree.parent[f]))
            whole[f] = _column(z[order], base, alpha, rng, above, float(tree.strength[f]))
            codes[shown, f] = whole[f].value[there]
        else:
            codes[shown, f] = urn(z[shown], base, alpha, rng)
        if misspelt > 0.0:
            wrong[shown, f] = rng.random(len(shown)) < misspelt
    return Simulation(
        records=Records(
            codes=codes,
            db_of_record=(np.arange(n_records, dtype=np.int64) * n_databases // max(n_records, 1)).astype(np.int32),
            n_values=np.diff(prior.value_ptr),
        ),
        z=z,
        prior=prior,
        n_individuals=n_individuals,
        misspelt=wrong,
    )


def parents_first(parent: LongArray) -> list[int]:
    """The fields, each after its parent.

    Raises
    ------
    ValueError
        If they depend on each other in a circle.
    """
    done: list[int] = []
    while len(done) < len(parent):
        ready = [f for f in range(len(parent)) if f not in done and (parent[f] < 0 or parent[f] in done)]
        if not ready:
            raise ValueError("fields depend on each other in a circle")
        done += ready
    return done


@dataclass(frozen=True)
class _Column:
    """A field's values, (m,) int64, and which record each is copied from, itself if from none."""

    value: LongArray
    source: LongArray


def _column(
    group: LongArray, base: FloatArray, alpha: float, rng: np.random.Generator, above: _Column | None, kappa: float
) -> _Column:
    """Draw a field of all records, in its parent's wake if it has one."""
    source = _sources(group, alpha, rng)
    here = np.arange(len(group), dtype=np.int64)
    if above is None:
        return _Column(_values(source, base, rng), source)
    source = np.where(source == here, here, above.source)
    fresh = np.flatnonzero(source == here)
    fresh = fresh[np.argsort(above.value[fresh], kind="stable")]
    value = np.zeros(len(group), dtype=np.int64)
    value[fresh] = urn(above.value[fresh], base, kappa, rng)
    return _Column(np.asarray(value[_origins(source)]), source)


def urn(group: LongArray, base: FloatArray, concentration: float, rng: np.random.Generator) -> LongArray:
    """Draw one value for each member of each group from the group's own Pólya urn.

    Parameters
    ----------
    group
        (m,) int64, non-decreasing: a group's members are neighbours.
    base
        (V,) float64, θ.
    concentration
        α > 0.
    rng
        Where the draws come from.

    Returns
    -------
    LongArray
        (m,) int64 in 0..V - 1.
    """
    return _values(_sources(group, concentration, rng), base, rng)


def _sources(group: LongArray, concentration: float, rng: np.random.Generator) -> LongArray:
    """Which earlier member of its group each copies; itself if it draws afresh."""
    m = len(group)
    here = np.arange(m, dtype=np.int64)
    first = np.searchsorted(group, group, side="left").astype(np.int64)
    earlier = here - first
    u = rng.random(m) * (concentration + earlier) - concentration
    fresh = (u < 0.0) | (earlier == 0)
    return np.where(fresh, here, first + np.minimum(u.astype(np.int64), earlier - 1))


def _origins(source: LongArray) -> LongArray:
    """Where the chains of copies begin."""
    while True:  # to the source's source: the length of every chain halves
        further = source[source]
        if np.array_equal(further, source):
            return source
        source = further


def _values(source: LongArray, base: FloatArray, rng: np.random.Generator) -> LongArray:
    """Draw a value from θ where a chain begins, and copy it along the chain."""
    fresh = source == np.arange(len(source))
    value = np.zeros(len(source), dtype=np.int64)
    cumulative = np.cumsum(base)
    draws = np.searchsorted(cumulative, rng.random(int(fresh.sum())) * cumulative[-1], side="right")
    value[fresh] = np.minimum(draws, len(base) - 1)
    return np.asarray(value[_origins(source)])
