"""Databases drawn from the model of model.md section 1, with A_f = α_f θ_f, and the truth about them.

The individuals' field distributions β_kf are never drawn. Integrated out, the values of one individual in one field
follow a Pólya urn: the first is from θ_f; the one after j others is from θ_f with probability α_f / (α_f + j), else a
copy of one of the j, each as likely. So memory is a multiple of N F, whatever K and V are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """

    records: Records
    z: LongArray
    prior: Prior
    n_individuals: int

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
    seed
        The same seed gives the same records.
    """
    n_fields = len(prior.concentration)
    of_z, *of_field = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n_fields + 1))
    z = of_z.integers(n_individuals, size=n_records, dtype=np.int64)
    order = np.argsort(z, kind="stable")
    rates = np.broadcast_to(np.asarray(missing, dtype=np.float64), (n_fields,))
    codes = np.full((n_records, n_fields), MISSING, dtype=np.int32)
    for f, rng in enumerate(of_field):
        shown = order[rng.random(n_records) >= rates[f]]
        base = prior.base[prior.value_ptr[f] : prior.value_ptr[f + 1]]
        codes[shown, f] = urn(z[shown], base, float(prior.concentration[f]), rng)
    return Simulation(
        records=Records(
            codes=codes,
            db_of_record=(np.arange(n_records, dtype=np.int64) * n_databases // max(n_records, 1)).astype(np.int32),
            n_values=np.diff(prior.value_ptr),
        ),
        z=z,
        prior=prior,
        n_individuals=n_individuals,
    )


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
    m = len(group)
    here = np.arange(m, dtype=np.int64)
    first = np.searchsorted(group, group, side="left").astype(np.int64)
    earlier = here - first
    u = rng.random(m) * (concentration + earlier) - concentration
    fresh = (u < 0.0) | (earlier == 0)
    source = np.where(fresh, here, first + np.minimum(u.astype(np.int64), earlier - 1))
    while True:  # to the source's source: the length of every chain halves
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    value = np.zeros(m, dtype=np.int64)
    cumulative = np.cumsum(base)
    draws = np.searchsorted(cumulative, rng.random(int(fresh.sum())) * cumulative[-1], side="right")
    value[fresh] = np.minimum(draws, len(base) - 1)
    return np.asarray(value[source])
