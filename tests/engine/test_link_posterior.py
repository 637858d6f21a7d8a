"""Link probabilities, n and K: sums over all partitions of few records, and what must hold of many."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from tests import exact
from tests.engine import built
from vber_cli.engine import candidate_pairs
from vber_cli.engine import link_posterior as link_posterior_module
from vber_cli.engine import posterior as posterior_module
from vber_cli.engine.block_model import Evidence, block_model, exact_evidence
from vber_cli.engine.candidate_pairs import EDGE_LOG_ODDS, FAINT_LOG_ODDS, log_odds_of, with_levels
from vber_cli.engine.checkpoints import NO_CHECKPOINTS, Checkpoints
from vber_cli.engine.graph import build_graph
from vber_cli.engine.learn import Hyperparameters, Settings, settled
from vber_cli.engine.link_posterior import link_posterior
from vber_cli.engine.local_kernels import FRESH, N_STATS
from vber_cli.engine.posterior import Expectation
from vber_cli.model.dependence import Dependence
from vber_cli.model.missed import NONE_MISSED, MissedLinks
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

SIZES = np.array([40, 30, 50, 12], np.int64)


def make_records(rng, n_people, n_again, sizes=SIZES):
    people = np.stack([rng.integers(0, size, n_people) for size in sizes], axis=1)
    who = np.concatenate([np.arange(n_people), rng.integers(0, n_people, n_again)])
    fresh = np.stack([rng.integers(0, size, len(who)) for size in sizes], axis=1)
    codes = np.where(rng.random((len(who), len(sizes))) < 0.08, fresh, people[who])
    codes[rng.random(codes.shape) < 0.05] = -1
    return Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(who), np.int32), sizes), who


def posterior(
    records, n_individuals, threads=1, learn=True, missed=NONE_MISSED, relations=None, checkpoints=NO_CHECKPOINTS
):
    """The link posterior of all pairs, with them and their log odds."""
    prior = make_prior(records, "empirical", 0.2)
    n_fields = records.n_fields
    evidence = Evidence(
        prior,
        Noise.single(prior.concentration),
        SimilarValues.none(prior.value_ptr),
        relations or Relations.none(n_fields),
        Dependence.none(n_fields),
    )
    occupancy = Occupancy(records.n_records, n_individuals)
    settings = Settings(occupancy, learn, False, False, 3, threads, checkpoints=checkpoints)
    n = 0.8 * records.n_records
    learned = Hyperparameters(evidence, n, occupancy.log_new(n))
    model = block_model(records, evidence)
    pairs = with_levels(model, built.all_pairs(records.n_records))
    found = link_posterior(records, pairs, learned, settings, missed=missed)
    return found, pairs, log_odds_of(model, pairs, learned.log_new)


@pytest.mark.parametrize("n_individuals", [4, 9, 1000])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_few_records_are_summed_over_all_partitions(rng, n, n_individuals):
    records, _ = make_records(rng, max(n - n // 2, 1), n // 2, np.array([3, 4, 2]))
    found, _, _ = posterior(records, n_individuals)
    prior = make_prior(records, "empirical", 0.2)
    alpha = np.split(prior.alpha, prior.value_ptr[1:-1])
    occupancy = Occupancy(n, n_individuals)
    log_h = np.array([-np.inf, *(occupancy.log_h(m) for m in range(1, n + 1))])
    pair, of_n = exact.partition_posterior(records.codes, alpha, log_h)
    np.testing.assert_allclose(found.probability, pair[found.a, found.b], atol=1e-9)
    assert len(found.probability) == n * (n - 1) // 2
    assert found.n.mean == pytest.approx(of_n @ np.arange(n + 1), abs=1e-9)
    # the ends of the central 90 %
    below = np.concatenate([[0.0], np.cumsum(of_n)])
    for end, tail in ((found.n.low, 0.05), (found.n.high, 0.95)):
        assert below[int(end)] <= tail + 1e-9 <= below[int(end) + 1] + 2e-9
    assert (found.n_individuals.low, found.n_individuals.mean, found.n_individuals.high) == (n_individuals,) * 3
    assert found.n_draws == 0


def test_alone_among_few_records(rng):
    records, _ = make_records(rng, 4, 2, np.array([3, 4, 2]))
    found, _, _ = posterior(records, 9)
    partner = np.zeros((6, 6))
    partner[found.a, found.b] = partner[found.b, found.a] = found.probability
    # some partner is at least as probable as each, and at most as all together
    assert (1 - found.alone >= partner.max(axis=1) - 1e-9).all()
    assert (1 - found.alone <= partner.sum(axis=1) + 1e-9).all()


@pytest.mark.parametrize("n_individuals", [None, 85, 2000])
@pytest.mark.parametrize("learn", [True, False])
def test_what_holds_of_any_posterior(rng, n_individuals, learn):
    records, who = make_records(rng, 80, 40)
    found, pairs, _ = posterior(records, n_individuals, learn=learn)
    for p in (found.probability, found.alone):
        assert ((p >= 0) & (p <= 1)).all()
    for interval in (found.n, found.n_individuals):
        assert 1 <= interval.low <= interval.mean <= interval.high
    assert found.n.high <= records.n_records
    if n_individuals is not None:
        assert found.n.high <= n_individuals
        assert found.n_individuals.low == found.n_individuals.high == n_individuals
    else:
        assert found.n_individuals.high >= found.n.mean
    np.testing.assert_array_equal(np.column_stack([found.a, found.b]), np.column_stack([pairs.a, pairs.b]))
    same = who[found.a] == who[found.b]
    assert found.probability[same].mean() > 50 * found.probability[~same].mean()
    if n_individuals != 2000:  # so many people would hardly be met twice
        assert found.probability[same].mean() > 0.6


def test_the_true_number_of_people_is_found(rng):
    # six telling fields leave hardly a doubt
    records, who = make_records(rng, 150, 75, np.array([200, 150, 365, 80, 100, 300]))
    found, _, _ = posterior(records, None)
    assert found.n.mean == pytest.approx(len(np.unique(who)), abs=3)
    assert found.n.low < found.n.high


def test_links_that_are_no_candidates_are_individuals_less(rng):
    records, _ = make_records(rng, 60, 30, np.array([40, 50, 30, 60]))
    every, _, _ = posterior(records, None)
    some, _, _ = posterior(records, None, missed=MissedLinks(5.0))
    assert some.n.mean == pytest.approx(every.n.mean - 5.0, abs=0.3)
    assert every.n.low - 12 < some.n.low < every.n.low - 4
    assert some.n.high < every.n.high
    assert some.n.high - some.n.low > every.n.high - every.n.low
    assert some.n_individuals.mean < every.n_individuals.mean
    unsure, _, _ = posterior(records, None, missed=MissedLinks(0.0, 0.5, 20.0))
    assert unsure.n.low < some.n.low
    assert every.n.high - 2 <= unsure.n.high <= every.n.high  # perhaps there are none


def test_what_the_model_may_have_wrong_widens_what_is_in_doubt(rng, monkeypatch):
    near = Relations(np.array([1e-30]), np.full((1, 4, 4), 0.25))  # of whom there are none; but who may be is asked
    records, _ = make_records(rng, 150, 75, np.array([30, 25, 40, 20]))
    wide, _, _ = posterior(records, None, relations=near)
    assert wide.discrepancy == link_posterior_module._DISCREPANCY
    assert posterior(records, None)[0].discrepancy == 0.0
    # where nothing is in doubt, a factor of all odds leaves it so
    telling, _ = make_records(rng, 150, 75, np.full(4, 10_000))
    sure, _, _ = posterior(telling, None, relations=near)
    monkeypatch.setattr(link_posterior_module, "_DISCREPANCY", 0.0)
    still, _, _ = posterior(telling, None, relations=near)
    assert abs(sure.n.low - still.n.low) <= 1
    assert abs(sure.n.high - still.n.high) <= 1
    narrow, _, _ = posterior(records, None, relations=near)
    width, wider = (found.n.high - found.n.low for found in (narrow, wide))
    assert 1.2 * width < wider < 4 * width
    assert wide.n_individuals.high > narrow.n_individuals.high
    # as likely above as below: the middle stays
    assert wide.n.mean == pytest.approx(narrow.n.mean, abs=0.1 * width)
    assert 0 < abs(wide.probability - narrow.probability).max() < 0.05


def test_few_draws_lie_as_widely_as_many():
    for n in (10, 200):
        scores = link_posterior_module._normal_scores(n, 3)
        assert abs(scores.mean()) < 1e-12
        assert scores.std() == pytest.approx(1.0, abs=0.07)
        assert (np.sort(scores) != scores).any()
    np.testing.assert_array_equal(scores, link_posterior_module._normal_scores(200, 3))
    assert (scores != link_posterior_module._normal_scores(200, 4)).any()


class Stopped(Checkpoints):
    """A run that was stopped after some draws, and, told so, the run that goes on from there."""

    def __init__(self, after):
        self.after, self.steps, self.state, self.resumed = after, {}, None, False

    def step(self, name, make):
        if name not in self.steps:
            self.steps[name] = make()
        return self.steps[name]

    def begun(self, start):
        return (self.after, self.state) if self.resumed else (0, start)

    def round_done(self, number, state):
        if number == self.after:
            self.state = state


def test_a_run_that_goes_on_among_crowded_blocks_makes_the_same_draws(rng, monkeypatch):
    # among large blocks there are fewer draws, by where the chains stand after the first pass
    monkeypatch.setattr(posterior_module, "_SMALL_BLOCK", 1)
    records, _ = make_records(rng, 30, 40, np.array([8, 6, 9]))
    checkpoints = Stopped(3)
    whole, _, _ = posterior(records, None, checkpoints=checkpoints)
    assert whole.n_draws < link_posterior_module.draws_for(records.n_records)
    checkpoints.resumed = True
    again, _, _ = posterior(records, None, checkpoints=checkpoints)
    for field in fields(whole):
        np.testing.assert_array_equal(getattr(whole, field.name), getattr(again, field.name), field.name)


def test_threads_have_no_influence(rng):
    # few values: large components too, which are sampled
    records, _ = make_records(rng, 30, 20, np.array([8, 6, 9]))
    one, two = (posterior(records, None, threads)[0] for threads in (1, 2))
    assert one.largest_component > 8
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(two, field.name), field.name)


def test_faint_candidates_are_left_out_only_where_there_are_many(rng, monkeypatch):
    records, _ = make_records(rng, 60, 20)
    _, pairs, log_odds = posterior(records, 75)
    model = block_model(records, exact_evidence(make_prior(records, "empirical", 0.05), 3))
    log_odds = log_odds_of(model, pairs, 4.0)
    free, fixed = Occupancy(records.n_records), Occupancy(records.n_records, 75)
    n_strong = int(np.sum(log_odds > FAINT_LOG_ODDS))
    assert 0 < n_strong < len(pairs)
    # of few pairs only those are left out that together hold one link in ten thousand, and not one more
    kept, kept_log_odds = candidate_pairs.without_faint(pairs, log_odds, free)
    p = np.sort(1.0 / (1.0 + np.exp(-log_odds)))
    n_out = len(pairs) - len(kept)
    assert n_strong < len(kept)
    assert p[:n_out].sum() <= 1e-4 * p.sum() < p[: n_out + 1].sum()
    np.testing.assert_array_equal(kept_log_odds, log_odds_of(model, kept, 4.0))
    assert kept_log_odds.min() >= np.sort(log_odds)[n_out]
    assert len(candidate_pairs.without_faint(pairs, log_odds, fixed)[0]) == n_strong
    monkeypatch.setattr(candidate_pairs, "_MANY_PAIRS", len(pairs) - 1)
    assert len(candidate_pairs.without_faint(pairs, log_odds, free)[0]) == n_strong


def test_faint_candidates_are_listed_too(rng, monkeypatch):
    monkeypatch.setattr(candidate_pairs, "_MANY_PAIRS", 0)
    records, _ = make_records(rng, 60, 20)
    found, pairs, log_odds = posterior(records, 75)
    faint = log_odds <= FAINT_LOG_ODDS
    assert 0 < faint.sum() < len(pairs)
    np.testing.assert_array_equal(found.a, pairs.a)
    np.testing.assert_array_equal(found.b, pairs.b)
    # inside a component a pair is counted as often as it is together; elsewhere at first order
    strong = log_odds > EDGE_LOG_ODDS
    of = build_graph(pairs.a[strong], pairs.b[strong], records.n_records).component_of()
    faint &= (of[pairs.a] < 0) | (of[pairs.a] != of[pairs.b])
    assert faint.sum() > 100
    p, odds = found.probability[faint], np.exp(log_odds[faint])
    assert (p >= 0).all()
    assert (p <= odds).all()
    both_alone = found.alone[pairs.a[faint]] * found.alone[pairs.b[faint]]
    np.testing.assert_allclose(p, both_alone * odds / (1 + odds), rtol=1e-9, atol=1e-15)


def test_among_many_records_a_draw_passes_over_a_part(rng, monkeypatch):
    records, _ = make_records(rng, 900, 300, np.array([250, 220, 300, 100], np.int64))
    whole, *_ = posterior(records, 1500)
    plain, *_ = posterior(records, 1500, learn=False)
    monkeypatch.setattr(link_posterior_module, "_PER_DRAW", 150)
    monkeypatch.setattr(posterior_module, "_LEAST", 5)
    parts, *_ = posterior(records, 1500)
    assert parts.n_draws == whole.n_draws
    # the noise as it was learned says how probable links are, but for the faint and the sampled ones; its draws say how
    # uncertain n is
    likely = plain.probability > 0.05
    same = np.abs(parts.probability - plain.probability)[likely] < 1e-9
    assert same.mean() > 0.5
    np.testing.assert_allclose(parts.probability, plain.probability, atol=0.1)
    assert (np.abs(whole.probability - plain.probability)[likely] < 1e-9).mean() < 0.1
    assert parts.n.mean == pytest.approx(whole.n.mean, abs=0.25 * (whole.n.high - whole.n.low))
    assert parts.n.high - parts.n.low == pytest.approx(whole.n.high - whole.n.low, rel=0.25)
    assert parts.n.high - parts.n.low > 1.1 * (plain.n.high - plain.n.low)


def test_a_draw_passes_over_one_part_where_there_are_fewer_parts_than_shares(rng, monkeypatch):
    records, _ = make_records(rng, 900, 300, np.array([250, 220, 300, 100], np.int64))
    whole, *_ = posterior(records, 1500)
    monkeypatch.setattr(link_posterior_module, "_PER_DRAW", 1)
    monkeypatch.setattr(posterior_module, "_LEAST", 40)
    parts, *_ = posterior(records, 1500)
    assert parts.n.mean == pytest.approx(whole.n.mean, abs=0.5 * (whole.n.high - whole.n.low))


@pytest.mark.parametrize(
    ("moved", "alpha_moved", "fresh", "sweeps", "ends"),
    [
        (0.5, 0.01, 1e4, [], True),
        (2.0, 0.01, 1e4, [], False),
        (2.0, 0.01, 1e4, [[90.0, 96.0], [40.0, 46.0]], True),  # within a chain n varies by 3, between the two by 50
        (4.0, 0.01, 1e4, [[90.0, 96.0], [40.0, 46.0]], False),
        (0.5, 0.05, 1e4, [], False),
        (0.5, 0.05, 15.0, [], True),  # a quarter of 1/√16
        (0.5, 0.07, 15.0, [], False),
    ],
)
def test_rounds_end_once_nothing_moves_beyond_chance(rng, moved, alpha_moved, fresh, sweeps, ends):
    records, _ = make_records(rng, 30, 10)
    prior = make_prior(records, "empirical", 0.2)
    before = Hyperparameters(exact_evidence(prior, records.n_fields), 10_000.0 - 1.0, 0.0)
    further = prior.with_concentration(prior.concentration * np.exp(np.array([0.0, alpha_moved, 0.0, -0.001])))
    now = Hyperparameters(exact_evidence(further, records.n_fields), before.n + moved * 0.999, 0.0)
    stats = np.zeros((2, records.n_fields, N_STATS))
    stats[:, :, FRESH] = fresh / 2
    nothing = np.zeros(0)
    chains = np.array(sweeps) if sweeps else np.zeros((0, 0))
    found = Expectation(nothing, nothing, stats, nothing, nothing, now.n, 1.0, nothing, chains, np.zeros((0, 2)))
    assert settled((before, before, now), found) == ends
