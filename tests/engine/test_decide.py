"""The assignment of least expected loss against all partitions; membership and expected scores against loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import naive
from vber_cli.engine.decide import PairTable, decide, expected_scores, membership


def gain_of(label, p, loss):
    """How much less a partition is expected to lose than all records apart."""
    false_pair, missed_pair = loss
    total = 0.0
    for i, j in itertools.combinations(range(len(label)), 2):
        if label[i] == label[j]:
            total += missed_pair * p[i, j] - false_pair * (1 - p[i, j])
    return total


def random_pairs(rng, n, listed):
    """Some pairs with probabilities, in any order, and all of them as a matrix: 0 where not listed."""
    a, b = np.triu_indices(n, 1)
    chosen = rng.permutation(len(a))[: round(listed * len(a))]
    a, b = a[chosen].astype(np.int32), b[chosen].astype(np.int32)
    probability = rng.beta(0.6, 0.6, len(a))
    p = np.zeros((n, n))
    p[a, b] = p[b, a] = probability
    return a, b, probability, p


LOSSES = [(1.0, 1.0), (5.0, 1.0), (1.0, 4.0), (0.3, 0.2)]


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("listed", [1.0, 0.6, 0.2])
def test_small_components_are_decided_as_no_partition_is_better(rng, loss, listed):
    for n in (1, 2, 5, 8):
        a, b, probability, p = random_pairs(rng, n, listed)
        label = decide(a, b, probability, n, loss)
        assert label.dtype == np.int32
        best = max(gain_of(other, p, loss) for other in naive.labellings(n))
        assert gain_of(label, p, loss) == pytest.approx(best, abs=1e-9)
        first = np.unique(label, return_index=True)[1]
        assert label[np.sort(first)].tolist() == list(range(len(first)))  # numbered as they appear


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_many_components_are_decided_one_by_one(rng):
    order = rng.permutation(40)
    groups = [sorted(part.tolist()) for part in np.split(order, [6, 8, 15, 22, 30])]
    ends, values = [], []
    p = np.zeros((40, 40))
    for group in groups[:-1]:
        for i, j in itertools.combinations(group, 2):
            ends.append((i, j))
            values.append(rng.beta(0.6, 0.6))
            p[i, j] = values[-1]
    ends = np.array(ends, np.int32)
    label = decide(ends[:, 0], ends[:, 1], np.array(values), 40, (1.0, 1.0))
    for group in groups[:-1]:
        q = p[np.ix_(group, group)]
        best = max(gain_of(other, q, (1.0, 1.0)) for other in naive.labellings(len(group)))
        assert gain_of(label[group], q, (1.0, 1.0)) == pytest.approx(best, abs=1e-9)
    for i, j in itertools.combinations(range(40), 2):
        if not any(i in group and j in group for group in groups[:-1]):
            assert label[i] != label[j]


def improves(label, p, loss, r, k):
    moved = label.copy()
    moved[r] = k
    return gain_of(moved, p, loss) - gain_of(label, p, loss)


@pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "listed"), [(9, 1.0), (14, 0.5), (40, 0.15), (40, 1.0)])
def test_large_components_are_never_decided_worse_than_apart_or_together(rng, loss, n, listed):
    a, b, probability, p = random_pairs(rng, n, listed)
    label = decide(a, b, probability, n, loss)
    gain = gain_of(label, p, loss)
    together = np.arange(n)
    positive = loss[1] * probability - loss[0] * (1 - probability) > 0
    for group in naive.connected(n, a[positive], b[positive]):
        together[group] = group[0]
    assert len(set(together.tolist())) < n
    assert gain > 0
    assert gain >= gain_of(together, p, loss) - 1e-9
    # and no two of its blocks are better merged
    for x, y in itertools.combinations(sorted(set(label.tolist())), 2):
        assert gain_of(np.where(label == y, x, label), p, loss) <= gain + 1e-9


def test_clear_groups_are_found_in_a_large_component(rng):
    n = 60
    person = np.sort(rng.integers(0, 15, n))
    a, b = (side.astype(np.int32) for side in np.triu_indices(n, 1))
    same = person[a] == person[b]
    probability = np.where(same, rng.uniform(0.6, 1, len(a)), rng.uniform(0, 0.1, len(a)))
    lures = rng.choice(np.flatnonzero(~same), 30, replace=False)
    probability[lures] = 0.55  # each would join two groups, and none is worth it
    order = rng.permutation(len(a))
    big = np.bincount(person)[person[a[lures]]] * np.bincount(person)[person[b[lures]]] > 1
    label = decide(a[order], b[order], probability[order], n, (1.0, 1.0))
    assert big.all()
    assert naive.blocks_of(label) == naive.blocks_of(person)


@pytest.mark.parametrize("n", [2, 12])
def test_losses_decide_where_the_line_is(n):
    """All pairs alike: together if fn · p > fp · (1 − p), in small components and in large ones."""
    a, b = (side.astype(np.int32) for side in np.triu_indices(n, 1))
    for p in (0.1, 0.3, 0.5, 0.7, 0.9):
        for false_pair, missed_pair in ((1.0, 1.2), (2.0, 1.0), (1.0, 5.0), (10.0, 1.0), (0.0, 1.0)):
            label = decide(a, b, np.full(len(a), p), n, (false_pair, missed_pair))
            together = missed_pair * p > false_pair * (1 - p)
            assert len(set(label.tolist())) == (1 if together else n)


def test_nothing_to_decide():
    none = np.empty(0, np.int32)
    assert decide(none, none, np.empty(0), 3, (1.0, 1.0)).tolist() == [0, 1, 2]


def test_probabilities_are_looked_up_either_way_round(rng):
    a, b, probability, p = random_pairs(rng, 12, 0.4)
    table = PairTable(a, b, probability)
    x, y = (side.ravel().astype(np.int32) for side in np.meshgrid(np.arange(12), np.arange(12)))
    np.testing.assert_array_equal(table.probability(x, y), p[x, y])
    assert PairTable(a[:0], b[:0], probability[:0]).probability(x, y).sum() == 0.0


def naive_membership(label, p, listed, alone):
    """(probability, runner-up, its probability) of every record; a rival is a block with a listed pair."""
    out = []
    for r in range(len(label)):
        own = [s for s in range(len(label)) if label[s] == label[r] and s != r]
        probability = np.mean([p[r, s] for s in own]) if own else alone[r]
        rival, best = -1, alone[r] if own else 0.0
        for k in sorted(set(label.tolist()) - {label[r]}):
            members = [s for s in range(len(label)) if label[s] == k]
            if any(listed[r, s] for s in members) and np.mean([p[r, s] for s in members]) > best:
                rival, best = k, np.mean([p[r, s] for s in members])
        out.append((probability, rival, best))
    return zip(*out, strict=True)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_membership_meets_the_loops(rng, share):
    n = 20
    a, b, probability, p = random_pairs(rng, n, share)
    alone = rng.uniform(0, 0.4, n)
    label = decide(a, b, probability, n, (1.0, 3.0)) if share else np.arange(n, dtype=np.int32)
    for labels in (label, np.unique(rng.integers(0, 7, n), return_inverse=True)[1].astype(np.int32)):
        found = membership(labels, a, b, probability, alone)
        listed = np.zeros((n, n), bool)
        listed[a, b] = listed[b, a] = True
        expected, rival, rival_probability = naive_membership(labels, p, listed, alone)
        np.testing.assert_allclose(found.probability, expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found.runner_up, rival)
        np.testing.assert_allclose(found.runner_up_probability, rival_probability, rtol=0, atol=1e-12)
        assert found.runner_up.dtype == np.int32


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("missed", [0.0, 2.5])
def test_expected_scores_meet_the_loops(rng, missed):
    n = 15
    a, b, probability, p = random_pairs(rng, n, 0.7)
    label = rng.integers(0, 6, n)
    right = together = 0.0
    for i, j in itertools.combinations(range(n), 2):
        if label[i] == label[j]:
            together += 1
            right += p[i, j]
    links = probability.sum() + missed
    found = expected_scores(label, a, b, probability, missed)
    assert found.precision == pytest.approx(right / together)
    assert found.recall == pytest.approx(right / links)
    assert found.f1 == pytest.approx(2 / (together / right + links / right))


def test_expected_scores_where_there_is_nothing():
    none = np.empty(0, np.int32)
    apart = expected_scores(np.arange(3), none, none, np.empty(0), 0.0)
    assert (apart.precision, apart.recall, apart.f1) == (1.0, 1.0, 1.0)
    missing = expected_scores(np.arange(3), none, none, np.empty(0), 1.0)
    assert (missing.precision, missing.recall, missing.f1) == (1.0, 0.0, 0.0)
    wrong = expected_scores(np.zeros(3, np.int64), none, none, np.empty(0), 0.0)
    assert (wrong.precision, wrong.recall, wrong.f1) == (0.0, 1.0, 0.0)
