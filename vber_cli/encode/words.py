"""Pairs of texts that agree as sequences or sets of words: initials, nicknames, order, subsets, overlap.

Nicknames are those of the package `nicknames`, English given names; without entry in it a name has none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from nicknames import name_triplets
from numpy.typing import NDArray

from vber_cli.encode import similarity_kernels as kernels
from vber_cli.encode.buffers import grown
from vber_cli.encode.folding import fold_text
from vber_cli.model.types import IntArray
from vber_cli.parallel import in_threads

WordPairs = tuple[IntArray, IntArray, NDArray[np.int8]]

# All subsets of so many words; of up to so many those that lack one word.
_MOST_WORDS, _MOST_FOR_ONE_LESS = 4, 12
_SHORTEST_PART = 3
_OVERLAP, _CLOSE_OVERLAP = 0.5, 0.8
_RUN = 4096


def word_pairs(texts: Sequence[str], cap: int) -> WordPairs:
    """Find pairs at level 2 by their words.

    Parameters
    ----------
    texts
        U distinct comparison forms, the most frequent first.
    cap
        With how many more frequent texts of one kind a text is paired at most.

    Returns
    -------
    tuple
        Two int32 arrays of places in `texts`, the levels. Pairs may repeat.
    """
    place = {text: i for i, text in enumerate(texts)}
    by_words: dict[str, list[int]] = defaultdict(list)
    split = [text.split(" ") if " " in text else None for text in texts]
    for i, words in enumerate(split):
        by_words[" ".join(sorted(words)) if words else texts[i]].append(i)
    nicknames = _nicknames()
    a: list[int] = []
    b: list[int] = []
    for i, text in enumerate(texts):
        words = split[i] or [text]
        partners: set[int] = set()
        for variant in _spellings(words, nicknames):
            if variant in place:
                partners.add(place[variant])
        if split[i]:
            for part in _parts(words):
                partners.update(by_words.get(part, ())[:cap])
        partners.discard(i)
        for j in partners:
            a.append(max(i, j))
            b.append(min(i, j))
    return np.array(a, np.int32), np.array(b, np.int32), np.full(len(a), 2, np.int8)


def _spellings(words: Sequence[str], nicknames: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """The text with some words as initials (all of them if it has one word), or one word as nickname or full name."""
    if len(words) == 1:
        if len(words[0]) > 1 and words[0][0].isalpha():
            yield words[0][0]
        yield from nicknames.get(words[0], ())
    elif len(words) <= _MOST_WORDS:
        long = [k for k, word in enumerate(words) if len(word) > 1 and word[0].isalpha()]
        for n in range(1, len(words)):
            for shortened in combinations(long, n):
                yield " ".join(word[0] if k in shortened else word for k, word in enumerate(words))
        for k, word in enumerate(words):
            for other in nicknames.get(word, ()):
                yield " ".join([*words[:k], other, *words[k + 1 :]])


def _parts(words: Sequence[str]) -> Iterator[str]:
    """All words in order of the alphabet, and subsets of them that are not too short to mean anything."""
    ordered = sorted(words)
    yield " ".join(ordered)
    if len(words) > _MOST_FOR_ONE_LESS:
        return
    fewest = 1 if len(words) <= _MOST_WORDS else len(words) - 1
    for n in range(fewest, len(words)):
        for part in combinations(ordered, n):
            if sum(map(len, part)) >= _SHORTEST_PART:
                yield " ".join(part)


@lru_cache(maxsize=1)
def _nicknames() -> Mapping[str, frozenset[str]]:
    """For each name its nicknames and the names it is a nickname of."""
    related: dict[str, set[str]] = defaultdict(set)
    for name, _, other in name_triplets():
        x, y = fold_text(name), fold_text(other)
        if x != y:
            related[x].add(y)
            related[y].add(x)
    return {name: frozenset(others) for name, others in related.items()}


def overlapping_pairs(texts: Sequence[str], cap: int, threads: int) -> WordPairs:
    """Find pairs of texts that share many of their words: half of them (level 2) or four in five (level 1).

    Parameters
    ----------
    texts
        U distinct comparison forms, the most frequent first.
    cap
        Among how many of the most frequent texts with one of its rare words a text looks for partners.
    threads
        How many threads.

    Returns
    -------
    tuple
        Two int32 arrays of places in `texts`, the levels.
    """
    sets = [sorted(set(text.split(" "))) for text in texts]
    frequency = Counter(word for words in sets for word in words)
    number = {word: k for k, word in enumerate(sorted(frequency, key=lambda word: (frequency[word], word)))}
    ptr = np.zeros(len(sets) + 1, np.int64)
    np.cumsum([len(words) for words in sets], out=ptr[1:])
    words = np.fromiter((k for one in sets for k in sorted(number[word] for word in one)), np.int64, ptr[-1])
    size = np.diff(ptr)
    prefix = np.minimum(size, size - np.ceil(_OVERLAP * size - 1e-9).astype(np.int64) + 1)
    text_of = np.repeat(np.arange(len(sets)), size)
    rare = np.arange(ptr[-1]) - ptr[text_of] < prefix[text_of]
    order = np.lexsort((text_of[rare], words[rare]))
    index = text_of[rare][order]
    index_ptr = np.searchsorted(words[rare][order], np.arange(len(number) + 1))

    def run(begin: int) -> list[NDArray[np.int32]]:
        end = min(begin + _RUN, len(sets))

        def pairs(a: IntArray, b: IntArray, level: NDArray[np.int8]) -> int:
            n: int = kernels.overlap_pairs_kernel(
                words, ptr, index_ptr, index, _OVERLAP, _CLOSE_OVERLAP, cap, begin, end, a, b, level
            )
            return n

        return grown(pairs, 8 * _RUN, [np.int32, np.int32, np.int8])

    pieces = in_threads(run, list(range(0, len(sets), _RUN)), threads)
    a, b, level = (np.concatenate([piece[k] for piece in pieces]) for k in range(3))
    return a, b, level
