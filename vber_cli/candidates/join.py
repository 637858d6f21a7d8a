"""Carry out a plan: the pairs of records whose evidence is worth keeping."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vber_cli.arrays import distinct
from vber_cli.candidates import join_kernels as kernels
from vber_cli.candidates.plan import Key, Plan
from vber_cli.model.evidence import match_evidence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.parallel import in_threads, one_ahead, ranges

_MISMATCH = 0.1  # an error rate that no field is thought to stay below while looking for candidates
_CAP = 100  # a group larger than this is refined by a further field before its pairs are compared
# Log odds around which pairs are kept, and how many a record they may come to in between.
LOWEST, _HIGHEST = -12.0, -4.0
PAIRS_PER_RECORD = 10
_FEW_PAIRS = 200_000  # so many pairs of all records may be kept in any case
_SAMPLED_COMPARISONS = 1_000_000
_WORK_PER_PART = 50_000  # pairs of records within the groups of a key
_PAIRS_PER_PART = 1_000_000
_PAIRS_WEIGHED = 1 << 15  # at a time
_TOLD_APART = 32  # keys, whose pairs those that come after them pass over: as many as a number has bits


@dataclass(frozen=True)
class Pairs:
    """Candidate pairs a < b, sorted by (a, b), with the number of comparisons that found them."""

    a: IntArray
    b: IntArray
    compared: int

    def __len__(self) -> int:
        return len(self.a)

    def plus(self, a: IntArray, b: IntArray, compared: int) -> Pairs:
        """Return these pairs and a few others, sorted a < b, that further comparisons found."""
        known, more = ((one.astype(np.int64) << 32) | other for one, other in ((self.a, self.b), (a, b)))
        at = np.searchsorted(known, more)
        new = known[np.minimum(at, len(known) - 1)] != more if len(known) else np.ones(len(more), dtype=bool)
        at = at[new]
        return Pairs(np.insert(self.a, at, a[new]), np.insert(self.b, at, b[new]), self.compared + compared)


class Scorer(NamedTuple):
    """How pairs are scored while joining: by field, without classes.

    Attributes
    ----------
    codes, columns, match
        (N, F) int32 and the same as (F, N), and (N, F) float32 nats that an agreement on each record's own value is
        worth.
    level_evidence
        (F, 4) float64 nats of levels 1, 2 and 3 (level 0 is not used).
    value_ptr, near_ptr, near_value, near_level
        The similar values, as in `model.similar`.
    """

    codes: IntArray
    columns: IntArray
    match: np.ndarray
    level_evidence: FloatArray
    value_ptr: LongArray
    near_ptr: LongArray
    near_value: IntArray
    near_level: np.ndarray


def make_scorer(records: Records, prior: Prior, similar: SimilarValues, noise: Noise, unrelated: FloatArray) -> Scorer:
    """Optimistic scores: each field's level counts as in the noise class, or the default noise, that likes it best.

    Fields that go wrong together would each count as an error of its own otherwise, and such pairs would be lost.
    `unrelated` (F, 4) float64 is how often strangers are at each level.
    """
    alpha, share = noise.concentration[:, :, None], noise.share[:, None, None]
    near = noise.levels[:, :, 1:] / np.maximum(unrelated[None, :, 1:3], 1e-12)
    level = np.zeros(unrelated.shape)
    level[:, 1:3] = np.log((share * (alpha + near) / (alpha + 1.0)).max(axis=0))
    level[:, 3] = np.log(np.maximum((share * alpha / (alpha + 1.0)).max(axis=0)[:, 0], _MISMATCH))
    worth = match_evidence(prior)
    match = np.zeros(records.codes.shape, dtype=np.float32)
    for f in range(records.n_fields):
        column = records.codes[:, f]
        seen = column >= 0
        match[seen, f] = worth[prior.value_ptr[f] + column[seen]]
    columns = np.ascontiguousarray(records.codes.T)
    return Scorer(records.codes, columns, match, level, prior.value_ptr, similar.ptr, similar.value, similar.level)


def choose_threshold(scorer: Scorer, log_new: float, seed: int) -> float:
    """The score down to which pairs are kept: as low as some pairs a record allow, within limits around even odds.

    Measured on a seeded sample of records compared with all N.

    Parameters
    ----------
    scorer, log_new
        What scores pairs; the log prior odds against a link.
    seed
        Of the sample.
    """
    n = len(scorer.codes)
    size = int(np.clip(_SAMPLED_COMPARISONS // max(n, 1), min(n, 20), n))
    sample = np.sort(np.random.default_rng([seed, 9]).choice(n, size, replace=False)).astype(np.int32)
    per_record = max(PAIRS_PER_RECORD, _FEW_PAIRS / max(n, 1))
    wanted = int(2 * per_record * size)  # every pair is met from both of its records
    scores = np.empty(1 << 20)
    used = kernels.sample_scores_kernel(sample, scorer, log_new + LOWEST, scores)
    if used <= wanted or used > len(scores):
        return log_new + (LOWEST if used <= wanted else _HIGHEST)
    ranked = np.sort(scores[:used])[::-1]
    return float(np.clip(ranked[wanted], log_new + LOWEST, log_new + _HIGHEST))


def join(
    keys: IntArray,
    plan: Plan,
    scorer: Scorer,
    threshold: float,
    threads: int,
    wanted: Callable[[IntArray, IntArray], np.ndarray] | None = None,
) -> Pairs:
    """All pairs that some key of the plan brings together and whose evidence exceeds the threshold.

    Parameters
    ----------
    keys
        (N, G) int32 codes of the columns that keys are made of, −1 where there is none.
    plan, scorer
        The keys, and how pairs are scored.
    threshold
        Nats.
    threads
        Has no influence on the result.
    wanted
        (P,) bool, given pairs (a, b) found: which of them are kept; None keeps all.
    """
    found: list[np.ndarray] = []
    compared = 0
    if plan.exhaustive:
        n = len(keys)
        compared = n * (n - 1) // 2
        step = max(1, min(n, int(_PAIRS_PER_PART // max(n, 1)) + 1))
        parts = [(lo, min(lo + step, n)) for lo in range(0, n, step)]

        def all_pairs(part: tuple[int, int], out_a: IntArray, out_b: IntArray) -> tuple[int, int]:
            lo, hi = part
            return kernels.all_pairs_kernel(lo, hi, scorer, threshold, out_a, out_b), 0

        found, _ = collect(all_pairs, parts, threads, wanted)
    in_full = np.zeros(len(keys), dtype=np.uint32)
    groups = one_ahead(lambda key: groups_of_key(keys, key), plan.keys, threads)
    for number, (key, (order, ptr)) in enumerate(zip(plan.keys, groups, strict=True)):
        others = np.array([f for f in range(keys.shape[1]) if f not in key.fields], dtype=np.int64)
        parts = _parts_of(ptr)
        earlier = _columns_of(plan.keys[: min(number, _TOLD_APART)])

        def within_groups(
            part: tuple[int, int],
            out_a: IntArray,
            out_b: IntArray,
            order: IntArray = order,
            ptr: np.ndarray = ptr,
            others: np.ndarray = others,
            earlier: LongArray = earlier,
        ) -> tuple[int, int]:
            used, seen = kernels.join_kernel(
                order, ptr, part[0], part[1], keys, others, earlier, in_full, scorer, _CAP, threshold, out_a, out_b
            )
            return int(used), int(seen)

        packs, seen = collect(within_groups, parts, threads, wanted)
        found.extend(packs)
        compared += seen
        if number < _TOLD_APART:
            sizes = np.diff(ptr)
            full = order[np.repeat((sizes <= _CAP) | (len(others) == 0), sizes)]
            in_full[full] |= np.uint32(1 << number)
    packed_pairs = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    if len(found) > 1 or plan.keys:
        packed_pairs = distinct(packed_pairs)
    return Pairs((packed_pairs >> 32).astype(np.int32), (packed_pairs & 0xFFFFFFFF).astype(np.int32), compared)


def _parts_of(ptr: LongArray) -> list[tuple[int, int]]:
    """Ranges of groups, given as CSR, with about as many pairs each."""
    sizes = np.diff(ptr)
    work = np.cumsum(sizes * (sizes + 1) // 2)
    if len(work) == 0:
        return []
    steps = np.arange(_WORK_PER_PART, work[-1], _WORK_PER_PART)
    edges = distinct(np.concatenate([[0], np.searchsorted(work, steps), [len(sizes)]]))
    return list(itertools.pairwise(edges.tolist()))


def _columns_of(keys: Sequence[Key]) -> LongArray:
    """(E, M) int64 columns of each key, −1 behind them."""
    out = np.full((len(keys), max((len(key.fields) for key in keys), default=0)), -1, dtype=np.int64)
    for columns, key in zip(out, keys, strict=True):
        columns[: len(key.fields)] = key.fields
    return out


def groups_of_key(keys: IntArray, key: Key, sampled: np.ndarray | None = None) -> tuple[IntArray, LongArray]:
    """Records that a key puts together, as CSR: groups of two or more, in the order of their hashed keys.

    The upper bits of a key and the number of its record are sorted as one number.

    Parameters
    ----------
    keys, key
        The columns that keys are made of, and one key.
    sampled
        (N,) bool: only groups with one of these.
    """
    hashed, complete = kernels.key_kernel(keys, np.array(key.fields, dtype=np.int64))
    if sampled is not None:
        complete &= kernels.among_kernel(hashed, hashed[sampled & complete])
    row = np.flatnonzero(complete).astype(np.uint64)
    bits = np.uint64(max(len(keys) - 1, 1).bit_length())
    packed = np.sort((hashed[complete] >> bits << bits) | row)
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int32)
    upper = packed >> bits
    begin = np.flatnonzero(np.diff(upper, prepend=~upper[:1]))
    size = np.diff(np.append(begin, len(order)))
    order = order[np.repeat(size > 1, size)]
    return order, np.concatenate([[0], np.cumsum(size[size > 1])]).astype(np.int64)


def collect(
    work: Callable[[tuple[int, int], IntArray, IntArray], tuple[int, int]],
    parts: list[tuple[int, int]],
    threads: int,
    wanted: Callable[[IntArray, IntArray], np.ndarray] | None = None,
) -> tuple[list[np.ndarray], int]:
    """Run `work` over the parts, growing its buffer where it was too small; pairs packed as a · 2^32 + b.

    Of the pairs only those `wanted` are kept, if that is given.
    """

    def run(part: tuple[int, int]) -> tuple[np.ndarray, int]:
        size = 1 << 16
        while True:
            out_a, out_b = np.empty(size, np.int32), np.empty(size, np.int32)
            used, seen = work(part, out_a, out_b)
            if used <= size:
                a, b = out_a[:used], out_b[:used]
                if wanted is not None and used:
                    some = ranges(used, _PAIRS_WEIGHED)
                    kept = np.concatenate([wanted(a[lo:hi], b[lo:hi]) for lo, hi in some])
                    a, b = a[kept], b[kept]
                return (a.astype(np.int64) << 32) | b, seen
            size = used

    results = in_threads(run, parts, threads)
    return [pairs for pairs, _ in results], sum(seen for _, seen in results)
