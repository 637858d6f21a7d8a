"""Kernels that list the pairs of records within groups, and score them field by field."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel, leaf
from vber_cli.model.similar_kernels import value_level

_TILE = 4096  # records scored at a time, so that their scores stay in the nearest cache
_MOST_IN_FULL = 2_000  # records; the pairs of a larger group are never all compared
_ROUNDING = 1e-2  # nats by which a score in single precision may be off


@leaf
def score_pair(a, b, scorer):  # type: ignore[no-untyped-def]
    """Evidence of a pair in nats."""
    total = 0.0
    for f in range(scorer.codes.shape[1]):
        v, w = scorer.codes[a, f], scorer.codes[b, f]
        if v < 0 or w < 0:
            continue
        level = 0
        if v != w:
            level = value_level(v, w, f, scorer.value_ptr, scorer.near_ptr, scorer.near_value, scorer.near_level)
        total += scorer.match[a, f] if level == 0 else scorer.level_evidence[f, level]
    return total


@leaf
def _met_before(a, b, keys, earlier, in_full):  # type: ignore[no-untyped-def]
    """Whether an earlier key has brought the two together, in a group all of whose pairs were compared.

    `earlier` (E, M) are the columns of each earlier key, −1 behind them; bit e of `in_full` (N,) tells whether the
    record was in such a group of the key.
    """
    met = False
    for e in range(len(earlier)):
        if in_full[a] >> np.uint32(e) & np.uint32(1) == 0:
            continue
        alike = True
        for g in earlier[e]:
            if g >= 0 and keys[a, g] != keys[b, g]:
                alike = False
                break
        if alike:
            met = True
            break
    return met


@leaf
def _emit(a, b, scorer, threshold, out_a, out_b, used):  # type: ignore[no-untyped-def]
    """Append the pair if its evidence exceeds the threshold; returns how many are in the buffer."""
    if score_pair(min(a, b), max(a, b), scorer) > threshold:
        if used < len(out_a):
            out_a[used] = min(a, b)
            out_b[used] = max(a, b)
        return used + 1
    return used


@kernel
def key_kernel(codes, fields):  # type: ignore[no-untyped-def]
    """A 64-bit key of the codes of `fields` for every record, and whether all of them are observed."""
    key = np.zeros(len(codes), np.uint64)
    complete = np.ones(len(codes), np.bool_)
    for r in range(len(codes)):
        h = np.uint64(0)
        for f in fields:
            if codes[r, f] < 0:
                complete[r] = False
                break
            h = (h ^ np.uint64(codes[r, f] + 1)) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
            h *= np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(32)
        key[r] = h
    return key, complete


@kernel
def among_kernel(hashed, wanted):  # type: ignore[no-untyped-def]
    """(N,) bool: whether each 64-bit key is among those wanted."""
    mask = np.uint64(1)
    while mask < np.uint64(4 * len(wanted) + 4):
        mask <<= np.uint64(1)
    table, used = np.zeros(mask, np.uint64), np.zeros(mask, np.bool_)
    mask -= np.uint64(1)
    for h in wanted:
        at = h & mask
        while used[at] and table[at] != h:
            at = (at + np.uint64(1)) & mask
        used[at] = True
        table[at] = h
    out = np.zeros(len(hashed), np.bool_)
    for i in range(len(hashed)):
        h = hashed[i]
        at = h & mask
        while used[at] and table[at] != h:
            at = (at + np.uint64(1)) & mask
        out[i] = used[at]
    return out


@kernel
def beside_kernel(order, group_ptr, lo, hi, sampled, scorer, threshold):  # type: ignore[no-untyped-def]
    """Records of groups lo..hi-1 whose evidence with a sampled one of their group exceeds the threshold."""
    found = np.empty(group_ptr[hi] - group_ptr[lo], np.int32)
    used = 0
    for g in range(lo, hi):
        begin, end = group_ptr[g], group_ptr[g + 1]
        for j in range(begin, end):
            b = order[j]
            if sampled[b]:
                continue
            for i in range(begin, end):
                a = order[i]
                if sampled[a] and score_pair(min(a, b), max(a, b), scorer) > threshold:
                    found[used] = b
                    used += 1
                    break
    return found[:used]


@kernel
def _pays_to_split(group, keys, others, depth):  # type: ignore[no-untyped-def]
    """Whether the groups that the remaining fields split this one into have fewer pairs, together, than it has.

    Where fields hold few values, or follow from those that the records share, every pair is in several of them. So it
    is where the records are alike in every field: these need not all be compared, and are to be split to the end.
    """
    size = len(group)
    if size > _MOST_IN_FULL:
        return True
    n_pairs, least = 0, size * size
    for d in range(depth, len(others)):
        values = keys[group, others[d]]
        order = np.argsort(values, kind="mergesort")
        run, own = 0, 0
        for i in range(size):
            if values[order[i]] < 0:
                continue
            run = run + 1 if i > 0 and values[order[i]] == values[order[i - 1]] else 1
            own += run - 1
        n_pairs += own
        least = min(least, own)
    return 2 * n_pairs < size * (size - 1) or 8 * least > size * (size - 1)


@kernel
def _refine(  # type: ignore[no-untyped-def]
    members, keys, others, earlier, in_full, scorer, cap, threshold, out_a, out_b, used
):
    """Pairs of an over-full group that agree on at least one more field, without repeating work field by field.

    An explicit stack of (begin, end, next field): a group of at most `cap` records is compared in full, as is one that
    it does not pay to split; another is split by each remaining field in turn; when no field is left its records are
    alike in all fields but missing ones, and each is compared with the next `cap` of them.
    """
    compared = 0
    pool = members.copy()
    stack_begin, stack_end, stack_depth = [np.int64(0)], [np.int64(len(pool))], [np.int64(0)]
    work = [pool]
    while len(stack_begin) > 0:
        begin, end, depth = stack_begin.pop(), stack_end.pop(), stack_depth.pop()
        part = work.pop()
        size = end - begin
        full = size <= cap or (depth < len(others) and not _pays_to_split(part[begin:end], keys, others, depth))
        if full or depth == len(others):
            beside = size if full else cap
            for i in range(begin, end):
                for j in range(i + 1, min(end, i + 1 + beside)):
                    if _met_before(part[i], part[j], keys, earlier, in_full):
                        continue
                    compared += 1
                    used = _emit(part[i], part[j], scorer, threshold, out_a, out_b, used)
            continue
        for d in range(depth, len(others)):
            f = others[d]
            group = part[begin:end]
            order = np.argsort(keys[group, f], kind="mergesort")
            ordered = group[order]
            i = 0
            while i < size and keys[ordered[i], f] < 0:
                i += 1
            while i < size:
                j = i + 1
                while j < size and keys[ordered[j], f] == keys[ordered[i], f]:
                    j += 1
                if j - i > 1:
                    stack_begin.append(i)
                    stack_end.append(j)
                    stack_depth.append(d + 1)
                    work.append(ordered)
                i = j
    return used, compared


@kernel
def join_kernel(  # type: ignore[no-untyped-def]
    order, group_ptr, lo, hi, keys, others, earlier, in_full, scorer, cap, threshold, out_a, out_b
):
    """Pairs within groups lo..hi-1 (`order[group_ptr[g]:group_ptr[g+1]]`) whose evidence exceeds the threshold.

    Those that `earlier` keys have brought together (`_met_before`) are passed over. Returns (pairs found, pairs
    compared); pairs beyond the buffer's length are counted but not stored.
    """
    used = 0
    compared = 0
    for g in range(lo, hi):
        begin, end = group_ptr[g], group_ptr[g + 1]
        if end - begin > cap and len(others) > 0:
            used, more = _refine(
                order[begin:end], keys, others, earlier, in_full, scorer, cap, threshold, out_a, out_b, used,
            )  # fmt: skip
            compared += more
            continue
        for i in range(begin, end):
            for j in range(i + 1, end):
                if _met_before(order[i], order[j], keys, earlier, in_full):
                    continue
                compared += 1
                used = _emit(order[i], order[j], scorer, threshold, out_a, out_b, used)
    return used, compared


@kernel
def _others_table(scorer):  # type: ignore[no-untyped-def]
    """What each value is worth beside a record: before a record is looked at, that of an unrelated one.

    Field f starts at `value_ptr[f] + f`; its first place is for missing values, which are worth nothing.
    """
    n_fields = len(scorer.value_ptr) - 1
    table = np.zeros(scorer.value_ptr[n_fields] + n_fields, np.float32)
    for f in range(n_fields):
        begin = scorer.value_ptr[f] + f
        table[begin + 1 : begin + 1 + scorer.value_ptr[f + 1] - scorer.value_ptr[f]] = scorer.level_evidence[f, 3]
    return table


@leaf
def _row_scores(a, lo, hi, scorer, table, out):  # type: ignore[no-untyped-def]
    """Scores of record a with records lo..hi-1, to single precision, in `out`.

    Each of a's values and those near it are marked in the table, all records are looked up field by field, and the
    marks are taken off again.
    """
    out[: hi - lo] = 0.0
    for f in range(len(scorer.value_ptr) - 1):
        v = scorer.codes[a, f]
        if v < 0:
            continue
        field = table[scorer.value_ptr[f] + f : scorer.value_ptr[f + 1] + f + 1]
        first, last = scorer.near_ptr[scorer.value_ptr[f] + v], scorer.near_ptr[scorer.value_ptr[f] + v + 1]
        other = np.float32(scorer.level_evidence[f, 3])
        for i in range(first, last):
            level = scorer.near_level[i]
            worth = scorer.match[a, f] if level == 0 else np.float32(scorer.level_evidence[f, level])
            field[scorer.near_value[i] - scorer.value_ptr[f] + 1] = worth
        field[v + 1] = scorer.match[a, f]
        column = scorer.columns[f, lo:hi]
        for i in range(hi - lo):
            out[i] += field[column[i] + 1]
        for i in range(first, last):
            field[scorer.near_value[i] - scorer.value_ptr[f] + 1] = other
        field[v + 1] = other


@kernel
def all_pairs_kernel(lo, hi, scorer, threshold, out_a, out_b):  # type: ignore[no-untyped-def]
    """Pairs (a, b) with lo ≤ a < hi, a < b < N whose evidence exceeds the threshold, as `join_kernel`."""
    n = len(scorer.codes)
    table, scores = _others_table(scorer), np.empty(_TILE, np.float32)
    used = 0
    for begin in range(lo + 1, n, _TILE):
        end = min(begin + _TILE, n)
        for a in range(lo, min(hi, end - 1)):
            first = max(begin, a + 1)
            _row_scores(a, first, end, scorer, table, scores)
            for i in range(end - first):
                if scores[i] > threshold - _ROUNDING:
                    used = _emit(a, first + i, scorer, threshold, out_a, out_b, used)
    return used


@kernel
def sample_scores_kernel(records, scorer, threshold, out):  # type: ignore[no-untyped-def]
    """Scores above the threshold of the sample with all N; returns how many, those beyond `out` only counted."""
    n = len(scorer.codes)
    table, scores = _others_table(scorer), np.empty(_TILE, np.float32)
    used = 0
    for record in records:
        a = np.int64(record)  # as in the other kernels: `_row_scores` is compiled once
        for begin in range(0, n, _TILE):
            end = min(begin + _TILE, n)
            _row_scores(a, begin, end, scorer, table, scores)
            for b in range(begin, end):
                if scores[b - begin] > threshold - _ROUNDING and b != a:
                    score = score_pair(min(a, b), max(a, b), scorer)
                    if score > threshold:
                        if used < len(out):
                            out[used] = score
                        used += 1
    return used


@leaf
def _drawn(a, b, one_in):  # type: ignore[no-untyped-def]
    """Whether the pair is the one of so many that stands for them all: by its hash, not by chance."""
    h = (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(b) * np.uint64(0xBF58476D1CE4E5B9))
    h ^= h >> np.uint64(32)
    h *= np.uint64(0x94D049BB133111EB)
    return (h >> np.uint64(32)) % np.uint64(one_in) == 0


@kernel
def audit_kernel(lo, hi, records, scorer, threshold, faint, one_in, out_record, out_other):  # type: ignore[no-untyped-def]
    """Records lo..hi-1 of the sample against all N: the pairs whose evidence exceeds the threshold.

    Of those that are not above `faint` only one in so many is listed. Fills (place in the sample, or its complement for
    a pair that stands for others as well; the other record) and returns how many pairs there are; those beyond the
    buffers are only counted.
    """
    n = len(scorer.codes)
    table, scores = _others_table(scorer), np.empty(_TILE, np.float32)
    used = 0
    for i in range(lo, hi):
        a = np.int64(records[i])
        for begin in range(0, n, _TILE):
            end = min(begin + _TILE, n)
            _row_scores(a, begin, end, scorer, table, scores)
            for b in range(begin, end):
                if scores[b - begin] <= threshold - _ROUNDING or b == a:
                    continue
                few = scores[b - begin] <= faint
                if few and not _drawn(a, b, one_in):
                    continue
                if score_pair(min(a, b), max(a, b), scorer) > threshold:
                    if used < len(out_record):
                        out_record[used] = ~i if few else i
                        out_other[used] = b
                    used += 1
    return used
