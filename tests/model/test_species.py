"""Probabilities of values by how often they were seen, against vocabularies that are known."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.model.species import Species, fit_species


def seen_counts(draws):
    """How often each value that was drawn was drawn."""
    return np.unique(draws, return_counts=True)[1].astype(np.float64)


def probabilities(counts):
    return fit_species(counts).probability(counts, counts.sum())


def zipf(rng, n, n_values=1_000_000, exponent=1.1):
    weight = np.arange(1, n_values + 1) ** -exponent
    return rng.choice(n_values, n, p=weight / weight.sum())


@pytest.mark.parametrize("kind", ["closed", "vast", "zipf", "skewed", "shares"])
def test_values_seen_share_at_most_everything(rng, kind):
    counts = {
        "closed": lambda: seen_counts(rng.integers(0, 7, 400)),
        "vast": lambda: seen_counts(rng.integers(0, 5000, 500)),
        "zipf": lambda: seen_counts(zipf(rng, 3000)),
        "skewed": lambda: seen_counts(rng.geometric(0.3, 1000)),
        "shares": lambda: 1.0 + rng.exponential(2.0, 300),
    }[kind]()
    p = probabilities(counts)
    assert (p > 0).all()
    assert p.sum() <= 1 + 1e-9
    assert (np.diff(p[np.argsort(counts)]) >= 0).all()


def test_a_closed_vocabulary_seen_many_times_has_its_shares(rng):
    share = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    counts = seen_counts(rng.choice(6, 30_000, p=share))
    p = probabilities(counts)
    np.testing.assert_allclose(p, counts / counts.sum(), rtol=0.01)
    assert p.sum() > 0.99


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_one_of_many_values_as_rare(rng):
    n_values, n = 20_000, 2000
    counts = seen_counts(rng.integers(0, n_values, n))
    once = probabilities(counts)[counts == 1][0]
    assert 1 / n_values / 2 < once < 2 / n_values
    assert once < 0.25 / n
    assert probabilities(counts).sum() == pytest.approx(len(counts) / n_values, rel=0.5)


def test_an_open_vocabulary_keeps_a_share_for_what_was_not_seen(rng):
    n = 5000
    draws = zipf(rng, n)
    counts = seen_counts(draws)
    species = fit_species(counts)
    assert 0 < species.discount < 1
    p = species.probability(counts, n)
    assert (p[counts == 1] < 0.8 / n).all()
    most = counts.argmax()
    assert p[most] == pytest.approx(counts[most] / n, rel=0.1)
    # as often as fresh draws bring a value that was not among the first
    unseen = 1 - np.isin(zipf(rng, 20_000), draws).mean()
    assert 1 - p.sum() == pytest.approx(unseen, abs=0.03)


@pytest.mark.parametrize("counts", [[1.0], [250.0], [1.0, 1.0], [1.0] * 40, [1.0] * 3])
def test_counts_that_say_nothing_of_rarity_are_taken_as_they_are(counts):
    counts = np.array(counts)
    np.testing.assert_allclose(probabilities(counts), counts / counts.sum(), rtol=1e-12)


def test_the_order_of_the_values_does_not_matter(rng):
    counts = seen_counts(zipf(rng, 1000))
    assert fit_species(counts) == fit_species(rng.permutation(counts))


@pytest.mark.parametrize("more", [0.0, 1e-6, 0.3, 0.9])
def test_less_than_one_repetition_says_nothing_of_rarity(more):
    counts = np.ones(6)
    counts[0] += more
    assert fit_species(counts) == Species(0.0, 0.0)


def test_one_repetition_does():
    found = fit_species(np.array([2.0, 1, 1, 1, 1, 1]))
    assert found != Species(0.0, 0.0)
    # seven draws with one repetition are expected of some twenty equal values
    assert 1 / 200 < float(found.probability(np.ones(1), 7.0)[0]) < 1 / 7
