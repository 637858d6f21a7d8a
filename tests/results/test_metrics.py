"""Scores of a partition, against er-evaluation and against counting by hand."""

from itertools import combinations

import er_evaluation
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vber_cli.results.metrics import calibrate, count_pairs, evaluate_partition

labels = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-4, 6), min_size=n, max_size=n) for _ in range(2)])
)


def check_against_er_evaluation(found, true):
    ours = evaluate_partition(found, true)
    prediction, reference = pd.Series(found), pd.Series(true)
    # Its own b_cubed_precision averages over clusters; Bagga and Baldwin average over records, as its table allows.
    records = er_evaluation.record_error_table(prediction, reference)
    theirs = {
        "pairwise": (
            er_evaluation.pairwise_precision(prediction, reference),
            er_evaluation.pairwise_recall(prediction, reference),
        ),
        "b_cubed": (
            1 - (records["extra"] / records["pred_cluster_size"]).mean(),
            1 - (records["missing"] / records["ref_cluster_size"]).mean(),
        ),
        "cluster": (
            er_evaluation.cluster_precision(prediction, reference),
            er_evaluation.cluster_recall(prediction, reference),
        ),
    }
    for kind, (precision, recall) in theirs.items():
        score = getattr(ours, kind)
        assert score.precision == pytest.approx(precision, abs=1e-12)
        assert score.recall == pytest.approx(recall, abs=1e-12)
    assert ours.pairwise.f1 == pytest.approx(er_evaluation.pairwise_f(prediction, reference), abs=1e-12)


@pytest.mark.parametrize("n_labels", [1, 3, 40, 300, 2000])
def test_metrics_are_those_of_er_evaluation(n_labels):
    rng = np.random.default_rng(n_labels)
    true = rng.integers(0, n_labels, 400)
    found = np.where(rng.random(400) < 0.2, rng.integers(0, n_labels, 400), true)
    check_against_er_evaluation(found, true)


@given(labels)
def test_pairs_are_counted_exactly(pair):
    found, true = pair
    ours = evaluate_partition(found, true)
    pairs = list(combinations(range(len(found)), 2))
    in_found = {(a, b) for a, b in pairs if found[a] == found[b]}
    in_true = {(a, b) for a, b in pairs if true[a] == true[b]}
    assert (ours.found_pairs, ours.true_pairs, ours.correct_pairs) == (
        len(in_found), len(in_true), len(in_found & in_true),
    )  # fmt: skip
    blocks = [
        {frozenset(i for i, other in enumerate(side) if other == label) for label in set(side)}
        for side in (found, true)
    ]
    assert (ours.n_found, ours.n_true, ours.correct_clusters) == (
        len(blocks[0]), len(blocks[1]), len(blocks[0] & blocks[1]),
    )  # fmt: skip


@given(labels)
def test_names_of_labels_do_not_matter(pair):
    found, true = np.array(pair[0]), np.array(pair[1])
    assert evaluate_partition(found, true) == evaluate_partition(-7 * found, 10**12 + true)


def test_perfect_and_empty():
    perfect = evaluate_partition([1, 1, 2], [5, 5, 9])
    assert (perfect.pairwise.f1, perfect.b_cubed.f1, perfect.cluster.f1) == (1.0, 1.0, 1.0)
    nothing = evaluate_partition([], [])
    assert (nothing.n_records, nothing.n_found, nothing.pairwise.f1) == (0, 0, 1.0)
    apart = evaluate_partition([1, 2, 3], [1, 1, 1])
    assert (apart.pairwise.precision, apart.pairwise.recall, apart.pairwise.f1) == (1.0, 0.0, 0.0)
    assert (apart.cluster.precision, apart.cluster.f1) == (0.0, 0.0)


def test_big_groups_do_not_overflow():
    assert count_pairs(np.array([3_000_000_000])) == 3_000_000_000 * 2_999_999_999 // 2
    n = 300_000
    both = evaluate_partition(np.zeros(n, np.int32), np.zeros(n, np.uint8))
    assert both.correct_pairs == n * (n - 1) // 2


@pytest.mark.parametrize(("found", "true"), [([1, 2], [1]), ([[1]], [[1]]), ([0.5, 1.0], [1, 2]), (["a"], ["b"])])
def test_wrong_labels_are_refused(found, true):
    with pytest.raises(ValueError, match="label"):
        evaluate_partition(found, true)


def test_calibration_by_hand():
    found = calibrate([0.05, 0.95, 1.0, 0.35], [False, True, True, True], n_unlisted=1)
    assert (found.n, found.n_unlisted) == (5, 1)
    assert found.brier == pytest.approx((0.05**2 + 0.05**2 + 0 + 0.65**2 + 1) / 5)
    assert found.expected_error == pytest.approx((0.95 + 0.65 + 0.05) / 5)
    assert [(round(row.low, 1), row.n) for row in found.bins] == [(0.0, 2), (0.3, 1), (0.9, 2)]
    assert found.bins[0].mean_probability == pytest.approx(0.025)
    assert found.bins[0].share_true == pytest.approx(0.5)


def test_probabilities_that_come_true_are_calibrated(rng):
    p = rng.random(200_000)
    found = calibrate(p, rng.random(200_000) < p)
    assert found.expected_error < 0.01
    assert found.brier == pytest.approx(1 / 6, abs=0.005)


def test_calibration_of_nothing():
    found = calibrate([], [])
    assert (found.n, found.brier, found.expected_error, found.bins) == (0, 0.0, 0.0, ())
