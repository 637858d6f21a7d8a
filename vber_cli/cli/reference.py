"""The reference of all commands, made from their help: `python -m vber_cli.cli.reference docs/reference.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from vber_cli.cli.app import PROGRAM, vber
from vber_cli.config import MergeOptions, to_toml

WIDTH = 100
_INTRODUCTION = """# Commands

Made from the commands' own help; `make docs` writes it anew.
"""
_CONFIGURATION = """## Configuration file

`vber merge --config FILE.toml` takes options from the table `[merge]`: the long flag is the key, a flag that may be
repeated takes a list, `no-moves` is `moves = false`. Paths are relative to the directory in which vber runs. An unknown
key is an error that names the nearest known one. The command line wins over the file; a list on the command line
replaces the file's. `vber config show` prints the options in effect; the defaults are:
"""
_COMPLETION = """## Shell completion

bash, in `~/.bashrc`:

    eval "$(_VBER_COMPLETE=bash_source vber)"

zsh, in `~/.zshrc`:

    eval "$(_VBER_COMPLETE=zsh_source vber)"

fish, in `~/.config/fish/completions/vber.fish`:

    _VBER_COMPLETE=fish_source vber | source
"""
_LOG = """## Progress as JSON

With `--log-json` every line on standard error is one JSON object with `time` (UTC) and `event`: `start` and `end` of a
phase (`phase`, `total`, `done`, `seconds`), `progress` every few seconds, `note` and `warning` (`message`), `done`
(`out`, `seconds`), or `error` (`what`, `fix`, `exit_code`). Errors in the command line itself are one such object, too.
"""


def commands(
    command: click.Command = vber, path: str = PROGRAM, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of a command and of all below it."""
    ctx = click.Context(
        command, info_name=path.rsplit(" ", 1)[-1], parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    yield path, command.get_help(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            if child is not None:
                yield from commands(child, f"{path} {name}", ctx)


def reference() -> str:
    """Return the reference as Markdown."""
    parts = [_INTRODUCTION]
    for path, text in commands():
        lines = "\n".join(line.rstrip() for line in text.splitlines())
        parts.append(f"## {path}\n\n```text\n{lines}\n```\n")
    parts += [f"{_CONFIGURATION}\n```toml\n{to_toml(MergeOptions())}```\n", _LOG, _COMPLETION]
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference.md").write_text(reference(), encoding="utf-8")
