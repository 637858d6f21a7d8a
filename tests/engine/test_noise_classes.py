"""Noise classes from clear links: planted ones come back, homogeneous noise is one class."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine import noise_classes
from vber_cli.engine.noise_classes import choose_classes

MOVED = np.array([0.9, 0.85, 0.8, 0.03, 0.02, 0.05])
STAYED = np.array([0.02, 0.04, 0.03, 0.05, 0.02, 0.1])


def links(rng, epsilon, share, n, missing=0.1):
    """(n, F) agreements of links, each of a class drawn by its share."""
    drawn = rng.choice(len(share), n, p=share)
    differ = rng.random((n, len(epsilon[0]))) < np.asarray(epsilon)[drawn]
    return np.where(rng.random(differ.shape) < missing, -1, ~differ).astype(np.int8)


def penalised(agreement, weight, epsilon, share, overall):
    """The log likelihood; and with it the log of the priors, towards the overall ε and equal shares: what EM raises."""
    total = 0.0
    for row, w in zip(agreement, weight, strict=True):
        p = share.copy()
        for f, x in enumerate(row):
            if x >= 0:
                p = p * (1 - epsilon[:, f] if x else epsilon[:, f])
        total += w * np.log(p.sum())
    prior = noise_classes._PRIOR_WEIGHT * (overall * np.log(epsilon) + (1 - overall) * np.log1p(-epsilon))
    return total, total + prior.sum() + np.log(share).sum()


@pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)
def test_two_planted_classes_come_back(rng):
    n = 3000
    found = choose_classes(links(rng, [STAYED, MOVED], [0.8, 0.2], n), np.ones(n), int(rng.integers(100)))
    assert found.noise.n_classes == 2
    assert max(found.bic, key=found.bic.get) == 2
    assert list(found.bic) == [1, 2, 3, 4, 6, 8]
    order = np.argsort(-found.noise.share)
    share = found.noise.share[order]
    assert share.sum() == pytest.approx(1.0)
    assert abs(share[1] - 0.2) < 4 * np.sqrt(0.2 * 0.8 / n)
    epsilon = (found.noise.concentration / (1 + found.noise.concentration))[order]
    for ours, theirs, s in zip(epsilon, (STAYED, MOVED), (0.8, 0.2), strict=True):
        assert np.all(np.abs(ours - theirs) < 4 * np.sqrt(theirs * (1 - theirs) / (0.9 * s * n)) + 2 / (s * n))


@pytest.mark.parametrize("rng", range(8), indirect=True)
def test_homogeneous_noise_is_one_class(rng):
    n = 2000
    agreement = links(rng, [STAYED], [1.0], n)
    found = choose_classes(agreement, np.ones(n), int(rng.integers(100)))
    assert found.noise.n_classes == 1
    assert found.noise.share.tolist() == [1.0]
    epsilon = found.noise.concentration[0] / (1 + found.noise.concentration[0])
    seen = (agreement >= 0).sum(axis=0)
    rate = (agreement == 0).sum(axis=0) / seen
    overall = ((agreement == 0).sum(axis=0) + 0.5) / (seen + 10)
    np.testing.assert_allclose(epsilon, (rate * seen + 2 * overall) / (seen + 2), rtol=1e-9)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_every_round_raises_the_likelihood_with_its_priors(rng, n_classes, monkeypatch):
    agreement = np.unique(links(rng, [STAYED, MOVED, [0.3] * 6], [0.6, 0.2, 0.2], 60, 0.3), axis=0)
    weight = rng.uniform(0.5, 4, len(agreement))
    overall = np.full(6, 0.2)
    values = []
    for rounds in range(1, 15):
        monkeypatch.setattr(noise_classes, "_ROUNDS", rounds)
        log_likelihood, epsilon, share = noise_classes._fit(
            agreement, weight, overall, n_classes, np.random.default_rng(5)
        )
        plain, with_priors = penalised(agreement, weight, epsilon, share, overall)
        assert log_likelihood == pytest.approx(plain, abs=1e-9)
        values.append(with_priors)
    assert np.all(np.diff(values) >= -1e-9)
    assert n_classes == 1 or values[-1] > values[0] + 0.5


def test_a_pair_of_weight_two_is_two_pairs(rng):
    agreement = links(rng, [STAYED, MOVED], [0.7, 0.3], 300)
    twice = choose_classes(np.concatenate([agreement, agreement]), np.ones(600), 7)
    heavy = choose_classes(agreement, np.full(300, 2.0), 7)
    np.testing.assert_allclose(twice.noise.concentration, heavy.noise.concentration)
    np.testing.assert_allclose(list(twice.bic.values()), list(heavy.bic.values()))


def test_few_links_allow_few_classes(rng):
    agreement = links(rng, [STAYED, MOVED], [0.5, 0.5], 70)
    assert list(choose_classes(agreement, np.ones(70), 0).bic) == [1, 2, 3]
    assert list(choose_classes(agreement, np.full(70, 0.5), 0).bic) == [1]


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1)])
def test_hardly_any_links(shape):
    found = choose_classes(np.full(shape, -1, np.int8), np.ones(shape[0]), 0)
    assert found.noise.n_classes == 1
    # nothing is known but the half mismatch in ten comparisons that the start assumes
    np.testing.assert_allclose(found.noise.concentration, np.full((1, shape[1]), 0.05 / 0.95))


def test_the_seed_decides_the_starts_and_nothing_else(rng):
    agreement = links(rng, [STAYED, MOVED], [0.7, 0.3], 200)
    one, two = (choose_classes(agreement, np.ones(200), 3) for _ in range(2))
    np.testing.assert_array_equal(one.noise.concentration, two.noise.concentration)
    shuffled = choose_classes(agreement[rng.permutation(200)], np.ones(200), 3)
    np.testing.assert_allclose(one.noise.concentration, shuffled.noise.concentration)
