"""The certificate: a sample of records against all others, to see what candidates miss (model.md section 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from vber_cli.candidates.join import Pairs, Scorer, collect
from vber_cli.candidates.join_kernels import audit_kernel
from vber_cli.model.missed import MissedLinks
from vber_cli.model.types import FloatArray, IntArray

_WORK = 3e7  # comparisons
_PARTS = 32
_MOST = 600.0
_FLOOR = -14.0  # nats below which a pair's share of the link mass is not worth counting
_LEAST_UNCOVERED = 1e-3  # share of the links that every plan is taken to miss: candidates are cut at a score, too
_FAINT, _ONE_IN = -9.0, 16  # nats below which there are many pairs, and how many one of them stands for


@dataclass(frozen=True)
class Certificate:
    """Share of the posterior link mass that the candidates hold, estimated on a sample.

    Attributes
    ----------
    recall, low, high
        The estimate and its 90 % interval.
    n_sampled
        Records compared with all others.
    missed
        What they say of the number of links among all records that are no candidates.
    """

    recall: float
    low: float
    high: float
    n_sampled: int
    missed: MissedLinks


def _mass(n: int, pairs: Pairs, log_odds: FloatArray) -> FloatArray:
    """(N,) sum of the odds of each record's candidate pairs."""
    odds = np.exp(np.clip(log_odds, -700.0, _MOST))
    return np.asarray(np.bincount(pairs.a, odds, minlength=n) + np.bincount(pairs.b, odds, minlength=n))


def audit(
    pairs: Pairs,
    evidence: FloatArray,
    scorer: Scorer,
    log_new: float,
    scan_from: float,
    evidence_of: Callable[[IntArray, IntArray], FloatArray],
    uncovered: float,
    seed: int,
    threads: int,
) -> Certificate:
    """Compare a seeded random sample of records with all N.

    Every pair counts with the probability its own evidence gives it beside all others of its records, whether it is a
    candidate or not: a faint pair of records that have found their partners is no link that was missed.

    Parameters
    ----------
    pairs, evidence, scorer
        The candidates, their full evidence in nats (P,), and what finds the pairs worth a closer look.
    log_new
        Log weight of one more individual: the log prior odds against a link.
    scan_from
        Nats: pairs whose score is further below it are not worth counting.
    evidence_of
        The full evidence of any pairs (a, b).
    uncovered
        Share of the links that the plan of the candidates does not reckon with.
    seed
        Of the sample.
    threads
        Has no influence on the result.
    """
    n = len(scorer.codes)
    size = int(np.clip(_WORK // max(n, 1), min(n, 20), n))
    sample = np.sort(np.random.default_rng([seed, 8]).choice(n, size, replace=False)).astype(np.int32)
    step = max(1, -(-size // _PARTS))
    chunks, _ = collect(
        lambda part, out_a, out_b: (
            audit_kernel(
                part[0], part[1], sample, scorer, scan_from + _FLOOR, scan_from + _FAINT, _ONE_IN, out_a, out_b
            ),
            0,
        ),
        [(lo, min(lo + step, size)) for lo in range(0, size, step)],
        threads,
    )
    packed = np.concatenate(chunks) if chunks else np.empty(0, np.int64)
    listed, b = (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.int32)
    record, stands_for = np.where(listed < 0, ~listed, listed), np.where(listed < 0, _ONE_IN, 1)
    a = sample[record]
    known_mass = _mass(n, pairs, evidence - log_new)
    odds = np.exp(np.clip(evidence_of(a, b) - log_new, -700.0, _MOST))
    rivals = np.bincount(record, weights=stands_for * odds, minlength=size)[record] - odds
    probability = stands_for * odds / (1.0 + odds + np.maximum(rivals, 0.0) + np.maximum(known_mass[b] - odds, 0.0))
    key = (np.minimum(a, b).astype(np.int64) << 32) | np.maximum(a, b)
    known = (pairs.a.astype(np.int64) << 32) | pairs.b
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    held = known[at] == key if len(known) else np.zeros(len(key), dtype=bool)
    found, missed = float(probability[held].sum()), float(probability[~held].sum())
    total = found + missed
    links = _links_missed(missed, found, uncovered, size / max(n, 1))
    if total <= 0.0:
        return Certificate(1.0, 0.0, 1.0, size, links)
    # a Beta posterior with Jeffreys' prior, as if the mass were that many links
    low, high = betaincinv(found + 0.5, missed + 0.5, [0.05, 0.95])
    recall = found / total
    return Certificate(recall, float(min(low, recall)), float(max(high, recall)), size, links)


def _links_missed(missed: float, found: float, uncovered: float, share: float) -> MissedLinks:
    """Links among all records from the probability of those that a sampled share of them has, found and missed.

    A pair of two sampled records is seen from both. Of pairs that nobody has looked at the sample tells as a Poisson
    count does; what is expected before, with half a link's weight, is what the plan leaves out.
    """
    expected = max(uncovered, _LEAST_UNCOVERED) * found / (2.0 * share)
    rate = 2.0 * share / max((1.0 - share) ** 2, 1e-12) + 0.5 / max(expected, 1e-12)
    return MissedLinks(missed * (1.0 - share / 2.0), missed + 0.5, 1.0 / rate)
