"""What a chart is drawn with: marks on a canvas of fixed width, and scales. The template turns them into SVG.

Every length is in pixels of the canvas. Colours are names of classes: light, dark and print differ in CSS alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from vber_cli.report.wording import fit, text_width

WIDTH = 400.0
FONT = 13.0
SMALL = 11.5


@dataclass(frozen=True)
class Bar:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str = "c1"
    kind: ClassVar[str] = "bar"


@dataclass(frozen=True)
class Line:
    """A straight line; `style` is axis, grid, link or guide."""

    x1: float
    y1: float
    x2: float
    y2: float
    style: str = "axis"
    kind: ClassVar[str] = "line"


@dataclass(frozen=True)
class Path:
    """A polygon through points, or an open line; `d` is SVG's path language."""

    d: str
    colour: str = "c1"
    filled: bool = False
    kind: ClassVar[str] = "path"


@dataclass(frozen=True)
class Dot:
    """A disc."""

    x: float
    y: float
    radius: float = 5.0
    colour: str = "c1"
    kind: ClassVar[str] = "dot"


@dataclass(frozen=True)
class Text:
    """A line of text; `anchor` is start, middle or end; `turned` reads upwards."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    style: str = ""
    turned: bool = False
    kind: ClassVar[str] = "text"


Mark = Bar | Line | Path | Dot | Text


@dataclass
class Chart:
    """A picture of a table.

    Attributes
    ----------
    name
        Unique on the page; the ids of its title and description begin with it.
    title, description
        What a screen reader says of it: what it is, then what it shows.
    height
        Of the canvas; its width is `WIDTH`.
    legend
        (colour, words) of each colour that needs words.
    """

    name: str
    title: str
    description: str
    height: float
    marks: list[Mark] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)

    @property
    def width(self) -> float:
        """Width of the canvas."""
        return WIDTH

    def add(self, *marks: Mark) -> None:
        """Draw on top of what is there."""
        self.marks.extend(marks)

    def label(self, x: float, y: float, text: str, width: float, anchor: str = "start", style: str = "") -> float:
        """Write a text that is cut to a width; return the width it takes."""
        size = SMALL if style in ("small", "tick") else FONT
        shown = fit(text, width, size)
        self.add(Text(x, y, shown, anchor, style))
        return text_width(shown, size)


@dataclass(frozen=True)
class Scale:
    """A linear map of [low, high] onto [start, end] pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        if self.high == self.low:
            return (self.start + self.end) / 2.0
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers inside [low, high], at most `most`: multiples of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if span / (step * factor) <= most - 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def decimals_of(values: Sequence[float]) -> int:
    """Return how many decimals tell these evenly spaced numbers apart."""
    gaps = [abs(b - a) for a, b in itertools.pairwise(values) if b != a]
    return max(0, min(6, -math.floor(math.log10(min(gaps)) + 1e-9))) if gaps else 0


def polygon(x: float, y: float, radius: float, corners: int, turn: float = 0.0) -> str:
    """Return the path of a regular polygon; the first corner is above the centre, turned by `turn` of a circle."""
    points = []
    for i in range(corners):
        angle = 2.0 * math.pi * (i / corners + turn)
        points.append(f"{x + radius * math.sin(angle):.1f} {y - radius * math.cos(angle):.1f}")
    return f"M{'L'.join(points)}Z"


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return the path of an open line."""
    return f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in points)}"
