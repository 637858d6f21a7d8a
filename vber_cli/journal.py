"""The steps of a merge on disk, so that a run that was stopped or killed is continued to the same bits.

A checkpoint is a directory with one file for each step that is done and not part of a greater one that is done, and
one for the loop under way. Steps that take no time cost nothing: files are written when the work that they would save
is worth it, and when the run is stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from vber_cli.candidates.audit import Certificate
from vber_cli.candidates.join import Pairs
from vber_cli.candidates.plan import Key, Plan
from vber_cli.config.option import Option
from vber_cli.encode.comparison import Comparison
from vber_cli.encode.dates import DateReading
from vber_cli.encode.types import FieldType
from vber_cli.engine.block_model import Evidence
from vber_cli.engine.candidate_pairs import CandidatePairs
from vber_cli.engine.cavi import FieldCounts, Fit, Linkage
from vber_cli.engine.checkpoints import Checkpoints
from vber_cli.engine.infer import Learned
from vber_cli.engine.learn import Hyperparameters
from vber_cli.engine.link_posterior import DrawSums, Interval, LinkPosterior
from vber_cli.engine.optimise import Step
from vber_cli.engine.posterior import Expectation
from vber_cli.errors import InputError, OutputError, Stopped, TimeLimitError, UsageError
from vber_cli.io.checkpoint import load_checkpoint, save_checkpoint
from vber_cli.io.pack import Packer
from vber_cli.model.constraints import Constraints
from vber_cli.model.dependence import Dependence
from vber_cli.model.missed import MissedLinks
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues, Swaps
from vber_cli.model.types import Records
from vber_cli.progress import Progress
from vber_cli.resuming import check_same

CLASSES = (
    CandidatePairs, Certificate, Comparison, Constraints, DateReading, Dependence, DrawSums, Evidence, Expectation,
    FieldCounts, FieldType, Fit, Hyperparameters, Interval, Key, Learned, Linkage, LinkPosterior, MissedLinks, Noise,
    Pairs, Plan, Prior, Records, Relations, SimilarValues, Step, Swaps,
)  # fmt: skip
_LEAST_WORK = 2.0  # seconds that are worth a file
_SHARE = 0.05  # of the time at most goes into files
_RUN, _LOOP = "run", "loop"
_OWN_FILE = re.compile(r"\.?(run|[0-9]+(\.[0-9]+)*(\.loop)?|loop)\.npz(\.[0-9a-f]{8})?")
T = TypeVar("T")


class _Entry(NamedTuple):
    """A step or the state of a loop, what it added to the trace, and what is shared by then."""

    name: str
    value: object
    trace: list[tuple[Step, float]]
    shared: Mapping[str, object]


def _as_seen_from_here(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


class _TimeIsUp(Exception):  # noqa: N818 - a signal within this module
    """Unwinds to the journal."""


class Journal(Checkpoints):
    """The checkpoint of one run: `with Journal(...) as journal: journal.begin(...); ...; journal.remove()`.

    Leaving the block with an error keeps what was done, but for errors that would come again.

    Parameters
    ----------
    path
        The directory of the checkpoint; None keeps nothing.
    progress
        Hears of what is found, and of files that cannot be written.
    resume
        Whether to go on from what is there.
    max_seconds
        How long the run may take, None without a limit.

    Attributes
    ----------
    trace
        The steps of the optimisation and their seconds; what a step of an earlier run added is added again.
    earlier
        Seconds that the runs before this one took.
    cut
        Whether something ended early because the time was up.
    """

    def __init__(self, path: Path | None, progress: Progress, *, resume: bool, max_seconds: float | None) -> None:
        self.trace: list[tuple[Step, float]] = []
        self._must_finish = self.cut = False
        self.earlier = 0.0
        self._path, self._progress, self._resume = path, progress, resume
        self._shown = "" if path is None else _as_seen_from_here(path)
        self._began = self._saved = time.perf_counter()
        self._deadline = None if max_seconds is None else self._began + max_seconds
        self._limit = max_seconds
        self._cost = 0.0
        self._packer = Packer(CLASSES)
        self._shared: Mapping[str, object] = {}
        self._pending: dict[str, _Entry] = {}
        self._files: set[str] = set()  # of this checkpoint, by key
        self._facts: dict[str, Any] = {}
        self._warned = False
        self._place, self._counts, self._marks = [""], [0], [0]  # of the steps under way, the run itself first

    # opening and leaving

    def begin(self, identity: Mapping[str, Any], table: Mapping[str, Option]) -> None:
        """Find an earlier run's steps.

        Parameters
        ----------
        identity, table
            What this run is, as `resuming.identity_of` says; and the options.

        Raises
        ------
        UsageError
            The checkpoint is of another run.
        InputError
            It cannot be read.
        """
        self._facts = {"run": secrets.token_hex(8), "identity": dict(identity)}
        if self._path is None:
            return
        known = self._path / f"{_RUN}.npz"
        if not known.exists():
            if self._resume:
                self._progress.note(f"there is no checkpoint {self._shown}: beginning")
            return
        if not self._resume:
            self._progress.note(
                f"{self._shown} is left of a run that did not end, and will be replaced (--resume goes on from it)"
            )
            return
        _, facts = load_checkpoint(known)
        check_same(self._shown, facts.get("identity", {}), identity, table)
        self._facts, self.earlier = facts, float(facts.get("seconds", 0.0))
        names = [name for name in os.listdir(self._path) if _OWN_FILE.fullmatch(name)]
        self._files = {name.removesuffix(".npz") for name in names if name.endswith(".npz")} - {_RUN}
        for name in names:
            if not name.endswith(".npz"):  # half written when the run died
                (self._path / name).unlink(missing_ok=True)
        self._progress.note(f"going on from {self._shown}, after {self.earlier:,.0f} s of work")

    def share(self, **objects: object) -> None:
        """Name objects that this run makes anew, so that the steps from now on refer to them."""
        self._shared = {**self._shared, **objects}

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (UsageError, InputError)):
            return
        kept = self.keep()
        stopped = Stopped.behind(error)
        if stopped is not None:
            stopped.kept = kept
            raise stopped from None
        if isinstance(error, _TimeIsUp):
            raise TimeLimitError(
                f"the {self._limit:,.0f} s of --max-time are up, and there is no result yet"
                + (f"; what was done is in {kept}" if kept else ""),
                "give the same command with --resume to go on" if kept else "give it more time",
            ) from None
        if kept:
            self._progress.note(f"what was done so far is in {kept}; --resume goes on from there")

    def keep(self) -> str | None:
        """Write whatever is not written yet; returns the name of the checkpoint, if there is one."""
        if self._path is None:
            return None
        try:
            self.save()
        except OutputError as error:
            self._progress.warn(f"the checkpoint could not be written: {error.what}")
        return self._shown if self._files else None

    # what the engine says

    def step(self, name: str, make: Callable[[], T]) -> T:
        """Return what the step made in the earlier run, or make and note it."""
        self._counts[-1] += 1
        key = f"{self._place[-1]}.{self._counts[-1]}".removeprefix(".")
        if key in self._files:
            entry = self._load(key, name)
            self.trace.extend(entry.trace)
            return entry.value  # type: ignore[return-value]
        self._check_time()
        mark = len(self.trace)
        self._place.append(key)
        self._counts.append(0)
        self._marks.append(mark)
        try:
            value = make()
        finally:
            for stack in (self._place, self._counts, self._marks):
                stack.pop()
        if not self.cut:
            self._note(key, _Entry(name, value, self.trace[mark:], self._shared))
        return value

    def begun(self, start: T) -> tuple[int, T]:
        """Return the last state of the loop in the earlier run, or the start."""
        key = self._loop_key()
        if key not in self._files:
            return 0, start
        entry = self._load(key, _LOOP)
        self.trace[self._marks[-1] :] = entry.trace
        return entry.value  # type: ignore[return-value]

    def round_done(self, number: int, state: object) -> None:
        """Note the state of the loop."""
        if not self.cut:
            trace = self.trace[self._marks[-1] :]
            self._note(self._loop_key(), _Entry(_LOOP, (number, state), trace, self._shared))
        self._check_time()

    def finish(self) -> None:
        """Say that a result is near: if there is time left now, its end will cut the rest short, and end nothing."""
        self._check_time()
        self._must_finish = True

    def time_is_up(self) -> bool:
        """Whether the time is up; what is made from now on is no longer what the run would find."""
        self.cut = self.cut or self._late()
        return self.cut

    def _late(self) -> bool:
        return self._deadline is not None and time.perf_counter() > self._deadline

    def _check_time(self) -> None:
        if not self._must_finish and self._late():
            raise _TimeIsUp

    def _loop_key(self) -> str:
        return f"{self._place[-1]}.{_LOOP}".removeprefix(".")

    # files

    def _note(self, key: str, entry: _Entry) -> None:
        self._pending = {other: kept for other, kept in self._pending.items() if not other.startswith(f"{key}.")}
        self._pending[key] = entry
        if self._path is None:
            self._pending.clear()
        elif time.perf_counter() - self._saved >= max(_LEAST_WORK, self._cost / _SHARE):
            try:
                self.save()
            except OutputError as error:
                self._saved = time.perf_counter()
                if not self._warned:
                    self._warned = True
                    self._progress.warn(f"the checkpoint could not be written, the run goes on: {error.what}")

    def save(self) -> None:
        """Write what is not written yet, and remove what it makes superfluous.

        Raises
        ------
        OutputError
            The disk is full or the place cannot be written.
        """
        if self._path is None or not self._pending:
            return
        began = time.perf_counter()
        if not self._files:
            self._clear()
            with contextlib.suppress(OSError):  # save_checkpoint tells why a file cannot be written
                self._path.mkdir(exist_ok=True)
        facts = {**self._facts, "seconds": self.earlier + began - self._began}
        save_checkpoint(self._path / f"{_RUN}.npz", {}, facts)
        while self._pending:
            key = next(iter(self._pending))
            entry = self._pending[key]
            plain, arrays = self._packer.pack((entry.value, entry.trace), entry.shared)
            told = {"run": self._facts["run"], "name": entry.name, "value": plain}
            save_checkpoint(self._path / f"{key}.npz", arrays, told)
            self._files.add(key)
            del self._pending[key]
            for other in [other for other in self._files if other.startswith(f"{key}.")]:
                self._files.remove(other)
                with contextlib.suppress(OSError):
                    (self._path / f"{other}.npz").unlink()
        self._saved = time.perf_counter()
        self._cost = self._saved - began

    def _load(self, key: str, name: str) -> _Entry:
        assert self._path is not None, "a checkpoint without a place has no files"
        path = self._path / f"{key}.npz"
        arrays, facts = load_checkpoint(path)
        try:
            if (facts["run"], facts["name"]) != (self._facts["run"], name):
                raise ValueError("of another run or step")
            value, trace = self._packer.unpack(facts["value"], arrays, self._shared)
        except (ValueError, KeyError) as error:
            raise InputError(f"{path} is not a readable checkpoint ({error})", "begin again without --resume") from None
        return _Entry(name, value, trace, self._shared)

    def remove(self) -> None:
        """Remove the checkpoint; what is not of it stays."""
        self._pending.clear()
        self._files.clear()
        if self._path is not None:
            self._clear()
            with contextlib.suppress(OSError):
                self._path.rmdir()

    def _clear(self) -> None:
        """Remove the files of a checkpoint; without the first to go it is none."""
        assert self._path is not None, "a checkpoint without a place has no files"
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self._path) if _OWN_FILE.fullmatch(name)]
            for name in sorted(names, key=lambda name: name != f"{_RUN}.npz"):
                (self._path / name).unlink()
