"""How often strangers' values are similar: counted among records, the links taken out, and not derived from θ."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine import hyper
from vber_cli.model.prior import make_prior
from vber_cli.model.similar import CLOSE, NEAR, SimilarValues
from vber_cli.model.types import Records

N_PEOPLE, N_AGAIN = 700, 300
WORDS, SLIPS = np.array([4, 300]), 12  # of each field: right spellings, and misspellings of each


def spelled(rng):
    """Records of people, some twice, a tenth of the values misspelt; who each is of; all similar pairs of values."""
    who = np.concatenate([np.arange(N_PEOPLE), rng.choice(N_PEOPLE, N_AGAIN, replace=False)])
    word = np.stack([rng.integers(0, words, N_PEOPLE) for words in WORDS], axis=1)[who]
    slip = np.where(rng.random(word.shape) < 0.1, rng.integers(1, 1 + SLIPS, word.shape), 0)
    codes = (word * (1 + SLIPS) + slip).astype(np.int32)
    records = Records(codes, np.zeros(len(codes), np.int32), WORDS * (1 + SLIPS))
    prior = make_prior(records, "empirical")
    values = np.arange(int(prior.value_ptr[-1]))
    a, b = np.triu_indices(1 + SLIPS, 1)
    first = values[:: 1 + SLIPS, None]
    level = np.where(a == 0, CLOSE, NEAR)  # of a word and a slip, and of two slips of one word
    similar = SimilarValues.of(
        prior.value_ptr, (first + a).ravel(), (first + b).ravel(), np.tile(level, len(first)).astype(np.int8)
    )
    return records, who, word, slip, prior, similar


def levels_of(word, slip, a, b):
    near = np.where((slip[a] == 0) | (slip[b] == 0), CLOSE, NEAR)
    return np.where(word[a] != word[b], 3, np.where(slip[a] == slip[b], 0, near)).astype(np.int8)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_near_values_of_strangers_are_counted(rng):
    records, who, word, slip, prior, similar = spelled(rng)
    prior = hyper.learn_base(records, prior, np.zeros(records.codes.shape))
    a, b = np.triu_indices(records.n_records, 1)
    same = who[a] == who[b]
    levels = levels_of(word, slip, a[~same], b[~same])
    expected = np.stack([(levels == level).mean(axis=0) for level in (CLOSE, NEAR)], axis=1)
    links = levels_of(word, slip, a[same], b[same])
    found = hyper.learn_near(records, prior, similar, links, np.ones(len(links)))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    assert found[1, 0] == pytest.approx(expected[1, 0], rel=1e-9)
    # by θ, which makes next to nothing of what was seen once, there would be far fewer
    by_theta = similar.chance_levels(prior)[:, CLOSE : NEAR + 1]
    assert (by_theta[0] < 0.8 * expected[0]).all()
    # were the links strangers, far too many rare names would be near each other
    blind = hyper.learn_near(records, prior, similar, links[:0], np.ones(0))
    assert blind[1, 0] > 1.05 * expected[1, 0]


def test_a_probable_link_counts_as_far_as_it_is_one(rng):
    records, who, word, slip, prior, similar = spelled(rng)
    a, b = np.triu_indices(records.n_records, 1)
    same = who[a] == who[b]
    links = levels_of(word, slip, a[same], b[same])
    none, half, all_of_them = (
        hyper.learn_near(records, prior, similar, links, np.full(len(links), p)) for p in (0.0, 0.5, 1.0)
    )
    np.testing.assert_allclose(half[0], (none[0] + all_of_them[0]) / 2.0, rtol=1e-3)
    assert (none[0] > all_of_them[0]).all()


def test_without_similar_values_there_are_none_by_chance(rng):
    records, *_, prior, _ = spelled(rng)
    nothing = SimilarValues.none(prior.value_ptr)
    links = np.zeros((1, 2), np.int8)
    np.testing.assert_array_equal(hyper.learn_near(records, prior, nothing, links, np.ones(1)), 0.0)
