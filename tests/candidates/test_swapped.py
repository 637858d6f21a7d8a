"""Pairs of records that show two values the other way round, against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.candidates.join import Pairs
from vber_cli.candidates.swapped import swapped_pairs
from vber_cli.model.similar import Swaps
from vber_cli.model.types import Records


def case(rng, n=60, n_values=(6, 5, 7)):
    codes = np.column_stack([rng.integers(-1, v, n) for v in n_values]).astype(np.int32)
    twins = [(0, 1, np.array([2, -1, 0, 4, 1, -1])), (1, 2, np.array([-1, 6, 0, 3, -1]))]
    return (
        Records(codes, np.zeros(n, np.int32), np.array(n_values)),
        Swaps.of([(f, g, twin, n_values[g], 2) for f, g, twin in twins]),
        twins,
    )


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_all_of_them_are_found(rng):
    records, swaps, twins = case(rng)
    expected = set()
    for f, g, twin in twins:
        for a in range(records.n_records):
            for b in range(a + 1, records.n_records):
                (x, y), (v, w) = records.codes[a, [f, g]], records.codes[b, [f, g]]
                if min(x, y, v, w) >= 0 and x != v and y != w and twin[x] == w and twin[v] == y:
                    expected.add((a, b))
    a, b = swapped_pairs(records, swaps)
    assert len(expected) > 5
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == sorted(expected)
    assert (a.dtype, b.dtype) == (np.int32, np.int32)


def test_without_such_fields_there_are_none(rng):
    records, _, _ = case(rng)
    a, b = swapped_pairs(records, Swaps.none())
    assert (len(a), len(b)) == (0, 0)


@pytest.mark.parametrize("n_known", [0, 1, 40])
@pytest.mark.parametrize("n_more", [0, 1, 30])
def test_more_pairs_keep_their_order(rng, n_known, n_more):
    every = np.array([(a, b) for a in range(12) for b in range(a + 1, 12)], dtype=np.int32)
    known, more = (every[np.sort(rng.choice(len(every), n, replace=False))] for n in (n_known, n_more))
    found = Pairs(known[:, 0], known[:, 1], 7).plus(more[:, 0], more[:, 1], 5)
    expected = sorted({tuple(pair) for pair in [*known.tolist(), *more.tolist()]})
    assert list(zip(found.a.tolist(), found.b.tolist(), strict=True)) == expected
    assert (found.compared, found.a.dtype) == (12, np.int32)
