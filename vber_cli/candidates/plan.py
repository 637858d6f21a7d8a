"""Which keys bring the likely pairs together: chosen from the data, without rules (model.md section 8).

A key is a set of fields; records that agree on all of them are compared. Its cost is the number of pairs it brings
together, estimated on a sample of the records; its worth is the share of linkable agreement patterns it covers that
no key chosen before covers. Patterns are drawn from the agreement rates of the fields, with a pair's overall quality
varying from pair to pair, because records that are bad in one field tend to be bad in the next.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from vber_cli.model.types import FloatArray, Records

_PATTERNS = 20_000
_SAMPLE = 20_000
_QUALITY_SPREAD = 1.0  # standard deviation of a pair's log odds of disagreement, common to its fields
_MAX_KEY_FIELDS = 5
_MAX_FIELDS = 16  # keys are built from the most telling fields only; with more there are too many subsets to look at


@dataclass(frozen=True)
class Key:
    """Fields on which two records must agree to be compared, and the pairs that costs (expected)."""

    fields: tuple[int, ...]
    cost: float


@dataclass(frozen=True)
class Plan:
    """The keys chosen, in order, and the share of linkable patterns they cover.

    With `exhaustive` every pair of records is compared and there are no keys.
    """

    keys: tuple[Key, ...]
    covered: float
    exhaustive: bool


def budget_of(n_records: int) -> float:
    """Comparisons that a run may spend: all pairs of ten thousand records, then 60 a record."""
    return max(5e7, 60.0 * n_records)


def agreement_patterns(rng: np.random.Generator, agreement: FloatArray, observed: FloatArray) -> tuple[np.ndarray, ...]:
    """Draw (agree, both observed), each (_PATTERNS, F) bool, for pairs of records of one individual."""
    quality = rng.normal(0.0, _QUALITY_SPREAD, (_PATTERNS, 1))
    odds = np.log(np.clip(1.0 - agreement, 1e-9, 1 - 1e-9) / np.clip(agreement, 1e-9, 1.0))
    seen = rng.random((_PATTERNS, len(agreement))) < observed**2
    agree = seen & (rng.random((_PATTERNS, len(agreement))) > 1.0 / (1.0 + np.exp(-(odds + quality))))
    return agree, seen


def make_plan(
    records: Records,
    match: FloatArray,
    mismatch: FloatArray,
    agreement: FloatArray,
    entropy: FloatArray,
    threshold: float,
    seed: int,
) -> Plan:
    """Choose keys greedily for newly covered linkable patterns per pair compared.

    Parameters
    ----------
    records
        The encoded records.
    match
        (F,) float64 nats, typical evidence of an agreement in each field.
    mismatch, agreement, entropy
        (F,) float64: evidence of a mismatch, agreement rate of linked pairs, collision entropy.
    threshold
        Nats; patterns below it are not linkable and need not be covered.
    seed
        Of the drawn patterns and the sampled records.
    """
    n = records.n_records
    budget = budget_of(n)
    if n * (n - 1) / 2 <= budget:
        return Plan((), 1.0, True)
    rng = np.random.default_rng(seed)
    observed = (records.codes >= 0).mean(axis=0)
    agree, seen = agreement_patterns(rng, agreement, observed)
    evidence = np.where(agree, match, 0.0).sum(axis=1) + np.where(seen & ~agree, mismatch, 0.0).sum(axis=1)
    agree = agree[evidence > threshold]
    if len(agree) == 0:
        agree = np.ones((1, records.n_fields), dtype=bool)
    useful = np.argsort(-(entropy * observed * agreement), kind="stable")[:_MAX_FIELDS]
    keys = _possible_keys(records, np.sort(useful), entropy, budget / 3, rng)
    covers = np.array([agree[:, key.fields].all(axis=1) for key in keys]).reshape(len(keys), len(agree))
    left = np.ones(len(agree), dtype=bool)
    chosen: list[Key] = []
    spent = 0.0
    while keys and left.any():
        gain = (covers & left).sum(axis=1)
        price = np.array([key.cost for key in keys]) + n  # sorting costs about one comparison a record
        affordable = spent + price <= budget
        if not (affordable & (gain > 0)).any():
            break
        best = int(np.argmax(np.where(affordable, gain / price, -1.0)))
        if gain[best] < 2e-4 * len(agree):
            break
        chosen.append(keys[best])
        spent += price[best]
        left &= ~covers[best]
    return Plan(tuple(chosen), 1.0 - float(left.mean()), False)


def _possible_keys(
    records: Records, fields: np.ndarray, entropy: FloatArray, limit: float, rng: np.random.Generator
) -> list[Key]:
    """Sets of fields whose pairs stay below the limit; a superset of a cheap set is cheaper but covers less."""
    n = records.n_records
    sample = records.codes[np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))]
    scale = (n / len(sample)) ** 2
    keys: list[Key] = []
    for size in range(1, _MAX_KEY_FIELDS + 1):
        for subset in itertools.combinations(fields.tolist(), size):
            independent = n * n / 2 * np.exp(-entropy[list(subset)].sum())
            if independent > 20 * limit or any(set(key.fields) <= set(subset) and key.cost < n for key in keys):
                continue
            cost = max(independent, _pairs_in_sample(sample, subset) * scale)
            if cost <= limit:
                keys.append(Key(subset, float(cost)))
    return keys


def _pairs_in_sample(sample: np.ndarray, subset: tuple[int, ...]) -> float:
    part = sample[:, subset]
    part = part[(part >= 0).all(axis=1)]
    key = np.zeros(len(part), dtype=np.uint64)
    for f in range(part.shape[1]):
        key = (key ^ part[:, f].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    key.sort()
    edges = np.flatnonzero(np.diff(key)) + 1
    sizes = np.diff(np.concatenate([[0], edges, [len(key)]]))
    return float((sizes * (sizes - 1.0) / 2).sum())
