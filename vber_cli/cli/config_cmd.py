"""`vber config`: show the options in effect, or check a file of them."""

from __future__ import annotations

from typing import Any

import click

from vber_cli.cli.groups import PlainGroup, print_help_alone
from vber_cli.cli.options import MergeCommand, debug_option, merge_options
from vber_cli.config import MergeOptions, read_toml, to_toml


@click.group(cls=PlainGroup, short_help="Show or check a configuration file.")
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def config(ctx: click.Context) -> None:
    """Show or check a configuration file for `vber merge --config`."""
    print_help_alone(ctx)


@config.command(cls=MergeCommand, short_help="Print the options in effect as TOML.")
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def show(ctx: click.Context, /, **parameters: Any) -> None:
    """Print the options that `vber merge` would use, as TOML that --config reads back identically.

    It takes the options of `vber merge`: `vber config show --K 500 > run.toml` begins a configuration file.
    """
    options, given = merge_options(ctx, parameters)
    click.echo(to_toml(options, given), nl=False)


@config.command(short_help="Check a configuration file.")
@click.argument("file", metavar="FILE.toml")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def check(file: str) -> None:
    """Check a configuration file: every key known, every value within its limits."""
    values = read_toml(file)
    MergeOptions.layered(values, {})
    click.echo(f"{file} is fine: it sets {len(values)} option{'s' if len(values) != 1 else ''}")
