"""Kernels that find similar texts: deletion neighbourhoods, edit distance up to 2, Jaro-Winkler within groups.

Texts are code points in one uint32 array `chars`, text v in chars[ptr[v]:ptr[v + 1]]. Texts are numbered by rank, the
most frequent first, and pairs are listed as (rank, smaller rank). A kernel that lists pairs returns how many there
are; if that exceeds the buffers, they hold the first ones only and the caller comes again with larger ones.
"""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel, leaf

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@leaf
def _mixed(h):  # type: ignore[no-untyped-def]
    h ^= h >> np.uint64(29)
    h *= _MIX
    return h ^ (h >> np.uint64(32))


@kernel
def deletions_kernel(chars, ptr, texts, length, bits, part, n_parts, keys):  # type: ignore[no-untyped-def]
    """Write the variants of `length` characters that the given texts have after 0, 1 or 2 deletions.

    A key is the variant's hash, shifted to make room for the text's number in the low `bits`. With `n_parts` > 1 only
    variants of one part of the hashes are written. Returns the number of keys, even beyond the buffer.
    """
    used = 0
    shift = np.uint64(bits)
    power = np.ones(256, np.uint64)
    for k in range(1, 256):
        power[k] = power[k - 1] * _FACTOR
    after = np.zeros(257, np.uint64)
    for v in texts:
        start, n = ptr[v], ptr[v + 1] - ptr[v]
        n_deleted = n - length
        # after[k] is the hash of what follows place k, so that a variant's hash is put together from three pieces.
        after[n] = np.uint64(0)
        for k in range(n - 1, -1, -1):
            after[k] = (np.uint64(chars[start + k]) + np.uint64(1)) * power[n - 1 - k] + after[k + 1]
        before = np.uint64(0)
        for i in range(n if n_deleted else 1):
            middle = before
            for j in range(i + 1, n if n_deleted == 2 else i + 2):
                if n_deleted == 2:
                    h = middle * power[n - 1 - j] + after[j + 1]
                    middle = middle * _FACTOR + np.uint64(chars[start + j]) + np.uint64(1)
                elif n_deleted == 1:
                    h = before * power[n - 1 - i] + after[i + 1]
                else:
                    h = after[0]
                h = _mixed(h)
                if n_parts > 1 and (h >> np.uint64(40)) % np.uint64(n_parts) != np.uint64(part):
                    continue
                if used < len(keys):
                    keys[used] = ((h >> shift) << shift) | np.uint64(v)
                used += 1
            if n_deleted:
                before = before * _FACTOR + np.uint64(chars[start + i]) + np.uint64(1)
    return used


@leaf
def _within_one(chars, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    """Damerau-Levenshtein distance of chars[a:a_end] and chars[b:b_end] if 0 or 1, else 2."""
    while a < a_end and b < b_end and chars[a] == chars[b]:
        a += 1
        b += 1
    while a < a_end and b < b_end and chars[a_end - 1] == chars[b_end - 1]:
        a_end -= 1
        b_end -= 1
    m, n = a_end - a, b_end - b
    if m == 0 and n == 0:
        return 0
    if m <= 1 and n <= 1:
        return 1
    if m == 2 and n == 2 and chars[a] == chars[b + 1] and chars[a + 1] == chars[b]:
        return 1
    return 2


@leaf
def distance_kernel(chars, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    """Damerau-Levenshtein distance (unrestricted) of chars[a:a_end] and chars[b:b_end] if at most 2, else 3."""
    if abs((a_end - a) - (b_end - b)) > 2:
        return 3
    while a < a_end and b < b_end and chars[a] == chars[b]:
        a += 1
        b += 1
    while a < a_end and b < b_end and chars[a_end - 1] == chars[b_end - 1]:
        a_end -= 1
        b_end -= 1
    m, n = a_end - a, b_end - b
    if m == 0 or n == 0:
        return min(3, m + n)
    best = 2
    best = min(best, _within_one(chars, a + 1, a_end, b + 1, b_end))
    best = min(best, _within_one(chars, a + 1, a_end, b, b_end))
    best = min(best, _within_one(chars, a, a_end, b + 1, b_end))
    if m >= 2 and n >= 2 and chars[a] == chars[b + 1] and chars[a + 1] == chars[b]:
        best = min(best, _within_one(chars, a + 2, a_end, b + 2, b_end))
    # A swap with something put between, or taken from between: ab -> bxa, axb -> ba.
    if m >= 2 and n >= 3 and chars[a] == chars[b + 2] and chars[a + 1] == chars[b]:
        if _within_one(chars, a + 2, a_end, b + 3, b_end) == 0:
            best = min(best, 1)
    if m >= 3 and n >= 2 and chars[a] == chars[b + 1] and chars[a + 2] == chars[b]:
        if _within_one(chars, a + 3, a_end, b + 2, b_end) == 0:
            best = min(best, 1)
    return best + 1


@kernel
def edits_kernel(chars, ptr, keys, bits, distance, cap, begin, end, out_a, out_b):  # type: ignore[no-untyped-def]
    """List the pairs at the given distance that share a variant; `keys` sorted, groups start in begin..end.

    Within a group each text meets the `cap` most frequent ones before it. A pair may be listed several times.
    """
    used = 0
    shift = np.uint64(bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    i = begin
    while i < end:
        if i and keys[i] >> shift == keys[i - 1] >> shift:
            i += 1
            continue
        stop = i + 1
        while stop < len(keys) and keys[stop] >> shift == keys[i] >> shift:
            stop += 1
        for j in range(i + 1, stop):
            v = np.int64(keys[j] & mask)
            for k in range(i, min(j, i + cap)):
                w = np.int64(keys[k] & mask)
                if w != v and (k == i or keys[k] != keys[k - 1]) and keys[j] != keys[j - 1]:
                    if distance_kernel(chars, ptr[v], ptr[v + 1], ptr[w], ptr[w + 1]) == distance:
                        if used < len(out_a):
                            out_a[used] = v
                            out_b[used] = w
                        used += 1
        i = stop
    return used


@kernel
def bags_kernel(chars, ptr):  # type: ignore[no-untyped-def]
    """Which characters a text has, once and twice, in 32 classes, as a bit mask; and how many it has beyond that."""
    n = len(ptr) - 1
    mask = np.zeros(n, np.uint64)
    beyond = np.zeros(n, np.int32)
    for v in range(n):
        bag = np.uint64(0)
        for k in range(ptr[v], ptr[v + 1]):
            one = np.uint64(1) << np.uint64(chars[k] % np.uint32(32))
            if not bag & one:
                bag |= one
            elif not bag & (one << np.uint64(32)):
                bag |= one << np.uint64(32)
            else:
                beyond[v] += 1
        mask[v] = bag
    return mask, beyond


@leaf
def _n_bits(x):  # type: ignore[no-untyped-def]
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@leaf
def jaro_winkler_kernel(chars, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    """Jaro-Winkler similarity of two texts of at most 64 characters."""
    m, n = a_end - a, b_end - b
    if m == 0 or n == 0:
        return 1.0 if m == n else 0.0
    window = max(max(m, n) // 2 - 1, 0)
    one = np.uint64(1)
    in_a = np.uint64(0)
    in_b = np.uint64(0)
    matches = 0
    for i in range(m):
        for j in range(max(0, i - window), min(n, i + window + 1)):
            bit = one << np.uint64(j)
            if not in_b & bit and chars[a + i] == chars[b + j]:
                in_b |= bit
                in_a |= one << np.uint64(i)
                matches += 1
                break
    if not matches:
        return 0.0
    moved = 0
    j = 0
    for i in range(m):
        if in_a & (one << np.uint64(i)):
            while not in_b & (one << np.uint64(j)):
                j += 1
            if chars[a + i] != chars[b + j]:
                moved += 1
            j += 1
    jaro = (matches / m + matches / n + (matches - moved // 2) / matches) / 3
    if jaro <= 0.7:
        return jaro
    prefix = 0
    while prefix < min(4, m, n) and chars[a + prefix] == chars[b + prefix]:
        prefix += 1
    return jaro + 0.1 * prefix * (1 - jaro)


@kernel
def jaro_pairs_kernel(  # type: ignore[no-untyped-def]
    chars, ptr, members, group_ptr, mask, beyond, threshold, cap, groups, out_a, out_b
):
    """List the pairs within the given groups whose Jaro-Winkler similarity reaches the threshold.

    `members` are texts group by group, ranks rising in each. Each text is paired with at most `cap` more frequent ones,
    the most frequent first.
    """
    used = 0
    # What Jaro's similarity must reach even with the longest common beginning.
    least = 3 * (threshold - 0.4) / 0.6 - 1
    for g in groups:
        for i in range(group_ptr[g] + 1, group_ptr[g + 1]):
            v = members[i]
            size, bag = ptr[v + 1] - ptr[v], mask[v]
            found = 0
            for j in range(group_ptr[g], i):
                w = members[j]
                other = ptr[w + 1] - ptr[w]
                common = np.int64(_n_bits(bag & mask[w])) + min(beyond[v], beyond[w])
                if common * (size + other) < least * (size * other) - 1e-6:
                    continue
                if jaro_winkler_kernel(chars, ptr[v], ptr[v + 1], ptr[w], ptr[w + 1]) >= threshold - 1e-9:
                    if used < len(out_a):
                        out_a[used] = v
                        out_b[used] = w
                    used += 1
                    found += 1
                    if found == cap:
                        break
    return used


@kernel
def group_pairs_kernel(members, group_ptr, cap, out_a, out_b):  # type: ignore[no-untyped-def]
    """List the pairs within groups, each member with at most the first `cap` ones before it."""
    used = 0
    for g in range(len(group_ptr) - 1):
        for i in range(group_ptr[g] + 1, group_ptr[g + 1]):
            for j in range(group_ptr[g], min(i, group_ptr[g] + cap)):
                if used < len(out_a):
                    out_a[used] = members[i]
                    out_b[used] = members[j]
                used += 1
    return used


@kernel
def near_numbers_kernel(numbers, order, unit, relative, cap, out_a, out_b):  # type: ignore[no-untyped-def]
    """List the pairs of numbers that differ by at most `unit` or a small share; each with the next `cap` above."""
    used = 0
    for i in range(len(order)):
        low = numbers[order[i]]
        for j in range(i + 1, min(len(order), i + 1 + cap)):
            high = numbers[order[j]]
            if high - low > max(unit, relative * max(abs(low), abs(high))):
                break
            if used < len(out_a):
                out_a[used] = max(order[i], order[j])
                out_b[used] = min(order[i], order[j])
            used += 1
    return used


@kernel
def overlap_pairs_kernel(  # type: ignore[no-untyped-def]
    words, ptr, index_ptr, index, threshold, close, cap, begin, end, out_a, out_b, out_level
):
    """List the pairs of word sets whose Jaccard similarity reaches `threshold`; level 1 from `close`, else 2.

    `words` holds each text's distinct words as numbers, rarest first; the index lists, for each word, the texts (by
    rank) among whose rarest words it is, enough of them that two similar texts must share one.
    """
    used = 0
    seen = np.full(len(ptr) - 1, -1, np.int64)
    for v in range(begin, end):
        size = ptr[v + 1] - ptr[v]
        prefix = size - np.int64(np.ceil(threshold * size - 1e-9)) + 1
        for k in range(ptr[v], ptr[v] + min(prefix, size)):
            met = 0
            for t in range(index_ptr[words[k]], index_ptr[words[k] + 1]):
                w = index[t]
                if w >= v or met == cap:
                    break
                met += 1
                if seen[w] == v:
                    continue
                seen[w] = v
                other = ptr[w + 1] - ptr[w]
                if min(size, other) < threshold * max(size, other) - 1e-9:
                    continue
                i, j, common = ptr[v], ptr[w], 0
                while i < ptr[v + 1] and j < ptr[w + 1]:
                    if words[i] == words[j]:
                        common += 1
                        i += 1
                        j += 1
                    elif words[i] < words[j]:
                        i += 1
                    else:
                        j += 1
                share = common / (size + other - common)
                if share >= threshold - 1e-9:
                    if used < len(out_a):
                        out_a[used] = v
                        out_b[used] = w
                        out_level[used] = 1 if share >= close - 1e-9 else 2
                    used += 1
    return used


@kernel
def levels_kernel(codes_a, codes_b, form, ptr, partner, level, other, missing):  # type: ignore[no-untyped-def]
    """Level of each pair of codes; value v's partners, rising, are partner[ptr[v]:ptr[v + 1]], each with its level."""
    out = np.full(len(codes_a), other, np.int8)
    for i in range(len(codes_a)):
        if codes_a[i] < 0 or codes_b[i] < 0:
            out[i] = missing
            continue
        v, w = form[codes_a[i]], form[codes_b[i]]
        if v == w:
            out[i] = 0
            continue
        low, high = min(v, w), max(v, w)
        begin, end = ptr[low], ptr[low + 1]
        while begin < end:
            middle = (begin + end) // 2
            if partner[middle] < high:
                begin = middle + 1
            else:
                end = middle
        if begin < ptr[low + 1] and partner[begin] == high:
            out[i] = level[begin]
    return out
