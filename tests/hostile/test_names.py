"""Files, databases and columns with names that steer terminals, look like options, or lead elsewhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.hostile.command import Ended, assert_refused, assert_sound, printable, run

ROWS = "id,name,city\n1,anna,ulm\n2,bert,bonn\n3,anna,ulm\n"
LITERAL = ("--K", "9", "--no-moves")
FILE_NAMES = [
    "new\nline.csv",
    "\x1b[31mred\x1b[0m.csv",
    "\x1b]0;owned\x07.csv",
    "--force",
    "-",
    "-x.csv",
    "a=b.csv",
    "=.csv",
    "a b.csv",
    " .csv",
    "..csv",
    "...",
    "~",
    "$HOME.csv",
    "`id`.csv",
    ";ls.csv",
    "a,b.csv",
    "a:b.csv",
    "[x].csv",
    "x*.csv",
    "\u202egnp.csv",
    "\u2028.csv",
    "é.csv",
    "e\u0301.csv",
    "🙂.csv",
    "x" * 240 + ".csv",
    "'.csv",
    '".csv',
    "\\.csv",
    "<script>alert(1)</script>.csv".replace("/", ""),
    "%s%n.csv",
    "nul\x7f.csv",
    "con.csv",
    "{0}.csv",
    "[bold]x[/].csv".replace("/", ""),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "w").mkdir()
    monkeypatch.chdir(tmp_path / "w")
    return tmp_path / "w"


@pytest.mark.parametrize("name", FILE_NAMES, ids=range(len(FILE_NAMES)))
def test_a_file_of_any_name_is_read_by_its_path(name: str, here: Path) -> None:
    (here / name).write_text(ROWS)
    ended = run("merge", *LITERAL, f"./{name}")
    assert ended.code == 0, ended.err
    assert printable(ended.err)
    result = assert_sound(here / "vber-out")
    assert len(result.column("assignments", "row")) == 3
    assert sorted(os.listdir(here)) == sorted([name, "vber-out"])
    for command in (("report",), ("check",), ("explain", "1"), ("review", "--out", "pairs.csv")):
        ended = run(command[0], "vber-out", *command[1:])
        assert ended.code in (0, 3), ended.err
        assert printable(ended.out), repr(ended.out)
        assert printable(ended.err), repr(ended.err)


@pytest.mark.parametrize("name", FILE_NAMES, ids=range(len(FILE_NAMES)))
def test_an_error_about_a_file_of_any_name(name: str, here: Path) -> None:
    (here / name).write_text("id,name\n1,2,3\n")
    assert_refused(run("merge", *LITERAL, f"./{name}"), 3)
    (here / name).unlink()
    assert_refused(run("merge", *LITERAL, f"./{name}"), 2, 3)
    assert os.listdir(here) == []


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "..",
        ".",
        "/etc/passwd",
        "a/b",
        "\x1b[31m",
        "a\nb",
        "-",
        "--force",
        "<b>",
        "=1+1",
        "x" * 5000,
        "\u202e",
        "a:b",
        " ",
    ],
)
def test_the_name_of_a_database_is_only_a_name(name: str, here: Path) -> None:
    """It leads nowhere, and what was meant as a path is told as a missing one."""
    (here / "db.csv").write_text(ROWS)
    ended = run("merge", *LITERAL, f"{name}=db.csv")
    assert printable(ended.err)
    assert set(os.listdir(here.parent)) == {"w"}
    if ended.code:
        assert_refused(ended, 2, 3)
        assert os.listdir(here) == ["db.csv"]
        return
    assert sorted(os.listdir(here)) == ["db.csv", "vber-out"]
    assert set(assert_sound(here / "vber-out").column("assignments", "database")) == {name}


def test_symbolic_links(here: Path) -> None:
    (here / "db.csv").write_text(ROWS)
    (here / "good.csv").symlink_to("db.csv")
    (here / "dangling.csv").symlink_to("nowhere.csv")
    (here / "loop.csv").symlink_to("loop.csv")
    (here / "up.csv").symlink_to("..")
    assert run("merge", "-q", *LITERAL, "good.csv").code == 0
    for name in ("dangling.csv", "loop.csv", "up.csv", "loop.csv/x", "db.csv/x", "/dev/null", "/dev/full"):
        if name != "/dev/full":
            assert_refused(run("merge", "-q", *LITERAL, name, "-o", "new"), 2, 3)
    assert not (here / "new").exists()


def test_results_do_not_follow_a_link_out_of_the_way(here: Path) -> None:
    """--force on a link that leads to someone's files replaces nothing there."""
    (here / "db.csv").write_text(ROWS)
    (here / "precious").mkdir()
    (here / "precious" / "letter.txt").write_text("dear")
    (here / "link").symlink_to("precious")
    for out in ("link", "precious/..", "db.csv", ".", "..", "/", "/proc/x", "", "a\0b", "x" * 300, "\udcff"):
        ended = run("merge", "-q", "--force", *LITERAL, "db.csv", "-o", out)
        assert_refused(ended, 2, 4)
    assert (here / "precious" / "letter.txt").read_text() == "dear"
    assert sorted(os.listdir(here)) == ["db.csv", "link", "precious"]


def test_paths_that_cannot_be(here: Path) -> None:
    (here / "db.csv").write_text(ROWS)
    for path in ("x" * 5000, "/".join(["d"] * 3000), "\udcff.csv", "\ud800.csv", "[", "**/**/nothing", "~nobody/x.csv"):
        assert_refused(run("merge", "-q", *LITERAL, "db.csv", path), 2, 3)
        for option in ("--must-link", "--config"):
            assert_refused(run("merge", "-q", *LITERAL, "db.csv", option, path), 2, 3)
        for command in ("check", "report", "review", "explain"):
            ended = run(command, path, *(["1"] if command == "explain" else []))
            assert_refused(ended, 2, 3, 4)


@pytest.mark.parametrize("name", [b"\xff\xfe.csv", b"a\nb\x1b[2J.csv"])
def test_names_that_are_no_text_through_the_installed_command(vber: str, name: bytes, here: Path) -> None:
    (here / os.fsdecode(name)).write_text(ROWS)
    words = [vber.encode(), b"merge", *(option.encode() for option in LITERAL), b"./" + name]
    done = subprocess.run(words, cwd=here, capture_output=True, check=False)
    assert done.stdout == b""
    assert printable(done.stderr.decode()), done.stderr
    assert done.returncode == 0, done.stderr
    assert assert_sound(here / "vber-out").summary["inputs"][0]["n_records"] == 3
    bad = subprocess.run(
        [vber.encode(), b"merge", b"./" + name + b"x", b"-o", b"new"], cwd=here, capture_output=True, check=False
    )
    assert_refused(Ended(bad.returncode, bad.stdout.decode(), bad.stderr.decode()), 3)
