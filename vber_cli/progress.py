"""How a run tells what it is doing: a bar on a terminal, lines, lines of JSON, or nothing.

Everything goes to one stream (standard error); a stream that is closed midway never stops the run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.progress import TaskID

REPORT_EVERY_SECONDS = 5.0


class Phase(Protocol):
    """A phase of the run that is going on."""

    def advance(self, n: int = 1) -> None:
        """Say that `n` more units of the phase are done."""


class Progress(Protocol):
    """What the pipeline knows of progress."""

    def phase(self, name: str, total: int | None = None) -> AbstractContextManager[Phase]:
        """Begin a phase of `total` units (None when their number is not known); it ends with the context."""

    def note(self, message: str) -> None:
        """Announce a choice that was made for the user."""

    def warn(self, message: str) -> None:
        """Announce something the user should look into."""


LONGEST = 1000  # characters of a message or of a cell; more is no reading matter


def one_line(text: str) -> str:
    """Return the text on one line, with every control character escaped and the middle of a very long one left out."""
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class _Counter:
    """Units done and seconds passed in a phase."""

    def __init__(self, name: str, total: int | None) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self.began = time.perf_counter()

    def advance(self, n: int = 1) -> None:
        self.done += n

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


class SilentProgress:
    """Says nothing at all."""

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Phase]:
        """Run the phase silently."""
        yield _Counter(name, total)

    def note(self, message: str) -> None:
        """Do nothing."""

    def warn(self, message: str) -> None:
        """Do nothing."""


class LineProgress:
    """Notes and warnings as lines; with `phases` a line for every phase when it ends, too."""

    def __init__(self, stream: TextIO, *, phases: bool) -> None:
        self._stream = stream
        self._phases = phases

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(one_line(line) + "\n")
            self._stream.flush()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Phase]:
        """Run the phase and, if asked to, print its name, its units and its seconds at the end."""
        counter = _Counter(name, total)
        yield counter
        if self._phases:
            self._write(_phase_line(counter))

    def note(self, message: str) -> None:
        """Print the message."""
        self._write(f"note: {message}")

    def warn(self, message: str) -> None:
        """Print the message."""
        self._write(f"warning: {message}")


def _phase_line(counter: _Counter) -> str:
    units = f" {counter.done:,}" if counter.done else ""
    return f"{counter.name}:{units} ({counter.seconds:.2f} s)"


class _JsonPhase(_Counter):
    def __init__(self, owner: JsonProgress, name: str, total: int | None) -> None:
        super().__init__(name, total)
        self._owner = owner
        self._reported = self.began

    def advance(self, n: int = 1) -> None:
        super().advance(n)
        now = time.perf_counter()
        if now - self._reported >= REPORT_EVERY_SECONDS:
            self._reported = now
            self._owner.event("progress", phase=self.name, done=self.done, total=self.total)


class JsonProgress:
    """One JSON object per line: its time, its event (start, progress, end, note, warning, error), and the details."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def event(self, event: str, **details: object) -> None:
        """Print one event with its details."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with suppress(OSError, ValueError):
            self._stream.write(json.dumps({"time": now, "event": event, **details}) + "\n")
            self._stream.flush()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Phase]:
        """Run the phase between a start and an end event; a phase that fails has no end event."""
        self.event("start", phase=name, total=total)
        counter = _JsonPhase(self, name, total)
        yield counter
        self.event("end", phase=name, done=counter.done, seconds=round(counter.seconds, 3))

    def note(self, message: str) -> None:
        """Print a note event."""
        self.event("note", message=message)

    def warn(self, message: str) -> None:
        """Print a warning event."""
        self.event("warning", message=message)


class _RichPhase(_Counter):
    def __init__(self, name: str, total: int | None, bar: RichBar, task: TaskID) -> None:
        super().__init__(name, total)
        self._bar = bar
        self._task = task

    def advance(self, n: int = 1) -> None:
        super().advance(n)
        self._bar.advance(self._task, n)


class RichProgress:
    """A bar with phase, rate and remaining time, which vanishes when the phase ends.

    Parameters
    ----------
    stream
        A terminal.
    phases
        Whether a line stays for every phase that has ended.
    """

    def __init__(self, stream: TextIO, *, phases: bool) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._phases = phases

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Phase]:
        """Show the bar while the phase runs; its remaining time is shown only where the total is known."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichBar

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        columns += [TextColumn("{task.completed:,}")] if total is None else [BarColumn(), MofNCompleteColumn()]
        columns.append(TimeElapsedColumn())
        if total is not None:
            columns += [TextColumn("left"), TimeRemainingColumn()]
        bar = RichBar(*columns, console=self._console, transient=True)
        with bar:
            phase = _RichPhase(name, total, bar, bar.add_task(one_line(name), total=total))
            yield phase
        if self._phases:
            self._print(_phase_line(phase))

    def _print(self, line: str, style: str | None = None) -> None:
        with suppress(OSError, ValueError):
            self._console.print(one_line(line), style=style, markup=False)

    def note(self, message: str) -> None:
        """Print the message above the bar."""
        self._print(f"note: {message}", "dim")

    def warn(self, message: str) -> None:
        """Print the message above the bar."""
        self._print(f"warning: {message}", "yellow")


def make_progress(
    stream: TextIO | None, *, quiet: bool = False, verbose: bool = False, log_json: bool = False
) -> Progress:
    """Return the way of telling progress that fits the stream and the options.

    Parameters
    ----------
    stream
        Where to write; None (closed) is silent.
    quiet
        Say nothing.
    verbose
        A line for every phase, on a terminal as well.
    log_json
        Lines of JSON whatever the stream is.
    """
    if quiet or stream is None:
        return SilentProgress()
    if log_json:
        return JsonProgress(stream)
    if stream.isatty():
        return RichProgress(stream, phases=verbose)
    return LineProgress(stream, phases=verbose)
