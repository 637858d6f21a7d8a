"""One run at a time on a result, and no lock outlives its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vber_cli.errors import OutputError
from vber_cli.io.lock import OutputLock

HOLD = """
import sys, time
from pathlib import Path
from vber_cli.io.lock import OutputLock
lock = OutputLock(Path(sys.argv[1]), "out")
print("held", flush=True)
time.sleep(60)
"""


def test_the_holder_is_named_until_it_lets_go(tmp_path: Path) -> None:
    first = OutputLock(tmp_path / "out", "results/out")
    assert first.held
    with pytest.raises(OutputError, match=rf"results/out: another run .*\(process {os.getpid()}\)") as caught:
        OutputLock(tmp_path / "out", "results/out")
    assert "--out" in caught.value.fix
    OutputLock(tmp_path / "other", "other").release()
    first.release()
    first.release()
    assert os.listdir(tmp_path) == []
    OutputLock(tmp_path / "out", "out").release()


def test_a_killed_process_blocks_nobody(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "out"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match=rf"process {process.pid}\)"):
            OutputLock(tmp_path / "out", "out")
        process.kill()
    assert os.listdir(tmp_path) == [".out.vber-lock"]
    OutputLock(tmp_path / "out", "out").release()
    assert os.listdir(tmp_path) == []


def test_a_lock_that_was_removed_before_it_was_had_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the file its last holder may remove it, and another run make a new one."""
    path = tmp_path / ".out.vber-lock"
    open_ = os.open
    opened = []

    def removed_once(name: Path, *arguments: int) -> int:
        handle = open_(name, *arguments)
        opened.append(handle)
        if len(opened) == 1:
            path.unlink()
        return handle

    monkeypatch.setattr("os.open", removed_once)
    lock = OutputLock(tmp_path / "out", "out")
    assert len(opened) == 2
    assert path.exists()
    with pytest.raises(OutputError):
        OutputLock(tmp_path / "out", "out")
    lock.release()


def test_what_cannot_be_a_lock_is_told(tmp_path: Path) -> None:
    (tmp_path / ".out.vber-lock").mkdir()
    with pytest.raises(OutputError, match="cannot be locked"):
        OutputLock(tmp_path / "out", "out")
    (tmp_path / "letter").write_text("dear")
    (tmp_path / ".two.vber-lock").symlink_to("letter")
    with pytest.raises(OutputError, match="cannot be locked"):
        OutputLock(tmp_path / "two", "two")
    assert (tmp_path / "letter").read_text() == "dear"


def test_a_file_system_without_locks_goes_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    lock = OutputLock(tmp_path / "out", "out")
    assert not lock.held
    lock.release()
