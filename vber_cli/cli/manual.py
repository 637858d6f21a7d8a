"""Manual pages of all commands, made from their help: `python -m vber_cli.cli.manual docs/man`."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from vber_cli.cli.app import PROGRAM, vber
from vber_cli.cli.groups import PlainGroup

_SECTION = "1"
_WIDTH = 70
_NO_FILL = "\b"  # click's mark of a paragraph whose lines stay as they are


def contexts(
    command: click.Command = vber, name: str = PROGRAM, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command and of all below it."""
    ctx = click.Context(command, info_name=name, parent=parent)
    yield ctx
    if isinstance(command, PlainGroup):
        for child in command.list_commands(ctx):
            found = command.get_command(ctx, child)
            if found is not None:
                yield from contexts(found, child, ctx)


def page_name(ctx: click.Context) -> str:
    """Name of a command's page, as in vber-merge."""
    return ctx.command_path.replace(" ", "-")


def page(ctx: click.Context) -> str:
    """Return a command's page in the man macros."""
    command = ctx.command
    name = page_name(ctx)
    short = command.get_short_help_str(200).rstrip(".")
    usage = " ".join(command.collect_usage_pieces(ctx))
    lines = [
        f'.TH "{name.upper()}" "{_SECTION}" "" "{PROGRAM}" "{PROGRAM}"',
        ".SH NAME",
        rf"{_text(name)} \- {_text(short[:1].lower() + short[1:])}",
        ".SH SYNOPSIS",
        rf".B {_text(ctx.command_path)}",
        _text(usage),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    for heading, rows in _lists(ctx):
        lines.append(f".SH {_text(heading.upper())}")
        for term, text in rows:
            lines += [".TP", rf".B {_text(term)}", *_filled(text)]
    related = _related(ctx)
    if related:
        lines += [".SH SEE ALSO", ", ".join(rf"\fB{_text(other)}\fR({_SECTION})" for other in related)]
    return "\n".join(lines) + "\n"


def _lists(ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The headings of a command's help, each with its terms and what they mean."""
    collector = _Collector()
    ctx.command.format_options(ctx, collector)
    yield from collector.found.items()


class _Collector(click.HelpFormatter):
    """Keeps what a command's help lists, in the place of lines of text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[tuple[str, str]]] = {}
        self._heading = ""

    def write_heading(self, heading: str) -> None:
        """Begin a list."""
        self._heading = heading

    def write_dl(self, rows: object, col_max: int = 30, col_spacing: int = 2) -> None:  # noqa: ARG002
        """Keep the rows of a list."""
        self.found.setdefault(self._heading, []).extend(rows)  # type: ignore[arg-type]


def _related(ctx: click.Context) -> list[str]:
    """Pages of the command above, and of those below."""
    above = [page_name(ctx.parent)] if ctx.parent is not None else []
    below = ctx.command.list_commands(ctx) if isinstance(ctx.command, PlainGroup) else []
    return above + [f"{page_name(ctx)}-{name}" for name in below]


def _paragraphs(text: str) -> list[str]:
    """A help text, paragraph by paragraph."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        rows = [row.strip() for row in paragraph.strip("\n").splitlines()]
        if lines:
            lines.append(".PP")
        if rows[0] == _NO_FILL:
            lines += [".nf", *map(_text, rows[1:]), ".fi"]
        else:
            lines += _filled(" ".join(rows))
    return lines


def _filled(text: str) -> list[str]:
    """Text in short lines, which roff fills again."""
    return [_text(line) for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def _text(text: str) -> str:
    """Text in which roff finds no command and turns no hyphen into another dash."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write_pages(directory: Path) -> list[Path]:
    """Write a page for each command, and remove those of commands that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    pages = {directory / f"{page_name(ctx)}.{_SECTION}": page(ctx) for ctx in contexts()}
    for old in set(directory.glob(f"{PROGRAM}*.{_SECTION}")) - set(pages):
        old.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return list(pages)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/man"))
