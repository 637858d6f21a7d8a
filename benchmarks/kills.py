#!/usr/bin/env python3
"""Kill merges at random moments, resume them, and count what is wrong: `python benchmarks/kills.py FOLDER FILES...`.

A merge runs once in peace. Then the same merge is started again and again on a directory that holds an older result,
and is killed by SIGKILL, SIGTERM or SIGINT; --resume goes on until it ends, and its tables must have the same bytes as
those of the first. After every kill the directory must hold the older result, the complete new one, or nothing while
the older one waits beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
NAMED = ("summary.json", "trace.parquet")  # which hold the seconds that steps took
_AT_THE_END = 0.25  # of the kills aim at the last tenth of a run, where results are written and renamed
_LATEST = 1.05  # of the time that is thought to be left
_START = 3.0  # seconds in which Python may not have come to vber yet
_LONGEST = 3600.0  # seconds a run may take
_TOO_WRONG = 20  # things that went wrong, after which there is no need of more


@dataclass
class Report:
    """What was done, and everything that went wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    identical: int = 0
    with_checkpoint: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the report as text."""
        by_signal = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        return [
            f"{self.kills.total()} kills ({by_signal or 'none'}), {self.with_checkpoint} of them left a checkpoint",
            f"{self.resumed} runs resumed to their end, {self.identical} with the same bytes",
            *(f"wrong: {line}" for line in self.wrong),
            f"{len(self.wrong)} wrong in {self.seconds:.0f} s",
        ]


def contents(directory: Path) -> dict[str, bytes]:
    """Return the bytes of every file."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def differences(one: Path, other: Path) -> list[str]:
    """Return what tells two results apart, but for seconds and memory."""
    a, b = contents(one), contents(other)
    found = [name for name in sorted({*a, *b} - {*NAMED}) if a.get(name) != b.get(name)]
    traces = [pq.read_table(path / "trace.parquet").drop_columns(["seconds"]) for path in (one, other)]
    found += [] if traces[0].equals(traces[1]) else ["trace.parquet"]
    summaries = [json.loads(files["summary.json"]) for files in (a, b)]
    for summary in summaries:
        for key in ("seconds", "peak_memory_bytes"):
            summary.pop(key)
    return found + [f"summary {key}" for key in summaries[0] if summaries[0][key] != summaries[1].get(key)]


class Killer:
    """Kills one merge at random moments.

    Parameters
    ----------
    command
        The merge, without --out, --force and --resume.
    folder
        An empty folder to work in.
    seed
        Of the moments and signals.
    """

    def __init__(self, command: Sequence[str], folder: Path, seed: int) -> None:
        self._command, self._folder = list(command), folder
        self._random = random.Random(seed)
        self.report = Report()
        self.whole = folder / "whole" / "out"
        self.out = folder / "killed" / "out"
        self._checkpoint = self.out.with_name(".out.vber-checkpoint")
        self._old: dict[str, bytes] = {}
        began = time.monotonic()
        whole = [*self._command, "--force", "--out", str(self.whole)]
        subprocess.run(whole, check=True, timeout=_LONGEST, stderr=subprocess.DEVNULL)
        self.length = time.monotonic() - began

    def trial(self, most_kills: int) -> int:
        """Kill one merge up to so many times, then let it end; returns how often it was killed."""
        shutil.rmtree(self.out.parent, ignore_errors=True)
        self.out.parent.mkdir()
        shutil.copytree(self.whole, self.out)
        old, left, kills = contents(self.out), self.length, 0
        self._old = old
        while kills < most_kills and len(self.report.wrong) < _TOO_WRONG:
            share = self._random.uniform(0.9, _LATEST) if self._random.random() < _AT_THE_END else self._random.random()
            used, killed = self._run_and_kill(left * share)
            kills += killed
            left = max(left - used, 0.2 * self.length)
            if self._is_new(old):
                return kills
        self._end(old)
        return kills

    def _start(self) -> subprocess.Popen[str]:
        # whoever runs this may have had signals ignored, which is inherited
        defaults = (
            "import os, signal, sys; [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGTERM)]; "
            "os.execvp(sys.argv[1], sys.argv[1:])"
        )
        arguments = [*self._command, "--out", str(self.out), "--force", "--resume"]
        return subprocess.Popen(
            [sys.executable, "-c", defaults, *arguments], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def _run_and_kill(self, after: float) -> tuple[float, bool]:
        """Run and kill after so many seconds; returns the seconds, and whether it was still running."""
        number = self._random.choice(SIGNALS)
        began = time.monotonic()
        with self._start() as process:
            try:
                _, errors = process.communicate(timeout=after)
                if process.returncode:
                    self._wrong(f"exit code {process.returncode} without a kill: {errors[-300:]}")
                return time.monotonic() - began, False
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                _, errors = process.communicate(timeout=_LONGEST)
        name = signal.Signals(number).name
        self.report.kills[name] += 1
        self.report.with_checkpoint += (self._checkpoint / "run.npz").exists()
        self._check_code(number, process.returncode, errors, after)
        return after, True

    def _check_code(self, number: int, code: int, errors: str, after: float) -> None:
        lines = [line for line in errors.splitlines() if not line.startswith("note: ")]
        told = code == 128 + number and len(lines) == 2 and lines[0].startswith("error: ")
        # before and after vber itself Python dies of a signal as it likes
        ended = self.out.exists() and contents(self.out) != self._old
        around = code == -number and (after < _START or ended)
        if not (code == 0 or told or around or code == -signal.SIGKILL):
            self._wrong(f"{signal.Signals(number).name} after {after:.2f} s: exit code {code}, {errors[-300:]!r}")

    def _is_new(self, old: dict[str, bytes]) -> bool:
        """Check what a kill left; whether the new result is complete."""
        if not self.out.exists():
            waiting = list(self.out.parent.glob(".out.vber-old-*"))
            if len(waiting) != 1 or contents(waiting[0]) != old:
                self._wrong(f"no result, and {len(waiting)} older ones beside it")
            return False
        if contents(self.out) == old:
            return False
        found = differences(self.whole, self.out)
        if found:
            self._wrong(f"after a kill the result is neither the old nor the new one: {', '.join(found)}")
        return True

    def _end(self, old: dict[str, bytes]) -> None:
        with self._start() as process:
            _, errors = process.communicate(timeout=_LONGEST)
        self.report.resumed += 1
        if process.returncode or contents(self.out) == old:
            self._wrong(f"not resumed: exit code {process.returncode}, {errors[-300:]!r}")
            return
        found = differences(self.whole, self.out)
        self.report.identical += not found
        if found:
            self._wrong(f"resumed to something else: {', '.join(found)}")
        left = sorted(path.name for path in self.out.parent.iterdir() if path != self.out)
        if left:
            self._wrong(f"left behind: {', '.join(left)}")

    def _wrong(self, line: str) -> None:
        self.report.wrong.append(line)


def kill(command: Sequence[str], folder: Path, *, kills: int, seconds: float, seed: int) -> Report:
    """Kill a merge so many times, or for so long.

    Parameters
    ----------
    command
        The merge: the program, `merge`, files and options.
    folder
        An empty folder to work in.
    kills, seconds
        When to stop.
    seed
        Of the moments and signals.
    """
    began = time.monotonic()
    killer = Killer(command, folder, seed)
    done = 0
    while done < kills and time.monotonic() - began < seconds and len(killer.report.wrong) < _TOO_WRONG:
        done += killer.trial(min(kills - done, 1 + done % 4))
        so_far = killer.report
        print(
            f"{done} kills, {so_far.resumed} resumed, {len(so_far.wrong)} wrong, {time.monotonic() - began:.0f} s",
            file=sys.stderr,
        )
    killer.report.seconds = time.monotonic() - began
    return killer.report


def main(arguments: Sequence[str]) -> int:
    """Print the report; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an empty folder to work in")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=900.0, help="begin no further merge after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vber", default="vber", help="the command (default: vber)")
    options, merge = parser.parse_known_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    report = kill(
        [*shlex.split(options.vber), "merge", *merge],
        options.folder,
        kills=options.kills,
        seconds=options.seconds,
        seed=options.seed,
    )
    print("\n".join(report.lines()))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
