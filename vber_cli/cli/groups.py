"""Groups of commands: imported only when they are used, and helpful when a name is mistyped."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import click

from vber_cli.config import nearest
from vber_cli.errors import UsageError


def did_you_mean(name: str, known: Iterable[str], help_command: str) -> str:
    """Return the second line of an error about an unknown name."""
    close = nearest(name, known)
    return f"did you mean {close}? `{help_command}` lists them all" if close else f"see `{help_command}`"


class PlainGroup(click.Group):
    """A group that names the nearest command when one is mistyped; without one its own callback runs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, "invoke_without_command": True, **kwargs})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known:
            fix = did_you_mean(name, known, f"{ctx.command_path} --help")
            raise UsageError(f"{ctx.command_path} has no command {name!r}", fix)
        return super().resolve_command(ctx, args)


def print_help_alone(ctx: click.Context) -> None:
    """Print the group's help when no command was given; called by the group's callback."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


class LazyGroup(PlainGroup):
    """A group whose commands are imported only when one of them is used or described.

    Parameters
    ----------
    lazy
        ``module:attribute`` of each command by its name, in the order of the help.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the help."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command
