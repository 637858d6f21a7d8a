"""`vber explain`, `compare`, `review` and `check` as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from tests.conftest import ROOT
from vber_cli.cli.explain import print_individual, print_pair, shown_bits
from vber_cli.results.explain import explain_pair
from vber_cli.results.explain_individual import explain_individual


def run(vber: str, *arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run([vber, *map(str, arguments)], capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def refused(vber: str, code: int, *arguments: str | Path) -> str:
    """Run a command that must end with this code and two lines; returns them."""
    found, out, err = run(vber, *arguments)
    assert (found, err.count("\n")) == (code, 2), err
    assert err.startswith("error: ")
    return err if not out else out + err


@pytest.mark.parametrize("command", ["explain", "evaluate", "compare", "check"])
def test_a_reader_that_has_seen_enough_is_no_error(
    vber: str, sample_result: Path, pair: tuple[str, str], command: str
) -> None:
    arguments = {
        "explain": [sample_result, *pair], "evaluate": [sample_result, "sample_data/truth.csv"],
        "compare": [sample_result, sample_result], "check": [sample_result],
    }[command]  # fmt: skip
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        words = [vber, command, *map(str, arguments)]
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.fixture(scope="module")
def pair(sample_result: Path) -> tuple[str, str]:
    """Two records that are linked."""
    links = pd.read_parquet(sample_result / "links.parquet")
    row = links[links["probability"] < 0.9].iloc[0]
    return f"{row['database_a']}:{row['id_a']}", f"{row['database_b']}:{row['id_b']}"


def test_explain_a_pair(vber: str, sample_result: Path, pair: tuple[str, str]) -> None:
    code, out, err = run(vber, "explain", sample_result, *pair)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert all(name in lines[0] for name in pair)
    assert [line.split("  ")[0] for line in lines[1:9]] == [
        "before comparing", "given_name", "family_name", "sex", "birth_date", "street", "town", "beside the pair",
    ]  # fmt: skip
    assert "individual" in lines[-1]
    assert out.isprintable() is False
    assert all(line.isprintable() for line in lines)
    code, out, _ = run(vber, "explain", sample_result, *pair, "--json")
    found = json.loads(out)
    links = pd.read_parquet(sample_result / "links.parquet")
    row = links[links["probability"] < 0.9].iloc[0]
    assert found["log_odds"] == pytest.approx(row["log_odds"])
    assert found["lines"][-1]["running_bits"] == pytest.approx(row["log_odds"] / 0.6931471805599453)


def test_explain_an_individual(vber: str, sample_result: Path, pair: tuple[str, str]) -> None:
    code, out, err = run(vber, "explain", sample_result, pair[0])
    assert (code, err) == (0, "")
    assert out.startswith("individual ")
    assert pair[0] in out
    number = out.split()[1].rstrip(":")
    assert run(vber, "explain", sample_result, number)[1] == out
    assert json.loads(run(vber, "explain", sample_result, number, "--json")[1])["individual"] == int(number)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_nothing_is_wider_than_the_terminal(sample_result: Path, pair: tuple[str, str], width: int) -> None:
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    report = explain_pair(sample_result, *pair)
    print_pair(out, report)
    print_individual(out, explain_individual(sample_result, pair[0]))
    text = out.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    bare = "".join(text.split())
    for line in report.lines:
        assert shown_bits(line.bits) in text
        assert "".join(line.name.split())[:4] in bare


def test_values_cannot_steer_the_terminal(vber: str, tmp_path: Path) -> None:
    evil = "\x1b[31mred\x1b]0;title\x07\u202egnp\x9b1m[bold]"
    for name in ("a", "b"):
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "name", "town"])
            rows.writerows([["1", evil, "ulm"], ["2", "two\nlines", "=1+1"], [evil, "x", "@y"]])
    out = tmp_path / "out"
    assert run(vber, "merge", tmp_path / "a.csv", tmp_path / "b.csv", "-q", "--out", out)[0] == 0
    commands = (
        ["explain", out, "a:1", "b:1"], ["explain", out, "a:2"], ["explain", out, "a:1", "b:1", "--json"],
        ["explain", out, f"a:{evil}"], ["compare", out, out], ["check", out],
    )  # fmt: skip
    for words in commands:
        code, text, err = run(vber, *words)
        assert (code, err) == (0, ""), words
        assert all(line.isprintable() for line in text.split("\n")), words
    assert r"\x1b[31mred" in run(vber, "explain", out, "a:1", "b:1")[1]
    assert "[bold]" in run(vber, "explain", out, "a:1", "b:1")[1]
    found = json.loads(run(vber, "explain", out, "a:1", "b:1", "--json")[1])
    assert found["lines"][1]["value_a"] == evil
    code, text, _ = run(vber, "review", out, "--out", "-", "-q")
    assert code == 0
    for row in csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")):
        assert not any(cell.startswith(("=", "@")) for cell in row.values())


def test_what_cannot_be_explained(vber: str, sample_result: Path, literal_result: Path, tmp_path: Path) -> None:
    assert "did you mean clinic:C00" in refused(vber, 3, "explain", sample_result, "C00011", "C0002").lower().replace(
        "clinic:c", "clinic:C"
    )
    assert "is no result directory" in refused(vber, 3, "explain", tmp_path, "C0001")
    assert "does not exist" in refused(vber, 3, "explain", tmp_path / "none", "C0001")
    assert "--no-records" in refused(vber, 3, "explain", literal_result, "C0001")
    old = tmp_path / "old"
    shutil.copytree(sample_result, old)
    (old / "model.json").unlink()
    assert "older version" in refused(vber, 3, "explain", old, "C0001")
    assert "needs" in refused(vber, 2, "explain", sample_result)


def test_compare(vber: str, sample_result: Path, literal_result: Path) -> None:
    code, out, err = run(vber, "compare", sample_result, literal_result)
    assert (code, err) == (0, "")
    for words in ("n (90% interval)", "bound", "seconds", "541 records in both", "Rand index", "have other groups"):
        assert words in out
    found = json.loads(run(vber, "compare", sample_result, literal_result, "--json", "-n", "3")[1])
    assert len(found["moved"]) == 3
    assert found["a"]["n"]["low"] <= found["a"]["n"]["high"]
    assert "does not exist" in refused(vber, 3, "compare", sample_result, "nowhere")


def test_review(vber: str, sample_result: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    code, out, err = run(vber, "review", sample_result, "--out", path, "-n", "7")
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert err.startswith("7 of ")
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == 7
    path.write_text("decided")
    assert "exists already" in refused(vber, 4, "review", sample_result, "--out", path)
    assert path.read_text() == "decided"
    assert run(vber, "review", sample_result, "--out", path, "--force", "-q") == (0, "", "")
    assert len(path.read_text(encoding="utf-8-sig").splitlines()) > 8
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.csv"]
    assert "cannot be written" in refused(vber, 4, "review", sample_result, "--out", tmp_path / "no" / "x.csv")
    code, out, err = run(vber, "review", sample_result, "--out", "-", "-n", "2", "-q")
    assert (code, err, len(out.splitlines())) == (0, "", 3)


def test_check(vber: str, sample_result: Path, tmp_path: Path) -> None:
    code, out, err = run(vber, "check", sample_result)
    assert (code, err) == (0, "")
    assert {line.split()[0] for line in out.splitlines()} == {"ok"}
    copy = tmp_path / "out"
    shutil.copytree(sample_result, copy)
    (copy / "phi.parquet").unlink()
    text = refused(vber, 3, "check", copy)
    assert "wrong" in text
    assert "phi.parquet is missing" in text
    code, out, _ = run(vber, "check", copy, "--json")
    assert (code, json.loads(out)["ok"]) == (3, False)
    assert "does not exist" in refused(vber, 3, "check", tmp_path / "none")
