"""`vber evaluate`: score a result against known entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vber_cli.cli.options import debug_option

if TYPE_CHECKING:
    from vber_cli.results.evaluate import Evaluation
    from vber_cli.results.metrics import Calibration

_SCORE_NAMES = {"pairwise": "pairs", "b_cubed": "B-cubed", "cluster": "individuals"}


@click.command(short_help="Score a result against known entities.")
@click.argument("directory", metavar="DIR")
@click.argument("truth", metavar="TRUTH")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def evaluate(directory: str, truth: str, as_json: bool) -> None:
    """Score the result in DIR against TRUTH, a table of record ids and the entity each describes.

    The columns record_id and entity are recognised under their usual names, else the first two columns are taken. Ids
    that several databases share need a third column, database. TRUTH may cover a sample of the records.

    Printed are precision, recall and F1 over pairs, averaged over records (B-cubed) and over whole individuals; the
    number of individuals; and, where the result holds links, how often their probabilities come true. There, true
    pairs that are not listed count with probability 0.
    """
    from vber_cli.results.evaluate import evaluate as score

    result = score(Path(directory), truth)
    if as_json:
        import json

        click.echo(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
        return
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    click.echo("\n".join(evaluation_lines(result)))


def evaluation_lines(result: Evaluation) -> list[str]:
    """Return what is printed without --json."""
    metrics = result.metrics
    used = ", ".join(f"{meaning.replace('_', ' ')} = {column}" for meaning, column in result.columns.items())
    lines = [f"{metrics.n_records:,} of {result.n_records:,} records covered by the truth ({used})"]
    if result.n_not_in_result:
        lines.append(f"{result.n_not_in_result:,} records of the truth are not in the result")
    lines += ["", f"{'':<12}{'precision':>10}{'recall':>10}{'F1':>10}"]
    for name, score in result.scores().items():
        lines.append(f"{_SCORE_NAMES[name]:<12}{score.precision:>10.4f}{score.recall:>10.4f}{score.f1:>10.4f}")
    interval = f" (90% interval {result.interval[0]:,.0f} to {result.interval[1]:,.0f})" if result.interval else ""
    found = f"{metrics.n_found:,} found{interval}"
    lines += [
        "",
        f"individuals: {found}, {metrics.n_true:,} true, {metrics.correct_clusters:,} in both",
        f"pairs:       {metrics.found_pairs:,} found, {metrics.true_pairs:,} true, {metrics.correct_pairs:,} in both",
    ]
    if result.calibration is not None:
        lines += ["", *calibration_lines(result.calibration)]
    return lines


def calibration_lines(calibration: Calibration) -> list[str]:
    """Return the calibration table."""
    lines = [
        f"links: {calibration.n:,} judged, {calibration.n_unlisted:,} of them true pairs that are not listed",
        f"Brier score {calibration.brier:.4f}, expected calibration error {calibration.expected_error:.4f}",
        "",
        f"{'probability':<12}{'pairs':>10}{'mean':>10}{'true':>10}",
    ]
    for row in calibration.bins:
        label = f"{row.low:.1f} to {row.high:.1f}"
        lines.append(f"{label:<12}{row.n:>10,}{row.mean_probability:>10.4f}{row.share_true:>10.4f}")
    return lines
