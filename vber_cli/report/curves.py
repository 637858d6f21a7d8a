"""Charts with two axes: the course of the bound, and probabilities against the truth."""

from __future__ import annotations

import numpy as np

from vber_cli.report.facts import wilson
from vber_cli.report.figure import Figure, table
from vber_cli.report.marks import (
    SMALL,
    WIDTH,
    Chart,
    Dot,
    Line,
    Path,
    Scale,
    Text,
    decimals_of,
    polygon,
    polyline,
    ticks,
)
from vber_cli.report.source import Trace
from vber_cli.report.wording import count, decimal, percent, seconds, text_width, things
from vber_cli.results.metrics import Calibration

MOST_POINTS = 200
_KINDS = {"merge": "merges", "reassign": "single moves", "split": "splits", "sweep": "sweeps"}
_CORNERS = {"merge": (4, 0.125), "reassign": (3, 0.0), "split": (4, 0.0)}
_COLOURS = {"merge": "c1", "reassign": "c2", "split": "c3", "sweep": "c4"}


def trace_figure(trace: Trace, converged: bool) -> Figure:
    """The bound after every step of the run."""
    bound = trace.bound
    n = len(bound)
    chart = Chart("trace", "Course of the bound", _course(trace), 250.0)
    low, high = float(bound.min()), float(bound.max())
    marks = ticks(low, high, 5)
    labels = [decimal(value, decimals_of(marks)) for value in marks]
    left = max(text_width(label, SMALL) for label in labels) + 12.0
    x, y = Scale(1.0, float(max(n, 2)), left + 12.0, WIDTH - 12.0), Scale(low, high, 196.0, 16.0)
    for value, label in zip(marks, labels, strict=True):
        chart.add(Line(left, y(value), WIDTH, y(value), "grid"), Text(left - 6.0, y(value) + 4.0, label, "end", "tick"))
    for value in ticks(1.0, float(max(n, 2)), 6):
        if value == int(value):
            chart.add(Text(x(value), 214.0, count(value), "middle", "tick"))
    chart.add(Line(left, 200.0, WIDTH, 200.0))
    chart.add(Text((left + WIDTH) / 2.0, 236.0, "step of the run", "middle", "axis"))
    shown = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)).tolist()
    if n > 1:
        chart.add(Path(polyline([(x(i + 1.0), y(bound[i])) for i in shown]), "c0"))
    for i in shown:
        chart.add(_symbol(trace.kind[i], x(i + 1.0), y(bound[i])))
    kinds = [kind for kind in _KINDS if kind in trace.kind]
    chart.legend = [(f"{_COLOURS[kind]} {kind}", _KINDS[kind]) for kind in kinds]
    state = "it came to rest" if converged else "it was still rising when the run was stopped"
    gained = decimal(high - float(bound[0]), 2)
    return Figure(
        "Course of the bound",
        chart,
        f"The bound measures how well the model explains the data; it rose by {gained} over {things(n, 'step')} and "
        f"never fell, and {state}.",
        "Its height means nothing by itself: it compares runs on the same records and fields only, and a run at rest "
        "may still have missed a better explanation.",
        table(
            "Bound after every step",
            ["step#", "kind", "bound#", "duration#"],
            [
                (count(i + 1), trace.kind[i], decimal(float(bound[i]), 3), seconds(float(trace.seconds[i])))
                for i in range(n)
            ],
        ),
    )


def _course(trace: Trace) -> str:
    first, last = decimal(float(trace.bound[0]), 1), decimal(float(trace.bound[-1]), 1)
    return f"From {first} after the first step to {last} after step {len(trace.bound):,}."


def _symbol(kind: str, x: float, y: float) -> Path | Dot:
    colour = _COLOURS.get(kind, "c4")
    if kind not in _CORNERS:
        return Dot(x, y, 4.0, colour)
    corners, turn = _CORNERS[kind]
    return Path(polygon(x, y, 6.0, corners, turn), colour, filled=True)


def calibration_figure(calibration: Calibration) -> Figure:
    """The share of true pairs among links of about the same probability, with what chance allows."""
    rows = [(row, wilson(row.share_true, row.n)) for row in calibration.bins]
    words = "; ".join(
        f"of {things(row.n, 'pair')} with mean probability {row.mean_probability:.2f}, {percent(row.share_true)} true"
        for row, _ in rows
    )
    chart = Chart("calibration", "Probabilities against the truth", words + ".", 330.0)
    left, right, bottom, top = 92.0, 372.0, 286.0, 12.0
    x, y = Scale(0.0, 1.0, left, right), Scale(0.0, 1.0, bottom, top)
    for i in range(0, 11, 2):
        value = i / 10.0
        chart.add(Line(left, y(value), right, y(value), "grid"), Line(x(value), bottom, x(value), top, "grid"))
        chart.add(Text(left - 8.0, y(value) + 4.0, f"{10 * i}%", "end", "tick"))
        chart.add(Text(x(value), bottom + 17.0, f"{value:.1f}", "middle", "tick"))
    chart.add(Line(left, bottom, right, top, "guide"))
    for row, (low, high) in rows:
        at = x(row.mean_probability)
        chart.add(Line(at, y(low), at, y(high), "whisker"), Dot(at, y(row.share_true), 5.0, "c1"))
    middle = (top + bottom) / 2.0
    chart.add(Text(left - 52.0, middle, "pairs that are true", "middle", "axis", turned=True))
    chart.add(Text((left + right) / 2.0, bottom + 38.0, "probability given", "middle", "axis"))
    unlisted = f", {count(calibration.n_unlisted)} of them true but not listed" if calibration.n_unlisted else ""
    return Figure(
        "Do the probabilities come true?",
        chart,
        f"Dots on the dashed diagonal are probabilities that come true as often as they say; below it the model was "
        f"too sure, above it not sure enough ({things(calibration.n, 'pair')}{unlisted}).",
        "The upright lines show what chance alone allows with so few pairs (90%); a dot off the diagonal whose line "
        "reaches it is no evidence against the model.",
        table(
            f"Calibration; Brier score {calibration.brier:.4f}, expected calibration error "
            f"{calibration.expected_error:.4f}",
            ["probability", "pairs#", "mean probability#", "true#", "true, low#", "true, high#"],
            [
                (
                    f"{row.low:.1f}–{row.high:.1f}",
                    count(row.n),
                    f"{row.mean_probability:.3f}",
                    percent(row.share_true),
                    percent(low),
                    percent(high),
                )
                for row, (low, high) in rows
            ],
        ),
    )
