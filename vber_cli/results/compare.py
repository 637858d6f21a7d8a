"""Two results on the same records side by side: who is grouped with whom, how many, how sure, how long."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.model.types import FloatArray, LongArray
from vber_cli.results.explain import read_links
from vber_cli.results.metrics import Score, evaluate_partition
from vber_cli.results.open_result import OpenResult


@dataclass(frozen=True)
class Side:
    """What a result says of itself; None where it does not.

    Attributes
    ----------
    path
        The directory.
    n_records, n_individuals
        In the result as a whole.
    n, K
        mean, low and high.
    bound, seconds, n_links
        The last bound, the seconds of all phases, the pairs in links.parquet.
    """

    path: str
    n_records: int
    n_individuals: int
    n: dict[str, float | None] | None
    K: dict[str, float | None] | None
    bound: float | None
    seconds: float | None
    n_links: int | None


@dataclass(frozen=True)
class Moved:
    """A record whose groups differ: their sizes, the records in both, and how different they are (0 to 1)."""

    record: str
    size_a: int
    size_b: int
    shared: int
    difference: float


@dataclass(frozen=True)
class LinkAgreement:
    """Link probabilities of pairs that either result lists; a pair that is not listed counts with 0."""

    n_pairs: int
    mean_difference: float
    largest_difference: float
    across_half: int


@dataclass(frozen=True)
class Comparison:
    """Two results side by side.

    Attributes
    ----------
    a, b
        The results.
    n_common
        Records in both; everything below is about these.
    matched_by
        row or id, how records of both were found to be the same.
    pairwise
        B's pairs as judged by A's: precision is the share of B's pairs that A has, recall the share of A's that B has.
    rand, adjusted_rand
        Rand index, and adjusted for chance (Hubert and Arabie, 1985).
    pairs_a, pairs_b, pairs_both
        Pairs of records that are together in A, in B, in both.
    same_individuals
        Individuals that are the same records in both.
    n_moved, moved
        Records whose groups differ, and the most different of them.
    links
        None where one has no links.
    """

    a: Side
    b: Side
    n_common: int
    matched_by: str
    pairwise: Score
    rand: float
    adjusted_rand: float
    pairs_a: int
    pairs_b: int
    pairs_both: int
    same_individuals: int
    n_moved: int
    moved: tuple[Moved, ...]
    links: LinkAgreement | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain = asdict(self)
        plain["pairwise"]["f1"] = self.pairwise.f1
        return plain


def compare_results(path_a: Path, path_b: Path, n_moved: int = 10) -> Comparison:
    """Compare two results.

    Parameters
    ----------
    path_a, path_b
        Result directories of `vber merge` or `vber sample`.
    n_moved
        How many of the records whose groups differ are named.

    Raises
    ------
    InputError
        One is no result, or they have no record in common.
    """
    a, b = OpenResult(path_a), OpenResult(path_b)
    in_a, in_b, matched_by = _common_records(a, b)
    label_a, label_b = a.individual[in_a], b.individual[in_b]
    metrics = evaluate_partition(label_b, label_a)
    size_a, size_b, shared = _groups(label_a, label_b)
    difference = 1.0 - shared / (size_a + size_b - shared)
    order = np.lexsort((in_a, -np.maximum(size_a, size_b), -difference))
    changed = int((difference > 0).sum())
    moved = tuple(
        Moved(a.name_of(int(in_a[i])), int(size_a[i]), int(size_b[i]), int(shared[i]), float(difference[i]))
        for i in order[: min(n_moved, changed)].tolist()
    )
    return Comparison(
        a=_side(a),
        b=_side(b),
        n_common=len(in_a),
        matched_by=matched_by,
        pairwise=metrics.pairwise,
        rand=_rand(metrics.true_pairs, metrics.found_pairs, metrics.correct_pairs, len(in_a)),
        adjusted_rand=_adjusted_rand(metrics.true_pairs, metrics.found_pairs, metrics.correct_pairs, len(in_a)),
        pairs_a=metrics.true_pairs,
        pairs_b=metrics.found_pairs,
        pairs_both=metrics.correct_pairs,
        same_individuals=metrics.correct_clusters,
        n_moved=changed,
        moved=moved,
        links=_compare_links(a, b, in_a, in_b),
    )


def _common_records(a: OpenResult, b: OpenResult) -> tuple[LongArray, LongArray, str]:
    """Places of the records in both: by row where the inputs are the same files, else by id."""
    digests = [_input_digests(result) for result in (a, b)]
    by_row = digests[0] is not None and digests[0] == digests[1]
    keys = [_keys(result, by_row) for result in (a, b)]
    place = pc.index_in(keys[0], keys[1]).fill_null(-1).to_numpy().astype(np.int64)
    in_a = np.flatnonzero(place >= 0)
    if not len(in_a):
        raise InputError(
            f"{a.path} and {b.path} have no record in common: databases {', '.join(a.databases[:3])} "
            f"against {', '.join(b.databases[:3])}",
            "compare results of the same databases, with the same names and ids",
        )
    return in_a, place[in_a], "row" if by_row else "id"


def _input_digests(result: OpenResult) -> dict[str, str] | None:
    """Database → digest, None where the result does not say."""
    try:
        items = json.loads(result.metadata("assignments")["input_digests"])
        return {item["database"]: item["sha256"] for item in items}
    except (KeyError, TypeError, ValueError):
        return None


def _keys(result: OpenResult, by_row: bool) -> pa.Array:
    names = pa.array(result.databases, pa.large_string()).take(pa.array(result.db_of_record))
    own = pa.array(result.row).cast(pa.large_string()) if by_row else result.record_id
    return pc.binary_join_element_wise(names, own, pa.scalar("\x00", pa.large_string()))


def _groups(label_a: LongArray, label_b: LongArray) -> tuple[LongArray, LongArray, LongArray]:
    """(n,) int64 each: sizes of every record's groups in A and in B, and the number of records in both."""
    codes = [np.unique(label, return_inverse=True)[1].astype(np.int64).ravel() for label in (label_a, label_b)]
    sizes = [np.bincount(code)[code].astype(np.int64) for code in codes]
    _, cell, count = np.unique(codes[0] * (codes[1].max() + 1) + codes[1], return_inverse=True, return_counts=True)
    return sizes[0], sizes[1], count[cell.ravel()].astype(np.int64)


def _rand(pairs_a: int, pairs_b: int, both: int, n: int) -> float:
    total = n * (n - 1) // 2
    return (total - pairs_a - pairs_b + 2 * both) / total if total else 1.0


def _adjusted_rand(pairs_a: int, pairs_b: int, both: int, n: int) -> float:
    total = n * (n - 1) // 2
    if not total:
        return 1.0
    chance = pairs_a * pairs_b / total
    most = (pairs_a + pairs_b) / 2
    return (both - chance) / (most - chance) if most != chance else 1.0


def _side(result: OpenResult) -> Side:
    summary = result.summary
    bound = summary.get("bound")
    seconds = summary.get("seconds")
    return Side(
        path=str(result.path),
        n_records=result.n_records,
        n_individuals=len(np.unique(result.individual)),
        n=_interval(summary.get("n")),
        K=_interval(summary.get("K")),
        bound=_number(bound.get("bound")) if isinstance(bound, dict) else None,
        seconds=_seconds(seconds),
        n_links=len(result.table("links", [])) if result.has("links") else None,
    )


def _seconds(value: object) -> float | None:
    """Seconds of the run: of its phases in all, or one number."""
    if isinstance(value, dict):
        parts = [_number(part) for part in value.values()]
        known = [part for part in parts if part is not None]
        return float(sum(known)) if known else None
    return _number(value)


def _interval(value: object) -> dict[str, float | None] | None:
    return {key: _number(value.get(key)) for key in ("mean", "low", "high")} if isinstance(value, dict) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _compare_links(a: OpenResult, b: OpenResult, in_a: LongArray, in_b: LongArray) -> LinkAgreement | None:
    if not (a.has("links") and b.has("links")):
        return None
    sides = [_common_links(result, places) for result, places in ((a, in_a), (b, in_b))]
    keys = np.unique(np.concatenate([key for key, _ in sides]))
    p, q = (_at(keys, key, probability) for key, probability in sides)
    gap = np.abs(p - q)
    return LinkAgreement(
        n_pairs=len(keys),
        mean_difference=float(gap.mean()) if len(keys) else 0.0,
        largest_difference=float(gap.max(initial=0.0)),
        across_half=int(((p > 0.5) != (q > 0.5)).sum()),
    )


def _common_links(result: OpenResult, places: LongArray) -> tuple[LongArray, FloatArray]:
    """Keys, sorted, and probabilities of the links between common records, which are numbered as in `places`."""
    number = np.full(result.n_records, -1, dtype=np.int64)
    number[places] = np.arange(len(places))
    first, second, probability = read_links(result)
    x, y = number[first], number[second]
    known = (x >= 0) & (y >= 0)
    key = np.minimum(x, y)[known] * len(places) + np.maximum(x, y)[known]
    order = np.argsort(key)
    return key[order], probability[known][order]


def _at(keys: LongArray, own: LongArray, probability: FloatArray) -> FloatArray:
    out = np.zeros(len(keys))
    out[np.searchsorted(keys, own)] = probability
    return out
