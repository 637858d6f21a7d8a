"""What every command that reads databases does: phases under a budget, opening, mapping and reading."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from vber_cli.config import MergeOptions, SampleOptions
from vber_cli.encode.codebook import Encoded, encode
from vber_cli.encode.fields import FieldMap, map_fields
from vber_cli.errors import BudgetError
from vber_cli.io.tables import Database, open_database, resolve_sources
from vber_cli.memory.arena import Arena, keep_within
from vber_cli.progress import Progress

_MIB, _MIB_PER_ROOT_LEARNED_FROM, _BYTES_PER_CELL = 280.0, 0.9, 125.0
_LEAST_MIB, _LEAST_MIB_PER_ROOT, _LEAST_BYTES_PER_CELL = 290.0, 0.4, 19.0  # of what cannot live on the disk
_HEAPS, _LEAST_HEAPS = -8, 2  # M_ARENA_MAX of malloc.h
MOST_LEARNED_FROM = 100_000  # records that are about as much to learn from as the part of any more


class Run:
    """Timings, warnings and the memory budget of a run."""

    def __init__(self, options: MergeOptions | SampleOptions, progress: Progress) -> None:
        self.progress = progress
        self.timings: dict[str, float] = {}
        self.warnings: list[str] = []
        self.budget = options.max_memory_bytes
        self.arena: Arena | None = None
        self._told_of_moment = False
        share_heaps(options.threads or n_cores())

    @contextlib.contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Any]:
        """Run a phase: shown, timed, and checked against the budget at its end."""
        began = time.perf_counter()
        with self.progress.phase(name, total) as phase:
            yield phase
        give_memory_back()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - began
        self._check_peak(name)

    def _check_peak(self, phase: str) -> None:
        used, budget = peak_memory(), self.budget
        if budget is None or used <= budget:
            return
        limit = f"the {budget / 2**20:,.0f} MiB of --max-memory"
        if self.arena is not None and self.arena.most_outside <= budget:
            if not self._told_of_moment:
                self.warn(
                    f"{phase}: for a moment {used / 2**20:,.0f} MiB were resident, over {limit}, with pages that "
                    "the system could take back, of the program and of the file beside the results"
                )
            self._told_of_moment = True
            return
        no_room = self.arena is not None and self.arena.refused > 0
        raise BudgetError(
            f"{phase} took the memory to {used / 2**20:,.0f} MiB, over {limit}"
            f"{': the disk of the results had no room for the rest' if no_room else ''}",
            f"{'free space, ' if no_room else ''}raise --max-memory, or compare fewer fields with --fields",
        )

    @contextlib.contextmanager
    def within_budget(self, folder: Path) -> Iterator[None]:
        """Let what is too much for the budget live in a file of `folder` meanwhile, where the system can do that."""
        if self.budget is not None:
            self.arena = keep_within(self.budget, folder)
            if self.arena is None and sys.platform.startswith("linux"):
                self.progress.note(
                    "no array can live on the disk here: the folder of the results or the address space is limited"
                )
        try:
            yield
        finally:
            if self.arena is not None:
                self.arena.let_be()

    def check_budget(self, what: str, need: float, least: float, fix: str, *, surely: float = 1.0) -> None:
        """Tell what will be done about the budget, or refuse.

        Parameters
        ----------
        what
            What needs memory, for the message.
        need, least
            Bytes that it takes about, and those that it takes where arrays live on the disk.
        fix
            What to do if that is too much.
        surely
            The share of `need` that is taken for sure: it is a guess.

        Raises
        ------
        BudgetError
            It will take more than the budget.
        """
        if self.budget is None:
            return
        budget = f"{self.budget / 2**20:,.0f} MiB of --max-memory"
        if self.arena is None and surely * need > self.budget:
            raise BudgetError(f"{what} needs about {need / 2**20:,.0f} MiB, over the {budget}", fix)
        if self.arena is not None and least > self.budget:
            raise BudgetError(f"{what} needs at least {least / 2**20:,.0f} MiB, over the {budget}", fix)
        if self.arena is not None and need > self.budget:
            self.progress.note(
                f"{what} needs about {need / 2**20:,.0f} MiB: what is too much for the {budget} lives in a file beside "
                "the results meanwhile"
            )

    def warn(self, message: str) -> None:
        """Warn, and keep the warning for the summary."""
        self.warnings.append(message)
        self.progress.warn(message)


def n_cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_heaps(n: int) -> None:
    """Let threads share so many heaps: what is freed in one of GNU's is not there for threads that use another.

    By itself it makes eight for each core.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_HEAPS, max(n, _LEAST_HEAPS))


def give_memory_back() -> None:
    """Let the system have what was freed; allocators keep it for what may come."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # where the C library is another than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def memory_of_merge(n_records: int, n_fields: int) -> float:
    """Return about how many bytes a merge takes at its peak, the program itself included.

    Fitted to merges of 500 to ten million records: what is learned from is a part of the records where there are many,
    what is written about holds all.
    """
    learned_from = math.sqrt(min(n_records, MOST_LEARNED_FROM))
    return float(2**20 * (_MIB + _MIB_PER_ROOT_LEARNED_FROM * learned_from) + _BYTES_PER_CELL * n_records * n_fields)


def least_memory_of_merge(n_records: int, n_fields: int) -> float:
    """Return about how many bytes a merge takes whose arrays live on the disk, the program itself included.

    Fitted to what merges of 500 to ten million records held outside: text above all, while they read.
    """
    learned_from = math.sqrt(min(n_records, MOST_LEARNED_FROM))
    return float(
        2**20 * (_LEAST_MIB + _LEAST_MIB_PER_ROOT * learned_from) + _LEAST_BYTES_PER_CELL * n_records * n_fields
    )


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes.

    On Linux `ru_maxrss` begins with what the process held that started this one, so /proc is asked first.
    """
    known = high_water("self")
    if known is not None:
        return known
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def high_water(process: int | str) -> int | None:
    """Return the largest resident size of a process so far, in bytes, where /proc tells it."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return 1024 * int(line.split()[1])
    return None


def open_databases(options: MergeOptions | SampleOptions, stdin: BinaryIO | None) -> list[Database]:
    """Open every input, and see whether it is a table."""
    return [
        open_database(source, delimiter=options.delimiter, encoding=options.encoding, stdin=stdin)
        for source in resolve_sources(options.files)
    ]


def map_columns(options: MergeOptions | SampleOptions, databases: Sequence[Database]) -> FieldMap:
    """Decide which column of which database is which field."""
    return map_fields(
        [d.name for d in databases],
        [d.columns for d in databases],
        fields=options.fields,
        exclude=options.exclude,
        maps=options.map,
        ids=options.id,
    )


def read_databases(options: MergeOptions | SampleOptions, run: Run, databases: Sequence[Database]) -> Encoded:
    """Decide which columns are which fields, and read the values as codes.

    Raises
    ------
    VberError
        If a file cannot be read, or the databases have no field in common.
    """
    field_map = map_columns(options, databases)
    for note in [*(n for d in databases for n in d.announcements), *field_map.announcements]:
        run.progress.note(note)
    with run.phase("read") as phase:
        encoded = encode(
            [d.name for d in databases],
            lambda d, columns: databases[d].batches(columns),
            field_map,
            null_tokens=options.null,
            on_progress=phase.advance,
        )
    for note in encoded.announcements:
        run.progress.note(note)
    return encoded
