"""From files to the summary and on from there: pairs that differ in a name and what goes with it are no links."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.merging import merge, write_rows
from tests.engine.test_redrawn import MEMBERS, SEX, make_families
from tests.results.test_explain import totals_checked
from vber_cli.results.explain import Explainer
from vber_cli.results.open_result import OpenResult

FIELDS = ["given", "sex", "family", "street", "town", "birthday"]
TWINS = 150


def are_twins(one, other):
    first, second = np.minimum(one, other), np.maximum(one, other)
    return (first % MEMBERS == 0) & (second == first + 1) & (first // MEMBERS < TWINS)


@pytest.fixture(scope="module")
def merged(vber, tmp_path_factory):
    """The result, the person and the sex of each record, and the file."""
    folder = tmp_path_factory.mktemp("twins")
    records, person = make_families(np.random.default_rng(4), n_twins=TWINS)
    rows = [
        [str(r), *(f"{field[0]}{value:05d}" for field, value in zip(FIELDS, row, strict=True))]
        for r, row in enumerate(records.codes.tolist())
    ]
    file = write_rows(folder / "people.csv", ["id", *FIELDS], rows)
    return merge(vber, folder / "out", file, "--type", "*=category", "-q"), person, records.codes[:, SEX], file


def test_twins_are_a_kind_of_relation(merged):
    found, person, sex, _ = merged
    kinds = [kind for kind in found.summary["relations"]["classes"] if "redrawn" in kind]
    assert [kind["redrawn"] for kind in kinds] == ["given"]
    assert "differ in given" in kinds[0]["name"]
    assert 100 < kinds[0]["pairs"] < 500
    links = found.table("links")
    a, b = (links[side].astype(int).to_numpy() for side in ("id_a", "id_b"))
    by_sex = sex[a] != sex[b]
    probability = links["probability"].to_numpy()
    twins = are_twins(person[a], person[b])
    all_a, all_b = np.triu_indices(len(person), 1)
    pairs = are_twins(person[all_a], person[all_b])
    apart = sex[all_a] != sex[all_b]
    # those of different sex hardly ever, and of the others about as many as have a wrong given name
    assert probability[twins & by_sex].sum() < 0.1 * (pairs & apart).sum()
    assert probability[twins & ~by_sex].sum() < 0.6 * (pairs & ~apart).sum()
    assert probability[person[a] == person[b]].mean() > 0.8


def test_what_is_explained_adds_up_over_several_relations(merged):
    explainer = Explainer(OpenResult(merged[0].directory))
    evidence = explainer.stored.learned.evidence
    assert min(evidence.noise.n_classes, evidence.relations.n_classes) > 1
    assert totals_checked(explainer) > 500


def test_a_later_run_knows_of_them(vber, merged, tmp_path):
    found, _, _, file = merged
    again = merge(vber, tmp_path / "again", file, "--type", "*=category", "-q", "--start-from", found.directory)
    before, after = (json.loads((one / "model.json").read_text()) for one in (found.directory, tmp_path / "again"))
    assert before["relations"] == after["relations"]
    assert max(before["relations"]["redrawn"]) == 0
    assert again.summary["relations"]["classes"][-1].keys() >= {"name", "pairs", "identical"}


def test_a_result_from_before_there_were_such_relations_is_read(vber, merged, tmp_path):
    found, _, _, file = merged
    model = found.directory / "model.json"
    kept = model.read_text()
    plain = json.loads(kept)
    del plain["relations"]["redrawn"]
    try:
        model.write_text(json.dumps(plain))
        again = merge(vber, tmp_path / "again", file, "--type", "*=category", "-q", "--start-from", found.directory)
    finally:
        model.write_text(kept)
    assert not any("redrawn" in kind for kind in again.summary["relations"]["classes"])
