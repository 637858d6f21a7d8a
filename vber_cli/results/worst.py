"""The worst errors of a result: pairs put together wrongly and pairs missed, with what led to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vber_cli.errors import InputError
from vber_cli.model.types import LongArray
from vber_cli.results.explain import TELLING_BITS, Explainer, Line, PairReport, read_links
from vber_cli.results.open_result import OpenResult

_MANY_PAIRS = 500_000
_N_REASONS = 3


@dataclass(frozen=True)
class WrongPair:
    """A pair of records that was judged wrongly.

    Attributes
    ----------
    a, b
        Names of the records.
    probability
        In links.parquet; None where it does not list the pair.
    explanation
        Where it came from; None if the result holds no model and records.
    """

    a: str
    b: str
    probability: float | None
    explanation: PairReport | None

    def reasons(self, *, false_link: bool) -> str:
        """Return what spoke most for the error, in words; empty without an explanation."""
        if self.explanation is None:
            return ""
        sign = 1.0 if false_link else -1.0
        lines = [x for x in self.explanation.lines if x.kind != "prior" and x.bits * sign >= TELLING_BITS]
        return ", ".join(_in_words(line) for line in sorted(lines, key=lambda x: -x.bits * sign)[:_N_REASONS])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        explained = None if self.explanation is None else self.explanation.to_dict()
        return {"a": self.a, "b": self.b, "probability": self.probability, "explanation": explained}


def _in_words(line: Line) -> str:
    return " ".join(word for word in (line.name, line.level, f"({line.bits:+.1f} bits)") if word)


@dataclass(frozen=True)
class WorstErrors:
    """Errors, the worst first.

    Attributes
    ----------
    n_false, n_missed
        Pairs put together wrongly and pairs missed, in all.
    false_links, missed_links
        The worst of them: those that the result was surest of.
    note
        What limits them; empty if nothing does.
    """

    n_false: int
    n_missed: int
    false_links: tuple[WrongPair, ...]
    missed_links: tuple[WrongPair, ...]
    note: str


def worst_errors(result: OpenResult, entity: LongArray, n_worst: int) -> WorstErrors:
    """Find the worst errors among the records that the truth covers.

    Parameters
    ----------
    result
        The result.
    entity
        (N,) int64, the true individual of each record, −1 where the truth does not say.
    n_worst
        How many of each kind.
    """
    covered = np.flatnonzero(entity >= 0)
    false, n_false = split_pairs(covered, result.individual[covered], entity[covered])
    missed, n_missed = split_pairs(covered, entity[covered], result.individual[covered])
    notes = []
    if max(n_false, n_missed) > _MANY_PAIRS:
        notes.append(f"the worst errors are those among the first {_MANY_PAIRS:,} of each kind")
    explainer: Explainer | None = None
    try:
        explainer = Explainer(result)
    except InputError as error:
        if n_false + n_missed:
            notes.append(f"errors are not explained: {error.what}")
    return WorstErrors(
        n_false,
        n_missed,
        _worst(result, explainer, false, n_worst, likely=True),
        _worst(result, explainer, missed, n_worst, likely=False),
        "; ".join(notes),
    )


def split_pairs(record: LongArray, group: LongArray, other: LongArray) -> tuple[LongArray, int]:
    """Pairs of records of one group that differ in the other labels: (P, 2) int64, at most a limit, and their number.

    Parameters
    ----------
    record, group, other
        (n,) int64, the records and two labels of each.
    """
    order = np.lexsort((other, group))
    group, other, record = group[order], other[order], record[order]
    first = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
    edges = np.append(first, len(group))
    mixed = np.flatnonzero(other[edges[:-1]] != other[edges[1:] - 1]) if len(first) else first
    parts: list[LongArray] = []
    total = kept = 0
    for g in mixed.tolist():
        lo, hi = int(edges[g]), int(edges[g + 1])
        sizes = np.unique(other[lo:hi], return_counts=True)[1]
        total += ((hi - lo) ** 2 - int((sizes.astype(np.int64) ** 2).sum())) // 2
        if kept < _MANY_PAIRS:
            i, j = np.triu_indices(min(hi - lo, 2000), 1)
            differ = other[lo + i] != other[lo + j]
            parts.append(np.column_stack([record[lo + i[differ]], record[lo + j[differ]]]))
            kept += len(parts[-1])
    pairs = np.concatenate(parts)[:_MANY_PAIRS] if parts else np.zeros((0, 2), np.int64)
    return pairs, total


def _worst(
    result: OpenResult, explainer: Explainer | None, pairs: LongArray, n_worst: int, *, likely: bool
) -> tuple[WrongPair, ...]:
    if not len(pairs) or not n_worst:
        return ()
    listed = _probabilities(result, pairs) if explainer is None else explainer.probability(pairs[:, 0], pairs[:, 1])
    own = np.zeros(len(pairs)) if explainer is None else explainer.pair_log_odds(pairs[:, 0], pairs[:, 1])
    sign = -1.0 if likely else 1.0
    chosen = np.lexsort((pairs[:, 1], pairs[:, 0], sign * own, sign * np.nan_to_num(listed, nan=0.0)))[:n_worst]
    some = [(int(a), int(b)) for a, b in pairs[chosen]]
    reports = [None] * len(some) if explainer is None else explainer.pairs(some)
    return tuple(
        WrongPair(result.name_of(a), result.name_of(b), None if np.isnan(p) else float(p), report)
        for (a, b), p, report in zip(some, listed[chosen].tolist(), reports, strict=True)
    )


def _probabilities(result: OpenResult, pairs: LongArray) -> np.ndarray:
    """Listed probabilities of pairs without a model, nan where a pair is not listed."""
    if not result.has("links"):
        return np.full(len(pairs), np.nan)
    a, b, probability = read_links(result)
    n = result.n_records
    table = dict(zip((np.minimum(a, b) * n + np.maximum(a, b)).tolist(), probability.tolist(), strict=True))
    return np.array([table.get(key, np.nan) for key in (pairs.min(axis=1) * n + pairs.max(axis=1)).tolist()])
