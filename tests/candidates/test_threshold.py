"""The score down to which pairs are kept, within its limits around even odds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.called import from_python
from vber_cli.candidates import join as module
from vber_cli.candidates import join_kernels
from vber_cli.candidates.join import choose_threshold, make_scorer
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

SCORE = from_python(join_kernels.score_pair)
LOWEST, HIGHEST = -12.0, -4.0
PER_RECORD = 10


@pytest.fixture(autouse=True)
def _as_with_many_records(monkeypatch):
    """Few records may keep more pairs each; these tests are about many, with few records."""
    monkeypatch.setattr(module, "_FEW_PAIRS", 0)


def scorer_of(codes):
    sizes = codes.max(axis=0).astype(np.int64) + 1
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(codes), np.int32), sizes)
    prior = make_prior(records, "empirical", 0.1)
    similar = SimilarValues.none(prior.value_ptr)
    return make_scorer(records, prior, similar, Noise.single(prior.concentration), similar.chance_levels(prior))


def all_scores(scorer):
    pairs = itertools.combinations(range(len(scorer.codes)), 2)
    return np.sort([SCORE(a, b, scorer) for a, b in pairs])[::-1]


def make_codes(rng, n, sizes):
    return np.stack([rng.integers(0, size, n) for size in sizes], axis=1)


@pytest.mark.parametrize("log_new", [-3.0, 0.0, 4.0, 9.0])
@pytest.mark.parametrize("sizes", [(2, 2), (5, 9, 4), (200, 300, 100, 50)])
def test_within_its_limits(rng, sizes, log_new):
    threshold = choose_threshold(scorer_of(make_codes(rng, 150, sizes)), log_new, 1)
    assert log_new + LOWEST <= threshold <= log_new + HIGHEST


def test_the_lowest_where_pairs_are_few(rng):
    # no more pairs than are wanted, however they score
    assert choose_threshold(scorer_of(make_codes(rng, 15, (2, 2))), 3.0, 1) == 3.0 + LOWEST


def test_as_many_pairs_as_are_wanted(rng):
    """With every record in the sample the threshold is where the best ten pairs a record end."""
    n = 120
    scorer = scorer_of(make_codes(rng, n, (30, 20, 40, 12, 25)))
    scores = all_scores(scorer)
    wanted = scores[PER_RECORD * n]
    log_new = wanted + 8.0  # amid the limits
    threshold = choose_threshold(scorer, log_new, 1)
    assert threshold == pytest.approx(wanted, abs=1e-9)
    assert (scores > threshold).sum() <= PER_RECORD * n <= (scores >= threshold).sum()
    # beyond its limits it stays at one
    assert choose_threshold(scorer, wanted + 20.0, 1) == pytest.approx(wanted + 20.0 + LOWEST)
    assert choose_threshold(scorer, wanted - 20.0, 1) == pytest.approx(wanted - 20.0 + HIGHEST)


def test_few_records_may_keep_more_pairs_each(rng, monkeypatch):
    n = 120
    scorer = scorer_of(make_codes(rng, n, (30, 20, 40, 12, 25)))
    scores = all_scores(scorer)
    log_new = scores[20 * n] + 8.0
    monkeypatch.setattr(module, "_FEW_PAIRS", 20 * n)
    assert choose_threshold(scorer, log_new, 1) == pytest.approx(scores[20 * n], abs=1e-9)


def test_lower_where_few_pairs_score_high(rng):
    n, log_new = 200, 6.0
    telling = choose_threshold(scorer_of(make_codes(rng, n, (100, 150, 80, 120))), log_new, 1)
    crowded = make_codes(rng, n, (100, 150, 80, 120))
    crowded[:, :] = crowded[rng.integers(0, 5, n)]  # forty of each: many pairs alike
    assert telling < choose_threshold(scorer_of(crowded), log_new, 1)


def test_a_sample_of_records_does_about_as_well(rng, monkeypatch):
    scorer = scorer_of(make_codes(rng, 400, (30, 20, 40, 12, 25)))
    log_new = all_scores(scorer)[PER_RECORD * 400] + 8.0
    whole = choose_threshold(scorer, log_new, 1)
    monkeypatch.setattr("vber_cli.candidates.join._SAMPLED_COMPARISONS", 100 * 400)
    assert choose_threshold(scorer, log_new, 1) == choose_threshold(scorer, log_new, 1)
    assert choose_threshold(scorer, log_new, 1) == pytest.approx(whole, abs=1.0)
