"""The manual pages: as the help says, complete, sound roff, and part of the wheel."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from vber_cli.cli.manual import contexts, page, page_name, write_pages

ROOT = Path(__file__).resolve().parents[2]
MAN = ROOT / "docs" / "man"
CONTEXTS = {page_name(ctx): ctx for ctx in contexts()}
REQUESTS = {".TH", ".SH", ".B", ".TP", ".PP", ".nf", ".fi"}


def test_pages_are_those_of_the_help(tmp_path: Path) -> None:
    (tmp_path / "vber-gone.1").write_text("an older page")
    made = write_pages(tmp_path)
    assert {path.name for path in made} == {path.name for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in made} == {path.name: path.read_text() for path in MAN.iterdir()}
    assert len(made) >= 12


@pytest.mark.parametrize("name", CONTEXTS)
def test_every_option_stands_in_the_page(name: str) -> None:
    ctx = CONTEXTS[name]
    plain = page(ctx).replace(r"\-", "-")
    for param in ctx.command.get_params(ctx):
        if isinstance(param, click.Option):
            for flag in (*param.opts, *param.secondary_opts):
                assert re.search(rf"^\.B .*{re.escape(flag)}\b", plain, re.MULTILINE), flag
        else:
            assert param.human_readable_name in plain


@pytest.mark.parametrize("name", CONTEXTS)
def test_pages_are_sound_roff(name: str) -> None:
    lines = page(CONTEXTS[name]).splitlines()
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} <= REQUESTS
    assert [line for line in lines if line.startswith(".SH")][:3] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"]
    assert lines.count(".nf") == lines.count(".fi")
    assert not [line for line in lines if not line.strip()]
    assert not [line for line in lines if not line.startswith(".TH") and re.search(r"(?<!\\)-", line)]
    assert not [line for line in lines if re.search(r"\\(?![-e&f])", line)]


def test_text_is_never_a_request() -> None:
    @click.command(help="One.\n\n.gz is a suffix, 'x' a quoted letter, a\\b a path.")
    @click.option("--a", help=".bz2 too, and a line that is filled in the page because it is long enough for it")
    def odd() -> None:
        """Do nothing."""

    text = page(click.Context(odd, info_name="odd"))
    assert r"\&.gz is a suffix" in text
    assert r"\&.bz2 too" in text
    assert r"a\eb a path" in text


def test_the_wheel_installs_them() -> None:
    assert '"docs/man" = "share/man/man1"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
