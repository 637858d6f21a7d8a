"""Two results side by side: by hand, against er-evaluation, with unlike inputs and with what other samplers leave."""

from __future__ import annotations

import er_evaluation
import numpy as np
import pandas as pd
import pytest

from tests.results.test_evaluate import LINKS, RECORDS, write_result
from vber_cli.errors import InputError
from vber_cli.results.compare import compare_results

SUMMARY = {"n": {"mean": 4, "low": 3, "high": 5}, "K": {"mean": 9.5, "low": None, "high": None},
           "bound": {"bound": -12.5}, "seconds": {"read": 1.0, "link": 2.0}}  # fmt: skip


def regrouped(individuals):
    return [(*record[:3], k) for record, k in zip(RECORDS, individuals, strict=True)]


@pytest.fixture
def one(tmp_path):
    return write_result(tmp_path / "one", links=LINKS, summary=SUMMARY)


def test_everything_by_hand(one, tmp_path):
    links = [("clinic", 0, "police", 0, 0.7), ("clinic", 1, "clinic", 2, 0.6)]
    other = write_result(tmp_path / "two", regrouped([7, 5, 5, 7, 2, 2]), links, {})
    found = compare_results(one, other)
    # A: {c1, p1}, {c2}, {c3, p2}, {px}; B: {c1, p1}, {c2, c3}, {p2, px}
    assert (found.n_common, found.matched_by) == (6, "id")
    assert (found.pairs_a, found.pairs_b, found.pairs_both, found.same_individuals) == (2, 3, 1, 1)
    assert (found.pairwise.precision, found.pairwise.recall) == (1 / 3, 1 / 2)
    assert found.rand == (15 - 3) / 15
    assert found.adjusted_rand == pytest.approx((1 - 6 / 15) / (2.5 - 6 / 15))
    assert found.n_moved == 4
    first = found.moved[0]
    assert (first.record, first.size_a, first.size_b, first.shared) == ("clinic:03", 2, 2, 1)
    assert first.difference == pytest.approx(2 / 3)
    assert found.links.n_pairs == 4
    assert found.links.mean_difference == pytest.approx((0.2 + 0.6 + 0.75 + 0.2) / 4)
    assert found.links.largest_difference == 0.75
    assert found.links.across_half == 2
    assert (found.a.n, found.a.K) == ({"mean": 4, "low": 3, "high": 5}, {"mean": 9.5, "low": None, "high": None})
    assert (found.a.bound, found.a.seconds, found.a.n_links, found.a.n_individuals) == (-12.5, 3.0, 3, 4)
    assert (found.b.n, found.b.K, found.b.bound, found.b.seconds) == (None, None, None, None)
    assert found.to_dict()["pairwise"]["f1"] == pytest.approx(0.4)


def test_rand_indexes_are_those_of_er_evaluation(tmp_path, rng):
    n = 300
    sides = [rng.integers(0, 60, n)]
    sides.append(np.where(rng.random(n) < 0.3, rng.integers(0, 60, n), sides[0]))
    paths = [
        write_result(tmp_path / str(i), [("a", r, f"r{r}", int(k)) for r, k in enumerate(side)])
        for i, side in enumerate(sides)
    ]
    found = compare_results(*paths)
    a, b = map(pd.Series, sides)
    assert found.rand == pytest.approx(er_evaluation.rand_score(b, a), abs=1e-12)
    assert found.adjusted_rand == pytest.approx(er_evaluation.adjusted_rand_score(b, a), abs=1e-12)
    assert found.pairwise.f1 == pytest.approx(er_evaluation.pairwise_f(b, a), abs=1e-12)


def test_a_result_against_itself(one):
    found = compare_results(one, one)
    assert (found.pairwise.f1, found.rand, found.adjusted_rand, found.n_moved) == (1.0, 1.0, 1.0, 0)
    assert found.moved == ()
    assert found.links.largest_difference == 0


def test_rows_in_another_order_and_records_that_one_lacks(one, tmp_path):
    other = write_result(tmp_path / "two", [("police", 5, "2", 1), ("new", 0, "1", 2), ("clinic", 9, "03", 1)])
    found = compare_results(one, other)
    assert (found.n_common, found.pairs_both, found.rand, found.links) == (2, 1, 1.0, None)


def test_real_results_are_matched_by_row(sample_result, literal_result):
    found = compare_results(sample_result, literal_result)
    assert (found.n_common, found.matched_by) == (541, "row")
    assert found.b.K["mean"] == 300
    assert found.a.seconds > 0
    assert len(found.moved) == 10
    assert found.links is None


def test_results_of_other_records(one, tmp_path):
    other = write_result(tmp_path / "two", [("x", 0, "1", 1)])
    with pytest.raises(InputError, match="have no record in common: databases clinic, police against x"):
        compare_results(one, other)
