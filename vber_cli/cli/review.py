"""`vber review`: the pairs most worth a person's decision, as a CSV file to fill in."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

import click

from vber_cli.cli.options import debug_option
from vber_cli.errors import OutputError
from vber_cli.progress import one_line


@click.command(short_help="Write the pairs most worth deciding by hand.")
@click.argument("directory", metavar="DIR")
@click.option("-o", "--out", required=True, metavar="FILE.csv", help="The CSV file to write; - is standard output.")
@click.option(
    "-n",
    "n_pairs",
    default=100,
    show_default=True,
    type=click.IntRange(1),
    metavar="INT",
    help="At most so many pairs.",
)
@click.option("--force", is_flag=True, help="Replace the file, and with it the decisions in it.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def review(directory: str, out: str, n_pairs: int, force: bool, quiet: bool) -> None:
    """Write the pairs of the result in DIR that are most worth deciding by hand, both records side by side.

    A pair is worth the expected loss that knowing the answer takes away: most where its probability is near one half
    and many other pairs hang on it. Fill in the last column, decision, with yes or no; blank leaves a pair open.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    from vber_cli.results.review import review as choose

    if out != "-" and os.path.lexists(out) and not force:
        raise OutputError(f"{out}: exists already", "name another file with --out, or replace it with --force")
    found = choose(Path(directory), n_pairs)
    _write(out, found.csv())
    if not quiet:
        n, worth = len(found.table), float(found.value.sum())
        where = "" if out == "-" else f" in {out}"
        text = f"{n:,} of {found.n_links:,} pairs{where}; deciding them takes about {worth:,.1f} wrong pairs away"
        click.echo(one_line(text), err=True)


def _write(out: str, data: bytes) -> None:
    """Write a file beside its place and rename it, so that a half-written one is never seen."""
    if out == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(out)
    if not path.name:
        raise OutputError(f"{out!r} is no file to write", "name a file with --out")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        raise OutputError(f"{out}: cannot be written ({reason})", "name another file with --out") from error
