"""Explanations against what the merge itself computed, pair by pair."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from tests.results.test_evaluate import write_result
from vber_cli.errors import InputError
from vber_cli.results.explain import BIT, Explainer, explain_pair, read_links
from vber_cli.results.explain_individual import explain_individual, find_individual
from vber_cli.results.open_result import OpenResult


@pytest.fixture(scope="module")
def explainer(sample_result):
    return Explainer(OpenResult(sample_result))


def test_totals_are_the_log_odds_of_the_links(generated_result):
    explainer = Explainer(OpenResult(generated_result))
    evidence = explainer.stored.learned.evidence
    assert evidence.noise.n_classes > 1
    assert evidence.relations.n_classes > 0
    assert totals_checked(explainer) == 1000


def totals_checked(explainer):
    """Of a thousand random listed pairs, or all: their own evidence is the one computed while merging. How many."""
    links = pd.read_parquet(explainer.result.path / "links.parquet")
    a, b, _ = read_links(explainer.result)
    rng = np.random.default_rng(7)
    listed = rng.permutation(len(links))[:1000]
    reports = explainer.pairs([(int(a[i]), int(b[i])) for i in listed])
    for i, report in zip(listed, reports, strict=True):
        row = links.iloc[i]
        total = sum(line.bits for line in report.lines) * BIT
        assert report.listed
        assert report.log_odds == pytest.approx(row["log_odds"], abs=1e-6)
        assert total == pytest.approx(row["log_odds"], abs=1e-6)
        assert report.lines[-1].running_bits * BIT == pytest.approx(row["log_odds"], abs=1e-6)
        assert report.pair_log_odds == pytest.approx(row["pair_log_odds"], abs=1e-9)
        alone = sum(line.bits for line in report.lines if line.kind not in ("others", "limit")) * BIT
        assert alone == pytest.approx(row["pair_log_odds"], abs=1e-6)
        assert report.probability == row["probability"]
        levels = [line for line in report.lines if line.kind == "field"]
        assert [line.level == "missing" for line in levels] == [
            row[f"level_{line.name}"] == 9 for line in levels
        ]  # fmt: skip
    return len(listed)


def test_a_pair_that_is_not_listed(explainer):
    n = explainer.result.n_records
    a, b, _ = read_links(explainer.result)
    known = set(zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), strict=True))
    rng = np.random.default_rng(1)
    pairs = [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(200)]
    for report in explainer.pairs([pair for pair in pairs if pair not in known]):
        assert not report.listed
        assert report.log_odds == report.pair_log_odds == pytest.approx(report.lines[-1].running_bits * BIT)
        assert report.probability == pytest.approx(1 / (1 + math.exp(-report.pair_log_odds)))
        assert not report.together
        assert "Not linked" in report.verdict
        assert report.lines[0].kind == "prior"


def test_the_order_of_the_two_does_not_matter(explainer):
    [one, two] = explainer.pairs([(3, 200), (200, 3)])
    assert (one.a, one.b, one.log_odds) == (two.b, two.a, pytest.approx(two.log_odds))
    assert [line.bits for line in one.lines] == pytest.approx([line.bits for line in two.lines])
    assert [line.value_a for line in one.lines] == [line.value_b for line in two.lines]


def test_values_are_those_of_the_records(explainer, sample_result):
    records = parquet.read_table(sample_result / "records.parquet").to_pandas()
    [report] = explainer.pairs([(0, 300)])
    for side, row in (("value_a", 0), ("value_b", 300)):
        for line in report.lines:
            if line.kind == "field":
                value = records[line.name][row]
                assert getattr(line, side) == (None if pd.isna(value) else value)


def test_plain_words(explainer):
    reports = explainer.pairs([(i, j) for i in range(40) for j in range(180, 330)])
    lines = [line for report in reports for line in report.lines]
    assert {"prior", "field", "others"} <= {line.kind for line in lines}
    assert any("implied by" in line.note and "bits without it" in line.note for line in lines)
    identical = [line for line in lines if line.level == "identical"]
    assert all(line.note.startswith("1 in ") for line in identical)
    verdicts = " ".join(report.verdict for report in reports)
    for words in ("One individual, with probability", "Against it: ", "by the two records alone"):
        assert words in verdicts


def test_a_relative_in_plain_words(sample_result, tmp_path):
    """A model that knows of people with the first field in common, and nothing else."""
    shutil.copytree(sample_result, tmp_path / "out")
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    levels = [[0.9, 0.0, 0.0, 0.1]] + [[0.01, 0.0, 0.0, 0.99]] * (len(model["fields"]) - 1)
    model["relations"] = {"odds": [0.5], "levels": [levels]}
    (tmp_path / "out" / "model.json").write_text(json.dumps(model))
    reports = Explainer(OpenResult(tmp_path / "out")).pairs([(i, j) for i in range(40) for j in range(180, 330)])
    lines = [line for report in reports for line in report.lines if line.kind == "relation"]
    told = [line for line in lines if line.bits < -1]
    assert told
    assert all(f"agree on {model['fields'][0]}; differ in" in line.note for line in told)


def test_as_good_as_certain(sample_result, tmp_path):
    """A probability of 1 ends the log odds; the rest of the evidence is said to be beyond."""
    links = parquet.read_table(sample_result / "links.parquet")
    own = links.column("pair_log_odds").to_numpy()
    assert own.max() < 34 or (links.column("log_odds").to_numpy() <= 34.6).all()
    shutil.copytree(sample_result, tmp_path / "out")
    strong = int(np.argmax(own))
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    model["log_new"] = own[strong] + model["log_new"] - 60.0
    (tmp_path / "out" / "model.json").write_text(json.dumps(model))
    sure = links.column("probability").to_numpy().copy()
    sure[strong] = 1.0
    place = links.column_names.index("probability")
    parquet.write_table(links.set_column(place, "probability", [sure]), tmp_path / "out" / "links.parquet")
    explainer = Explainer(OpenResult(tmp_path / "out"))
    a, b, _ = read_links(explainer.result)
    [report] = explainer.pairs([(int(a[strong]), int(b[strong]))])
    assert report.lines[-1].kind == "limit"
    assert report.pair_log_odds == pytest.approx(60)
    assert report.log_odds == pytest.approx(math.log(1e15), abs=1e-2)


def test_an_individual(sample_result):
    assignments = pd.read_parquet(sample_result / "assignments.parquet")
    size = assignments["individual"].value_counts()
    name = int(size.index[0])
    report = explain_individual(sample_result, str(name))
    mine = assignments[assignments["individual"] == name]
    assert [member.record.id for member in report.members] == mine["record_id"].tolist()
    assert [member.probability for member in report.members] == mine["probability"].tolist()
    n = len(mine)
    assert report.n_pairs == n * (n - 1) // 2
    weakest = [pair.probability for pair in report.weakest]
    assert weakest == sorted(weakest)
    assert all(pair.together for pair in report.weakest)
    assert all(pair.a.individual == name != pair.b.individual for pair in report.outside)
    assert json.loads(json.dumps(report.to_dict()))["individual"] == name
    of_record = explain_individual(sample_result, f"{mine['database'].iloc[0]}:{mine['record_id'].iloc[0]}")
    assert of_record.individual == name


def test_an_individual_of_one_record(sample_result):
    assignments = pd.read_parquet(sample_result / "assignments.parquet")
    size = assignments["individual"].value_counts()
    report = explain_individual(sample_result, str(int(size.index[-1])))
    assert (len(report.members), report.n_pairs, report.weakest) == (1, 0, ())


def test_names_that_cannot_be_found(sample_result):
    with pytest.raises(InputError, match="has no record 'C00011'") as caught:
        explain_pair(sample_result, "C00011", "C0002")
    assert "did you mean clinic:C00" in caught.value.fix
    with pytest.raises(InputError, match="has no record 'clinic:C00011'") as caught:
        explain_individual(sample_result, "clinic:C00011")
    assert "did you mean clinic:C00" in caught.value.fix
    with pytest.raises(InputError, match="has no record 'ÿÿÿÿ'") as caught:
        explain_individual(sample_result, "ÿÿÿÿ")
    assert "look like 'C0001'" in caught.value.fix


def test_ids_that_databases_share(tmp_path):
    result = OpenResult(write_result(tmp_path / "out"))
    with pytest.raises(InputError, match="id '1' is in the databases clinic, police") as caught:
        result.find_record("1")
    assert "clinic:1" in caught.value.fix
    assert result.find_record("police:1") == 3
    assert result.find_record("x") == 5
    assert find_individual(result, "police:1") == 0
    # 2 is an individual, and the id of records of the individuals 1 and 2
    with pytest.raises(InputError, match="is an individual, and the id of a record"):
        find_individual(result, "2")
    assert find_individual(result, "3") == 3


def test_literal_results_have_a_model_but_no_values(literal_result):
    with pytest.raises(InputError, match=r"has no records\.parquet"):
        explain_pair(literal_result, "C0001", "C0002")


def test_what_rounds_to_nothing_is_not_against_it(explainer):
    reports = explainer.pairs([(i, j) for i in range(40) for j in range(180, 330)])
    verdicts = [report.verdict for report in reports if "Against it: " in report.verdict]
    assert verdicts
    assert not any("(-0.0 bits)" in verdict for verdict in verdicts)
