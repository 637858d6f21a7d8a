"""Draws of the noise: Beta posteriors where all is clear, wide ones where links and noise decide each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine import built
from vber_cli.engine import noise_posterior as module
from vber_cli.engine.block_model import block_model, exact_evidence
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.hyper import field_prior
from vber_cli.engine.noise_posterior import draw_noises
from vber_cli.model.noise import ANEW, Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records


def duplicated(rng, n_values, wrong, n_people=150):
    """Every person twice; the second record of each is wrong in a field with the probability given."""
    sizes = np.array(n_values, np.int64)
    people = np.stack([rng.integers(0, size, n_people) for size in sizes], axis=1)
    other = np.stack([rng.integers(0, size, n_people) for size in sizes], axis=1)
    again = np.where(rng.random(people.shape) < wrong, other, people)
    codes = np.ascontiguousarray(np.concatenate([people, again]), np.int32)
    return Records(codes, np.zeros(2 * n_people, np.int32), sizes)


def drawn(rng, records, noise, n_draws=200, anchored=False, n=150.0):
    prior = make_prior(records, "empirical", 0.1)
    evidence = replace(exact_evidence(prior, records.n_fields), noise=noise)
    model = block_model(records, evidence)
    a, b = built.all_pairs(records.n_records)
    levels = pair_levels(model, a, b)
    near = (levels == 0).sum(axis=1) > 0
    log_new = Occupancy(records.n_records).log_new(n)
    log_odds = pair_evidence(model, b[near], levels[near])[0] - log_new
    return draw_noises(model, levels[near], log_odds, noise, n, n_draws, rng, anchored=anchored)


def rates(draws):
    return np.array([d.noise.concentration / (1 + d.noise.concentration) for d in draws])


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_where_links_are_clear_the_mismatch_has_its_beta_posterior(rng):
    wrong = np.array([0.2, 0.1, 0.05, 0.1])
    records = duplicated(rng, [5000, 4000, 6000, 3000], wrong)
    draws = drawn(rng, records, Noise.single(np.full(4, 0.1)))
    half = len(records.codes) // 2
    mismatches = (records.codes[:half] != records.codes[half:]).sum(axis=0)
    prior = field_prior(mismatches.astype(float), np.full(4, float(half)))
    a, b = prior[0] + mismatches, prior[1] + half - mismatches
    found = rates(draws)[:, 0]
    deviation = np.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - a / (a + b)), deviation)
    np.testing.assert_array_less(np.abs(found.std(axis=0) / deviation - 1), 0.35)
    assert np.std([d.n for d in draws]) < 2


def test_where_a_mismatch_cannot_be_told_from_chance_the_draws_lie_far_apart(rng):
    # who agrees on the first two fields only may be a link that went wrong in both others, or chance
    clear = drawn(rng, duplicated(rng, [5000, 4000, 6000, 3000], np.full(4, 0.1)), Noise.single(np.full(4, 0.1)))
    vague = drawn(rng, duplicated(rng, [90, 70, 80, 60], np.full(4, 0.1)), Noise.single(np.full(4, 0.1)))
    assert np.std([d.n for d in vague]) > 3 * np.std([d.n for d in clear])


def test_anchored_draws_keep_to_the_middle(rng):
    records = duplicated(rng, [5000, 4000, 6000, 3000], np.full(4, 0.15))
    start = Noise.single(np.array([0.3, 0.1, 0.2, 0.1]))  # not where all links would draw it
    draws = drawn(rng, records, start, anchored=True)
    found = rates(draws)
    at = start.concentration / (1 + start.concentration)
    # what would be moved below a tenth of the learned rate is stopped there
    assert np.all(found >= at / 10 - 1e-12)
    np.testing.assert_allclose(found.mean(axis=0), at, atol=0.01)
    assert np.mean([d.n for d in draws]) == pytest.approx(150.0)
    assert found.std(axis=0).min() > 1e-3
    np.testing.assert_allclose([d.noise.share.sum() for d in draws], 1.0)


def some_noise(rng, n_classes, n_fields):
    concentration = rng.uniform(0.05, 0.5, (n_classes, n_fields))
    return Noise(
        concentration, rng.dirichlet([8.0, 1.0, 1.0], (n_classes, n_fields)), rng.dirichlet(np.ones(n_classes))
    )


def test_chains_side_by_side_weigh_patterns_as_each_would_alone(rng):
    noises = [some_noise(rng, 3, 4) for _ in range(5)]
    chains, _ = module._joined([(module._Chains.at(noise, 1), np.zeros(1)) for noise in noises], 5)
    indicator = np.eye(4)[rng.integers(0, 4, (7, 4))]
    chance = rng.dirichlet([1.0, 1.0, 2.0, 9.0], 4)
    by_class, together = module._log_patterns(indicator, chance, chains.concentration, chains.levels, chains.share)
    for d, noise in enumerate(noises):
        alpha = noise.concentration
        copied = np.concatenate([noise.levels, np.zeros((3, 4, 1))], axis=2) / np.where(np.arange(4) % 3, chance, 1.0)
        fresh = alpha[:, :, None] * np.where(np.arange(4) == 0, chance, 1.0)
        factor = (copied + fresh) / (1.0 + alpha)[:, :, None]
        plain = noise.share[:, None] * np.prod((factor[:, None] * indicator).sum(axis=3), axis=2)
        np.testing.assert_allclose(by_class[d], np.log(plain))
        np.testing.assert_allclose(together[d], np.log(plain.sum(axis=0)))


def test_classes_that_draw_a_part_anew_do_so_in_every_draw(rng):
    records = duplicated(rng, [500, 400, 600, 300], np.full(4, 0.15))
    anew = np.array([[False] * 4, [True, True, False, False]])
    noise = Noise.single(np.full(4, 0.2)).with_more(anew[1:], np.array([0.1]))
    for d in drawn(rng, records, noise, 20, anchored=True):
        np.testing.assert_array_equal(d.noise.anew, anew)
        assert np.all(d.noise.concentration[1, :2] == ANEW)
        assert np.all(d.noise.concentration[:, 2:] < 1.0)
        # in the rest the two are alike
        np.testing.assert_array_equal(d.noise.levels[0, 2:], d.noise.levels[1, 2:])


@pytest.mark.parametrize("anchored", [True, False])
def test_few_chains_at_once_draw_from_the_same(monkeypatch, anchored):
    """As where there are many patterns; and as many draws as were asked for, though no multiple of the chains."""
    records = duplicated(np.random.default_rng(5), [500, 400, 600, 300], np.full(4, 0.15))
    noise = Noise.single(np.full(4, 0.2))
    many = drawn(np.random.default_rng(7), records, noise, 205, anchored)
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 1)
    one = drawn(np.random.default_rng(8), records, noise, 205, anchored)
    assert len(many) == len(one) == 205
    assert np.mean([d.n for d in many]) == pytest.approx(np.mean([d.n for d in one]), abs=2.0)
    np.testing.assert_allclose(rates(many).mean(axis=0), rates(one).mean(axis=0), atol=0.02)
    np.testing.assert_allclose(rates(many).std(axis=0), rates(one).std(axis=0), rtol=0.4)


def test_the_same_seed_gives_the_same_draws():
    records = duplicated(np.random.default_rng(5), [50, 40, 60, 30], np.full(4, 0.15))
    one, two = (drawn(np.random.default_rng(7), records, Noise.single(np.full(4, 0.2)), 5) for _ in range(2))
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x.noise.concentration, y.noise.concentration)
        assert x.n == y.n


def test_what_holds_a_pair_together_counts_and_not_only_its_own_pattern(rng):
    # links whose three last fields are as good as always wrong: by themselves they would be none, others hold them
    records = duplicated(rng, [5000, 4000, 6000, 3000], np.array([0.05, 0.9, 0.9, 0.9]))
    half = len(records.codes) // 2
    noise = Noise.single(np.full(4, 0.1))
    evidence = replace(exact_evidence(make_prior(records, "empirical", 0.1), 4), noise=noise)
    model = block_model(records, evidence)
    first = np.arange(half, dtype=np.int32)
    levels = pair_levels(model, first, first + np.int32(half))
    alone = pair_evidence(model, first + np.int32(half), levels)[0] - Occupancy(2 * half).log_new(half)
    assert (alone < 0).mean() > 0.5
    draws = draw_noises(model, levels, np.full(half, 6.0), noise, float(half), 100, rng, anchored=False)
    wrong = (levels == 3).sum(axis=0)
    prior = field_prior(wrong.astype(float), np.full(4, float(half)))
    np.testing.assert_allclose(
        rates(draws).mean(axis=(0, 1)), (prior[0] + wrong) / (prior.sum(axis=0) + half), atol=0.05
    )


def test_draws_that_would_run_away_stay_where_the_noise_was_learned(rng, monkeypatch):
    """As among many records of few individuals, where pairs by themselves make ever more links."""
    records = duplicated(rng, (60, 60, 60), 0.1)
    noise = Noise.single(np.full(3, 0.1))
    usual = module._draw_links

    def ever_more(*given):
        found, by_class = usual(*given)
        return 1.4 * found, by_class

    monkeypatch.setattr(module, "_draw_links", ever_more)
    draws = drawn(rng, records, noise, 60)
    assert np.mean([d.n for d in draws]) == pytest.approx(150.0, abs=1e-6)
    assert rates(draws).mean(axis=0) == pytest.approx(np.full((1, 3), 0.1 / 1.1), rel=0.05)
    assert np.all(rates(draws).std(axis=0) > 0)
