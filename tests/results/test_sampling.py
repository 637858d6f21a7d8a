"""Scores from samples of individuals: exact when all are covered, unbiased and with honest errors when not."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.results.metrics import evaluate_partition
from vber_cli.results.sampling import estimate


def partitions(rng, n=3000, n_true=1400):
    true = rng.integers(0, n_true, n)
    found = np.where(rng.random(n) < 0.15, rng.integers(0, n_true, n), true)
    return found, true


def sizes(labels):
    return np.bincount(labels)[labels]


@pytest.mark.parametrize("whole", [False, True])
def test_all_individuals_give_the_scores_themselves(rng, whole):
    found, true = partitions(rng)
    ours = estimate(found, true, sizes(found), len(found), whole=whole)
    exact = evaluate_partition(found, true)
    for name, item in ours.estimates().items():
        score = getattr(exact, name)
        assert item.score.precision == pytest.approx(score.precision, abs=1e-12)
        assert item.score.recall == pytest.approx(score.recall, abs=1e-12)
        assert (item.precision_error, item.recall_error, item.f1_error) == (0, 0, 0)
    assert ours.n_individuals == (pytest.approx(exact.n_true) if whole else None)


def test_standard_errors_cover_the_truth(rng):
    """Over many samples of whole individuals the errors are those seen, and two of them cover the score."""
    found, true = partitions(rng)
    exact = evaluate_partition(found, true)
    names = np.unique(true)
    seen = {key: [] for key in ("pairwise", "b_cubed", "cluster", "n")}
    stated = {key: [] for key in seen}
    for _ in range(400):
        keep = np.isin(true, rng.choice(names, 200, replace=False))
        ours = estimate(found[keep], true[keep], sizes(found)[keep], len(found), whole=True)
        for key, item in ours.estimates().items():
            seen[key].append([item.score.precision, item.score.recall, item.score.f1])
            stated[key].append([item.precision_error, item.recall_error, item.f1_error])
        seen["n"].append([ours.n_individuals])
        stated["n"].append([ours.n_individuals_error])
    for key, scores in seen.items():
        values, errors = np.array(scores), np.array(stated[key])
        if key == "n":
            wanted = np.array([exact.n_true])
        else:
            score = getattr(exact, key)
            wanted = np.array([score.precision, score.recall, score.f1])
        np.testing.assert_allclose(values.mean(axis=0), wanted, rtol=0.02)
        np.testing.assert_allclose(errors.mean(axis=0), values.std(axis=0), rtol=0.2)
        assert (np.abs(values - wanted) < 2 * errors).mean() > 0.9


def test_links_to_other_records_count_only_where_they_must_be_false():
    found, entity = np.array([1, 1, 2]), np.array([7, 7, 8])
    size = np.array([3, 3, 1])  # a record that the truth does not name is with the first two
    inside = estimate(found, entity, np.array([2, 2, 1]), 10, whole=False)
    whole = estimate(found, entity, size, 10, whole=True)
    assert (inside.pairwise.score.precision, inside.cluster.score.precision) == (1.0, 1.0)
    assert whole.pairwise.score.precision == pytest.approx(1 / (1 + 0.5 * 2))
    assert whole.b_cubed.score.precision == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert whole.cluster.score.precision == pytest.approx(1 / (2 / 3 + 1))
    assert whole.n_individuals == pytest.approx(10 * 2 / 3)


def test_one_individual_has_no_standard_error():
    ours = estimate(np.array([1, 1]), np.array([4, 4]), np.array([2, 2]), 5, whole=False)
    assert ours.pairwise.score.precision == 1.0
    assert np.isnan(ours.pairwise.f1_error)
