"""Charts of counts and shares: how many individuals, cluster sizes, noise by level, probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vber_cli.report.figure import Figure, table
from vber_cli.report.marks import FONT, WIDTH, Bar, Chart, Dot, Line, Scale, Text, ticks
from vber_cli.report.source import FloatArray, LongArray
from vber_cli.report.wording import LONGEST_NAME, NOTHING, compact, count, cut, interval, percent, text_width, things

MOST_SIZES = 12
MOST_FIELDS = 24
LEVEL_NAMES = ("identical", "one slip apart", "similar", "different")
_LEVEL_COLOURS = ("l0", "l1", "l2", "l3")


@dataclass(frozen=True)
class Amount:
    """A count with its 90 % interval, if it is an estimate."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None

    def words(self) -> str:
        """Return the count and its interval."""
        between = interval(self.low, self.high)
        return count(self.mean) + (f" ({between})" if between else "")


def amounts_figure(amounts: Sequence[Amount]) -> Figure:
    """Counts on one axis, estimates with their intervals."""
    top = max(max(item.high or 0.0, item.mean) for item in amounts)
    chart = Chart("amounts", "How many individuals", "; ".join(f"{a.name}: {a.words()}" for a in amounts), 0.0)
    scale = Scale(0.0, top or 1.0, 6.0, WIDTH - 12.0)
    y = 4.0
    for i, item in enumerate(amounts):
        words = chart.label(WIDTH, y + FONT, item.words(), 0.75 * WIDTH, "end", "value")
        chart.label(0.0, y + FONT, item.name, WIDTH - words - 10.0)
        middle = y + 29.0
        chart.add(Line(scale(0.0), middle, scale(top), middle, "grid"))
        if item.low is not None and item.high is not None:
            chart.add(Bar(scale(item.low), middle - 4.0, max(scale(item.high) - scale(item.low), 2.0), 8.0, "c2"))
        chart.add(Dot(scale(item.mean), middle, 5.0, "c1" if i else "c4"))
        y += 46.0
    chart.height = _axis(chart, scale, y - 4.0)
    return Figure(
        "How many individuals there are",
        chart,
        "Dots are counts or best estimates; a band around a dot is the range that holds the true number with 90% "
        "probability, if the model is right.",
        "The population is what the databases draw from, recorded or not: it is an extrapolation, and the ranges know "
        "nothing of links that were never compared.",
        table(
            "Counts and 90% intervals",
            ["what", "estimate#", "low#", "high#"],
            [(a.name, count(a.mean), count(a.low), count(a.high)) for a in amounts],
        ),
    )


def _axis(chart: Chart, scale: Scale, y: float) -> float:
    """Draw a horizontal axis of counts at y; return the height of the canvas below it."""
    for value in ticks(scale.low, scale.high, 5):
        anchor = "start" if value == scale.low else "middle"
        chart.add(Line(scale(value), y, scale(value), y + 4.0))
        label = compact(value)
        at = min(scale(value), WIDTH - text_width(label, 11.5) / 2.0) if anchor == "middle" else 0.0
        chart.add(Text(at, y + 17.0, label, anchor, "tick"))
    chart.add(Line(scale(scale.low), y, scale(scale.high), y))
    return y + 24.0


def sizes_figure(sizes: Sequence[tuple[int, int]]) -> Figure:
    """How many records the individuals have; the last bar holds all larger ones."""
    total = sum(number for _, number in sizes)
    alone = sum(number for size, number in sizes if size == 1)
    shown = [(str(size), number) for size, number in sizes]
    if len(shown) > MOST_SIZES:
        first_rest = sizes[MOST_SIZES - 1][0]
        rest = sum(number for _, number in sizes[MOST_SIZES - 1 :])
        shown = [*shown[: MOST_SIZES - 1], (f"≥ {first_rest:,}", rest)]
    words = ", ".join(f"{things(number, 'individual')} with {size}" for size, number in shown)
    chart = _columns("sizes", "Records per individual", words + " records.", shown, "records of one individual")
    largest = sizes[-1][0] if sizes else 0
    return Figure(
        "Records per individual",
        chart,
        f"{count(alone)} of {things(total, 'individual')} ({percent(alone / total if total else None)}) "
        f"{'has' if alone == 1 else 'have'} a single record; the largest has {count(largest)}.",
        "An individual with a single record is not known to be in one database only: its other records may be too "
        "different to be recognised.",
        table(
            "Individuals by number of records", ["records#", "individuals#"], [(count(a), count(b)) for a, b in sizes]
        ),
    )


def _columns(
    name: str,
    title: str,
    description: str,
    bars: Sequence[tuple[str, int]],
    axis: str,
    colours: Sequence[str] = (),
    edges: Sequence[str] = (),
) -> Chart:
    """Upright bars of counts with their numbers above.

    `colours` has one for each bar; `edges` are labels of the places between the bars, one more than bars, instead of
    those of the bars.
    """
    chart = Chart(name, title, description, 230.0)
    base, top = 186.0, 26.0
    step = min(WIDTH / max(len(bars), 1), 72.0)
    if edges:  # room for the first and the last label
        step = min(step, (WIDTH - 24.0) / max(len(bars), 1))
    left = (WIDTH - step * len(bars)) / 2.0
    most = max((number for _, number in bars), default=0) or 1
    for i, (label, number) in enumerate(bars):
        x = left + i * step
        height = (base - top) * number / most
        if number:
            height = max(height, 1.5)
            chart.add(Bar(x + step * 0.1, base - height, step * 0.8, height, colours[i] if colours else "c1"))
        chart.add(Text(x + step / 2.0, base - height - 6.0, compact(number), "middle", "small"))
        if not edges:
            chart.label(x + step / 2.0, base + 16.0, label, step, "middle", "tick")
    for i, label in enumerate(edges):
        chart.label(left + i * step, base + 16.0, label, step, "middle", "tick")
    chart.add(Line(left, base, left + step * len(bars), base))
    chart.add(Text(WIDTH / 2.0, base + 36.0, axis, "middle", "axis"))
    return chart


def levels_figure(fields: Sequence[str], share: FloatArray, missing: FloatArray) -> Figure:
    """How each field compares between records of one individual, as stacked bars.

    Parameters
    ----------
    fields
        (F,) names.
    share, missing
        (F, 4) and (F,) float64 as `facts.level_shares` gives them.
    """
    shown = list(range(min(len(fields), MOST_FIELDS)))
    words = "; ".join(f"{cut(fields[f], LONGEST_NAME)} {percent(_agreement(share[f]))} identical" for f in shown)
    chart = Chart("levels", "How fields compare between records of one individual", words, 8.0 + 38.0 * len(shown))
    chart.legend = list(zip(_LEVEL_COLOURS, LEVEL_NAMES, strict=True))
    for i, f in enumerate(shown):
        y = 4.0 + 38.0 * i
        known = not np.isnan(share[f]).any()
        value = f"{percent(float(share[f, 0]))} identical" if known else "never on both sides"
        chart.add(Text(WIDTH, y + FONT, value, "end", "value"))
        chart.label(0.0, y + FONT, fields[f], WIDTH - 150.0)
        x = 0.0
        for level, colour in enumerate(_LEVEL_COLOURS):
            width = WIDTH * float(share[f, level]) if known else 0.0
            if width > 0.2:
                chart.add(Bar(x, y + 19.0, max(width - 1.0, 0.4), 12.0, colour))
            x += width
        if not known:
            chart.add(Bar(0.0, y + 19.0, WIDTH, 12.0, "none"))
    rest = f" The chart shows the first {MOST_FIELDS} of {len(fields):,} fields." if len(fields) > MOST_FIELDS else ""
    return Figure(
        "Noise of each field, by level",
        chart,
        "Each bar is all pairs of records of one individual, weighted by their probability, where both have a value: "
        f"the more of it is not identical, the noisier the field.{rest}",
        "It shows the links that were found: a field that links never differ in may be clean, or differences in it may "
        "have kept links from being found.",
        table(
            "Share of linked pairs by level of comparison; missing is a share of all linked pairs",
            ["field", *(f"{name}#" for name in LEVEL_NAMES), "missing on either side#"],
            [
                (cut(fields[f], LONGEST_NAME), *(_share(value) for value in share[f]), percent(float(missing[f])))
                for f in range(len(fields))
            ],
        ),
    )


def _agreement(share: FloatArray) -> float | None:
    return None if np.isnan(share[0]) else float(share[0])


def _share(value: float) -> str:
    return NOTHING if np.isnan(value) else percent(float(value))


def probabilities_figure(counts: LongArray, link_min: float | None) -> Figure:
    """How many links have which probability."""
    edges = [i / len(counts) for i in range(len(counts) + 1)]
    bars = [(f"{edges[i]:.1f}–{edges[i + 1]:.1f}", int(number)) for i, number in enumerate(counts)]
    doubtful = [0.1 <= edges[i] < 0.9 - 1e-9 for i in range(len(counts))]
    chart = _columns(
        "probabilities",
        "Probability of the links",
        ", ".join(f"{things(number, 'pair')} at {label}" for label, number in bars) + ".",
        bars,
        "probability that the two records are one individual",
        ["c2" if doubt else "c1" for doubt in doubtful],
        [f"{edge:.1f}" for edge in edges],
    )
    chart.legend = [("c1", "clear"), ("c2", "doubtful, 0.1 to 0.9")]
    n_doubtful = int(counts[doubtful].sum())
    total = int(counts.sum())
    least = f" Pairs below {link_min:g} are not listed at all." if link_min is not None else ""
    return Figure(
        "How sure the links are",
        chart,
        f"Of {things(total, 'listed pair')}, {count(n_doubtful)} lie between 0.1 and 0.9: they are the doubtful ones, "
        f"the others are nearly decided.{least}",
        "A probability says how sure the model is, not whether it is right: what a wrong model is sure of can be "
        "wrong. Compare a sample with the records themselves.",
        table("Pairs by probability", ["probability", "pairs#"], [(label, count(number)) for label, number in bars]),
    )
