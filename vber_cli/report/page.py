"""The report as one HTML page: every part of it as text and figures, then the template.

The page loads nothing and runs nothing. Whatever comes from the data is escaped by the template engine; characters that
a page must not hold are replaced before that, in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from vber_cli.config.checks import parse_loss
from vber_cli.provenance import version
from vber_cli.report import facts
from vber_cli.report.bars import Amount, amounts_figure, levels_figure, probabilities_figure, sizes_figure
from vber_cli.report.curves import calibration_figure, trace_figure
from vber_cli.report.diagrams import dependence_figure, overlap_figure
from vber_cli.report.figure import Figure, Table, table
from vber_cli.report.learned import Heat, fields_table, noise_table, parents_of, relations_sentence, relations_table
from vber_cli.report.review import MOST_INDIVIDUALS, SURE, Review, make_review
from vber_cli.report.source import Result, read_result
from vber_cli.report.wording import (
    LONGEST_NAME,
    count,
    cut,
    decimal,
    interval,
    join_names,
    percent,
    printable,
    seconds,
    size,
    things,
)
from vber_cli.results.evaluate import Evaluation, evaluate

GENERATOR = "vber report"
_SCORES = {"pairwise": "pairs of records", "b_cubed": "B-cubed, averaged over records", "cluster": "whole individuals"}


@dataclass(frozen=True)
class Tile:
    """A figure of the overview: its name, its value, and what belongs to it."""

    name: str
    value: str
    detail: str


@dataclass(frozen=True)
class Page:
    """Everything the template shows; a None is a part that this result has not."""

    title: str
    lead: str
    generator: str
    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]
    databases: Table
    amounts: Figure
    overlap: Figure | None
    sizes: Figure
    fields: Table
    levels: Figure | None
    noise: Heat | None
    dependence: Figure | None
    relations: Table | None
    relations_words: str
    probabilities: Figure | None
    doubt: str
    scores: Table | None
    truth: str
    calibration: Figure | None
    review: Review
    trace: Figure | None
    timings: Table
    run: Table


def make_report(directory: Path, truth: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Describe a result as an HTML page.

    Parameters
    ----------
    directory
        Where `vber merge` wrote.
    truth
        A table of record ids and entities, as `vber evaluate` takes it.

    Returns
    -------
    html
        The page.
    notes
        What the user should know about the truth.

    Raises
    ------
    InputError
        If the directory is no result, or the truth cannot be used.
    """
    result = read_result(directory)
    evaluation = None if truth is None else evaluate(directory, truth)
    return render(make_page(result, evaluation)), () if evaluation is None else evaluation.notes


def render(page: Page) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=PackageLoader("vber_cli.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(page=page)


def _clean(value: Any) -> Any:
    """Let nothing through that is no text of a page; what a macro made is markup already."""
    return printable(value) if type(value) is str else value


def make_page(result: Result, evaluation: Evaluation | None) -> Page:
    """Collect the parts of a report."""
    members = facts.members_of(result.records)
    n_found = len(members.individual)
    overlap = facts.overlap(result.records, members, len(result.databases))
    links = result.links
    decided = None
    if links is not None:
        decided = facts.decisions(
            result.records, links, parse_loss(str(result.mapping("options").get("loss", "fp=1,fn=1")))
        )
    hard = facts.hardest(result.records, members, MOST_INDIVIDUALS, SURE)
    parents = parents_of(result)
    has_links = links is not None and len(links.probability) > 0
    return Page(
        title=f"Merge of {join_names(result.databases)}",
        lead=_lead(result, n_found),
        generator=f"{GENERATOR} {version()}",
        tiles=_tiles(result, n_found),
        warnings=_warnings(result),
        databases=_databases(result),
        amounts=amounts_figure(_amounts(result, evaluation, n_found)),
        overlap=overlap_figure(result.databases, overlap) if len(result.databases) > 1 else None,
        sizes=sizes_figure(facts.size_counts(members)),
        fields=fields_table(result),
        levels=levels_figure(result.fields, *facts.level_shares(links)) if links is not None and has_links else None,
        noise=noise_table(result),
        dependence=dependence_figure(result.fields, parents) if parents else None,
        relations=relations_table(result),
        relations_words=relations_sentence(result),
        probabilities=probabilities_figure(facts.histogram(links.probability), result.number("options", "link_min"))
        if links is not None and has_links
        else None,
        doubt="" if decided is None else _doubt(decided),
        scores=None if evaluation is None else _scores(evaluation),
        truth="" if evaluation is None else _truth(evaluation),
        calibration=None
        if evaluation is None or evaluation.calibration is None or not evaluation.calibration.n
        else calibration_figure(evaluation.calibration),
        review=make_review(result, members, hard, decided),
        trace=trace_figure(result.trace, _converged(result)) if len(result.trace.bound) else None,
        timings=_timings(result),
        run=_run(result),
    )


def _converged(result: Result) -> bool:
    return result.mapping("bound").get("converged") is True


def _lead(result: Result, n_found: int) -> str:
    records = things(len(result.records.row), "record")
    databases = things(len(result.databases), "database")
    mean = result.number("n", "mean")
    between = interval(result.number("n", "low"), result.number("n", "high"))
    found = things(n_found if mean is None else mean, "individual")
    sure = f" (with 90% probability {between})" if between else ""
    return f"{records} in {databases} describe about {found}{sure}."


def _tiles(result: Result, n_found: int) -> tuple[Tile, ...]:
    def between(key: str) -> str:
        found = interval(result.number(key, "low"), result.number(key, "high"))
        return f"90% interval {found}" if found else "given by --K" if fixed and key == "K" else "without an interval"

    fixed = result.number("options", "K") is not None
    candidates = [result.number("candidates", key) for key in ("recall", "recall_low", "recall_high")]
    expected = result.number("expected", "f1")
    precision, recall = (percent(result.number("expected", key)) for key in ("precision", "recall"))
    tiles = [
        Tile("Records", count(len(result.records.row)), f"in {things(len(result.databases), 'database')}"),
        Tile("Individuals (n)", count(result.number("n", "mean")), between("n")),
        Tile("Population (K)", count(result.number("K", "mean")), between("K")),
        Tile("Assigned individuals", count(n_found), "in the merged database"),
    ]
    if result.links is not None:
        tiles.append(Tile("Links", count(len(result.links.probability)), "pairs that may be one individual"))
    if expected is not None:
        tiles.append(Tile("Expected F1", percent(expected), f"precision {precision}, recall {recall}, without labels"))
    if candidates[0] is not None:
        limits = f"90% interval {percent(candidates[1])} to {percent(candidates[2])}"
        tiles.append(Tile("Search recall", percent(candidates[0]), f"of the link mass was looked at; {limits}"))
    rest = "came to rest" if _converged(result) else "stopped early"
    tiles.append(Tile("Run", rest, f"after {things(result.number('bound', 'sweeps') or 0, 'sweep')}"))
    return tuple(tiles)


def _warnings(result: Result) -> tuple[str, ...]:
    told = result.summary.get("warnings")
    warnings = [cut(str(text), 600) for text in told[:50]] if isinstance(told, list) else []
    if not _converged(result):
        warnings.append("The run was stopped before it came to rest; all figures may still change (--max-sweeps).")
    return tuple(warnings)


def _databases(result: Result) -> Table:
    rows = []
    for item in result.items("inputs"):
        details = item.get("format")
        form = str(details.get("kind", "")) if isinstance(details, Mapping) else ""
        key = item.get("id_column")
        rows.append(
            (
                cut(str(item.get("name")), LONGEST_NAME),
                count(_number(item.get("n_records"))),
                "row number" if key is None else cut(str(key), LONGEST_NAME),
                form,
                size(_number(item.get("bytes"))),
                cut(str(item.get("sha256")), 12).split("…")[0],
            )
        )
    return table("Databases", ["database", "records#", "record id", "format", "size#", "SHA-256 begins"], rows)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _amounts(result: Result, evaluation: Evaluation | None, n_found: int) -> list[Amount]:
    def amount(name: str, key: str, other: float) -> Amount:
        low, mean, high = (result.number(key, part) for part in ("low", "mean", "high"))
        return Amount(name, other if mean is None else mean, low, high)

    amounts = [
        Amount("Records", float(len(result.records.row))),
        amount("Individuals recorded (n)", "n", float(n_found)),
        amount("Population (K)", "K", float(n_found)),
    ]
    if evaluation is not None and evaluation.metrics.n_records == evaluation.n_records:
        amounts.append(Amount("Individuals in the truth", float(evaluation.metrics.n_true)))
    return amounts


def _doubt(decided: facts.Decisions) -> str:
    wrong = float(decided.loss.sum())
    together = int(decided.together.sum())
    return (
        f"Of {things(len(decided.loss), 'listed pair')}, {count(together)} are put together. If the probabilities are "
        f"right, the decisions on all of them have an expected loss of {decimal(wrong, 1)}: a wrong pair or a missed "
        "pair counts as much as the option --loss said, 1 by default."
    )


def _scores(evaluation: Evaluation) -> Table:
    rows = [
        (_SCORES[name], percent(score.precision), percent(score.recall), percent(score.f1))
        for name, score in evaluation.scores().items()
    ]
    return table("Agreement with the truth", ["counted over", "precision#", "recall#", "F1#"], rows)


def _truth(evaluation: Evaluation) -> str:
    metrics = evaluation.metrics
    return (
        f"The truth covers {count(metrics.n_records)} of {things(evaluation.n_records, 'record')}. There, "
        f"{things(metrics.found_pairs, 'pair')} were found and {count(metrics.true_pairs)} are true, "
        f"{count(metrics.correct_pairs)} of them both; {things(metrics.n_found, 'individual')} were found and "
        f"{count(metrics.n_true)} are true, {count(metrics.correct_clusters)} of them with exactly the same records."
    )


def _timings(result: Result) -> Table:
    rows = [
        (cut(str(phase), LONGEST_NAME), seconds(_number(value))) for phase, value in result.mapping("seconds").items()
    ]
    rows.append(("largest memory", size(result.number("peak_memory_bytes"))))
    return table("Time and memory", ["phase", "used#"], rows)


def _run(result: Result) -> Table:
    rows = [(f"version of {name}", str(value)) for name, value in result.mapping("versions").items()]
    rows.append(("digest of the options", str(result.summary.get("config_digest", ""))))
    for key, value in result.mapping("options").items():
        if value in (None, [], False):
            continue
        words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        rows.append((f"--{key.replace('_', '-')}", cut(words, 400)))
    return table("Versions and options that were set or have a default", ["what", "value"], rows)
