"""Many records per individual with four values in ten corrupted: dependence must not be learned from them."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.generate import Options, generate
from benchmarks.run import evaluate
from tests.cli.merging import merge

# the clean values are not in the files: a person's most frequent one stands for it
OPTIONS = Options(records=2_000, entities=400, databases=5, noise=3.5, max_cluster=10, seed=7)


@pytest.fixture(scope="module")
def corrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrupted")
    return generate(folder, OPTIONS)


def test_the_set_is_as_bad_as_it_should_be(corrupted):
    files, truth = corrupted
    records = pd.concat([pd.read_csv(file, dtype=str, keep_default_na=False) for file in files], ignore_index=True)
    person = pd.read_csv(truth, dtype=str)["entity"]
    assert len(records) / person.nunique() == pytest.approx(5.0)
    wrong = [
        (records[field] != records.groupby(person)[field].transform(lambda one: one.mode()[0])).mean()
        for field in ("first_name", "city", "postcode")
    ]
    assert min(wrong) > 0.3


def test_most_records_find_their_person(vber, corrupted, tmp_path):
    files, truth = corrupted
    found = merge(vber, tmp_path / "out", *files, "-q")
    scores = evaluate(vber, found.directory, truth)
    assert scores["pairwise"]["f1"] >= 0.9
    assert {(edge["parent"], edge["field"]) for edge in found.summary["dependence"]} >= {("first_name", "sex")}
