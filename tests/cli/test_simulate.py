"""`vber simulate` as a user runs it: files, options, refusals."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from rapidfuzz.distance import OSA

from vber_cli.cli import simulate as command
from vber_cli.cli.app import main
from vber_cli.cli.simulate import FieldSpec, SimulateOptions, field_specs
from vber_cli.results import simulated
from vber_cli.results.simulated import misspell, value_texts


def run(vber, folder, *arguments):
    done = subprocess.run([vber, "simulate", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_what_is_written(vber, tmp_path):
    assert run(vber, tmp_path, "s", "--records", "101", "--databases", "2", "--missing", "0.2", "--seed", "4") == (
        0, "", "",
    )  # fmt: skip
    out = tmp_path / "s"
    assert sorted(os.listdir(out)) == ["db1.csv", "db2.csv", "parameters.json", "truth.csv"]
    one, two, truth = (rows(out / f"{name}.csv") for name in ("db1", "db2", "truth"))
    assert one[0] == two[0] == ["id", "first_name", "surname", "birth_date", "sex", "town"]
    assert (len(one), len(two)) == (52, 51)
    assert truth[0] == ["database", "record_id", "entity"]
    expected = [["db1", row[0]] for row in one[1:]] + [["db2", row[0]] for row in two[1:]]
    assert [row[:2] for row in truth[1:]] == expected
    assert len({row[1] for row in truth[1:]}) == 101
    parameters = json.loads((out / "parameters.json").read_text(encoding="utf-8"))
    entities = [row[2] for row in truth[1:]]
    assert (parameters["K"], parameters["n"]) == (101, len(set(entities)))
    assert parameters["pairs"] == sum(a == b for i, a in enumerate(entities) for b in entities[:i])
    assert parameters["databases"] == {"db1": 51, "db2": 50}
    assert [field["name"] for field in parameters["fields"]] == one[0][1:]
    cells = [row[1:] for row in one[1:] + two[1:]]
    assert 0.1 < np.mean([cell == "" for row in cells for cell in row]) < 0.3
    for f, field in enumerate(parameters["fields"]):
        assert len({row[f] for row in cells} - {""}) == field["values_seen"]


def test_the_true_frequencies_are_told(vber, tmp_path):
    assert (
        run(vber, tmp_path, "s", "--records", "4000", "--individuals", "900000000", "--fields", "town:3:0.2:1")[0] == 0
    )
    field = json.loads((tmp_path / "s" / "parameters.json").read_text())["fields"][0]
    theta = field["theta"]
    assert list(theta["largest"].values()) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert theta["smallest"] == pytest.approx(2 / 11)
    assert theta["collision_entropy"] == pytest.approx(-np.log(49 / 121))
    towns = [row[1] for name in ("db1", "db2") for row in rows(tmp_path / "s" / f"{name}.csv")[1:]]
    for word, share in theta["largest"].items():
        assert abs(towns.count(word) / 4000 - share) < 0.04


def test_same_seed_same_bytes(vber, tmp_path):
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert run(vber, tmp_path, name, "--seed", seed, "--missing", "0.1")[0] == 0
    for file in os.listdir(tmp_path / "a"):
        first = (tmp_path / "a" / file).read_bytes()
        assert first == (tmp_path / "b" / file).read_bytes()
        assert first != (tmp_path / "c" / file).read_bytes()


def test_parquet_holds_the_same(vber, tmp_path):
    assert run(vber, tmp_path, "a", "--missing", "0.1")[0] == 0
    assert run(vber, tmp_path, "b", "--missing", "0.1", "--format", "parquet")[0] == 0
    for name in ("db1", "db2"):
        table = pq.read_table(tmp_path / "b" / f"{name}.parquet")
        cells = [["" if cell is None else cell for cell in row.values()] for row in table.to_pylist()]
        assert [table.column_names, *cells] == rows(tmp_path / "a" / f"{name}.csv")
    assert (tmp_path / "a" / "truth.csv").read_bytes() == (tmp_path / "b" / "truth.csv").read_bytes()


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["--records", "77"], {"records": 77}),
        (["--databases=3"], {"databases": 3}),
        (["--individuals", "12"], {"individuals": 12}),
        (["--individuals", "auto"], {"individuals": None}),
        (["--fields", "a:2", "--fields", "b:3:.5:1"], {"fields": ("a:2", "b:3:.5:1")}),
        (["--concentration", "0.3"], {"concentration": 0.3}),
        (["--values", "40"], {"values": 40}),
        (["--zipf", "2"], {"zipf": 2.0}),
        (["--missing", ".25"], {"missing": 0.25}),
        (["--typos", ".1"], {"typos": 0.1}),
        (["--depend", "a:b", "--depend", "c:a:2"], {"depend": ("a:b", "c:a:2")}),
        (["--seed", "6"], {"seed": 6}),
        (["--format", "parquet"], {"format": "parquet"}),
        (["--force"], {"force": True}),
        (["--debug"], {}),
    ],
)
def test_every_option_arrives(monkeypatch, typed, given):
    seen = []
    monkeypatch.setattr(command, "run", lambda directory, options: seen.append((directory, options)))
    assert main(["simulate", "d", *typed]) == 0
    assert seen == [("d", SimulateOptions(**given))]


def test_every_option_has_an_effect(vber, tmp_path):
    typed = "--records 60 --databases 3 --individuals 5 --fields 2 --concentration 0.5 --values 9 --zipf 2 --missing 1"
    assert run(vber, tmp_path, "s", *typed.split(), "--seed", "8")[0] == 0
    told = json.loads((tmp_path / "s" / "parameters.json").read_text())
    assert (told["records"], told["K"], told["n"], told["seed"]) == (60, 5, 5, 8)
    assert told["databases"] == {"db1": 20, "db2": 20, "db3": 20}
    kept = [{key: field[key] for key in ("name", "values", "concentration", "zipf", "missing", "values_seen")}
            for field in told["fields"]]  # fmt: skip
    common = {"values": 9, "concentration": 0.5, "zipf": 2.0, "missing": 1.0, "values_seen": 0}
    assert kept == [{"name": "first_name"} | common, {"name": "surname"} | common]


def test_typing_errors(vber, tmp_path):
    options = ["--records", "600", "--missing", "0.1", "--fields", "town:40", "--fields", "birth_date:900"]
    for name, typos in (("clean", "0"), ("typed", "0.2")):
        assert run(vber, tmp_path, name, *options, "--typos", typos)[0] == 0
    cells = {}
    for name in ("clean", "typed"):
        both = rows(tmp_path / name / "db1.csv")[1:] + rows(tmp_path / name / "db2.csv")[1:]
        cells[name] = [cell for row in both for cell in row]
    changed = [(a, b) for a, b in zip(cells["clean"], cells["typed"], strict=True) if a != b]
    assert {OSA.distance(a, b) for a, b in changed} == {1}
    shown = sum(cell != "" for cell in cells["clean"]) - 600
    assert abs(len(changed) / shown - 0.2) < 4 * np.sqrt(0.16 / shown)
    assert all(a and b for a, b in changed)
    assert (tmp_path / "clean" / "truth.csv").read_bytes() == (tmp_path / "typed" / "truth.csv").read_bytes()
    assert json.loads((tmp_path / "typed" / "parameters.json").read_text())["fields"][1]["typos"] == 0.2


@pytest.mark.parametrize("text", ["ab", "1999-12-31", "a"])
def test_every_kind_of_typing_error_is_made(text, rng):
    found = {misspell(text, rng) for _ in range(400)}
    assert {len(other) - len(text) for other in found} == ({-1, 0, 1} if len(text) > 1 else {0, 1})
    assert all(other and OSA.distance(text, other) == 1 for other in found)
    swapped = text[1:2] + text[:1] + text[2:]
    assert (swapped in found) == (len(text) > 1)


def test_fields_that_depend_on_each_other(vber, tmp_path):
    options = ["--records", "2000", "--individuals", "1000000", "--fields", "town:50", "--fields", "postcode:400"]
    for name, more in (("apart", []), ("tied", ["--depend", "postcode:town:0.01"])):
        assert run(vber, tmp_path, name, *options, *more)[0] == 0
    found = {}
    for name in ("apart", "tied"):
        both = rows(tmp_path / name / "db1.csv")[1:] + rows(tmp_path / name / "db2.csv")[1:]
        found[name] = len({tuple(row[1:]) for row in both})
    assert found["tied"] < 100 < 1000 < found["apart"]
    told = json.loads((tmp_path / "tied" / "parameters.json").read_text())["fields"]
    assert [(field["parent"], field["kappa"]) for field in told] == [(None, None), ("town", 0.01)]


def test_fields():
    assert field_specs(SimulateOptions(fields=("a:2", "b:3:.5", "c:4:.5:1"), concentration=0.2, zipf=0.7)) == [
        FieldSpec("a", 2, 0.2, 0.7), FieldSpec("b", 3, 0.5, 0.7), FieldSpec("c", 4, 0.5, 1.0),
    ]  # fmt: skip
    many = field_specs(SimulateOptions(fields=("20",)))
    assert len({spec.name for spec in many}) == 20
    assert {spec.n_values for spec in many} >= {2, 20_000}
    assert {spec.zipf for spec in field_specs(SimulateOptions(zipf=0.0))} == {0.0}


@pytest.mark.parametrize("name", ["town", "birth_date"])
def test_values_have_names_of_their_own(name):
    texts = value_texts(name, 50_000, 3, range(50_000))
    assert len(set(texts)) == 50_000
    assert min(map(len, texts)) >= 6


@pytest.mark.parametrize(
    ("arguments", "first", "second"),
    [
        ([], "vber simulate needs DIR", "vber simulate --help"),
        (["s", "--records", "0"], "--records must be at least 1, not 0", "Give a whole number from 1"),
        (["s", "--records", "x"], "--records must be a whole number, not 'x'", "Give a whole number"),
        (["s", "--records"], "--records needs a value", "Write --records INT"),
        (["s", "--fields"], "--fields needs a value", "Write --fields INT|NAME:VALUES"),
        (["s", "--seed"], "--seed needs a value", "Write --seed INT"),
        (["s", "--record", "4"], "vber simulate has no option --record", "--records"),
        (["s", "--databases", "9", "--records", "4"], "--databases is 9, but there are 4 records", "--records"),
        (["s", "--concentration", "0"], "--concentration must be greater than 0", "above 0"),
        (["s", "--missing", "1.5"], "--missing must be at most 1, not 1.5", "Give a number from 0 up to 1"),
        (["s", "--missing", "nan"], "--missing must be a finite number", "Give a number"),
        (["s", "--format", "xlsx"], "--format cannot be 'xlsx'", "csv, parquet"),
        (["s", "--fields", "0"], "--fields must be from 1 to 1000, not 0", "name the fields"),
        (["s", "--fields", "town"], "--fields 'town' is not of the form NAME:VALUES", "--fields town:300:0.05:1"),
        (["s", "--fields", "a:2:1:1:1"], "--fields 'a:2:1:1:1' is not of the form", "town:300"),
        (["s", "--fields", "a:2.5"], "--fields 'a:2.5': values cannot be '2.5'", "from 1 to 10,000,000"),
        (["s", "--fields", "a:2:-1"], "--fields 'a:2:-1': concentration cannot be '-1'", "above 0"),
        (["s", "--fields", "a:2:1:x"], "--fields 'a:2:1:x': zipf cannot be 'x'", "from 0 to 100"),
        (["s", "--fields", "a:2", "--fields", "A:3"], "--fields: 'A' is there twice", "another name"),
        (["s", "--fields", "id:2"], "--fields: 'id' is the column of record ids", "another name"),
        (["s", "--typos", "2"], "--typos must be at most 1, not 2", "Give a number from 0 up to 1"),
        (["s", "--depend", "town"], "--depend 'town' is not of the form FIELD:PARENT", "postcode:town:0.1"),
        (
            ["s", "--depend", "town:village"],
            "--depend 'town:village': there is no field 'village'",
            "first_name, surname",
        ),
        (["s", "--depend", "town:sex:0"], "--depend 'town:sex:0': kappa cannot be '0'", "above 0"),
        (["s", "--depend", "town:sex:x"], "--depend 'town:sex:x': kappa cannot be 'x'", "above 0"),
        (
            ["s", "--depend", "town:sex", "--depend", "town:surname"],
            "--depend 'town:surname': 'town' has a parent",
            "one",
        ),
        (["s", "--depend", "town:town"], "--depend 'town:town': 'town' would depend on itself", "circle"),
        (["s", "--depend", "sex:town", "--depend", "town:sex"], "--depend 'town:sex': 'town' would depend", "circle"),
        (["s", "--fields", "3", "--fields", "a:2"], "--fields '3' is not of the form", "a number alone"),
    ],
)
def test_wrong_usage_is_two_lines(capsys, monkeypatch, tmp_path, arguments, first, second):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *arguments]) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (out, len(lines), os.listdir(tmp_path)) == ("", 2, [])
    assert lines[0].startswith(f"error: {first}")
    assert second in lines[1]


def test_nothing_is_overwritten_without_force(vber, tmp_path):
    assert run(vber, tmp_path, "s", "--databases", "3")[0] == 0
    before = (tmp_path / "s" / "db1.csv").read_bytes()
    code, _, err = run(vber, tmp_path, "s", "--seed", "1")
    assert (code, err.splitlines()) == (
        4, ["error: s: exists already.", "Name another directory, or replace it with --force."],
    )  # fmt: skip
    assert (tmp_path / "s" / "db1.csv").read_bytes() == before
    assert run(vber, tmp_path, "s", "--seed", "1", "--force")[0] == 0
    assert sorted(os.listdir(tmp_path / "s")) == ["db1.csv", "db2.csv", "parameters.json", "truth.csv"]
    assert (tmp_path / "s" / "db1.csv").read_bytes() != before
    assert os.listdir(tmp_path) == ["s"]


def test_force_removes_nothing_but_a_simulation(vber, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "parameters.json").write_text('{"files": ["parameters.json", "notes"]}')
    (tmp_path / "mine" / "notes").write_text("x")
    code, _, err = run(vber, tmp_path, "mine", "--force")
    assert (code, len(err.splitlines())) == (4, 2)
    assert "holds 'notes', which is not part of a simulation" in err
    assert run(vber, tmp_path, "s")[0] == 0
    (tmp_path / "s" / "extra").write_text("x")
    assert run(vber, tmp_path, "s", "--force")[0] == 4
    assert (tmp_path / "s" / "extra").exists()
    (tmp_path / "file").write_text("x")
    assert run(vber, tmp_path, "file", "--force")[0] == 4
    assert run(vber, tmp_path, "file/below")[0] == 4
    assert run(vber, tmp_path, ".", "--force")[0] == 4
    assert sorted(os.listdir(tmp_path)) == ["file", "mine", "s"]


def test_a_failure_leaves_nothing(monkeypatch, capsys, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(simulated, "_write_table", full)
    assert main(["simulate", str(tmp_path / "new" / "s")]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("new/s: cannot be written (No space left on device).")
    assert lines[1] == "Free space, or name another directory."
    assert os.listdir(tmp_path) == []


def test_an_empty_directory_is_filled(vber, tmp_path):
    (tmp_path / "s").mkdir()
    assert run(vber, tmp_path, "s", "--records", "1", "--databases", "1", "--fields", "1")[0] == 0
    assert len(rows(tmp_path / "s" / "db1.csv")) == 2


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from vber_cli.cli.app import main; main(['simulate', '--help']); "
        "sys.exit(bool({'numpy', 'pyarrow', 'numba', 'scipy', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
