"""Pair shares and most probable maximal matching sets against plain counting."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from vber_cli.engine import matching
from vber_cli.engine.matching import matching_sets, pair_shares


def drawn(rng, n, n_draws, n_blocks):
    """Draws as the sampler keeps them: for each record the first record of its block."""
    base = rng.integers(n_blocks, size=n)
    out = []
    for _ in range(n_draws):
        label = np.where(rng.random(n) < 0.2, rng.integers(n_blocks, size=n), base)
        out.append(np.array([np.flatnonzero(label == x)[0] for x in label], np.int32))
    return out


def block_of(draw, r):
    return frozenset(np.flatnonzero(draw == draw[r]).tolist())


@pytest.mark.parametrize("pending", [1, 1 << 20])
def test_pair_shares_are_counts(rng, monkeypatch, pending):
    monkeypatch.setattr(matching, "_PENDING", pending)
    draws = drawn(rng, 25, 30, 9)
    count = Counter((i, j) for draw in draws for i, j in itertools.combinations(range(25), 2) if draw[i] == draw[j])
    found = pair_shares(draws)
    pairs = dict(zip(zip(found.a.tolist(), found.b.tolist(), strict=True), found.probability, strict=True))
    assert pairs == {pair: pytest.approx(c / 30) for pair, c in count.items()}


def test_nobody_together():
    draws = [np.arange(6, dtype=np.int32)] * 3
    assert len(pair_shares(draws).a) == 0
    sets = matching_sets(draws)
    assert sorted(sets.label) == list(range(6))
    assert (sets.probability == 1).all()
    assert (sets.alone == 1).all()


def test_records_that_share_their_most_probable_set_are_together(rng):
    draws = drawn(rng, 30, 41, 14)
    sets = matching_sets(draws)
    best = []
    for r in range(30):
        seen = Counter(block_of(draw, r) for draw in draws)
        assert round(sets.probability[r] * 41) == max(seen.values())
        assert round(sets.alone[r] * 41) == seen[frozenset([r])]
        best.append({s for s, c in seen.items() if c == max(seen.values())})
    unique = [r for r in range(30) if len(best[r]) == 1]
    for i, j in itertools.combinations(unique, 2):
        assert (sets.label[i] == sets.label[j]) == (best[i] == best[j])
    assert len(unique) > 20
