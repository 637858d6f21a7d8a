"""A kernel is compiled by one process at a time; where files cannot be locked it is compiled all the same."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import zlib

import pytest

from vber_cli.model import compile_kernels

SOURCE = """
from vber_cli.model.compile_kernels import kernel, leaf


@leaf
def doubled(x):
    return x + x


@kernel
def twice(x):
    return doubled(x)
"""
HOLD = """
import fcntl, sys
with open(sys.argv[1], "ab") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
    print("held", flush=True)
    sys.stdin.read(1)
"""
WAIT = "import some_kernels; print('ready', flush=True); print(some_kernels.twice(21))"
SAVE = """
import os, signal, sys
from pathlib import Path
from vber_cli.model import compile_kernels

def save(self, key, data):
    os.kill(os.getpid(), signal.SIGTERM)
    Path(data, "saved").touch()

compile_kernels.IndexDataCacheFile.save = save
compile_kernels.save_whole()
compile_kernels.IndexDataCacheFile.save(None, None, sys.argv[1])
os.kill(os.getpid(), signal.SIGTERM)
Path(sys.argv[1], "after").touch()
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "some_kernels.py"
    file.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("some_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_another_process_compiles_is_waited_for(module, tmp_path):
    lock = compile_kernels._lock_file(module.twice).name
    place = zlib.crc32(b"some_kernels.doubled")
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, lock, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    waiting = subprocess.Popen([sys.executable, "-c", WAIT], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(3)
    other.communicate("x")
    assert waiting.communicate()[0] == "42\n"


def test_a_process_that_is_to_end_saves_first(tmp_path):
    """A signal that comes while it saves does not count, the next does."""
    done = subprocess.run([sys.executable, "-c", SAVE, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGTERM
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "after").exists()


def test_without_locks_kernels_compile(module, monkeypatch):
    def refuse(*_):
        raise OSError("no locks here")

    monkeypatch.setattr(compile_kernels.fcntl, "lockf", refuse)
    assert module.twice(21) == 42


def test_a_leaf_has_no_way_in_from_python(module):
    with pytest.raises(TypeError, match="doubled is called by compiled functions only"):
        module.doubled(21)
