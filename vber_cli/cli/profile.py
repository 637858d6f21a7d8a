"""`vber profile`: look at databases before a merge."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from vber_cli.cli.options import MergeCommand, SectionedOption, merge_options
from vber_cli.config import OPTIONS
from vber_cli.errors import OutputError, UsageError
from vber_cli.progress import make_progress

if TYPE_CHECKING:
    from vber_cli.profiling.profile import Profile

_MANNERS = ("seed", "threads", "quiet", "verbose", "log_json", "debug")
TAKEN = tuple(name for name, option in OPTIONS.items() if option.section == "input" or name in _MANNERS)
NARROWEST, WIDEST, PIPED = 60, 200, 100  # characters


@click.command(cls=MergeCommand, taken=TAKEN, short_help="Look at databases before a merge.")
@click.option(
    "--json", "as_json", is_flag=True, cls=SectionedOption, section="output",
    help="Print everything as one JSON object.",
)  # fmt: skip
@click.option(
    "--csv", "as_csv", is_flag=True, cls=SectionedOption, section="output",
    help="Print one row for every column of every database as CSV.",
)  # fmt: skip
@click.option(
    "--no-values", is_flag=True, cls=SectionedOption, section="output",
    help="Show no value of the data, as the most frequent ones are.",
)  # fmt: skip
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def profile(ctx: click.Context, /, as_json: bool, as_csv: bool, no_values: bool, **parameters: Any) -> None:
    """Look at the databases FILES as `vber merge` with the same options would read them.

    Printed are every database's columns with their types and the reasons for them, missing, distinct and most frequent
    values; which columns are fields, ids or ignored, and why; in which order the dates are read; which columns probably
    mean the same under other names (--map); which fields depend on each other, learned from a sample of the records;
    what a merge would take; and warnings.
    """
    options, _ = merge_options(ctx, parameters)
    if not options.files:
        raise UsageError("no database is given", "name the files, for example: vber profile clinic.csv police.csv")
    if as_json and as_csv:
        raise UsageError("--json and --csv contradict each other", "leave out one of them")
    if sys.stdout is None:
        raise OutputError("standard output is closed", "redirect it to a file")
    from vber_cli.profiling.run import run_profile

    progress = make_progress(sys.stderr, quiet=options.quiet, verbose=options.verbose, log_json=options.log_json)
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    found = run_profile(options, progress, stdin=stdin, show_values=not no_values)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=True))
    elif as_csv:
        click.echo(csv_text(found).encode("utf-8", "surrogateescape"), nl=False)
    else:
        from vber_cli.cli.profile_text import profile_text

        on_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size((PIPED, 24)).columns
        text = profile_text(found, min(max(width, NARROWEST), WIDEST), on_terminal=on_terminal)
        encoding = sys.stdout.encoding or "utf-8"
        click.echo(text.encode(encoding, "backslashreplace"), nl=False)


def csv_text(found: Profile) -> str:
    """Return one row for every column of every database."""
    from vber_cli.profiling.profile import CSV_COLUMNS

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(found.rows())
    return text.getvalue()
