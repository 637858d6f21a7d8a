"""A figure of the report: the picture, what it says and does not say, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vber_cli.report.marks import Chart
from vber_cli.report.wording import cut

MOST_ROWS = 200
_LONGEST = 600  # of any cell, whatever it holds


@dataclass(frozen=True)
class Column:
    """A column's heading, and whether it holds numbers."""

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes
    ----------
    caption
        What it holds.
    columns, rows
        The first cell of a row names it.
    left_out
        Rows that are not shown, for their number.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Figure:
    """A chart with its words and its numbers.

    Attributes
    ----------
    heading
        Above the chart.
    chart
        The picture.
    says, not_says
        One sentence each: what it tells, and what it does not.
    table
        The numbers that the picture is made of.
    """

    heading: str
    chart: Chart
    says: str
    not_says: str
    table: Table


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of its first `MOST_ROWS` rows; a heading that ends with # is one of numbers."""
    heads = tuple(Column(name.removesuffix("#"), name.endswith("#")) for name in columns)
    shown = tuple(tuple(cut(cell, _LONGEST) for cell in row) for row in rows[:MOST_ROWS])
    return Table(caption, heads, shown, max(len(rows) - MOST_ROWS, 0))
