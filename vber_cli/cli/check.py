"""`vber check`: verify a result."""

from __future__ import annotations

from pathlib import Path

import click

from vber_cli.cli.options import debug_option
from vber_cli.cli.tables import Cell, console, print_json, table
from vber_cli.errors import InputError

_COLOUR = {"ok": "green", "wrong": "red", "skipped": "yellow"}


@click.command(short_help="Verify a result.")
@click.argument("directory", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def check(directory: str, as_json: bool) -> None:
    """Verify the result in DIR: nothing missing, changed or mixed up with another run.

    Files, columns and types; that every record read is there; that phi sums to 1, lambda is the prior plus phi, and
    the stored model gives the pairs their evidence; that all files come from one run. The exit code is 3 if anything
    is wrong.
    """
    from vber_cli.results.check import check_result, to_dict

    findings = check_result(Path(directory))
    if as_json:
        print_json(to_dict(Path(directory), findings))
    else:
        rows: list[list[Cell]] = [[(item.status, _COLOUR[item.status]), item.name, item.detail] for item in findings]
        table(console(), ["", "", ""], rows)
    wrong = [item for item in findings if item.status == "wrong"]
    if wrong:
        more = f", and {len(wrong) - 1} more of its checks fail" if len(wrong) > 1 else ""
        raise InputError(f"{directory}: {wrong[0].detail}{more}", "run `vber merge` again on the same files")
