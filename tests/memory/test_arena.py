"""An arena serves a whole process, as long as it lives: every test has one of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vber_cli.memory import arena

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an arena needs Linux")

BEGIN = """
import contextvars, os, resource, sys
from pathlib import Path
import numpy as np
from vber_cli.memory.arena import keep_within
from vber_cli.parallel import in_threads, one_ahead

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))) * 1024

MB = 1_000_000
folder = Path(sys.argv[1])
"""


def in_a_process(text: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(text), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@linux
def test_arrays_are_whole_where_they_are_larger_than_memory(tmp_path: Path) -> None:
    in_a_process(
        """
        arena = keep_within(resident() + 400 * MB, folder)
        began = peak()
        arrays = [np.arange(i, i + 20 * MB) for i in range(10)]  # 1,600 MB
        assert arena.most_used >= 1600 * MB
        for _ in range(2):
            for i, array in enumerate(arrays):
                assert array[0] == i and array[-1] == i + 20 * MB - 1
                assert int(array.sum()) == 20 * MB * i + 20 * MB * (20 * MB - 1) // 2
        assert arena.evicted > 1600 * MB and arena.refused == 0
        assert peak() < began + 800 * MB
        assert list(folder.iterdir()) == []  # the file has no name
        """,
        tmp_path,
    )


@linux
def test_what_is_zero_and_what_grows(tmp_path: Path) -> None:
    in_a_process(
        """
        arena = keep_within(4000 * MB, folder)
        dirty = np.ones(5 * MB)
        used = arena.most_used
        del dirty
        assert not np.zeros(5 * MB).any()
        assert arena.most_used == used  # where the ones were
        text = bytearray(b"a" * MB)
        for i in range(2000):
            text += bytes([i % 251]) * 50_000
        assert arena.most_used > used + 40 * MB
        assert text == b"a" * MB + b"".join(bytes([i % 251]) * 50_000 for i in range(2000))
        numbers = list(range(1_000_000))
        assert sum(numbers) == 499_999_500_000
        rows = np.empty(MB)
        rows[:] = np.arange(MB)
        rows.resize(3 * MB, refcheck=False)
        assert rows[MB - 1] == MB - 1 and not rows[MB:].any()
        del text, numbers
        rows.resize(10, refcheck=False)
        assert rows.tolist() == list(range(10))
        """,
        tmp_path,
    )


@linux
def test_arrays_of_threads_and_of_kernels_live_there(tmp_path: Path) -> None:
    in_a_process(
        """
        import numba as nb
        arena = keep_within(4000 * MB, folder)
        held = in_threads(lambda n: np.ones(n), [10 * MB, 10 * MB], 2)
        assert arena.most_used >= 160 * MB
        held += one_ahead(lambda n: np.ones(n), [10 * MB, 10 * MB], 2)
        assert arena.most_used >= 320 * MB
        made = nb.njit(lambda n: np.ones(n))(10 * MB)
        assert arena.most_used >= 400 * MB
        assert made.sum() == 10 * MB and sum(x.sum() for x in held) == 40 * MB
        """,
        tmp_path,
    )


@linux
def test_threads_that_take_and_free_at_once(tmp_path: Path) -> None:
    in_a_process(
        """
        import threading
        import numba as nb
        arena = keep_within(resident() + 300 * MB, folder)
        made = nb.njit(nogil=True)(lambda n, value: np.full(n, value))
        made(10, 1)
        wrong = []

        def churn(seed):
            rng, held = np.random.default_rng(seed), []
            for step in range(700):
                n = int(rng.integers(1, 400_000))
                array = (np.zeros(n, np.int64), np.full(n, step), made(n, step))[step % 3]
                array[:] = step
                held.append((step, array))
                if len(held) > 20:
                    value, array = held.pop(int(rng.integers(len(held))))
                    if not (array == value).all():
                        wrong.append(value)

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(churn, seed)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and arena.most_used > 40 * MB
        """,
        tmp_path,
    )


@linux
def test_what_a_refusal_took_of_the_disk_is_given_back(tmp_path: Path) -> None:
    in_a_process(
        """
        arena = keep_within(4000 * MB, folder)
        held = np.ones(10 * MB)
        state, kernels = arena._state, arena._kernels
        resource.setrlimit(resource.RLIMIT_FSIZE, (200 * MB, 200 * MB))
        os.ftruncate(state[kernels.FILE], 200 * MB)  # as a disk does that is full halfway
        more = [np.ones(10 * MB) for _ in range(4)]
        assert arena.refused > 0 and held.sum() + sum(x.sum() for x in more) == 50 * MB
        assert os.fstat(state[kernels.FILE]).st_size == state[kernels.RESERVED] < 200 * MB
        """,
        tmp_path,
    )


@linux
def test_where_the_disk_has_no_room_memory_is_used(tmp_path: Path) -> None:
    in_a_process(
        """
        resource.setrlimit(resource.RLIMIT_FSIZE, (10 * MB, 10 * MB))
        arena = keep_within(4000 * MB, folder)
        arrays = [np.full(MB, i) for i in range(20)]
        assert arena.refused > 0 and arena.most_used <= 10 * MB
        assert [int(x.sum()) for x in arrays] == [i * MB for i in range(20)]
        """,
        tmp_path,
    )


@linux
def test_a_limit_beyond_all_memory_is_none(tmp_path: Path) -> None:
    in_a_process(
        """
        arena = keep_within(10**40, folder)
        array = np.arange(20 * MB)
        assert arena.most_used >= 160 * MB and arena.evicted == 0 and array[-1] == 20 * MB - 1
        """,
        tmp_path,
    )


@linux
def test_a_second_call_changes_the_limit(tmp_path: Path) -> None:
    in_a_process(
        """
        import time
        arena = keep_within(4000 * MB, folder)
        array = np.ones(40 * MB)
        assert arena.evicted == 0
        assert keep_within(resident() - 100 * MB, folder) is arena
        until = time.monotonic() + 60
        while arena.evicted == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert arena.evicted > 0 and array.sum() == 40 * MB
        """,
        tmp_path,
    )


@linux
def test_after_a_run_no_more_is_taken(tmp_path: Path) -> None:
    in_a_process(
        """
        import threading
        arena = keep_within(200 * MB, folder)
        array = np.arange(40 * MB)
        assert any(thread.name == "vber-watch" for thread in threading.enumerate())
        arena.let_be()
        assert not any(thread.name == "vber-watch" for thread in threading.enumerate())
        used = arena.most_used
        more = np.ones(40 * MB)
        assert arena.most_used == used
        assert array[-1] == 40 * MB - 1 and more.sum() == 40 * MB
        del array
        assert keep_within(4000 * MB, folder) is arena
        again = np.arange(80 * MB)
        assert arena.most_used > used
        """,
        tmp_path,
    )


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arena, "_arenas", [])
    monkeypatch.setattr(arena.sys, "platform", "darwin")
    assert arena.keep_within(1 << 40, tmp_path) is None


@linux
def test_a_folder_that_cannot_be_written_to_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arena, "_arenas", [])
    assert arena.keep_within(1 << 40, tmp_path / "missing") is None
