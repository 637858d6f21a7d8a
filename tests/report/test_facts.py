"""The counts of a report against plain loops, and its charts' arithmetic."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from vber_cli.report import facts
from vber_cli.report.diagrams import MOST_DATABASES, overlap_figure
from vber_cli.report.learned import parents_of
from vber_cli.report.marks import Dot, Scale, ticks
from vber_cli.report.source import Links, Records, Result, Trace


def records_of(database, individual, probability=None):
    n = len(database)
    return Records(
        np.array(database, dtype=np.int64), np.arange(n, dtype=np.int64), pa.array([str(i) for i in range(n)]),
        np.array(individual, dtype=np.int64), np.ones(n) if probability is None else np.array(probability),
        np.full(n, -1, dtype=np.int64), np.full(n, np.nan),
    )  # fmt: skip


@pytest.mark.parametrize("n_databases", [1, 3, 9, 70])
def test_overlap_and_sizes_against_loops(rng, n_databases):
    database, individual = rng.integers(n_databases, size=300), rng.integers(90, size=300) * 7
    records = records_of(database, individual)
    members = facts.members_of(records)
    sets = {}
    for d, i in zip(database.tolist(), individual.tolist(), strict=True):
        sets.setdefault(i, []).append(d)
    found = facts.overlap(records, members, n_databases)
    assert dict(found) == Counter(tuple(sorted(set(of))) for of in sets.values())
    assert [number for _, number in found] == sorted((number for _, number in found), reverse=True)
    assert dict(facts.size_counts(members)) == Counter(len(of) for of in sets.values())


def test_levels_are_weighted_by_probability():
    links = Links(
        np.zeros(3, int), np.ones(3, int), np.array([0.5, 0.25, 1.0]), np.array([[0, 9], [3, 9], [0, 9]], np.int8)
    )
    share, missing = facts.level_shares(links)
    assert share[0] == pytest.approx([1.5 / 1.75, 0, 0, 0.25 / 1.75])
    assert np.isnan(share[1]).all()
    assert missing == pytest.approx([0.0, 1.0])


def test_the_histogram_counts_every_probability(rng):
    p = np.append(rng.random(100), [0.0, 1.0])
    counts = facts.histogram(p)
    assert counts.sum() == 102
    assert counts[9] == (p >= 0.9).sum()


def test_doubt_is_the_expected_loss_of_the_decision():
    records = records_of([0, 0, 1, 1], [1, 2, 1, 3])
    links = Links(np.array([0, 1, 0]), np.array([2, 3, 3]), np.array([0.9, 0.4, 0.005]), np.zeros((3, 1), np.int8))
    decided = facts.decisions(records, links, (3.0, 2.0))
    assert decided.together.tolist() == [True, False, False]
    assert decided.loss == pytest.approx([3 * 0.1, 2 * 0.4, 2 * 0.005])
    assert decided.most_doubtful(5, 0.02).tolist() == [1, 0]
    assert decided.most_doubtful(1, 0.02).tolist() == [1]


def test_the_hardest_have_the_least_mean_probability():
    records = records_of([0] * 5, [5, 6, 6, 7, 8], [0.7, 0.2, 0.6, 0.995, 0.5])
    members = facts.members_of(records)
    found = facts.hardest(records, members, 10, 0.99)
    assert [(int(members.individual[i]), confidence) for i, confidence in found] == [
        (6, pytest.approx(0.4)), (8, pytest.approx(0.5)), (5, pytest.approx(0.7)),
    ]  # fmt: skip


@pytest.mark.parametrize(("share", "n"), [(0.0, 5), (0.5, 10), (1.0, 3), (0.9, 1000)])
def test_wilson_solves_its_equation(share, n):
    z2 = 1.6448536269514722**2
    for limit in facts.wilson(share, n):
        inside = 1e-12 < limit < 1 - 1e-12
        assert not inside or (share - limit) ** 2 == pytest.approx(z2 * limit * (1 - limit) / n)
    assert facts.wilson(0.0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 541), (-10_685.4, -10_679.45), (1, 2), (0, 1e9), (3, 3)])
def test_ticks_are_few_even_and_inside(low, high):
    found = ticks(low, high, 5)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-6 <= value <= high + 1e-6 for value in found)
    assert len({round(b - a, 9) for a, b in itertools.pairwise(found)}) <= 1


def test_a_scale_of_one_value_has_a_middle():
    assert Scale(3.0, 3.0, 0.0, 10.0)(3.0) == 5.0


def test_the_picture_of_many_databases_stays_readable():
    overlap = [((d, d + 1), 100 - d) for d in range(60)]
    figure = overlap_figure([f"d{d}" for d in range(61)], overlap)
    rows = {mark.y for mark in figure.chart.marks if isinstance(mark, Dot)}
    assert len(rows) <= MOST_DATABASES
    assert len(figure.table.rows) == 60
    assert "48 rarer combinations are in the table only" in figure.says


def test_a_circle_of_dependence_is_cut(tmp_path):
    chain = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "unknown")]
    summary = {"dependence": [{"field": field, "parent": parent, "gain_bits": 1.0} for field, parent in chain]}
    trace = Trace((), np.zeros(0), np.zeros(0))
    result = Result(tmp_path, summary, (), tuple("abcd"), records_of([], []), None, trace)
    assert parents_of(result) == {"a": ("b", 1.0), "b": ("c", 1.0)}
