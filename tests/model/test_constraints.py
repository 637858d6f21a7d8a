"""Closures of constraints against a search over partitions; contradictions; candidates and counts under them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import naive
from tests.engine.decided import Rules, random_rules
from vber_cli.model.constraints import (
    NO_CONSTRAINTS,
    ContradictionError,
    allowed_pairs,
    fewest_individuals,
    n_free_pairs,
    unit_maximum,
)

KINDS = ["must", "cannot", "sole", "within", "all"]
SEEDS = pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)


def all_pairs(n):
    a, b = np.triu_indices(n, 1)
    return a.astype(np.int32), b.astype(np.int32)


def rules_of(must=(), cannot=(), database=(0, 0, 0, 1, 1, 2), sole=(False, False, False), within_only=False):
    return Rules(must, cannot, np.array(database, np.int32), np.array(sole), within_only)


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_standing_says_what_all_allowed_partitions_have_in_common(rng, kind):
    n = 7
    rules = random_rules(rng, n, kind)
    allowed = np.array([label for label in naive.labellings(n) if rules.allow(label)])
    a, b = all_pairs(n)
    together = allowed[:, a] == allowed[:, b]
    expected = np.where(together.all(axis=0), 1, np.where(together.any(axis=0), 0, -1))
    made = rules.made()
    np.testing.assert_array_equal(made.standing(a, b), expected)
    np.testing.assert_array_equal(made.standing(b, a), expected)


def test_what_follows_need_not_be_said():
    made = rules_of(must=((4, 0), (4, 2)), cannot=((2, 5),)).made()
    assert made.lead.tolist() == [0, 1, 0, 3, 0, 5]
    assert made.standing(np.array([0, 4, 0, 2, 1]), np.array([5, 5, 2, 4, 5])).tolist() == [-1, -1, 1, 1, 0]
    # record 3 shares a database without duplicates with record 4, so it cannot be with 0 either
    made = rules_of(must=((0, 4),), sole=(False, True, False)).made()
    assert made.standing(np.array([0]), np.array([3])).tolist() == [-1]
    assert made.listed(np.array([0, 0]), np.array([3, 4])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rules", "pair", "reason"),
    [
        (rules_of(must=((0, 1), (1, 5)), cannot=((5, 0),)), {0, 5}, "listed"),
        (rules_of(cannot=((3, 3),)), {3}, "listed"),
        (rules_of(must=((0, 3), (3, 2)), sole=(True, False, False)), {0, 2}, "within"),
        (rules_of(must=((3, 4),), sole=(False, True, False)), {3, 4}, "within"),
        (rules_of(must=((0, 1), (1, 3)), within_only=True), {0, 3}, "across"),
    ],
)
def test_contradictions_name_the_pair(rules, pair, reason):
    with pytest.raises(ContradictionError) as found:
        rules.made()
    assert ({found.value.a, found.value.b}, found.value.reason) == (pair, reason)


def test_nothing_said_is_no_constraint():
    made = rules_of().made()
    assert made is NO_CONSTRAINTS
    assert not made.any
    a, b = all_pairs(6)
    assert made.standing(a, b).tolist() == [0] * 15
    assert allowed_pairs(made, (a, b)) == (a, b)
    assert made.leads(3).tolist() == [0, 1, 2]
    assert (n_free_pairs(made, 6), fewest_individuals(made)) == (15, 1)


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_candidates_are_whole_units(rng, kind):
    n = 12
    made = random_rules(rng, n, kind).made()
    a, b = all_pairs(n)
    chosen = rng.random(len(a)) < 0.3
    found = set(zip(*(side.tolist() for side in allowed_pairs(made, (a[chosen], b[chosen]))), strict=True))
    units = [np.flatnonzero(made.lead == k).tolist() for k in np.unique(made.lead)]
    candidates = set(zip(a[chosen].tolist(), b[chosen].tolist(), strict=True))
    expected = {pair for unit in units for pair in itertools.combinations(unit, 2)}
    for one, other in itertools.combinations(units, 2):
        pairs = {tuple(sorted(pair)) for pair in itertools.product(one, other)}
        if pairs & candidates and made.standing(np.array(one[:1]), np.array(other[:1]))[0] == 0:
            expected |= pairs
    assert found == expected
    ends = allowed_pairs(made, (a[chosen], b[chosen]))
    assert (ends[0] < ends[1]).all()
    assert ends[0].dtype == ends[1].dtype == np.int32


def test_pairs_of_two_units_have_one_value():
    made = rules_of(must=((0, 1),)).made()
    a, b = np.array([0, 1, 0, 2], np.int32), np.array([2, 2, 1, 3], np.int32)
    assert unit_maximum(made, a, b, np.array([1.0, 4.0, 9.0, 3.0])).tolist() == [4.0, 4.0, 9.0, 3.0]


@SEEDS
@pytest.mark.parametrize("kind", ["sole", "within", "all"])
def test_counts_under_rules_about_databases(rng, kind):
    n = 7
    rules = random_rules(rng, n, kind)
    made = rules.made()
    a, b = all_pairs(n)
    by_rule = Rules((), (), rules.database, rules.sole, rules.within_only)
    assert n_free_pairs(made, n) == max((by_rule.made().standing(a, b) == 0).sum(), 1)
    allowed = [label for label in naive.labellings(n) if by_rule.allow(label)]
    assert fewest_individuals(made) == min(len(np.unique(label)) for label in allowed)
