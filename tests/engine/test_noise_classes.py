"""Noise classes from clear links: planted ones come back, homogeneous noise is one class."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine import noise_classes
from vber_cli.engine.noise_classes import as_noise, choose_classes, few_classes, with_changed_parts

# by class: level 0 to 3 of six fields; in the last two no two values are close, in the last none are near
MOVED_OTHER = np.array([0.9, 0.85, 0.8, 0.03, 0.02, 0.05])
STAYED_OTHER = np.array([0.02, 0.04, 0.03, 0.05, 0.02, 0.1])
POSSIBLE = np.array([[True, True, True, True]] * 4 + [[True, False, True, True], [True, False, False, True]])


def class_of(other, near):
    """(F, 4) level probabilities with `other` different and a share `near` of the rest close or near, half each."""
    p = np.zeros((len(other), 4))
    p[:, 3] = other
    p[:, 1:3] = (1 - other)[:, None] * near / 2 * POSSIBLE[:, 1:3]
    p[:, 0] = 1 - p.sum(axis=1)
    return p


STAYED, MOVED = class_of(STAYED_OTHER, 0.1), class_of(MOVED_OTHER, 0.3)


def links(rng, p, share, n, missing=0.1):
    """(n, F) levels of links, each of a class drawn by its share."""
    drawn = rng.choice(len(share), n, p=share)
    cumulative = np.cumsum(np.asarray(p)[drawn], axis=2)
    level = (rng.random((n, len(p[0]), 1)) > cumulative[:, :, :3]).sum(axis=2)
    return np.where(rng.random(level.shape) < missing, 9, level).astype(np.int8)


def level_probabilities(noise):
    """(Q, F, 4) levels of pairs: the last with probability α / (1 + α), the others as copies come out."""
    other = (noise.concentration / (1 + noise.concentration))[:, :, None]
    return np.concatenate([(1 - other) * noise.levels, other], axis=2)


def penalised(levels, weight, p, share, overall):
    """The log likelihood; and with it the log of the priors, towards the overall levels and equal shares."""
    total = 0.0
    for row, w in zip(levels, weight, strict=True):
        terms = share.copy()
        for f, x in enumerate(row):
            if x < 4:
                terms = terms * p[:, f, x]
        total += w * np.log(terms.sum())
    prior = noise_classes._PRIOR_WEIGHT * (overall * np.log(np.maximum(p, 1e-300))).sum()
    return total, total + prior + np.log(share).sum()


def overall_levels(levels, weight):
    """Shares of the levels of all links together, with ten comparisons before them."""
    out = np.zeros((levels.shape[1], 4))
    for row, w in zip(levels, weight, strict=True):
        for f, x in enumerate(row):
            if x < 4:
                out[f, x] += w
    out += np.array([8.5, 0.4, 0.3, 0.8]) * POSSIBLE
    return out / out.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)
def test_two_planted_classes_come_back(rng):
    n = 3000
    levels = links(rng, [STAYED, MOVED], [0.8, 0.2], n)
    found = choose_classes(levels, np.ones(n), POSSIBLE, int(rng.integers(100)))
    assert found.noise.n_classes == 2
    assert max(found.bic, key=found.bic.get) == 2
    assert list(found.bic) == [1, 2, 3, 4, 5, 6, 7, 8]
    order = np.argsort(-found.noise.share)
    share = found.noise.share[order]
    assert share.sum() == pytest.approx(1.0)
    assert abs(share[1] - 0.2) < 4 * np.sqrt(0.2 * 0.8 / n)
    np.testing.assert_allclose(found.noise.levels.sum(axis=2), 1.0)
    p = level_probabilities(found.noise)[order]
    for ours, theirs, s in zip(p, (STAYED, MOVED), (0.8, 0.2), strict=True):
        assert np.all(np.abs(ours - theirs) < 4 * np.sqrt(theirs * (1 - theirs) / (0.9 * s * n)) + 2 / (s * n))
    np.testing.assert_array_equal(found.noise.levels[:, ~POSSIBLE[:, :3]], 0.0)


@pytest.mark.parametrize("rng", range(8), indirect=True)
def test_homogeneous_noise_is_one_class(rng):
    n = 2000
    levels = links(rng, [STAYED], [1.0], n)
    found = choose_classes(levels, np.ones(n), POSSIBLE, int(rng.integers(100)))
    assert found.noise.n_classes == 1
    assert found.noise.share.tolist() == [1.0]
    counts = np.stack([(levels == level).sum(axis=0) for level in range(4)], axis=1)
    expected = counts + 2 * overall_levels(levels, np.ones(n))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(level_probabilities(found.noise)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_every_round_raises_the_likelihood_with_its_priors(rng, n_classes):
    third = class_of(np.full(6, 0.3), 0.5)
    levels = np.unique(links(rng, [STAYED, MOVED, third], [0.6, 0.2, 0.2], 80, 0.3), axis=0)
    weight = rng.uniform(0.5, 4, len(levels))
    indicator, count, overall = noise_classes._tabulate(levels, weight, POSSIBLE)
    np.testing.assert_allclose(overall, overall_levels(levels, weight), rtol=1e-12)
    np.testing.assert_allclose(count, weight)
    values = []
    for rounds in range(1, 15):
        log_likelihood, p, share = noise_classes._fit(
            indicator, count, overall, n_classes, np.random.default_rng(5), rounds
        )
        plain, with_priors = penalised(levels, weight, p, share, overall)
        assert log_likelihood == pytest.approx(plain, abs=1e-9)
        values.append(with_priors)
    assert np.all(np.diff(values) >= -1e-9)
    assert n_classes == 1 or values[-1] > values[0] + 0.5


def test_the_criterion_counts_the_possible_levels(rng):
    n = 400
    levels = links(rng, [STAYED, MOVED], [0.7, 0.3], n)
    found = choose_classes(levels, np.ones(n), POSSIBLE, 3)
    one, overall = found.bic[1], overall_levels(levels, np.ones(n))
    counts = np.stack([(levels == level).sum(axis=0) for level in range(4)], axis=1)
    p = counts + 2 * overall
    p /= p.sum(axis=1, keepdims=True)
    plain, _ = penalised(levels, np.ones(n), p[None], np.ones(1), overall)
    # of six fields four have three free levels, one two and one one
    assert one == pytest.approx(plain - 0.5 * 15 * np.log(n), abs=1e-6)
    assert found.bic[2] > one


def test_a_pair_of_weight_two_is_two_pairs(rng):
    levels = links(rng, [STAYED, MOVED], [0.7, 0.3], 300)
    twice = choose_classes(np.concatenate([levels, levels]), np.ones(600), POSSIBLE, 7)
    heavy = choose_classes(levels, np.full(300, 2.0), POSSIBLE, 7)
    np.testing.assert_allclose(twice.noise.concentration, heavy.noise.concentration)
    np.testing.assert_allclose(list(twice.bic.values()), list(heavy.bic.values()))


def test_few_links_allow_few_classes(rng):
    levels = links(rng, [STAYED, MOVED], [0.5, 0.5], 70)
    assert list(choose_classes(levels, np.ones(70), POSSIBLE, 0).bic) == [1, 2, 3]
    assert list(choose_classes(levels, np.full(70, 0.5), POSSIBLE, 0).bic) == [1]
    assert few_classes(levels, np.ones(70), POSSIBLE, 0).n_classes == 1
    assert few_classes(levels, np.full(70, 1.5), POSSIBLE, 0).n_classes == 3


@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_links(n):
    found = choose_classes(np.full((n, 6), 9, np.int8), np.ones(n), POSSIBLE, 0)
    assert found.noise.n_classes == 1
    # nothing is known but what the start assumes
    expected = np.array([8.5, 0.4, 0.3, 0.8]) * POSSIBLE
    np.testing.assert_allclose(
        level_probabilities(found.noise)[0], expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_levels_and_noise_are_the_same_thing():
    p = np.stack([STAYED, MOVED])
    noise = as_noise(p, np.array([0.5, 0.5]))
    np.testing.assert_allclose(level_probabilities(noise), p, rtol=1e-12)


def test_the_seed_decides_the_starts_and_nothing_else(rng):
    levels = links(rng, [STAYED, MOVED], [0.7, 0.3], 200)
    one, two = (choose_classes(levels, np.ones(200), POSSIBLE, 3) for _ in range(2))
    np.testing.assert_array_equal(one.noise.concentration, two.noise.concentration)
    shuffled = choose_classes(levels[rng.permutation(200)], np.ones(200), POSSIBLE, 3)
    np.testing.assert_allclose(one.noise.concentration, shuffled.noise.concentration)


def test_every_part_that_may_change_gets_a_class():
    noise = as_noise(np.array([STAYED]), np.ones(1))
    address, other = np.array([True] * 3 + [False] * 3), np.array([False] * 4 + [True] * 2)
    found = with_changed_parts(noise, [address, other])
    wrong = found.concentration / (1 + found.concentration)
    assert found.n_classes == 3
    assert found.changes.tolist() == [False, True, True]
    for q, part in ((1, address), (2, other)):
        np.testing.assert_array_equal(found.anew[q], part)
        np.testing.assert_allclose(wrong[q, part], 0.99)
        np.testing.assert_allclose(wrong[q, ~part], wrong[0, ~part])
        np.testing.assert_allclose(found.levels[q], noise.levels[0])
        # as frequent beside those that stayed as other fields are wrong
        assert found.share[q] / found.share[0] == pytest.approx(wrong[0, ~part].mean())
    assert found.share.sum() == pytest.approx(1)
    # many parts share what two would get
    many = with_changed_parts(noise, [address] * 8)
    assert many.share[1:].sum() / many.share[0] == pytest.approx(2 * wrong[0, ~address].mean())
    assert with_changed_parts(noise, []) is noise


def test_rare_classes_that_draw_a_part_anew_are_left_out():
    noise = as_noise(np.array([STAYED, STAYED]), np.array([0.999, 0.001]))
    address, other = np.array([True] * 3 + [False] * 3), np.array([False] * 4 + [True] * 2)
    found = noise.with_more(np.array([address, other]), np.array([0.0005, 0.05]))
    kept = found.without_rare(0.002)
    # rare as it is, a class that draws nothing anew stays
    np.testing.assert_array_equal(kept.anew, [[False] * 6, [False] * 6, other])
    np.testing.assert_allclose(kept.share, np.array([0.999, 0.001, 0.05]) / 1.05)
    np.testing.assert_array_equal(kept.concentration, found.concentration[[0, 1, 3]])
    assert kept.without_rare(0.002) is kept
    assert noise.without_rare(0.5) is noise


def test_a_part_of_all_fields_is_rare_at_first():
    noise = as_noise(np.array([STAYED]), np.ones(1))
    found = with_changed_parts(noise, [np.ones(6, bool)])
    assert found.share[1] / found.share[0] == pytest.approx(0.02)
