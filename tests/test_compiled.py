"""What was compiled before is known, and what has changed since is not taken for it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vber_cli import compiled, pipeline
from vber_cli.cli.app import main
from vber_cli.compiled import are_cached, compiling_beside, merge_compiled
from vber_cli.config import MergeOptions

ROOT = Path(__file__).resolve().parents[1]
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


@pytest.fixture
def three(tmp_path):
    """Three records that have nothing in common."""
    file = tmp_path / "three.csv"
    file.write_text("id,name,town\n1,anna,oslo\n2,peter,rome\n3,quentin,lima\n", encoding="utf-8")
    return file


def test_a_kernel_is_cached_once_it_was_called(kernel):
    twice, file = kernel
    assert not are_cached([twice])
    assert twice(21) == 42
    assert are_cached([twice])
    later = file.stat().st_mtime + 10**9
    os.utime(file, (later, later))
    assert not are_cached([twice])


@pytest.mark.parametrize("moves", [True, False])
def test_a_merge_whose_records_share_nothing_is_announced_once(vber, tmp_path, three, moves):
    command = [vber, "merge", str(three), "--out", str(tmp_path / "out"), "--force"]
    command += [] if moves else ["--K", "3", "--no-moves"]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (first.returncode, again.returncode) == (0, 0)
    assert "compiling" not in again.stderr
    assert merge_compiled(moves=moves)


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    processes = []
    usual = subprocess.Popen

    def start(*arguments, **named):
        processes.append(usual(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr(compiled.subprocess, "Popen", start)
    return processes


def test_the_second_process_ends_with_the_first(started):
    with compiling_beside(wanted=True):
        assert started[0].poll() is None
    assert started[0].poll() is not None
    with compiling_beside(wanted=False):
        assert len(started) == 1
    with pytest.raises(KeyError), compiling_beside(wanted=True):
        raise KeyError
    assert started[1].poll() is not None


def test_a_process_that_is_saving_is_asked_again():
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('saving', flush=True);"
        " time.sleep(1); signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "saving\n"
        compiled._end(process)
        assert process.returncode == -signal.SIGTERM


def test_a_process_that_never_listens_is_killed(monkeypatch):
    monkeypatch.setattr(compiled, "_TRIES", 2)
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        compiled._end(process)
        assert process.returncode == -signal.SIGKILL


def test_the_second_process_takes_no_module_from_where_the_command_was_called(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("open('taken', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert compiled._start_compiling().wait() == 0
    assert not (tmp_path / "taken").exists()


def test_where_no_second_process_starts_the_first_does_all(monkeypatch, tmp_path, three):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    monkeypatch.setattr(pipeline, "merge_compiled", lambda **_: False)
    assert compiled._start_compiling() is None
    assert main(["merge", str(three), "--out", str(tmp_path / "out"), "--threads", "2"]) == 0
    assert (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"threads": 2}, True),
        ({"threads": 1}, False),
        ({"threads": 2, "max_memory": "4GB"}, False),
        ({"threads": 2, "moves": False, "K": 5}, False),
    ],
)
def test_a_second_process_needs_a_core_and_memory_of_its_own(options, wanted):
    assert pipeline._may_compile_beside(MergeOptions(files=("one.csv",), **options)) is wanted


@pytest.mark.parametrize("known", [True, False])
def test_it_compiles_only_what_was_not_compiled_before(monkeypatch, tmp_path, three, started, known):
    monkeypatch.setattr(pipeline, "merge_compiled", lambda **_: known)
    assert main(["merge", str(three), "--out", str(tmp_path / "out"), "--threads", "2"]) == 0
    assert len(started) == (0 if known else 1)


_SIGNATURES = """
import sys
from vber_cli.cli.app import main
from vber_cli.compiled import compile_linking
from vber_cli.engine import block_kernels, cavi_kernels, component_kernels, decide_kernels, global_kernels

names = ["gibbs", "merge", "reassign", "split", "blocks_weight"]
kernels = [getattr(block_kernels, f"{name}_kernel") for name in names]
kernels += [component_kernels.compare_components_kernel, decide_kernels.decide_small_kernel]
kernels += [global_kernels.cells_kernel, cavi_kernels.local_kernel]
if len(sys.argv) > 1:
    assert main(sys.argv[1:]) == 0
else:
    compile_linking()
assert all(kernel.signatures for kernel in kernels)
for kernel in kernels:
    print("SIGNATURE", kernel.py_func.__name__, sorted(map(str, kernel.signatures)))
"""


def test_what_is_compiled_beside_is_what_a_merge_calls(tmp_path):
    merge = ["merge", "--config", "sample_data/vber.toml", "--out", str(tmp_path / "out")]
    called = []
    for arguments in (merge, []):
        command = [sys.executable, "-c", _SIGNATURES, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        called.append([line for line in done.stdout.splitlines() if line.startswith("SIGNATURE")])
    assert called[0] == called[1]
