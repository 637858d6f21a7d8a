"""Pairs too weak to join a component: against sums over all partitions, and against plain formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import built, naive
from tests.engine.test_posterior import edges_within, one_pass
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.graph import build_graph
from vber_cli.engine.weak_pairs import Joins, add_weak_pairs, count_weak_pairs, find_joins
from vber_cli.model.constraints import make_constraints
from vber_cli.model.noise import Noise
from vber_cli.model.types import Records

NOTHING = Joins(np.full((2, 3), -np.inf), np.ones((2, 3)))


def ends(*pairs):
    return tuple(np.array(side, np.int32) for side in zip(*pairs, strict=True))


@pytest.mark.parametrize("parts", [(), naive.FULL])
def test_a_weak_pair_by_itself_has_its_exact_probability(rng, parts):
    case = naive.make_case(rng, 2, "people", 1, parts)
    model, log_new = built.model_of(case), 3.0
    pairs = ends((0, 1))
    apart = one_pass(case, graph := build_graph(*(side[:0] for side in pairs), 2), log_new=log_new)
    together = one_pass(case, build_graph(*pairs, 2), log_new=log_new)
    log_odds = np.array([naive.block_weight(case, [0, 1]) - log_new])
    joins = find_joins(model, apart, graph, pairs, log_odds, log_new, threads=1)
    weak, links = add_weak_pairs(apart, pairs, log_odds, joins)
    count_weak_pairs(model, weak, pairs, links, threads=1)
    assert weak.pair_probability[0] > 2e-3
    for name in ("pair_probability", "alone", "stats", "class_weight", "repeats", "n_mean", "n_variance"):
        np.testing.assert_allclose(getattr(weak, name), getattr(together, name), rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (2, naive.FULL)])
def test_two_without_partners_and_the_statistics(rng, n_classes, parts):
    """Where nobody joins a block, pairs count as far as both records have no partner."""
    case = naive.make_case(rng, 30, "people", n_classes, parts)
    graph = build_graph(*edges_within([[0, 1], [4, 5, 6], [9, 12], [17, 20], [28, 29]]), 30)
    found = one_pass(case, graph)
    before = found.stats.copy(), found.class_weight.copy(), found.repeats.copy()
    pairs = a, b = ends((0, 9), (1, 17), (4, 29))
    odds = rng.uniform(0.01, 0.05, 3)
    more, links = add_weak_pairs(found, pairs, np.log(odds), NOTHING)
    count_weak_pairs(built.model_of(case), more, pairs, links, threads=2)
    p = odds / (1 + odds) * found.alone[a] * found.alone[b]
    np.testing.assert_allclose(links, p, rtol=1e-12)
    np.testing.assert_allclose(more.pair_probability[-3:], p, rtol=1e-12)
    np.testing.assert_array_equal(more.pair_probability[:-3], found.pair_probability)
    assert more.n_mean == pytest.approx(found.n_mean - p.sum())
    assert more.n_variance == pytest.approx(found.n_variance + np.sum(p * (1 - p)))
    expected = found.alone.copy()
    expected[a] -= p
    expected[b] -= p
    np.testing.assert_allclose(more.alone, expected, rtol=0, atol=1e-12)
    added = [naive.block_statistics(case, [x, y], w) for x, y, w in zip(a, b, p, strict=True)]
    for old, new, parts_of in zip(
        before, (more.stats, more.class_weight, more.repeats), zip(*added, strict=True), strict=True
    ):
        np.testing.assert_allclose(new, old + sum(parts_of), rtol=0, atol=1e-12)


def test_of_what_a_record_may_do_one_thing_happens(rng):
    """One record that may be any of ten, of which no two can be one: sums over the eleven partitions."""
    case = naive.make_case(rng, 11, "people", 1, ())
    nobody = np.zeros(0, np.int32)
    apart = one_pass(case, graph := build_graph(nobody, nobody, 11))
    pairs, odds = ends(*((0, j) for j in range(1, 11))), rng.uniform(0.02, 0.2, 10)
    joins = find_joins(built.model_of(case), apart, graph, pairs, np.log(odds), 1.2, threads=1)
    more, links = add_weak_pairs(apart, pairs, np.log(odds), joins)
    exact = odds / (1.0 + odds.sum())
    np.testing.assert_allclose(more.pair_probability, exact, rtol=1e-12)
    np.testing.assert_allclose(links, exact, rtol=1e-12)
    np.testing.assert_allclose(more.alone, np.append(1.0 - exact.sum(), 1.0 - exact), rtol=1e-12)
    assert more.n_mean == pytest.approx(11 - exact.sum())


def few_records(rng, n_classes, parts):
    """Two records alike in rare values, others that share some: case, log_new, the sure pair, weak ones, log odds."""
    for _ in range(1000):
        case = naive.make_case(rng, 5, "people", n_classes, parts)
        base = case.prior.base.copy()
        for lo, hi in itertools.pairwise(case.prior.value_ptr):
            base[lo] = np.exp(rng.uniform(-5.5, -4.0))
            base[lo + 1 : hi] = (1.0 - base[lo]) / (hi - lo - 1)
        codes = np.zeros((5, 3), np.int32)
        codes[[2, 3, 4], rng.permutation(3)] = rng.integers(1, 3, 3)
        alpha = rng.uniform(0.05, 0.3, (n_classes, 3))
        noise = Noise(alpha, case.noise.levels, case.noise.share)
        records = Records(codes, case.records.db_of_record, case.records.n_values)
        case = case.of(records=records, prior=case.prior.with_base(base), noise=noise)
        model, pairs = built.model_of(case), built.all_pairs(5)
        link, doubt = pair_evidence(model, pairs[1], pair_levels(model, *pairs))
        sure = (pairs[0] == 0) & (pairs[1] == 1)
        log_new = float((link - doubt)[sure][0]) - 4.0
        log_odds = (link - doubt - log_new)[~sure]
        if log_odds.max() < -2.5 and log_odds.max() > -6.0:
            weak = tuple(side[~sure] for side in pairs)
            return case, log_new, tuple(side[sure] for side in pairs), weak, log_odds
    raise AssertionError("no such records were drawn")


@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (1, ("near",)), (2, ("near",))])
def test_who_has_no_partner_may_join_a_block(rng, n_classes, parts):
    """Over many cases n, and the pairs' probabilities, come out as from sums over all partitions."""
    exact, found, without, pair_exact, pair_found = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(60):
        case, log_new, sure, weak, log_odds = few_records(rng, n_classes, parts)
        graph = build_graph(*sure, 5)
        strong = one_pass(case, graph, log_new=log_new)
        joins = find_joins(built.model_of(case), strong, graph, weak, log_odds, log_new, threads=2)
        more, links = add_weak_pairs(strong, weak, log_odds, joins)
        none = Joins(np.full(joins.gain.shape, -np.inf), joins.share)
        whole = naive.posterior(case, log_new * np.arange(6))
        exact += strong.n_mean - whole.moments[0]
        found += strong.n_mean - more.n_mean
        without += strong.n_mean - add_weak_pairs(strong, weak, log_odds, none)[0].n_mean
        assert links.sum() == pytest.approx(strong.n_mean - more.n_mean)
        pair_exact += whole.pair[weak].sum()
        pair_found += more.pair_probability[-len(log_odds) :].sum()
    assert found == pytest.approx(exact, rel=0.15)
    assert pair_found == pytest.approx(pair_exact, rel=0.2)
    assert without < 0.75 * exact


def test_a_block_is_joined_once_however_many_of_its_records_tell_of_it(rng):
    case = naive.make_case(rng, 9, "people", 1, ())
    codes = np.zeros((9, 3), np.int32)
    codes[0, 0] = 1
    case = case.of(records=Records(codes, case.records.db_of_record, case.records.n_values))
    graph = build_graph(*edges_within([[1, 2, 3]]), 9)
    strong = one_pass(case, graph, log_new=-8.0)
    assert (strong.pair_probability > 0.99).all()
    weak = ends((0, 1), (0, 2), (0, 3))
    model, log_new = built.model_of(case), -8.0
    log_odds = np.full(3, -4.0)
    joins = find_joins(model, strong, graph, weak, log_odds, log_new, threads=1)
    np.testing.assert_allclose(joins.share, [[1 / 3] * 3, [1] * 3])
    expected = naive.block_weight(case, [0, 1, 2, 3]) - naive.block_weight(case, [1, 2, 3]) - log_new
    np.testing.assert_allclose(joins.gain[0], expected - log_odds, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(joins.gain[1], 0.0)


def test_under_constraints_nobody_joins(rng):
    case = naive.make_case(rng, 9, "people", 1, ())
    graph = build_graph(*edges_within([[1, 2, 3]]), 9)
    strong = one_pass(case, graph, log_new=-8.0)
    nobody, one, other = np.zeros(0, np.int32), np.array([0], np.int32), np.array([2], np.int32)
    database = case.records.db_of_record
    decided = make_constraints(database, (nobody, nobody), (one, other), np.zeros(1, bool), within_only=False)
    model = built.model_of(case)._replace(constraints=decided)
    joins = find_joins(model, strong, graph, ends((0, 1)), np.array([-4.0]), -8.0, threads=1)
    assert (joins.gain == -np.inf).all()
