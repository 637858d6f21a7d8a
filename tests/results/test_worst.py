"""The worst errors: all of them counted, the surest first, each with its explanation."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.results.test_metrics import check_against_er_evaluation
from vber_cli.results.evaluate import evaluate
from vber_cli.results.metrics import evaluate_partition
from vber_cli.results.open_result import OpenResult
from vber_cli.results.worst import split_pairs, worst_errors


def test_pairs_that_differ(rng):
    group, other = rng.integers(0, 12, 60), rng.integers(0, 3, 60)
    record = rng.permutation(1000)[:60]
    pairs, n = split_pairs(record, group, other)
    wanted = {
        frozenset((int(record[i]), int(record[j])))
        for i, j in itertools.combinations(range(60), 2)
        if group[i] == group[j] and other[i] != other[j]
    }
    assert {frozenset(pair) for pair in pairs.tolist()} == wanted
    assert n == len(pairs) == len(wanted)


def test_no_records():
    none = np.zeros(0, np.int64)
    pairs, n = split_pairs(none, none, none)
    assert (len(pairs), n) == (0, 0)


def test_the_surest_errors_come_first(generated_result, generated):
    found = evaluate(generated_result, str(generated[1]), n_worst=8)
    worst, metrics = found.worst, found.metrics
    assert worst.n_false == metrics.found_pairs - metrics.correct_pairs > 8
    assert worst.n_missed == metrics.true_pairs - metrics.correct_pairs > 8
    false = [pair.probability or 0 for pair in worst.false_links]
    missed = [pair.probability or 0 for pair in worst.missed_links]
    assert len(false) == len(missed) == 8
    assert false == sorted(false, reverse=True)
    assert missed == sorted(missed)
    assert all(pair.explanation.together for pair in worst.false_links)
    assert not any(pair.explanation.together for pair in worst.missed_links)
    assert all("bits" in pair.reasons(false_link=True) for pair in worst.false_links)
    assert worst.note == ""
    plain = found.to_dict()["errors"]
    assert plain["worst_missed"][0]["explanation"]["lines"][0]["kind"] == "prior"


def test_a_result_without_a_model(literal_result):
    found = worst_errors(OpenResult(literal_result), np.arange(541) // 2, 3)
    assert "errors are not explained" in found.note
    assert [pair.explanation for pair in found.false_links] == [None] * 3
    assert found.false_links[0].reasons(false_link=True) == ""


@pytest.mark.parametrize("which", ["sample", "generated", "literal"])
def test_scores_are_those_of_er_evaluation(which, request, generated):
    """On three sets, from the files of the result and the truth alone."""
    directory = request.getfixturevalue(f"{which}_result")
    truth = generated[1] if which == "generated" else ROOT / "sample_data" / "truth.csv"
    known = pd.read_csv(truth, dtype=str)
    table = pd.read_parquet(directory / "assignments.parquet").astype({"database": str})
    both = table.merge(known, on=["database", "record_id"])
    entity = both["entity"].astype("category").cat.codes.to_numpy().astype(np.int64)
    individual = both["individual"].to_numpy()
    check_against_er_evaluation(individual, entity)
    ours = evaluate(directory, str(truth)).metrics
    assert ours.n_records == len(table) == len(both)
    assert ours == evaluate_partition(individual, entity)
