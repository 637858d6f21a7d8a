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


def test_the_table(vber, folder):
    code, out, err = run(vber, folder, "out", "truth.csv")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "6 of 6 records covered by the truth (database = database, record id = record_id, entity = entity)",
        "",
        "             precision    recall        F1",
        "pairs           0.5000    0.5000    0.5000",
        "B-cubed         0.8333    0.8333    0.8333",
        "individuals     0.5000    0.5000    0.5000",
        "",
        "individuals: 4 found (90% interval 3 to 5), 4 true, 2 in both",
        "pairs:       2 found, 2 true, 1 in both",
        "",
        "links: 4 judged, 1 of them true pairs that are not listed",
        "Brier score 0.4031, expected calibration error 0.5125",
        "",
        "probability      pairs      mean      true",
        "0.0 to 0.1           1    0.0000    1.0000",
        "0.2 to 0.3           1    0.2000    0.0000",
        "0.7 to 0.8           1    0.7500    0.0000",
        "0.9 to 1.0           1    0.9000    1.0000",
    ]


def test_json(vber, folder):
    code, out, err = run(vber, folder, "out", "truth.csv", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["pairwise"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert found["individuals"] == {"found": 4, "true": 4, "correct": 2, "interval": [3.0, 5.0]}
    assert found["calibration"]["n_unlisted"] == 1


def test_notes_go_to_standard_error(vber, folder):
    (folder / "truth.csv").write_text(TRUTH + "clinic,9,\nclinic,8,Z\n")
    code, out, err = run(vber, folder, "out", "truth.csv")
    assert (code, err.count("\n")) == (0, 1)
    assert "1 records of the truth are not in the result" in out


@pytest.mark.parametrize("arguments", [("nowhere", "truth.csv"), ("out", "nowhere.csv"), ("truth.csv", "truth.csv")])
def test_what_cannot_be_read(vber, folder, arguments):
    code, out, err = run(vber, folder, *arguments)
    assert (code, out, err.count("\n")) == (3, "", 2)
