"""`vber evaluate` as a user runs it."""

import json
import subprocess

import pytest

from tests.results.test_evaluate import LINKS, TRUTH, write_result


@pytest.fixture
def folder(tmp_path):
    write_result(tmp_path / "out", links=LINKS, summary={"n": {"mean": 4, "low": 3, "high": 5}})
    (tmp_path / "truth.csv").write_text(TRUTH)
    return tmp_path


def run(vber, folder, *arguments):
    done = subprocess.run([vber, "evaluate", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


NOT_EXPLAINED = "note: errors are not explained: out has no model.json"


def test_the_table(vber, folder):
    code, out, err = run(vber, folder, "out", "truth.csv")
    assert code == 0
    assert err.startswith(NOT_EXPLAINED)
    assert out.splitlines() == [
        "6 of 6 records covered by the truth (database = database, record id = record_id, entity = entity)",
        "",
        "             precision  recall      F1",
        "pairs           0.5000  0.5000  0.5000",
        "B-cubed         0.8333  0.8333  0.8333",
        "individuals     0.5000  0.5000  0.5000",
        "",
        "individuals: 4 found (90% interval 3 to 5), 4 true, 2 in both",
        "pairs:       2 found, 2 true, 1 in both",
        "",
        "links: 4 judged, 1 of them true pairs that are not listed",
        "Brier score 0.4031, expected calibration error 0.5125",
        "",
        "probability  pairs    mean    true",
        "0.0 to 0.1       1  0.0000  1.0000",
        "0.2 to 0.3       1  0.2000  0.0000",
        "0.7 to 0.8       1  0.7500  0.0000",
        "0.9 to 1.0       1  0.9000  1.0000",
        "",
        "1 false links",
        "record     record    probability",
        "clinic:03  police:2       0.7500",
        "",
        "1 missed links",
        "record    record     probability",
        "clinic:2  clinic:03   not listed",
    ]


def test_csv(vber, folder):
    code, out, _ = run(vber, folder, "out", "truth.csv", "--csv")
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()]
    assert rows[0] == ["measure", "value", "standard_error"]
    values = {name: float(value) for name, value, error in rows[1:]}
    assert values["b_cubed_f1"] == pytest.approx(5 / 6)
    assert (values["pairs_found"], values["individuals_correct"]) == (2, 2)
    assert values["brier"] == pytest.approx((0.1**2 + 0.75**2 + 0.2**2 + 1) / 4)
    assert {error for _, _, error in rows[1:]} == {""}


def test_a_sample_has_standard_errors(vber, folder):
    (folder / "truth.csv").write_text("".join(TRUTH.splitlines(keepends=True)[:5]))
    code, out, _ = run(vber, folder, "out", "truth.csv", "--csv", "--whole-individuals")
    assert code == 0
    rows = {line.split(",")[0]: line.split(",")[1:] for line in out.splitlines()[1:]}
    # A = {clinic 1, police 1} is found as it is; of B = {clinic 2, clinic 03} the second is with another record
    assert float(rows["pairwise_precision"][0]) == pytest.approx(1 / 1.5)
    assert float(rows["pairwise_recall"][0]) == 0.5
    assert float(rows["pairwise_recall"][1]) > 0
    assert float(rows["individuals_true_estimate"][0]) == pytest.approx(6 * 2 / 4)
    code, out, _ = run(vber, folder, "out", "truth.csv")
    assert "pairs        1.0000 ± 0.0000" in out
    assert "as if the 2 entities were drawn at random" in out


def test_json_and_csv_contradict_each_other(vber, folder):
    code, out, err = run(vber, folder, "out", "truth.csv", "--csv", "--json")
    assert (code, out, err.count("\n")) == (2, "", 2)


def test_json(vber, folder):
    code, out, err = run(vber, folder, "out", "truth.csv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["notes"][0].startswith("errors are not explained")
    assert found["pairwise"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert found["individuals"] == {"found": 4, "true": 4, "correct": 2, "interval": [3.0, 5.0],
                                    "true_estimate": None, "true_estimate_standard_error": None}  # fmt: skip
    assert found["standard_errors"] is None
    assert found["errors"]["worst_false"] == [
        {"a": "clinic:03", "b": "police:2", "probability": 0.75, "explanation": None}
    ]
    assert found["errors"]["worst_missed"] == [
        {"a": "clinic:2", "b": "clinic:03", "probability": None, "explanation": None}
    ]
    assert found["calibration"]["n_unlisted"] == 1


def test_notes_go_to_standard_error(vber, folder):
    (folder / "truth.csv").write_text(TRUTH + "clinic,9,\nclinic,8,Z\n")
    code, out, err = run(vber, folder, "out", "truth.csv")
    assert (code, err.count("\n")) == (0, 2)
    assert err.splitlines()[1].startswith(NOT_EXPLAINED)
    assert "1 records of the truth are not in the result" in out


@pytest.mark.parametrize("arguments", [("nowhere", "truth.csv"), ("out", "nowhere.csv"), ("truth.csv", "truth.csv")])
def test_what_cannot_be_read(vber, folder, arguments):
    code, out, err = run(vber, folder, *arguments)
    assert (code, out, err.count("\n")) == (3, "", 2)
