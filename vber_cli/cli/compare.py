"""`vber compare`: two results on the same records side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vber_cli.cli.options import debug_option
from vber_cli.cli.tables import Cell, console, print_json, say, table

if TYPE_CHECKING:
    from rich.console import Console

    from vber_cli.results.compare import Comparison, Side


@click.command(short_help="Set two results side by side.")
@click.argument("directory_a", metavar="DIR_A")
@click.argument("directory_b", metavar="DIR_B")
@click.option(
    "-n", "n_moved", default=10, show_default=True, type=click.IntRange(0), metavar="INT",
    help="Name so many of the records whose groups differ.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def compare(directory_a: str, directory_b: str, n_moved: int, as_json: bool) -> None:
    """Set the results in DIR_A and DIR_B, on the same records, side by side.

    Each may come from `vber merge` or `vber sample`. Records are matched by their rows where both were made from the
    same files, else by database and id. Precision and recall judge the pairs of DIR_B by those of DIR_A.
    """
    from vber_cli.results.compare import compare_results

    found = compare_results(Path(directory_a), Path(directory_b), n_moved)
    if as_json:
        print_json(found.to_dict())
    else:
        print_comparison(console(), found)


def print_comparison(out: Console, found: Comparison) -> None:
    """Print what `vber compare` prints without --json."""
    sides = (found.a, found.b)
    rows: list[list[Cell]] = [
        ["records", *(f"{side.n_records:,}" for side in sides)],
        ["individuals in the assignment", *(f"{side.n_individuals:,}" for side in sides)],
        ["n (90% interval)", *(_interval(side.n) for side in sides)],
        ["K (90% interval)", *(_interval(side.K) for side in sides)],
        ["pairs together", f"{found.pairs_a:,}", f"{found.pairs_b:,}"],
        ["pairs in links.parquet", *(_whole(side.n_links) for side in sides)],
        ["bound", *(_decimal(side.bound) for side in sides)],
        ["seconds", *(_decimal(side.seconds) for side in sides)],
    ]
    table(out, ["", *(_title(side, letter) for side, letter in zip(sides, "AB", strict=True))], rows, right=(1, 2))
    say(out)
    say(out, f"{found.n_common:,} records in both, matched by {found.matched_by}")
    score = found.pairwise
    say(
        out,
        f"pairs of B judged by A: precision {score.precision:.4f}, recall {score.recall:.4f}, F1 {score.f1:.4f} "
        f"({found.pairs_both:,} in both)",
    )
    say(out, f"Rand index {found.rand:.6f}, adjusted for chance {found.adjusted_rand:.4f}")
    say(out, f"{found.same_individuals:,} individuals are the same records in both")
    if found.links is not None:
        say(
            out,
            f"link probabilities of {found.links.n_pairs:,} pairs: mean difference {found.links.mean_difference:.4f}, "
            f"largest {found.links.largest_difference:.4f}, {found.links.across_half:,} on different sides of one half",
        )
    say(out)
    say(out, f"{found.n_moved:,} records have other groups in B than in A")
    if found.moved:
        moved: list[list[Cell]] = [
            [item.record, f"{item.size_a:,}", f"{item.size_b:,}", f"{item.shared:,}", f"{item.difference:.2f}"]
            for item in found.moved
        ]
        table(out, ["record", "in A", "in B", "in both", "difference"], moved, right=(1, 2, 3, 4))


def _title(side: Side, letter: str) -> str:
    return f"{letter}: {side.path}"


def _interval(value: dict[str, float | None] | None) -> str:
    if value is None or value["mean"] is None:
        return "."
    low, high = value["low"], value["high"]
    return f"{value['mean']:,.0f}" + (f" ({low:,.0f} to {high:,.0f})" if low is not None and high is not None else "")


def _whole(value: int | None) -> str:
    return "." if value is None else f"{value:,}"


def _decimal(value: float | None) -> str:
    return "." if value is None else f"{value:,.1f}"
