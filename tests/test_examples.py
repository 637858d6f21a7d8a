"""The examples run: make and Snakemake rules, the nightly script, SQL and pandas on a result's tables."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
INHERITED = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
ENVIRONMENT = {**INHERITED, "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small databases and a file of options."""
    folder = tmp_path_factory.mktemp("small")
    people = ("1,anna,berg,1980-01-02", "2,otto,krantz,1955-07-08", "3,ida,moor,1990-03-04", "4,jan,haas,1970-09-29")
    (folder / "a.csv").write_text("\n".join(("id,given,family,born", *people[:3])) + "\n")
    (folder / "b.csv").write_text("\n".join(("id,given,family,born", people[0], people[3])) + "\n")
    (folder / "options.toml").write_text('[merge]\nfiles = ["a.csv", "b.csv"]\nseed = 3\n')
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def test_make_merges_once(folder: Path) -> None:
    names = ("INPUTS=a.csv b.csv", "CONFIG=options.toml", "OUT=made")
    done = run(folder, "make", "-f", str(EXAMPLES / "Makefile"), *names)
    assert done.returncode == 0, done.stderr
    assert (folder / "made" / "report.html").is_file()
    assert run(folder, "make", "-q", "-f", str(EXAMPLES / "Makefile"), *names).returncode == 0
    os.utime(folder / "a.csv")
    assert run(folder, "make", "-q", "-f", str(EXAMPLES / "Makefile"), *names).returncode == 1


def test_the_snakefile_is_python_with_rules_whose_commands_run(folder: Path) -> None:
    # Snakemake itself is large: its rules are read here, and their commands run as it would run them
    text = (EXAMPLES / "Snakefile").read_text(encoding="utf-8")
    names: dict[str, Any] = {"config": {"options": "options.toml", "inputs": "a.csv b.csv", "out": "snake"}}
    exec(text.split("\nrule ", 1)[0], names)
    rules = dict(re.findall(r"^rule (\w+):\n((?:    .*\n)+)", text, re.MULTILINE))
    assert list(rules) == ["all", "merge", "report"]
    (folder / "snake").mkdir()  # as Snakemake does before the rule that makes a file in it
    for name, output in (("merge", "summary.json"), ("report", "report.html")):
        assert f'output: f"{{OUT}}/{output}"' in rules[name]
        command = re.search(r'shell: "(.*)"', rules[name])[1]
        for word, value in (
            ("input.files", " ".join(names["INPUTS"])),
            ("input.options", names["OPTIONS"]),
            ("params.out", names["OUT"]),
            ("threads", "2"),
        ):
            command = command.replace(f"{{{word}}}", value)
        done = run(folder, "sh", "-c", command)
        assert done.returncode == 0, done.stderr
        assert (folder / "snake" / output).is_file()


def test_the_nightly_script_is_silent_unless_something_is_wrong(folder: Path) -> None:
    done = run(folder, "sh", str(EXAMPLES / "nightly.sh"), "options.toml", "nightly")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    events = [json.loads(line) for line in (folder / "vber.log").read_text().splitlines()]
    assert events[-1]["event"] == "done"
    assert run(folder, "sh", str(EXAMPLES / "nightly.sh"), "options.toml", "nightly").returncode == 0  # replaces it
    before = (folder / "nightly" / "summary.json").read_bytes()
    (folder / "wrong.toml").write_text('[merge]\nfiles = ["a.csv", "none.csv"]\n')
    done = run(folder, "sh", str(EXAMPLES / "nightly.sh"), "wrong.toml", "nightly")
    assert done.returncode == 3
    assert "exit code 3, nightly is as it was before" in done.stderr
    last = json.loads((folder / "vber.log").read_text().splitlines()[-1])
    assert (last["event"], last["exit_code"]) == ("error", 3)
    assert (folder / "nightly" / "summary.json").read_bytes() == before


def query(name: str, result: Path) -> list[dict[str, str]]:
    done = run(EXAMPLES, sys.executable, "run_sql.py", f"{name}.sql", str(result))
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_queries_answer_what_they_say(sample_result: Path) -> None:
    records = pd.read_parquet(sample_result / "assignments.parquet").astype({"database": str})
    people = query("people", sample_result)
    assert len(people) == records["individual"].nunique()
    assert {int(row["individual"]) for row in people} == set(records["individual"])
    assert not [name for name in people[0] if name.endswith("_probability")]
    assert {"confidence", "family_name", "birth_date"} <= set(people[0])
    held = {name: set(part["individual"]) for name, part in records.groupby("database")}
    for row in query("overlap", sample_result):
        assert int(row["individuals"]) == len(held[row["database_a"]] & held[row["database_b"]])
    found = [abs(float(row["probability"]) - 0.5) for row in query("doubtful", sample_result)]
    assert len(found) == 10
    assert found == sorted(found)


def test_pandas_answers_the_same(sample_result: Path) -> None:
    done = run(EXAMPLES, sys.executable, "tables.py", str(sample_result))
    assert done.returncode == 0, done.stderr
    overlap, merged, doubtful = done.stdout.strip().split("\n\n")
    shared = {(row["database_a"], row["database_b"]): row["individuals"] for row in query("overlap", sample_result)}
    rows = [line.split() for line in overlap.splitlines()[3:]]
    assert [row[0] for row in rows] == ["clinic", "police", "registry"]
    assert rows[0][2] == rows[1][1] == shared["clinic", "police"]
    assert "confidence" in merged
    assert query("doubtful", sample_result)[0]["id_a"] in doubtful.splitlines()[2]
