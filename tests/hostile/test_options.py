"""Options far out of range, of the wrong kind, or at odds with each other: refused in two lines, or obeyed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.command import merge, run
from vber_cli.config import OPTIONS

ODD = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "1e999",
    "-1e999",
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "9" * 400,
    "0x10",
    "1_0",
    "١٢",
    "1,5",
    "½",
    "NaN",
    "true",
    "auto",
    "none",
    "\0",
    "\x1b[31m",
    "\u202e",
    "a\nb",
    "=",
    ":",
    "a=b",
    "a:b=c",
    "db:name=name",
    "name=text",
    "*=number",
    ",",
    ",,",
    "fp=0,fn=0",
    "fp=-1,fn=1",
    "fp=nan,fn=1",
    "fp=1e308,fn=1e-308",
    "name",
    "name,name",
    "../x",
    "/",
    "-",
    "--",
    "%s",
    "{}",
    "utf-8",
    "rot13",
    "utf-7",
    "idna",
    "punycode",
    "unicode_escape",
    "utf-16",
    "cp037",
    "\ud800",
    "1K",
    "1e3G",
    "99999999999T",
    "4096",
    "5000",
    "x" * 10_000,
)
ROWS = "id,name,city\n1,anna,ulm\n2,bert,bonn\n3,anna,ulm\n4,,ulm\n"
VALUED = sorted(
    flag
    for option in OPTIONS.values()
    if option.kind != "flag" and not option.positional
    for flag in option.flags
    if flag.startswith("--")
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "db.csv").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("flag", [flag for flag in VALUED if flag not in {"--out", "--stdout"}])
def test_an_option_with_any_value(flag: str, here: Path) -> None:
    for i, value in enumerate(ODD):
        literal = [] if i % 7 == 0 or flag == "--K" else ["--K", "9", "--no-moves"]
        merge(here, "db.csv", *literal, f"{flag}={value}")
        shutil.rmtree(here / "out", ignore_errors=True)


def test_options_drawn_together(here: Path) -> None:
    """Any five at a time, of all kinds, with values that some of them accept."""
    rng = np.random.default_rng(7)
    flags = [
        flag for option in OPTIONS.values() if option.kind == "flag" for flag in option.flags if flag.startswith("--")
    ]
    flags = [flag for flag in flags if flag not in {"--quiet", "--verbose", "--log-json", "--debug"}]
    values = (
        "1",
        "0.5",
        "7",
        "name",
        "db",
        "1e-300",
        "1e300",
        "uniform",
        "random",
        "records",
        "name=category",
        "fp=9,fn=1",
        "1G",
    )
    for _ in range(120):
        words = [str(flag) for flag in rng.choice(flags, 2)]
        valued = rng.choice([flag for flag in VALUED if flag not in {"--out", "--stdout"}], 3)
        words += [f"{flag}={rng.choice(values)}" for flag in valued]
        merge(here, "db.csv", *words)
        shutil.rmtree(here / "out", ignore_errors=True)


@pytest.mark.parametrize(
    "command", ["sample", "simulate", "profile", "explain", "review", "evaluate", "compare", "report"]
)
def test_other_commands_with_any_value(command: str, here: Path) -> None:
    """Every option that takes a value, of every other command."""
    import click

    from vber_cli.cli.app import vber

    found = vber.get_command(click.Context(vber), command)
    assert found is not None
    flags = [p.opts[-1] for p in found.params if isinstance(p, click.Option) and not p.is_flag and not p.count]
    result = here / "result"
    assert run("merge", "-q", "db.csv", "-o", result).code == 0
    words = {
        "sample": ["db.csv", "--K", "5"],
        "simulate": ["drawn"],
        "profile": ["db.csv"],
        "explain": ["result", "1", "2"],
        "review": ["result"],
        "evaluate": ["result", "truth.csv"],
        "compare": ["result", "result"],
        "report": ["result"],
    }[command]
    (here / "truth.csv").write_text("id,individual\n1,a\n3,a\n2,b\n4,c\n")
    costly = {
        "--draws",
        "--iterations",
        "--records",
        "--chains",
        "--burn-in",
        "--entities",
        "--individuals",
        "--databases",
    }
    for flag in flags:
        for value in ODD:
            if (flag in costly or command in {"sample", "simulate"}) and value not in {
                "",
                "0",
                "-1",
                "1",
                "nan",
                "x" * 10_000,
            }:
                continue  # long, and asked for
            if flag in {"--out", "-o", "--csv"} and value not in {"", "\0", "/", "x" * 10_000}:
                continue  # a path like any other
            if "\0" in value:
                continue  # no argument of a process can hold it
            ended = run(command, *words, f"{flag}={value}")
            assert ended.code in (0, 2, 3, 4, 5), (flag, value, ended.err)
            assert ended.code == 0 or len(ended.lines) == 2, (flag, value, ended.err)
