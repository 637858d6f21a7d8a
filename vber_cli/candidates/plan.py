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

from vber_cli.model.types import FloatArray, IntArray, LongArray

_PATTERNS = 20_000
_SAMPLE = 6_000
_QUALITY_SPREAD = 1.0  # standard deviation of a pair's log odds of disagreement, common to its fields
_MAX_KEY_FIELDS = 4
_MAX_COLUMNS = 14  # keys are built from the most telling columns only; with more there are too many subsets to look at


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


@dataclass(frozen=True)
class KeyColumns:
    """What keys can be made of: the fields, and codes derived from their values.

    Attributes
    ----------
    codes
        (N, G) int32, −1 where missing.
    field
        (G,) int64, the field each column belongs to; a key uses at most one column of a field.
    entropy, agreement
        (G,) float64: collision entropy in nats, and how often linked pairs agree.
    """

    codes: IntArray
    field: LongArray
    entropy: FloatArray
    agreement: FloatArray


def key_columns(codes: IntArray, field: LongArray, entropy: FloatArray, identical: FloatArray) -> KeyColumns:
    """Measure the columns that keys can be made of.

    Parameters
    ----------
    codes, field
        (N, G) and (G,), the fields themselves first.
    entropy, identical
        (F,) float64: collision entropy and share of identical values of linked pairs, by field. A derived column agrees
        wherever its field does, and in half of the other cases.
    """
    n_fields = len(entropy)
    more = [_entropy_of(codes[:, g]) for g in range(n_fields, codes.shape[1])]
    agreement = np.concatenate([identical, 0.5 + 0.5 * identical[field[n_fields:]]])
    return KeyColumns(codes, field, np.concatenate([entropy, more]), agreement)


def _entropy_of(codes: IntArray) -> float:
    seen = codes[codes >= 0]
    if len(seen) == 0:
        return 0.0
    share = np.bincount(seen) / len(seen)
    return float(-np.log((share**2).sum()))


def agreement_patterns(
    rng: np.random.Generator, columns: KeyColumns, observed: FloatArray
) -> tuple[np.ndarray, np.ndarray]:
    """Draw (agree, both observed), each (_PATTERNS, G) bool, for pairs of records of one individual.

    Columns of one field agree together: one uniform draw per field decides all of them, each at its own rate.
    """
    quality = rng.normal(0.0, _QUALITY_SPREAD, (_PATTERNS, 1))
    rate = np.clip(columns.agreement, 1e-9, 1.0 - 1e-9)
    disagree = 1.0 / (1.0 + np.exp(-(np.log(1.0 - rate) - np.log(rate) + quality)))
    n_fields = int(columns.field.max()) + 1
    seen = (rng.random((_PATTERNS, n_fields))[:, columns.field]) < observed**2
    agree = seen & (rng.random((_PATTERNS, n_fields))[:, columns.field] > disagree)
    return agree, seen


def make_plan(columns: KeyColumns, match: FloatArray, mismatch: FloatArray, threshold: float, seed: int) -> Plan:
    """Choose keys greedily for newly covered linkable patterns per pair compared.

    Parameters
    ----------
    columns
        What keys can be made of; the first F columns are the fields themselves.
    match, mismatch
        (F,) float64 nats, typical evidence of an agreement and of a mismatch in each field.
    threshold
        Nats; patterns below it are not linkable and need not be covered.
    seed
        Of the drawn patterns and the sampled records.
    """
    n, n_fields = len(columns.codes), len(match)
    budget = budget_of(n)
    if n * (n - 1) / 2 <= budget:
        return Plan((), 1.0, True)
    rng = np.random.default_rng(seed)
    observed = (columns.codes >= 0).mean(axis=0)
    agree, seen = agreement_patterns(rng, columns, observed)
    own, both = agree[:, :n_fields], seen[:, :n_fields]
    evidence = np.where(own, match, 0.0).sum(axis=1) + np.where(both & ~own, mismatch, 0.0).sum(axis=1)
    agree = agree[evidence > threshold]
    if len(agree) == 0:
        agree = np.ones((1, columns.codes.shape[1]), dtype=bool)
    useful = np.argsort(-(columns.entropy * observed * columns.agreement), kind="stable")[:_MAX_COLUMNS]
    keys = _possible_keys(columns, np.sort(useful), budget / 3, rng)
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


def _possible_keys(columns: KeyColumns, useful: np.ndarray, limit: float, rng: np.random.Generator) -> list[Key]:
    """Sets of fields whose pairs stay below the limit; a superset of a cheap set is cheaper but covers less."""
    n = len(columns.codes)
    sample = columns.codes[np.sort(rng.choice(n, min(n, _SAMPLE), replace=False))]
    scale = (n / len(sample)) ** 2
    keys: list[Key] = []
    for size in range(1, _MAX_KEY_FIELDS + 1):
        for subset in itertools.combinations(useful.tolist(), size):
            if len({int(columns.field[g]) for g in subset}) < size:
                continue
            independent = n * n / 2 * np.exp(-columns.entropy[list(subset)].sum())
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
