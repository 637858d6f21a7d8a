"""A profile for people: tables and lines that fit the width, with colours on a terminal only."""

from __future__ import annotations

import io
import shlex
import textwrap
from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vber_cli.profiling.profile import ColumnProfile, Cost, DatabaseProfile, Profile
from vber_cli.progress import one_line

_LONGEST_VALUE = 30
_WIDE = 90  # characters, that a table with a column of values needs
_ORDER_WORDS = {"y": "year", "m": "month", "d": "day"}


def profile_text(found: Profile, width: int, *, on_terminal: bool) -> str:
    """Return the profile as text.

    Parameters
    ----------
    found
        The profile.
    width
        No line is longer, in characters.
    on_terminal
        Whether colours are wanted.
    """
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=on_terminal, highlight=False, markup=False, emoji=False,
        color_system="auto" if on_terminal else None,
    )  # fmt: skip
    page = _Page(console, width)
    n = len(found.databases)
    page.paragraph(f"{found.n_records:,} records in {n:,} database{'s' if n != 1 else ''}")
    for database in found.databases:
        _database(page, database)
    _fields(page, found)
    _dates(page, found)
    _suggestions(page, found)
    _dependence(page, found)
    if found.cost is not None:
        page.heading("What a merge would take")
        page.lines(cost_lines(found.cost))
    page.heading(f"Warnings: {len(found.warnings)}" if found.warnings else "No warnings")
    for warning in found.warnings:
        page.line(f"{warning.code}: {warning.message}", "yellow")
        page.line(f"  {warning.fix}")
    return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


class _Page:
    """Writes headings, wrapped lines and tables."""

    def __init__(self, console: Console, width: int) -> None:
        self._console, self._width = console, width
        self.is_wide = width >= _WIDE

    def paragraph(self, text: str) -> None:
        self._console.print(Text("\n".join(textwrap.wrap(one_line(text), self._width))), soft_wrap=True)

    def heading(self, text: str) -> None:
        self._console.print()
        lines = textwrap.wrap(one_line(text), self._width)
        self._console.print(Text("\n".join(lines), style="bold"), soft_wrap=True)

    def line(self, text: str, style: str = "") -> None:
        own = " " * (len(text) - len(text.lstrip()))
        wrapped = textwrap.wrap(
            one_line(text.strip()), self._width, initial_indent=f"  {own}", subsequent_indent=f"    {own}",
            break_on_hyphens=False,
        )  # fmt: skip
        self._console.print(Text("\n".join(wrapped), style=style), soft_wrap=True)

    def lines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.line(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str]) -> None:
        table = Table(box=box.SIMPLE_HEAD if self._console.is_terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
        longest = max(self._width // 3, 20)
        names = [cell_len(one_line(row[0])) for row in rows]
        for c, name in enumerate(header):
            table.add_column(
                name, justify="right" if name in right else "left", overflow="fold",
                no_wrap=name in right, max_width=longest if c == 0 else None,
                min_width=min(longest, max(names, default=1)) if c == 0 else None,
            )  # fmt: skip
        for row in rows:
            table.add_row(*(Text(one_line(cell)) for cell in row))
        self._console.print(Padding(table, (0, 0, 0, 2)))


def _database(page: _Page, one: DatabaseProfile) -> None:
    form = ", ".join(str(one.format[key]) for key in ("kind", "encoding", "compression")
                     if one.format.get(key, "none") != "none")  # fmt: skip
    page.heading(f"{one.name}: {one.records:,} records, {len(one.columns):,} columns ({form})")
    in_table = page.is_wide and any(column.most_frequent for column in one.columns)
    header = ["column", "part", "type", "missing", "distinct", *(["most frequent"] if in_table else [])]
    rows = [
        [
            column.column, column.role, column.type, percent(column.missing_share, column.missing),
            f"{column.distinct:,}", *([_frequent(column)] if in_table else []),
        ]
        for column in one.columns
    ]  # fmt: skip
    page.table(header, rows, frozenset({"missing", "distinct"}))
    parts: dict[tuple[str, str], list[str]] = {}
    for column in one.columns:
        parts.setdefault((column.role, column.role_reason), []).append(_part(column))
    page.lines(f"{role}: {', '.join(columns)} ({reason})" for (role, reason), columns in parts.items())
    page.lines(_reason(column.column, column.type, column.type_reason) for column in one.columns)
    if not in_table:
        filled = [column for column in one.columns if column.most_frequent]
        page.lines(f"{column.column} most frequently: {_frequent(column)}" for column in filled)


def _part(column: ColumnProfile) -> str:
    if column.field in (None, column.column):
        return column.column
    return f"{column.column} as {column.field}"


def _reason(name: str, kind: str, reason: str) -> str:
    return f"{name} is {kind if kind in ('text', 'longtext') else f'a {kind}'}: {reason}"


def _frequent(column: ColumnProfile) -> str:
    shown = []
    for value, count in column.most_frequent[:3]:
        short = value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
        shown.append(f"{short} ({count:,})")
    return ", ".join(shown)


def percent(share: float, count: int) -> str:
    """Return a share in percent, never 0 for some and never 100 for not all."""
    if count == 0:
        return "0 %"
    if share < 0.001:
        return "<0.1 %"
    return ">99.9 %" if 0.999 < share < 1.0 else f"{100 * share:.3g} %"


def _fields(page: _Page, found: Profile) -> None:
    page.heading("Fields, over all databases" if found.fields else "No fields")
    if not found.fields:
        return
    rows = []
    for one in found.fields:
        least = min((pair.overlap for pair in one.shared), default=None)
        rows.append(
            [
                one.field, one.type, percent(one.missing_share, one.missing), f"{one.distinct:,}",
                "" if least is None else f"{100 * least:.0f} %",
            ]
        )  # fmt: skip
    page.table(["field", "type", "missing", "distinct", "shared"], rows, frozenset({"missing", "distinct", "shared"}))
    if any(one.shared for one in found.fields):
        page.line("shared: how alike the values of the two least alike databases are, 100 % as alike as those of one")
    page.lines(_reason(one.field, one.type, one.type_reason) for one in found.fields)


def _dates(page: _Page, found: Profile) -> None:
    lines = []
    for column in found.columns:
        for order in column.date_orders:
            if not any(f"dates like {order.like} " in note for note in column.date_notes):
                words = ", ".join(_ORDER_WORDS[letter] for letter in order.order)
                lines.append(f"{column.database}: {column.column!r}: dates like {order.like} are read as {words}")
        lines += column.date_notes
    if lines:
        page.heading("How dates are read")
        page.lines(lines)


def _suggestions(page: _Page, found: Profile) -> None:
    suggestions = found.suggestions
    if suggestions.maps:
        page.heading("Columns that probably mean the same")
        for one in suggestions.maps:
            page.line(f"--map {shlex.quote(one.option)}", "bold")
            values = (
                "too few values to tell" if one.value_overlap is None else f"values {100 * one.value_overlap:.0f} %"
            )
            page.line(f"  like {one.like}: {values}, names {100 * one.name_likeness:.0f} % alike")


def _dependence(page: _Page, found: Profile) -> None:
    if found.tree is None:
        return
    page.heading(f"Which fields depend on each other (from {found.sampled:,} records)")
    if not found.tree:
        page.line("none that the sample shows")
    page.lines(f"{edge.field} on {edge.parent}: {edge.gain_bits:.2f} bits a pair" for edge in found.tree)


def cost_lines(cost: Cost) -> list[str]:
    """Return what is said of the cost, as rough as it is known."""
    low, high = cost.seconds / cost.factor, cost.seconds * cost.factor
    return [
        f"time: about {_time(cost.seconds)}, mostly between {_time(low)} and {_time(high)}",
        f"memory: about {cost.memory_bytes / 2**20:,.0f} MiB, at least {cost.least_memory_bytes / 2**20:,.0f} MiB "
        "with --max-memory (on Linux)",
        f"candidate pairs: up to about {float(f'{cost.pairs:.2g}'):,.0f}",
        f"by {cost.basis}",
    ]


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
