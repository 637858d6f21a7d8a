"""What stands in the records stays out of logs, errors and summary.json, unless it is asked for with -v."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.hostile.command import run

MARK = "Zzyzxq"
ROWS = "".join(
    f"{MARK}id{i},{MARK}name{i % 3},{MARK}town{i % 2},0{i % 9 + 1}/04/19{i % 7 + 30},7{i % 4}31{i}\n" for i in range(12)
)
HEADER = "id,name,town,born,number\n"
LITERAL = ("--K", "20", "--no-moves")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(HEADER + ROWS)
    return tmp_path


BROKEN = {
    "short row": HEADER + ROWS + f"{MARK},{MARK}\n" + ROWS,
    "long row": HEADER + ROWS + f"{MARK},{MARK},{MARK},{MARK},{MARK},{MARK}\n",
    "open quote": HEADER + ROWS + f'"{MARK},{MARK},a,b,c\n' + ROWS,
    "repeated id": HEADER + ROWS + ROWS,
    "id with a gap": HEADER + ROWS + f",{MARK},{MARK},b,c\n",
    "bad byte": (HEADER + ROWS).encode() + b"\xff" + MARK.encode() + b",a,b,c,d\n",
    "late ragged row": HEADER + ROWS * 200 + f"{MARK}\n",
    "stray quote": HEADER + ROWS + f'a,"{MARK}"{MARK},b"{MARK},c,d\n' + ROWS,
    "cr only": HEADER + ROWS.replace("\n", "\r") + f"{MARK}\n",
}
OPTIONS = [
    (),
    LITERAL,
    ("--id", "id"),
    ("--id", "name"),
    ("--encoding", "ascii"),
    ("--encoding", "utf-16"),
    ("--delimiter", ";"),
    ("--type", "*=date"),
    ("--type", "*=number"),
    ("--fields", "nme"),
    ("--dedupe",),
    ("--max-memory", "10M"),
    ("--K", "1"),
    ("--null", "x"),
    ("--exclude", "name"),
    ("--map", "good:nme=x"),
]


@pytest.mark.parametrize("name", [*BROKEN, "good"])
def test_no_value_of_a_record_in_errors_or_logs(name: str, here: Path) -> None:
    if name != "good":
        data = BROKEN[name]
        (here / "bad.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    files = ("good.csv",) if name == "good" else ("good.csv", "bad.csv")
    for options in OPTIONS if name == "good" else OPTIONS[1:4]:
        for manner in ((), ("--log-json",))[: 1 if options else 2]:
            ended = run("merge", *files, *options, *manner, "--force")
            assert ended.code in (0, 2, 3, 5), ended.err
            assert MARK not in ended.err, ended.err
            assert ended.out == ""
    summary = here / "vber-out" / "summary.json"
    if summary.exists():
        assert MARK not in summary.read_text()


@pytest.mark.parametrize("command", ["check", "report", "review", "compare", "profile", "sample"])
def test_other_commands_keep_values_out_of_what_they_log(command: str, here: Path) -> None:
    assert run("merge", "-q", "good.csv").code == 0
    words = {
        "check": ["vber-out"],
        "report": ["vber-out"],
        "review": ["vber-out", "--out", "pairs.csv"],
        "compare": ["vber-out", "vber-out"],
        "profile": ["good.csv", "--no-values"],
        "sample": ["good.csv", "--K", "20", "--iterations", "20", "--chains", "2", "-o", "drawn"],
    }[command]
    ended = run(command, *words)
    assert ended.code == 0, ended.err
    assert MARK not in ended.err
    if command == "sample":
        assert MARK not in (here / "drawn" / "summary.json").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"id_a,id_b,decision\n{MARK}id1,{MARK}id2,{MARK}\n", "row 1: the decision is neither yes nor no"),
        (f"id_a,id_b\n{MARK}id1\n", "1 value where the header has 2"),
    ],
)
def test_no_value_of_a_file_of_pairs(text: str, says: str, here: Path) -> None:
    (here / "pairs.csv").write_text(text)
    ended = run("merge", "good.csv", "--must-link", "pairs.csv", "-q")
    assert ended.code == 3
    assert says in ended.err
    assert MARK not in ended.err


def test_the_value_is_told_where_it_is_asked_for(here: Path) -> None:
    (here / "bad.csv").write_text(str(BROKEN["short row"]))
    told = f": '{MARK},{MARK}'"
    for manner in ("-v", "--verbose", "--debug"):
        assert told in run("merge", "bad.csv", manner).err
    (here / "run.toml").write_text("[merge]\nverbose = true\n")
    assert told in run("merge", "bad.csv", "--config", "run.toml").err
    ended = run("merge", "bad.csv", "-v", "--log-json")
    assert told in json.loads(ended.lines[-1])["what"]
    assert told not in run("merge", "bad.csv").err


def test_no_value_of_a_damaged_parquet_file(here: Path) -> None:
    parquet.write_table(pa.table({"name": [MARK] * 9, "town": [f"{MARK}{i}" for i in range(9)]}), here / "a.parquet")
    data = bytearray((here / "a.parquet").read_bytes())
    for place in range(4, len(data) - 8, 9):
        damaged = bytearray(data)
        damaged[place] ^= 0x15
        (here / "a.parquet").write_bytes(damaged)
        ended = run("merge", "a.parquet", *LITERAL, "--force")
        assert ended.code in (0, 3), ended.err
        # the names of columns stand in the file's own schema, beside the least and greatest value of each
        assert MARK not in ended.err, ended.err
