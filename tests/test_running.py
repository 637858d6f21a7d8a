"""What every command that reads databases does before and after its phases."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from vber_cli import running


@pytest.mark.parametrize(("threads", "heaps"), [(1, 2), (2, 2), (16, 16)])
def test_threads_share_heaps(threads: int, heaps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda what, value: asked.append((what, value)))
    monkeypatch.setattr(running.ctypes, "CDLL", lambda _: library)
    running.share_heaps(threads)
    assert asked == [(-8, heaps)]  # M_ARENA_MAX


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[None] = []

    def library(_: None) -> SimpleNamespace:
        looked_up.append(None)
        return SimpleNamespace()

    monkeypatch.setattr(running.ctypes, "CDLL", library)
    running.share_heaps(2)
    running.give_memory_back()
    assert len(looked_up) == 2


def test_the_peak_is_of_this_process_and_not_of_who_started_it() -> None:
    """Linux's own account of a process begins with what its parent held."""
    text = """
import subprocess, sys
mine = [sys.executable, "-c", "from vber_cli.running import peak_memory; print(peak_memory())"]
held = bytearray(600_000_000)
print(subprocess.run(mine, capture_output=True, check=True, text=True).stdout)
"""
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, text=True).stdout
    assert 20e6 < int(told) < 500e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_without_proc_the_peak_is_what_the_system_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = running.peak_memory()

    def absent(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("builtins.open", absent)
    assert running.peak_memory() >= 0.9 * known
