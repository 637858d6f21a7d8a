"""A round of review: merge, decide the most valuable pairs by the truth, merge again from what was learned."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.generate import Options, generate
from benchmarks.review import answer, contradicted, truth_of
from tests.cli.merging import rows_of, write_rows
from vber_cli.errors import InputError
from vber_cli.results.earlier import read_earlier

N_ASKED = 40


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Two noisy lists of people, and the truth about them."""
    options = Options(records=1000, entities=700, databases=2, noise=1.5, seed=8)
    return generate(tmp_path_factory.mktemp("people"), options)


@pytest.fixture(scope="module")
def first(vber: str, people: tuple[list[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("first") / "out"
    subprocess.run([vber, "merge", *people[0], "-q", "--out", out], check=True)
    return out


@pytest.fixture(scope="module")
def decided(vber: str, people: tuple[list[Path], Path], first: Path) -> Path:
    """The pairs of `vber review`, decided by the truth."""
    pairs = first.parent / "pairs.csv"
    subprocess.run([vber, "review", first, "--out", pairs, "-n", str(N_ASKED), "-q"], check=True)
    assert answer(pairs, truth_of(people[1])) == N_ASKED
    return pairs


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def ends_of(pairs: Path) -> set[tuple[str, str]]:
    rows = csv.DictReader(pairs.read_text(encoding="utf-8-sig").splitlines())
    return {(row["id_a"], row["id_b"]) for row in rows}


def f1(vber: str, result: Path, truth: Path) -> float:
    return float(json.loads(run(vber, "evaluate", result, truth, "--json").stdout)["pairwise"]["f1"])


def test_answers_raise_f1_and_hold(
    vber: str, people: tuple[list[Path], Path], first: Path, decided: Path, tmp_path: Path
) -> None:
    files, truth = people
    done = run(vber, "merge", *files, "--decisions", decided, "--start-from", first, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    # a third of all that was wrong is right now
    assert 1.0 - f1(vber, tmp_path / "out", truth) < (1.0 - f1(vber, first, truth)) * 2 / 3
    assert contradicted(decided, tmp_path / "out") == 0
    answers = [row["decision"] for row in csv.DictReader(decided.read_text(encoding="utf-8-sig").splitlines())]
    assert {"yes", "no"} == set(answers)
    said = f"{answers.count('yes')} pairs decided as together, {answers.count('no')} as apart, 0 left open"
    assert said in done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["constraints"]["must_link"]["pairs"] == answers.count("yes")
    assert summary["constraints"]["cannot_link"]["pairs"] == answers.count("no")
    assert summary["start_from"]["name"] == "out"
    again = tmp_path / "again.csv"
    assert run(vber, "review", tmp_path / "out", "--out", again, "-n", "1000", "-q").returncode == 0
    assert len(ends_of(again)) > 0
    assert not ends_of(decided) & ends_of(again)


def test_new_records_start_from_an_earlier_result(
    vber: str, people: tuple[list[Path], Path], first: Path, tmp_path: Path
) -> None:
    header, rows = rows_of(people[0][1])
    more = write_rows(tmp_path / "more.csv", header, [[f"x{row[0]}", *row[1:]] for row in rows[:50]])
    done = run(vber, "merge", *people[0], more, "--start-from", first, "--out", tmp_path / "out", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    found = pd.read_parquet(tmp_path / "out" / "assignments.parquet")
    place = dict(zip(found["record_id"], found["individual"], strict=True))
    assert sum(place[row[0]] == place[f"x{row[0]}"] for row in rows[:50]) >= 48
    before, after = (json.loads((path / "model.json").read_text()) for path in (first, tmp_path / "out"))
    assert before["noise"] == after["noise"]
    assert before["relations"] == after["relations"]
    digests = [json.loads((path / "summary.json").read_text())["config_digest"] for path in (first, tmp_path / "out")]
    assert digests[0] != digests[1]


def test_an_apostrophe_against_formulas_is_undone(vber: str, tmp_path: Path) -> None:
    rows = [["=1", "anna", "berg"], ["=2", "anna", "berg"], ["=3", "otto", "krantz"]]
    file = write_rows(tmp_path / "a.csv", ["id", "given", "family"], rows)
    pairs = write_rows(tmp_path / "pairs.csv", ["id_a", "id_b", "decision"], [["'=1", "'=2", "no"], ["'=1", "=3", ""]])
    done = run(vber, "merge", file, "--decisions", pairs, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "0 pairs decided as together, 1 as apart, 1 left open" in done.stderr
    assert pd.read_parquet(tmp_path / "out" / "assignments.parquet")["individual"].nunique() == 3


def test_an_earlier_result_that_does_not_fit(vber: str, people: tuple[list[Path], Path], first: Path, tmp_path: Path):
    done = run(
        vber, "merge", *people[0], "--out", tmp_path / "out", "--start-from", first, "--fields", "last_name,first_name"
    )
    assert (done.returncode, len(done.stderr.splitlines()[-2:])) == (3, 2), done.stderr
    assert "its fields are" in done.stderr
    assert not (tmp_path / "out").exists()


def test_other_types_literal_results_and_damaged_models_are_refused(first: Path, literal_result: Path, tmp_path: Path):
    earlier = read_earlier(str(first))
    fields, types = earlier.learned.fields, list(earlier.learned.types)
    earlier.check_fields(fields, types)
    with pytest.raises(InputError, match=f"{fields[0]} is of type {types[0]} there, and of type date here"):
        earlier.check_fields(fields, ["date", *types[1:]])
    with pytest.raises(InputError, match="learned nothing"):
        read_earlier(str(literal_result))
    model = json.loads((first / "model.json").read_text())
    del model["noise"]
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "assignments.parquet").write_bytes((first / "assignments.parquet").read_bytes())
    with pytest.raises(InputError, match="is damaged"):
        read_earlier(str(tmp_path))
