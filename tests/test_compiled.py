"""What was compiled before is known, and what has changed since is not taken for it."""

from __future__ import annotations

import importlib.util
import os
import subprocess

import pytest

from vber_cli.compiled import are_cached, merge_compiled

SOURCE = "import numba\n\n\n@numba.njit(cache=True)\ndef twice(x):\n    return x + x\n"


@pytest.fixture
def kernel(tmp_path):
    file = tmp_path / "some_kernels.py"
    file.write_text(SOURCE, encoding="utf-8")
    os.utime(file, (1_000_000_000, 1_000_000_000))
    spec = importlib.util.spec_from_file_location("some_kernels", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice, file


def test_a_kernel_is_cached_once_it_was_called(kernel):
    twice, file = kernel
    assert not are_cached([twice])
    assert twice(21) == 42
    assert are_cached([twice])
    later = file.stat().st_mtime + 10**9
    os.utime(file, (later, later))
    assert not are_cached([twice])


def test_after_a_merge_its_kernels_are_cached(vber, rldata500, tmp_path):
    for options, moves in ((["--K", "450", "--no-moves"], False), ([], True)):
        command = [vber, "merge", *map(str, rldata500.files), "--out", str(tmp_path / str(moves)), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 6), done.stderr
        assert merge_compiled(moves=moves)
        again = subprocess.run([*command, "--force"], capture_output=True, text=True, check=False)
        assert "compiling" not in again.stderr
