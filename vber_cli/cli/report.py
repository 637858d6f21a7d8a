"""`vber report`: one HTML file that describes a result."""

from __future__ import annotations

from pathlib import Path

import click

from vber_cli.cli.options import debug_option
from vber_cli.progress import one_line

DEFAULT_NAME = "report.html"


@click.command(short_help="Describe a result in one HTML file.")
@click.argument("directory", metavar="DIR")
@click.option(
    "--truth",
    metavar="FILE",
    help="Known entities, as `vber evaluate` takes them: adds scores, and whether the probabilities come true.",
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="The file to write; - is standard output. An older report is replaced, another file is not.  "
    f"[default: {DEFAULT_NAME} in DIR]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def report(directory: str, truth: str | None, out: str | None, quiet: bool) -> None:
    """Describe the result in DIR in one HTML file that needs no network and runs no scripts.

    It shows what was merged, the number of individuals with its interval, which databases share individuals, the noise
    and the dependence of the fields, the probabilities of the links, and the pairs and individuals that a person should
    look at. Every chart has its numbers in a table below it.
    """
    from vber_cli.io.pagefile import check_page, write_page
    from vber_cli.report.page import GENERATOR, make_report

    path = None if out == "-" else Path(out) if out else Path(directory) / DEFAULT_NAME
    if path is not None and (out or Path(directory).is_dir()):  # a directory that is no result is told by its reader
        check_page(path, GENERATOR)
    page, notes = make_report(Path(directory), truth)
    for note in () if quiet else notes:
        click.echo(one_line(f"note: {note}"), err=True)
    if path is None:
        click.echo(page.encode(), nl=False)
        return
    write_page(path, page, GENERATOR)
    if not quiet:
        click.echo(one_line(f"report in {path} ({len(page.encode()) / 1e3:,.0f} kB)"), err=True)
