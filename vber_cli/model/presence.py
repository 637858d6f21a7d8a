"""How often one individual is recorded in one database (model.md section 3).

In the paper's model every record describes any of the K individuals alike, within a database as well as across. Real
databases are mostly cleaned of their own duplicates, or have many. Here an individual is in database d with some
probability, and if it is, it has a number of records there that follows a zero-truncated Poisson distribution with
rate u_d. With N_d records of n_d individuals, u_d solves N_d / n_d = u / (1 − e^−u), whatever K is; and every further
record of an individual in the same database changes the weight of a block by the factor

    e^τ_d = (e^u_d − 1) (K − n_d) / n_d

which is 1 where the paper's model holds. It is used where the paper's model is clearly wrong about n_d: where it gives
the n_d seen less probability than a guess between 1 and N_d would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.model.presence_kernels import alone_kernel
from vber_cli.model.root import bisect
from vber_cli.model.types import FloatArray, IntArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_HALF = 0.5  # of a further record, that a database is thought to have beside those seen


@dataclass(frozen=True)
class Presence:
    """Individuals n_d (D,) recorded in each database, and the log factor τ_d (D,) of a further record there."""

    individuals: FloatArray
    tilt: FloatArray


def present_individuals(
    database: IntArray, n_databases: int, a: IntArray, b: IntArray, probability: FloatArray
) -> FloatArray:
    """(D,) expected number of individuals in each database.

    A record with X partners in its database counts 1 / (1 + X); its partners are taken to be independent, which is
    exact where at most one of them is uncertain.

    Parameters
    ----------
    database
        (N,) database of each record.
    n_databases
        D.
    a, b, probability
        (P,) candidate pairs and their link probabilities.
    """
    # E[1 / (1 + X)] = ∫ Π (1 − p + p t) dt over 0..1
    found: FloatArray = alone_kernel(database, n_databases, a, b, probability, (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0)
    return found


def learn_presence(sizes: FloatArray, individuals: FloatArray, n_individuals: float) -> Presence | None:
    """Return what the databases show about their own duplicates, or None where the paper's model fits them.

    Parameters
    ----------
    sizes, individuals
        (D,) records and expected individuals of each database.
    n_individuals
        K under the paper's model.

    Notes
    -----
    One database alone cannot tell duplication from a small population: there None is returned.
    """
    held = sizes > 0
    if held.sum() < 2:
        return None
    n_d = np.clip(individuals, 1e-9, sizes)
    load = sizes[held] / n_individuals
    mean = n_individuals * -np.expm1(-load)
    variance = n_individuals * (np.exp(-load) - (1.0 + load) * np.exp(-2.0 * load)) + 1.0
    log_p = -0.5 * ((n_d[held] - mean) ** 2 / variance + np.log(2.0 * np.pi * variance))
    if float(np.sum(-np.log(sizes[held]) - log_p)) <= 0.0:
        return None
    tilt = np.zeros(len(sizes))
    for d in np.flatnonzero(held):
        rate = _truncated_rate((sizes[d] + _HALF) / n_d[d])
        absent = max(n_individuals - n_d[d], _HALF)
        tilt[d] = np.log(np.expm1(rate)) + np.log(absent / n_d[d])
    return Presence(n_d, tilt)


def _truncated_rate(mean: float) -> float:
    """Rate u of the zero-truncated Poisson distribution with this mean > 1."""
    return float(bisect(lambda u: u / -np.expm1(-u) - mean, 1e-12, 2.0 * mean + 1.0))


def relative_rates(database: IntArray, a: IntArray, b: IntArray, probability: FloatArray) -> tuple[FloatArray, float]:
    """Log rate of links among pairs within each database (D,), and across, beside that among all pairs."""
    sizes = np.bincount(database).astype(np.float64)
    same = database[a] == database[b]
    within = np.bincount(database[a[same]], weights=probability[same], minlength=len(sizes)) + _HALF
    across = float(probability[~same].sum()) + _HALF
    n = float(sizes.sum())
    n_within = np.maximum(sizes * (sizes - 1.0) / 2.0, 1.0)
    n_across = max(n * (n - 1.0) / 2.0 - float(n_within.sum()), 1.0)
    overall = (float(within.sum()) + across) / (n * (n - 1.0) / 2.0)
    return np.log(within / n_within / overall), float(np.log(across / n_across / overall))
