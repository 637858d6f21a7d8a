"""Tables and JSON on standard output: as wide as the terminal, plain in a pipe, and free of control characters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vber_cli.progress import one_line

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 10_000  # nothing is folded or cut where a program reads
Cell = str | tuple[str, str]  # a text, or a text and its style


def console() -> Console:
    """Return what prints to standard output: as wide as a terminal and in colours there, plain and whole in a pipe."""
    from rich.console import Console

    class Piped(Console):
        """Leaves it to `app.main`, and not to an exit of its own, what becomes of a reader that has seen enough."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # a terminal without Unicode gets escapes, not an error
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Piped(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def say(out: Console, text: str = "", style: str | None = None) -> None:
    """Print a line of text, folded at the terminal's width."""
    from rich.text import Text

    out.print(Text(one_line(text), style=style or ""))


def table(out: Console, header: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Iterable[int] = ()) -> None:
    """Print a table.

    Parameters
    ----------
    out
        From `console`.
    header
        Names of the columns; all empty for none.
    rows
        Cells; control characters in them are escaped.
    right
        Columns whose cells are aligned to the right and never folded.
    """
    from rich.table import Table
    from rich.text import Text

    numbers = set(right)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(header), header_style="bold")
    for position, name in enumerate(header):
        is_number = position in numbers
        made.add_column(
            Text(one_line(name)), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in rows:
        cells = [(cell, "") if isinstance(cell, str) else cell for cell in row]
        made.add_row(*(Text(one_line(text), style=style) for text, style in cells))
    with out.capture() as caught:
        out.print(made)
    # trailing blanks would fill every line up to the width of the table
    lines = [line.rstrip() for line in caught.get().splitlines()]
    out.file.write("\n".join(lines) + "\n")


def print_json(value: Any) -> None:
    """Print one JSON object, in which every character that is not printable is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    escaped = "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)
    sys.stdout.write(escaped + "\n")
    sys.stdout.flush()


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]
