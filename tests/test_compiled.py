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


@pytest.mark.parametrize("moves", [True, False])
def test_a_merge_whose_records_share_nothing_is_announced_once(vber, tmp_path, moves):
    file = tmp_path / "three.csv"
    file.write_text("id,name,town\n1,anna,oslo\n2,peter,rome\n3,quentin,lima\n", encoding="utf-8")
    command = [vber, "merge", str(file), "--out", str(tmp_path / "out"), "--force"]
    command += [] if moves else ["--K", "3", "--no-moves"]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (first.returncode, again.returncode) == (0, 0)
    assert "compiling" not in again.stderr
    assert merge_compiled(moves=moves)
