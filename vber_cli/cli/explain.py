"""`vber explain`: why two records are one individual or not, or why an individual is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vber_cli.cli.options import debug_option
from vber_cli.cli.tables import Cell, console, print_json, say, table

if TYPE_CHECKING:
    from rich.console import Console

    from vber_cli.results.explain import Line, PairReport
    from vber_cli.results.explain_individual import IndividualReport

_BAR = 12  # the longest bar, in characters
_LEAST_BITS = 0.05  # below, bits round to nothing
_WIDE = 100  # columns from which bars and notes stand beside the numbers


@click.command(short_help="Show why records are linked or not.")
@click.argument("directory", metavar="DIR")
@click.argument("name", metavar="ID")
@click.argument("other", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def explain(directory: str, name: str, other: str | None, as_json: bool) -> None:
    """Show why two records of the result in DIR are one individual or not, or why an individual is one.

    With two ids of records: every field's values and what they are worth, in bits, from the odds before any
    comparison to the probability in links.parquet. With one id, of an individual or of a record: the individual's
    records, its weakest pairs, and the nearest records of others.

    An id that several databases share is written DATABASE:ID. One bit doubles the odds; evidence against is negative.
    """
    if other is not None:
        from vber_cli.results.explain import explain_pair

        pair = explain_pair(Path(directory), name, other)
        if as_json:
            print_json(pair.to_dict())
        else:
            print_pair(console(), pair)
        return
    from vber_cli.results.explain_individual import explain_individual

    individual = explain_individual(Path(directory), name)
    if as_json:
        print_json(individual.to_dict())
    else:
        print_individual(console(), individual)


def print_pair(out: Console, report: PairReport) -> None:
    """Print the lines of a pair, a bar for each, and the verdict; on a narrow terminal the notes come below."""
    largest = max((abs(line.bits) for line in report.lines), default=1.0) or 1.0
    header = ["", report.a.text, report.b.text, "", "bits", "total", "", ""]
    rows = [_row(line, largest) for line in report.lines]
    if out.width >= _WIDE:
        table(out, header, rows, right=(4, 5))
    else:
        table(out, header[:6], [row[:6] for row in rows], right=(4, 5))
        say(out)
        for line in report.lines:
            if line.note:
                say(out, f"{line.name}: {line.note}", "dim")
    say(out)
    say(out, report.verdict)


def _row(line: Line, largest: float) -> list[Cell]:
    shown = shown_bits(line.bits)
    colour = {"+": "green", "-": "red"}.get(shown[0], "")
    bar = ("+" if line.bits > 0 else "-") * round(abs(line.bits) / largest * _BAR)
    is_field = line.kind == "field"
    return [
        line.name,
        _shown(line.value_a) if is_field else "",
        _shown(line.value_b) if is_field else "",
        line.level,
        (shown, colour),
        shown_bits(line.running_bits),
        (bar, colour),
        (line.note, "dim"),
    ]


def shown_bits(bits: float) -> str:
    """Return bits with their sign; what rounds to nothing has none."""
    return f"{bits:+.1f}" if abs(bits) >= _LEAST_BITS else "0.0"


def _shown(value: str | None) -> str:
    return "." if value is None else value


def print_individual(out: Console, report: IndividualReport) -> None:
    """Print an individual's records and pairs."""
    n = len(report.members)
    say(out, f"individual {report.individual}: {n:,} record{'s' if n != 1 else ''}", "bold")
    say(out)
    rows = [[member.record.text, f"{member.probability:.4f}", *map(_shown, member.values)] for member in report.members]
    table(out, ["record", "probability", *report.fields], rows, right=(1,))
    if report.weakest:
        say(out)
        shown = len(report.weakest)
        say(out, f"its pairs, the weakest first{f' ({shown} of {report.n_pairs:,})' if shown < report.n_pairs else ''}")
        _print_pairs(out, report.weakest)
    say(out)
    if report.outside:
        say(out, "the nearest records of other individuals")
        _print_pairs(out, report.outside)
    else:
        say(out, "no record of another individual comes near")


def _print_pairs(out: Console, pairs: tuple[PairReport, ...]) -> None:
    rows = []
    for pair in pairs:
        fields = [line for line in pair.lines if line.kind == "field"]
        worst = min(fields, key=lambda line: line.bits)
        doubt = f"{worst.name} {worst.level} ({worst.bits:+.1f} bits)" if worst.bits < 0 else "nothing against it"
        rows.append([pair.a.text, pair.b.text, f"{pair.probability:.4f}", shown_bits(pair.pair_bits), doubt])
    table(out, ["record", "record", "probability", "bits alone", "most against it"], rows, right=(2, 3))
