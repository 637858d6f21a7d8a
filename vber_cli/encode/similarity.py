"""Which distinct values of a field are alike, without comparing all pairs of them.

Levels: 0 identical (the same comparison form), 1 one edit away, 2 similar, 3 other.

Exact, for any two comparison forms of up to 255 characters: Damerau-Levenshtein distance 1 (deletion neighbourhoods;
texts of one character have no near ones), one digit slip. Exact unless a limit below is met: swapped day and month, the
same words in another order, distance 2 (short text of 6 to 32 characters), Jaro-Winkler (of 3 to 32 characters, if they
begin with the same two), initials, nicknames and subsets of up to four words (of up to twelve, one word less), two of
three parts of a date, near numbers, common words of long texts.

Limits, so that time and memory grow with the number of values and not with its square. Every rule looks from a value to
more frequent ones only, the most frequent first, and stops at `_CAP` of them (numbers: the next `_CAP_NUMBERS` above);
so it is the link between two rare values that is lost where very many are alike (level 3, as if unrelated). A value
that many others resemble keeps them all.
Jaro-Winkler splits beginnings that more than `_GROUP` values share by a further letter.

Measured on 200,000 family names and misspellings of them, the index against the comparison of 600 of them with all:
found are all pairs at distance 1, 99.8 % of those at distance 2, 99.99 % of those that begin alike and reach a
Jaro-Winkler similarity of 0.88. Of all pairs that reach it, however they begin, 74 % begin alike and 87 % are found;
the others are mostly short texts with several errors, and count as unrelated. It takes five seconds on one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vber_cli.encode import similarity_kernels as kernels
from vber_cli.encode.buffers import grown
from vber_cli.encode.types import FieldType, are_years, canonical
from vber_cli.encode.words import overlapping_pairs, word_pairs
from vber_cli.model.types import IntArray, LongArray
from vber_cli.parallel import in_threads

IDENTICAL, CLOSE, NEAR, OTHER, LEVEL_MISSING = 0, 1, 2, 3, 9
JARO_WINKLER = 0.88

LevelArray = NDArray[np.int8]
KeyArray = NDArray[np.uint64]

_CAP = 200
_CAP_NUMBERS = 50
_GROUP = 8192
_LONG_ENOUGH = 6
_LONGEST_TWO, _LONGEST_JARO, _LONGEST_ONE = 32, 32, 255
_KEYS_AT_ONCE = 1 << 24
# Room that is not used takes no memory, and too little of it a second look at everything.
_PAIRS_PER_KEY, _PAIRS_PER_MEMBER = 4, 16
# Numbers: so many units of the field's finest decimal, or such a share of the larger one.
_UNITS, _SHARE = 2.0, 0.005


@dataclass(frozen=True)
class Similar:
    """Pairs of distinct values that are alike.

    Attributes
    ----------
    form
        (V,) int32: for each value the first value that has the same comparison form, itself as a rule.
    a, b
        (P,) int32 codes, a < b, sorted by (a, b), each pair once; only first values of a form appear.
    level
        (P,) int8, 1 one edit away or 2 similar.
    """

    form: IntArray
    a: IntArray
    b: IntArray
    level: LevelArray

    @cached_property
    def _ptr(self) -> LongArray:
        """(V + 1,) where each value's pairs as the first of the two begin."""
        return np.searchsorted(self.a, np.arange(len(self.form) + 1))

    def level_of(self, codes_a: IntArray, codes_b: IntArray) -> LevelArray:
        """Look levels up.

        Parameters
        ----------
        codes_a, codes_b
            Codes of any equal shape, -1 is missing.

        Returns
        -------
        ndarray
            int8 of that shape: 0 identical, 1 one edit away, 2 similar, 3 other, 9 if either is missing.
        """
        codes_a, codes_b = np.broadcast_arrays(np.asarray(codes_a, np.int32), np.asarray(codes_b, np.int32))
        levels: LevelArray = kernels.levels_kernel(
            codes_a.ravel(), codes_b.ravel(), self.form, self._ptr, self.b, self.level, OTHER, LEVEL_MISSING
        )
        return levels.reshape(codes_a.shape)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of forms by rank and their level; the same pair may come several times."""

    a: IntArray
    b: IntArray
    level: LevelArray


@dataclass(frozen=True)
class _Forms:
    """(U,) distinct forms by rank, the most frequent first, as text and as code points."""

    texts: list[str]
    chars: NDArray[np.uint32]
    ptr: LongArray
    threads: int


def find_similar(
    values: pa.StringArray,
    counts: LongArray,
    field_type: FieldType,
    threads: int = 1,
    *,
    forms: pa.StringArray | None = None,
) -> Similar:
    """Find all pairs of distinct values that are alike.

    Parameters
    ----------
    values
        V distinct values without nulls.
    counts
        (V,) how many records have each; decides whose links are kept where there are too many.
    field_type
        Their type. Values of a category are identical or not.
    threads
        How many threads; the result is the same for any number.
    forms
        (V,) their comparison forms, if they are known, or differ from those of `field_type`.

    Returns
    -------
    Similar
        The pairs, and which values share a form.
    """
    forms = canonical(values, field_type) if forms is None else forms
    index, distinct = _distinct(forms)
    first = np.full(len(distinct), len(forms), dtype=np.int64)
    np.minimum.at(first, index, np.arange(len(forms)))
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, index, np.asarray(counts, dtype=np.int64))
    form = first[index].astype(np.int32)
    # Ties go by the form's first code, so that the ranks, and all that follows, depend on nothing else.
    rank_order = np.lexsort((first, -total))
    found = _pairs_of(distinct.take(pa.array(rank_order)), total[rank_order], field_type.kind, threads)
    code = first[rank_order]
    return _collected(form, code, found)


def _distinct(forms: pa.StringArray) -> tuple[LongArray, pa.StringArray]:
    encoded = forms.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _collected(form: IntArray, code: LongArray, found: list[_Pairs]) -> Similar:
    """One sorted list of pairs of codes, the closer level where several rules agree."""
    n = len(form)
    if not sum(len(pairs.a) for pairs in found):
        nothing = np.zeros(0, dtype=np.int32)
        return Similar(form, nothing, nothing, np.zeros(0, dtype=np.int8))
    pieces = []
    for pairs in found:
        x, y = code[pairs.a], code[pairs.b]
        pieces.append((np.minimum(x, y) * n + np.maximum(x, y)) * 4 + pairs.level)
    keys = np.concatenate(pieces)
    del pieces
    keys.sort()
    keys = keys[np.r_[True, keys[1:] >> 2 != keys[:-1] >> 2]]
    level = (keys & 3).astype(np.int8)
    keys >>= 2
    a = keys // n
    return Similar(form, a.astype(np.int32), (keys - a * n).astype(np.int32), level)


def _pairs_of(distinct: pa.StringArray, counts: LongArray, kind: str, threads: int) -> list[_Pairs]:
    if kind == "category" or len(distinct) < 2:
        return []
    if kind == "date":
        return _date_pairs(distinct, threads)
    if kind == "number":
        return _number_pairs(distinct, counts, threads)
    forms = _packed(distinct, threads)
    found = [_one_edit(forms, shortest=2, longest_at_least=3)]
    if kind == "text":
        found += [_two_edits(forms), _jaro_pairs(forms)]
        found.append(_Pairs(*word_pairs(forms.texts, _CAP)))
    else:
        found.append(_Pairs(*overlapping_pairs(forms.texts, _CAP, threads)))
    return found


def _packed(texts: pa.StringArray, threads: int) -> _Forms:
    ptr = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(pc.utf8_length(texts).to_numpy(zero_copy_only=False), out=ptr[1:])
    listed = texts.to_pylist()
    chars = np.frombuffer("".join(listed).encode("utf-32-le"), dtype=np.uint32)
    return _Forms(listed, chars, ptr, threads)


def _joined(pieces: Iterable[list[NDArray[Any]]], level: int) -> _Pairs:
    kept = list(pieces)
    empty = np.zeros(0, dtype=np.int32)
    a = np.concatenate([empty, *(piece[0] for piece in kept)])
    b = np.concatenate([empty, *(piece[1] for piece in kept)])
    return _Pairs(a, b, np.full(len(a), level, dtype=np.int8))


def _one_edit(forms: _Forms, shortest: int, longest_at_least: int) -> _Pairs:
    """All pairs at Damerau-Levenshtein distance 1, but for very short ones."""
    pairs = _edits(forms, 1, shortest, _LONGEST_ONE, cap=len(forms.ptr))
    length = np.diff(forms.ptr)
    keep = np.maximum(length[pairs.a], length[pairs.b]) >= longest_at_least
    return _Pairs(pairs.a[keep], pairs.b[keep], pairs.level[keep])


def _two_edits(forms: _Forms) -> _Pairs:
    """Pairs of long enough forms at Damerau-Levenshtein distance 2."""
    return _edits(forms, 2, _LONG_ENOUGH, _LONGEST_TWO, cap=_CAP)


def _edits(forms: _Forms, distance: int, shortest: int, longest: int, cap: int) -> _Pairs:
    """Pairs at a distance. Two texts that far apart share a variant with at most so many characters deleted."""
    length = np.diff(forms.ptr)
    bits = max(int(len(length) - 1).bit_length(), 1)
    usable = (length >= shortest) & (length <= longest)
    of_length = {int(n): np.flatnonzero(usable & (length == n)) for n in np.unique(length[usable])}
    tasks = []
    targets = sorted({n - k for n in of_length for k in range(distance + 1) if n >= k})
    for target in targets:
        sources = [of_length[n] for n in range(target, target + distance + 1) if n in of_length]
        n_keys = sum(len(texts) * _n_variants(int(length[texts[0]]), target) for texts in sources)
        n_parts = -(-n_keys // _KEYS_AT_ONCE)
        tasks += [(np.concatenate(sources), target, part, n_parts, n_keys // n_parts) for part in range(n_parts)]

    def run(task: tuple[LongArray, int, int, int, int]) -> list[NDArray[Any]]:
        texts, target, part, n_parts, guess = task

        def write(keys: KeyArray) -> int:
            used: int = kernels.deletions_kernel(forms.chars, forms.ptr, texts, target, bits, part, n_parts, keys)
            return used

        (keys,) = grown(write, int(guess * (1.05 if n_parts > 1 else 1)), [np.uint64])
        keys.sort()

        def pairs(a: IntArray, b: IntArray) -> int:
            n: int = kernels.edits_kernel(forms.chars, forms.ptr, keys, bits, distance, cap, 0, len(keys), a, b)
            return n

        return _once(grown(pairs, _PAIRS_PER_KEY * len(keys)))

    return _joined(in_threads(run, tasks, forms.threads), distance)


def _n_variants(n: int, target: int) -> int:
    return (1, n, n * (n - 1) // 2)[n - target]


def _once(pair: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Each pair once."""
    keys = (pair[0].astype(np.int64) << 32) | pair[1]
    keys.sort()
    if len(keys):
        keys = keys[np.r_[True, keys[1:] != keys[:-1]]]
    return [(keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)]


def _jaro_pairs(forms: _Forms) -> _Pairs:
    """Pairs that begin with the same two characters and whose Jaro-Winkler similarity is high."""
    length = np.diff(forms.ptr)
    members = np.flatnonzero((length >= 3) & (length <= _LONGEST_JARO))
    members, group_ptr = _by_beginning(forms, members)
    if len(group_ptr) < 2:
        return _joined([], NEAR)
    mask, beyond = kernels.bags_kernel(forms.chars, forms.ptr)
    cost = np.diff(group_ptr).astype(np.float64) ** 2
    n_tasks = min(16 * forms.threads, len(cost)) if forms.threads > 1 else 1
    # Dealt out from the largest down; the tasks' results are sorted later, so the dealing changes nothing.
    order = np.argsort(-cost, kind="stable")
    tasks = [np.ascontiguousarray(order[t::n_tasks]) for t in range(n_tasks)]

    def run(groups: LongArray) -> list[NDArray[Any]]:
        def pairs(a: IntArray, b: IntArray) -> int:
            n: int = kernels.jaro_pairs_kernel(
                forms.chars, forms.ptr, members, group_ptr, mask, beyond, JARO_WINKLER, _CAP, groups, a, b
            )
            return n

        return grown(pairs, 32 * int(np.diff(group_ptr)[groups].sum()))

    return _joined(in_threads(run, tasks, forms.threads), NEAR)


def _by_beginning(forms: _Forms, members: LongArray) -> tuple[LongArray, LongArray]:
    """Texts in groups of the same two first characters, of more where there would be too many; ranks rise in each."""
    label = np.zeros(len(members), dtype=np.int64)
    length = np.diff(forms.ptr)[members]
    depth = 0
    while True:
        size = np.bincount(label)
        split = np.ones(len(members), np.bool_) if depth < 2 else size[label] > _GROUP
        if not split.any() or depth >= _LONGEST_JARO:
            break
        place = np.minimum(forms.ptr[members] + depth, len(forms.chars) - 1)
        char = np.where(split & (depth < length), forms.chars[place].astype(np.int64) + 1, 0)
        label = np.unique((label << 22) | char, return_inverse=True)[1]
        depth += 1
    order = np.lexsort((members, label))
    starts = np.flatnonzero(np.r_[True, np.diff(label[order]) != 0]) if len(order) else np.zeros(0, dtype=np.int64)
    return members[order], np.r_[starts, len(order)].astype(np.int64)


def _grouped_pairs(key: LongArray, members: LongArray, level: int) -> _Pairs:
    """Pairs of members with the same key."""
    if not len(members):
        return _joined([], level)
    order = np.lexsort((members, key))
    starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0])
    members, group_ptr = members[order], np.r_[starts, len(order)]

    def pairs(a: IntArray, b: IntArray) -> int:
        n: int = kernels.group_pairs_kernel(members, group_ptr, _CAP, a, b)
        return n

    return _joined([grown(pairs, _PAIRS_PER_MEMBER * len(members))], level)


def _date_pairs(distinct: pa.StringArray, threads: int) -> list[_Pairs]:
    """Digit slips and swapped day and month; two of three parts, partial dates, the first of January."""
    digits = pc.replace_substring_regex(distinct, "[^0-9]+", "")
    found = [_one_edit(_packed(digits, threads), shortest=3, longest_at_least=5)]
    parts = date_parts(distinct)
    year, month, day = (parts[:, i].astype(np.int64) for i in range(3))
    whole = np.flatnonzero(day > 0)
    swappable = whole[(month[whole] <= 12) & (day[whole] <= 12)]
    low, high = np.minimum(month, day), np.maximum(month, day)
    found.append(_grouped_pairs((year * 100 + low)[swappable] * 100 + high[swappable], swappable, CLOSE))
    for x, y in ((year, month), (year, day), (month, day)):
        found.append(_grouped_pairs((x * 10_000 + y)[whole], whole, NEAR))
    # A partial date, or one that stands for "some time that year", fits the dates of its year or month.
    vague = (day == 0) & (year > 0)
    new_year = (month == 1) & (day == 1)
    for chosen, key in (
        ((month == 0) | new_year, year),
        (vague & (month > 0), year * 100 + month),
    ):
        found.append(_matched(np.flatnonzero(chosen & (year > 0)), np.flatnonzero(year > 0), key))
    return found


def _matched(few: LongArray, many: LongArray, key: LongArray) -> _Pairs:
    """Pair each of `few` with those of `many` that have its key."""
    order = many[np.argsort(key[many], kind="stable")]
    low = np.searchsorted(key[order], key[few], side="left")
    n = np.searchsorted(key[order], key[few], side="right") - low
    a = np.repeat(few, n)
    b = order[np.repeat(low - np.r_[0, np.cumsum(n)[:-1]], n) + np.arange(n.sum())] if len(few) else a
    keep = a != b
    a, b = a[keep], b[keep]
    pair = [np.maximum(a, b).astype(np.int32), np.minimum(a, b).astype(np.int32)]
    return _joined([_once(pair)], NEAR)


def date_parts(forms: pa.StringArray) -> IntArray:
    """Take year, month and day (V, 3) from comparison forms of dates; 0 for a missing part, -1 for what is no date."""
    matches = pc.extract_regex(forms, r"^(?P<y>\d{4})(?:-(?P<m>\d\d))?(?:-(?P<d>\d\d))?$")
    parts = np.full((len(forms), 3), -1, dtype=np.int32)
    for i, name in enumerate("ymd"):
        text = pc.struct_field(matches, name)
        text = pc.if_else(pc.equal(text, ""), "0", text)
        parts[:, i] = pc.fill_null(text.cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
    return parts


def _number_pairs(distinct: pa.StringArray, counts: LongArray, threads: int) -> list[_Pairs]:
    """One character wrong, or nearly the same size."""
    found = [_one_edit(_packed(distinct, threads), shortest=1, longest_at_least=2)]
    plain = pc.match_substring_regex(distinct, r"^-?\d+(\.\d+)?$").to_numpy(zero_copy_only=False)
    members = np.flatnonzero(plain)
    if not len(members):
        return found
    texts = distinct.take(pa.array(members))
    numbers = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    members, numbers = members[finite], numbers[finite]
    decimals = pc.utf8_length(pc.replace_substring_regex(texts, r"^[^.]*\.?", "")).to_numpy(zero_copy_only=False)
    common = _upper_decimals(decimals, counts[np.flatnonzero(plain)])
    unit = _UNITS * 10.0**-common + 1e-12
    share = 0.0 if are_years(distinct.to_pylist(), counts) else _SHARE
    order = np.argsort(numbers, kind="stable").astype(np.int64)

    def pairs(a: IntArray, b: IntArray) -> int:
        n: int = kernels.near_numbers_kernel(numbers, order, unit, share, _CAP_NUMBERS, a, b)
        return n

    a, b = grown(pairs, 4 * len(members))
    x, y = members[a], members[b]
    found.append(_joined([[np.maximum(x, y).astype(np.int32), np.minimum(x, y).astype(np.int32)]], NEAR))
    return found


def _upper_decimals(decimals: IntArray, counts: LongArray) -> int:
    """How many decimals nine tenths of the records do not exceed."""
    total = np.cumsum(np.bincount(decimals, counts))
    return int(np.searchsorted(total, 0.9 * total[-1]))
