"""`vber profile` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import subprocess
from pathlib import Path

import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from tests.cli.merging import write_rows
from vber_cli.cli.app import main
from vber_cli.profiling.profile import CSV_COLUMNS

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data"
FILES = [str(SAMPLE / name) for name in ("clinic.csv", "police.tsv", "registry.parquet")]
GIVEN = "Anna Peter Maria Ivo Jonas Simon Clara Emil Nora Otto Hanna Karl".split()
FAMILY = "Ullow Dunstead Yarwick Norcombe Ulford Holstead Brim Tolley Marsh Keane".split()
TOWNS = {"Eastmere": "E1", "Saltwick": "S2", "Tarnfoot": "T3", "Lindwell": "L4"}
HEADER = ["first", "last", "town", "code", "born", "country", "note", "serial"]


def run(vber, *arguments, cwd=None, stdin=None, columns=100):
    done = subprocess.run(
        [vber, "profile", *map(str, arguments)],
        cwd=cwd, input=stdin, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": str(columns)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command within this process, which spares the start: `call(folder, *arguments)`."""

    def run_here(cwd, *arguments, columns=100):
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("COLUMNS", str(columns))
        code = main(["profile", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run_here


def profiled(vber, *arguments, **more):
    code, out, err = run(vber, *arguments, "--json", **more)
    assert code == 0, err
    return json.loads(out)


def people(seed, letter, day_first):
    """Rows of HEADER."""
    rng = random.Random(seed)
    rows = []
    for i in range(200):
        town, day, month = rng.choice(list(TOWNS)), rng.randint(1, 28), rng.randint(1, 12)
        date = (day, month) if day_first else (month, day)
        born = f"{date[0]:02}/{date[1]:02}/{rng.randint(1930, 2005)}"
        rows.append([rng.choice(GIVEN), rng.choice(FAMILY), town, TOWNS[town], born, "X", "", f"{letter}{i:04}"])
    return rows


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Two lists: the second in capitals, its names swapped, its dates the other way round."""
    folder = tmp_path_factory.mktemp("messy")
    write_rows(folder / "a.csv", HEADER, people(1, "A", True))
    loud = [[cell.upper() for cell in row] for row in people(2, "B", False)]
    write_rows(folder / "b.csv", HEADER, [[row[1], row[0], *row[2:]] for row in loud])
    return folder


@pytest.fixture(scope="module")
def found(vber, messy):
    return profiled(vber, "a.csv", "b.csv", cwd=messy)


def test_suggested_options_merge_the_sample(vber):
    before = profiled(vber, *FILES)
    assert [one["field"] for one in before["fields"]] == ["birth_date", "street", "town", "given_name"]
    maps = [one["option"] for one in before["suggestions"]["map"]]
    # the truth is in the sample's configuration
    assert {tuple(one.partition("=")[0].split(":")) for one in maps} == {
        ("clinic", "first_name"), ("police", "surname"), ("registry", "family_name"),
        ("police", "gender"), ("police", "dob"), ("police", "city"),
    }  # fmt: skip
    options = [word for one in maps for word in ("--map", one)]
    after = profiled(vber, *FILES, *options)
    assert len(after["fields"]) == 6
    assert after["suggestions"] == {"map": []}
    assert {edge["field"] for edge in after["dependence"]["tree"]} >= {"town", "sex"}


def test_counts_are_those_of_the_files(vber):
    databases = profiled(vber, *FILES)["databases"]
    tables = [pv.read_csv(FILES[0]), pv.read_csv(FILES[1], parse_options=pv.ParseOptions(delimiter="\t"))]
    for database, table in zip(databases, [*tables, pq.read_table(FILES[2])], strict=True):
        assert database["records"] == table.num_rows
        assert [one["column"] for one in database["columns"]] == table.column_names
        for one in database["columns"]:
            cells = [str(cell) for cell in table[one["column"]].to_pylist() if cell not in (None, "")]
            assert one["missing"] == table.num_rows - len(cells)
            if one["type"] != "date":
                assert one["distinct"] == len(set(cells))
                assert all(cells.count(top["value"]) == top["records"] for top in one["most_frequent"])


def test_roles_and_reasons(vber):
    columns = {
        (database["name"], one["column"]): (one["role"], one["field"], one["role_reason"])
        for database in profiled(vber, "--config", "sample_data/vber.toml", cwd=SAMPLE.parent)["databases"]
        for one in database["columns"]
    }
    assert columns["clinic", "record_id"] == ("id", None, "named like an id, and unique (--id names another)")
    assert columns["police", "case_no"] == ("id", None, "named by --id")
    assert columns["police", "surname"] == ("field", "family_name", "named by --map")
    assert columns["clinic", "street"] == ("field", "street", "named by --fields")


def test_reasons_why_columns_are_ignored(vber, tmp_path):
    write_rows(tmp_path / "a.csv", ["id", "name", "empty", "only", "out"], [[1, "x", "", 1, 2], [1, "y", "", 1, 2]])
    write_rows(tmp_path / "b.csv", ["key", "name", "empty", "out"], [[1, "x", "", 3], [2, "y", "", 4]])
    columns = {
        (database["name"], one["column"]): one["role_reason"]
        for database in profiled(vber, "a.csv", "b.csv", "--exclude", "out", cwd=tmp_path)["databases"]
        for one in database["columns"]
    }
    assert columns == {
        ("a", "id"): "named like an id, but has gaps or repeats a value; row numbers are the ids",
        ("a", "name"): "in every database",
        ("a", "empty"): "no value in any database",
        ("a", "only"): "not in b",
        ("a", "out"): "left out by --exclude",
        ("b", "key"): "named like an id, and unique (--id names another)",
        ("b", "name"): "in every database",
        ("b", "empty"): "no value in any database",
        ("b", "out"): "left out by --exclude",
    }


def test_warnings_of_messy_files(found):
    codes = {(one["code"], one["database"], one["field"]) for one in found["warnings"]}
    assert codes >= {
        ("swapped_columns", "b", "first"),
        ("all_capitals", "b", None),
        ("date_orders_differ", None, "born"),
        ("id_as_field", None, "serial"),
        ("constant_column", "a", "country"),
        ("all_missing_column", "b", None),
        ("near_duplicate_columns", "a", None),
    }
    assert {one["option"] for one in found["suggestions"]["map"]} == {"b:first=last", "b:last=first"}


def test_orders_of_dates_are_said_aloud(found, vber, tmp_path):
    (a, b) = (
        next(one for one in database["columns"] if one["column"] == "born")["date_orders"]
        for database in found["databases"]
    )
    assert a == [{"like": "03/05/1984", "order": "dmy", "assumed": False}]
    assert b == [{"like": "03/05/1984", "order": "mdy", "assumed": False}]
    write_rows(
        tmp_path / "c.csv", ["born"], [[f"0{day}/0{month}/1980"] for day in range(1, 9) for month in range(1, 9)]
    )
    code, out, _ = run(vber, "c.csv", cwd=tmp_path)
    assert code == 0
    assert "an assumption: no date of the column tells" in " ".join(out.split())
    assert "date_order_assumed" in out


def test_the_keys_of_the_json_are_stable(found):
    assert list(found) == [
        "format", "format_version", "records", "databases", "fields", "suggestions", "dependence", "cost", "warnings",
    ]  # fmt: skip
    assert (found["format"], found["format_version"]) == ("vber profile", 1)
    database = found["databases"][0]
    assert list(database) == ["name", "records", "bytes", "format", "id_column", "columns"]
    assert list(database["columns"][0]) == [
        "column", "role", "field", "role_reason", "type", "type_reason", "missing", "missing_share", "distinct",
        "most_frequent", "date_orders", "date_notes", "capitals_share",
    ]  # fmt: skip
    assert list(found["fields"][0]) == [
        "field", "type", "type_reason", "missing", "missing_share", "distinct", "columns", "shared",
    ]  # fmt: skip
    assert list(found["suggestions"]["map"][0]) == [
        "database", "column", "field", "like", "value_overlap", "name_likeness", "option",
    ]  # fmt: skip
    assert list(found["dependence"]) == ["records_sampled", "tree"]
    assert list(found["cost"]) == ["pairs", "seconds", "memory_bytes", "least_memory_bytes", "factor", "basis"]
    assert list(found["warnings"][0]) == ["code", "message", "fix", "database", "column", "field"]


def test_every_key_is_documented(found):
    text = (SAMPLE.parent / "docs" / "reading.md").read_text(encoding="utf-8")

    def keys(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from keys(inner) if key not in ("format", "columns") or isinstance(inner, list) else ()
        elif isinstance(value, list):
            for inner in value:
                yield from keys(inner)

    assert not {key for key in keys(found) if f"`{key}`" not in text}
    assert not {key for key in CSV_COLUMNS if f"`{key}`" not in text}
    assert not {one["code"] for one in found["warnings"] if f"`{one['code']}`" not in text}


def test_csv_has_a_row_for_every_column(call, messy):
    code, out, _ = call(messy, "a.csv", "b.csv", "--csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [(row["database"], row["column"]) for row in rows] == [(name, column) for name in "ab" for column in HEADER]
    assert rows[5]["most_frequent"] == "X"
    assert rows[4]["date_orders"] == "03/05/1984 dmy"


def test_no_values_hides_them(call, messy):
    for form in ([], ["--json"], ["--csv"]):
        code, out, err = call(messy, "a.csv", "b.csv", "--no-values", *form)
        assert code == 0
        assert not [word for word in (*GIVEN, *FAMILY, *TOWNS, "A0000") if word.lower() in (out + err).lower()]
    assert "A0000" in call(messy, "a.csv", "--csv")[1]


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_lines_fit_the_width_and_have_no_colour(call, messy, columns):
    code, out, _ = call(messy, "a.csv", "b.csv", columns=columns)
    assert code == 0
    assert max(map(len, out.splitlines())) <= columns
    assert "\x1b" not in out
    for word in (
        "serial is text:",
        "How dates are read",
        "--map b:first=last",
        "What a merge would take",
        "all_capitals",
    ):
        assert word in out


def test_notes_go_to_standard_error(call, tmp_path):
    (tmp_path / "latin.csv").write_bytes("name,town\nJosé,Málaga\nRenée,Orléans\nZoë,Köln\n".encode("latin-1"))
    code, out, err = call(tmp_path, "latin.csv")
    assert (code, "a guess (--encoding overrides)" in err, "note:" in out) == (0, True, False)
    assert call(tmp_path, "latin.csv", "-q")[2] == ""
    assert '"event": "note"' in call(tmp_path, "latin.csv", "--log-json")[2]


def test_input_options_are_those_of_merge(vber, tmp_path):
    text = "code;name;town\n1;Ann;none given\n2;Bob;Eastmere\n"
    found = profiled(
        vber, "first=-", "--delimiter", ";", "--encoding", "utf-8", "--id", "code", "--null", "none given",
        "--map", "first:town=place", "--type", "name=category", stdin=text, cwd=tmp_path,
    )  # fmt: skip
    assert (found["fields"][0]["field"], found["fields"][0]["type_reason"]) == ("name", "as told")
    assert (found["databases"][0]["name"], found["databases"][0]["id_column"]) == ("first", "code")
    place = found["fields"][1]
    assert (place["field"], place["missing"], place["columns"]) == ("place", 1, {"first": "town"})


def test_no_column_in_common_is_a_warning(vber, tmp_path, messy):
    rows = [["x", row[0], row[4]] for row in people(5, "C", True)]
    write_rows(tmp_path / "c.csv", ["kind", "Vorname", "geboren"], rows)
    found = profiled(vber, messy / "a.csv", "c.csv", cwd=tmp_path)
    assert found["warnings"][0]["code"] == "no_common_column"
    assert (found["fields"], found["cost"], found["dependence"]["tree"]) == ([], None, None)
    assert {one["option"] for one in found["suggestions"]["map"]} >= {"c:Vorname=first"}


@pytest.mark.parametrize("text", ["name,town\n", "name,town\n,\n,\n", "name\nx\n"])
def test_hardly_any_data(call, tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    for form in ([], ["--json"], ["--csv"]):
        code, out, err = call(tmp_path, "a.csv", *form)
        assert (code, err) == (0, "")
        assert "name" in out


def test_strange_values_are_shown_harmlessly(call, tmp_path):
    rows = [["\x1b[31mred", "שלום", "a\nb"], ["😀" * 300, "مرحبا", "c"], ["=cmd()", "é", "d"]]
    write_rows(tmp_path / "a.csv", ["x", "y [bold]", "z"], rows)
    code, out, _ = call(tmp_path, "a.csv", columns=80)
    assert code == 0
    assert "\x1b" not in out
    assert "y [bold]" in out


@pytest.mark.parametrize(
    ("arguments", "code", "first"),
    [
        ([], 2, "error: no database is given."),
        (["absent.csv"], 3, "error: absent.csv: no such file."),
        (["a.csv", "--json", "--csv"], 2, "error: --json and --csv contradict each other."),
        (["a.csv", "--id", "nope"], 2, "error: --id nope: no database has a column 'nope'."),
        (["a.csv", "--id", "town"], 3, "error: a: "),
        (["a.csv", "--type", "nope=category"], 2, "error: --type names 'nope'"),
        (["a.csv", "--K", "3"], 2, "error: vber profile has no option --K."),
        (["a.csv", "--map", "town"], 2, "error: --map 'town' is not of the form DB:COLUMN=FIELD."),
    ],
)
def test_wrong_input_is_two_lines(call, messy, arguments, code, first):
    got, out, err = call(messy, *arguments)
    assert (got, out, len(err.splitlines())) == (code, "", 2)
    assert err.startswith(first)


def test_the_same_bits_every_time(call, messy):
    first = call(messy, "a.csv", "b.csv", "--json", "--threads", "1")[1]
    assert first == call(messy, "a.csv", "b.csv", "--json", "--threads", "2")[1]
