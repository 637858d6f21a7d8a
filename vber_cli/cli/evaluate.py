"""`vber evaluate`: score a result against known entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vber_cli.cli.options import debug_option
from vber_cli.cli.tables import Cell, console, print_json, say, table
from vber_cli.errors import UsageError
from vber_cli.progress import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from vber_cli.results.evaluate import Evaluation
    from vber_cli.results.metrics import Calibration
    from vber_cli.results.worst import WrongPair

_SCORE_NAMES = {"pairwise": "pairs", "b_cubed": "B-cubed", "cluster": "individuals"}


@click.command(short_help="Score a result against known entities.")
@click.argument("directory", metavar="DIR")
@click.argument("truth", metavar="TRUTH")
@click.option(
    "--whole-individuals",
    is_flag=True,
    help="TRUTH lists every record of the entities it names: links to other records are false.",
)
@click.option(
    "-n", "n_worst", default=5, show_default=True, type=click.IntRange(0), metavar="INT",
    help="Name so many of the worst false and missed links.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every number on a line: measure, value, standard error.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def evaluate(directory: str, truth: str, whole_individuals: bool, n_worst: int, as_json: bool, as_csv: bool) -> None:
    """Score the result in DIR against TRUTH, a table of record ids and the entity each describes.

    The columns record_id and entity are recognised under their usual names, else the first two columns are taken. Ids
    that several databases share need a third column, database.

    Printed are precision, recall and F1 over pairs, averaged over records (B-cubed) and over whole individuals; the
    number of individuals; where the result holds links, how often their probabilities come true (true pairs that are
    not listed count with probability 0); and the worst errors with what led to them.

    TRUTH may cover a sample. Then scores are over the records that it covers, with standard errors as if its entities
    were drawn at random. Errors between covered and other records are seen only with --whole-individuals.
    """
    from vber_cli.results.evaluate import evaluate as score

    if as_json and as_csv:
        raise UsageError("--json and --csv contradict each other", "leave one out")
    result = score(Path(directory), truth, whole=whole_individuals, n_worst=n_worst)
    if as_json:
        print_json(result.to_dict())
        return
    for note in result.notes:
        click.echo(one_line(f"note: {note}"), err=True)
    if as_csv:
        click.echo("measure,value,standard_error")
        for name, value, error in result.measures():
            click.echo(f"{name},{value!r},{'' if error is None else repr(error)}")
        return
    print_evaluation(console(), result)


def print_evaluation(out: Console, result: Evaluation) -> None:
    """Print what `vber evaluate` prints without --json and --csv."""
    metrics, sample = result.metrics, result.sample
    used = ", ".join(f"{meaning.replace('_', ' ')} = {column}" for meaning, column in result.columns.items())
    say(out, f"{metrics.n_records:,} of {result.n_records:,} records covered by the truth ({used})")
    if result.n_not_in_result:
        say(out, f"{result.n_not_in_result:,} records of the truth are not in the result")
    say(out)
    _print_scores(out, result)
    say(out)
    interval = f" (90% interval {result.interval[0]:,.0f} to {result.interval[1]:,.0f})" if result.interval else ""
    say(
        out,
        f"individuals: {metrics.n_found:,} found{interval}, {metrics.n_true:,} true, "
        f"{metrics.correct_clusters:,} in both",
    )
    say(
        out,
        f"pairs:       {metrics.found_pairs:,} found, {metrics.true_pairs:,} true, {metrics.correct_pairs:,} in both",
    )
    if sample is not None and sample.n_individuals is not None and sample.n_individuals_error is not None:
        found = f"{sample.n_individuals:,.0f} ± {sample.n_individuals_error:,.0f}"
        say(out, f"true individuals among all {result.n_records:,} records, estimated from the sample: {found}")
    if result.calibration is not None:
        say(out)
        _print_calibration(out, result.calibration)
    _print_errors(out, "false links", result.worst.n_false, result.worst.false_links, false_link=True)
    _print_errors(out, "missed links", result.worst.n_missed, result.worst.missed_links, false_link=False)


def _print_scores(out: Console, result: Evaluation) -> None:
    errors = {name: error for name, _, error in result.measures()}
    rows: list[list[Cell]] = []
    for name, score in result.scores().items():
        row: list[Cell] = [f"{_SCORE_NAMES[name]:<11}"]
        for part, value in (("precision", score.precision), ("recall", score.recall), ("f1", score.f1)):
            error = errors[f"{name}_{part}"]
            row.append(f"{value:.4f}" + ("" if error is None else f" ± {error:.4f}"))
        rows.append(row)
    table(out, ["", "precision", "recall", "F1"], rows, right=(1, 2, 3))
    if result.sample is not None:
        say(out, f"± one standard error, as if the {result.sample.n_sampled:,} entities were drawn at random")


def _print_calibration(out: Console, calibration: Calibration) -> None:
    say(out, f"links: {calibration.n:,} judged, {calibration.n_unlisted:,} of them true pairs that are not listed")
    say(out, f"Brier score {calibration.brier:.4f}, expected calibration error {calibration.expected_error:.4f}")
    say(out)
    rows: list[list[Cell]] = [
        [f"{row.low:.1f} to {row.high:.1f}", f"{row.n:,}", f"{row.mean_probability:.4f}", f"{row.share_true:.4f}"]
        for row in calibration.bins
    ]
    table(out, ["probability", "pairs", "mean", "true"], rows, right=(1, 2, 3))


def _print_errors(out: Console, what: str, n: int, worst: tuple[WrongPair, ...], *, false_link: bool) -> None:
    if not worst:
        return
    say(out)
    say(out, f"{n:,} {what}, the worst first" if len(worst) < n else f"{n:,} {what}")
    header = ["record", "record", "probability"]
    rows: list[list[Cell]] = [[pair.a, pair.b, _probability(pair)] for pair in worst]
    if any(pair.explanation is not None for pair in worst):
        header.append("mostly because of")
        for row, pair in zip(rows, worst, strict=True):
            row.append(pair.reasons(false_link=false_link))
    table(out, header, rows, right=(2,))


def _probability(pair: WrongPair) -> str:
    return "not listed" if pair.probability is None else f"{pair.probability:.4f}"
