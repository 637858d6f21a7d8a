"""`vber report` as a user runs it."""

import subprocess
import sys

import pytest

from tests.report.html import read_page
from tests.report.made import TRUTH, write_result


@pytest.fixture
def folder(tmp_path):
    write_result(tmp_path / "out")
    (tmp_path / "truth.csv").write_text(TRUTH)
    return tmp_path


def run(vber, folder, *arguments):
    done = subprocess.run([vber, "report", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_default_place_and_a_second_run(vber, folder):
    for _ in range(2):
        code, out, err = run(vber, folder, "out")
        assert (code, out) == (0, "")
        assert err.startswith("report in out/report.html (")
    read_page((folder / "out" / "report.html").read_text(encoding="utf-8"))
    assert not [path for path in (folder / "out").iterdir() if path.name.startswith(".")]


def test_with_truth_to_standard_output(vber, folder):
    code, out, err = run(vber, folder, "out", "--truth", "truth.csv", "--out", "-", "-q")
    assert (code, err) == (0, "")
    assert "Do the probabilities come true?" in read_page(out).text
    assert not (folder / "out" / "report.html").exists()


def test_notes_about_the_truth_go_to_standard_error(vber, folder):
    (folder / "truth.csv").write_text(TRUTH + "clinic,c9,\n")
    code, _, err = run(vber, folder, "out", "--truth", "truth.csv")
    assert code == 0
    assert err.startswith("note: truth.csv: 1 lines without")


@pytest.mark.parametrize("taken", ["notes.html", "out"])
def test_another_file_is_not_replaced(vber, folder, taken):
    (folder / "notes.html").write_text("<!DOCTYPE html><title>mine</title>")
    code, out, err = run(vber, folder, "out", "--out", taken)
    assert (code, out, err.count("\n")) == (4, "", 2)
    assert taken in err
    assert (folder / "notes.html").read_text() == "<!DOCTYPE html><title>mine</title>"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nowhere", "--out", "r.html"), 3),
        (("nowhere",), 3),
        (("out", "--truth", "nowhere.csv"), 3),
        (("out", "--out", "no/such/r.html"), 4),
        ((), 2),
        (("out", "--truht", "truth.csv"), 2),
    ],
)
def test_what_is_wrong_is_told_in_two_lines(vber, folder, arguments, expected):
    code, out, err = run(vber, folder, *arguments)
    assert (code, out, err.count("\n")) == (expected, "", 2)
    assert err.startswith("error: ")
    assert not list(folder.rglob("*.html"))


def test_the_templates_are_part_of_the_package(tmp_path):
    """What the page is made of is found where the package is installed, not in this directory."""
    script = "from importlib.resources import files; t = files('vber_cli.report') / 'templates'; " \
             "print(sorted(p.name for p in t.iterdir()))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['parts.html', 'report.html', 'style.css']"
