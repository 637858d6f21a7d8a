"""Blocks of an arena, on addresses that nothing lies behind."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.called import from_python

kernels = pytest.importorskip("vber_cli.memory.arena_kernels")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an arena needs Linux")
PAGE = 4096
BASE = 7 * PAGE


def arena(n_pages: int, file: int) -> np.ndarray:
    """The state of an arena of so many pages, all free."""
    state = np.zeros(kernels.STATE_LENGTH, dtype=np.int64)
    state[[kernels.BASE, kernels.SIZE, kernels.FILE, kernels.PAGE]] = BASE, n_pages * PAGE, file, PAGE
    state[kernels.N_BLOCKS], state[kernels.ROOM] = 1, n_pages * PAGE
    state[kernels.TABLE : kernels.TABLE + kernels.WIDTH] = BASE, n_pages * PAGE, 1
    return state


def blocks(state: np.ndarray) -> list[tuple[int, int, int]]:
    """(start, length, free) of every block."""
    table = state[kernels.TABLE : kernels.TABLE + kernels.WIDTH * state[kernels.N_BLOCKS]]
    return [tuple(map(int, row)) for row in table.reshape(-1, kernels.WIDTH)]


@pytest.fixture(name="file", scope="module")
def _file() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


take: Any = from_python(kernels.take)
give_back: Any = from_python(kernels.give_back)
block_at: Any = from_python(kernels.block_at)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9 * PAGE)), max_size=60))
def test_blocks_fill_the_arena_and_never_overlap(steps: list[tuple[bool, int]]) -> None:
    with tempfile.TemporaryFile() as opened:
        state = arena(40, opened.fileno())
        held: dict[int, int] = {}
        ever = 0
        for taking, size in steps:
            if taking or not held:
                address, fresh = take(state, size)
                if address:
                    assert address not in held
                    assert fresh == (address - BASE >= ever)
                    held[address] = size
                    ever = max(ever, address - BASE + -(-size // PAGE) * PAGE)
                else:  # there is indeed no such block
                    assert all(length < size for _, length, free in blocks(state) if free)
            else:
                address = sorted(held)[size % len(held)]
                give_back(state, address)
                del held[address]
            rows = blocks(state)
            assert [start for start, _, _ in rows] == [
                BASE, *(start + length for start, length, _ in rows[:-1]),
            ]  # fmt: skip
            assert rows[-1][0] + rows[-1][1] == BASE + 40 * PAGE
            assert {start for start, _, free in rows if not free} == set(held)
            assert all(length >= held[start] for start, length, free in rows if not free)
            assert not any(a[2] and b[2] for a, b in pairwise(rows)), "free neighbours are one"
            assert state[kernels.USED] == sum(length for _, length, free in rows if not free)
            assert os.fstat(opened.fileno()).st_size >= ever, "what is given out has room in the file"


def test_the_first_that_is_large_enough_is_used_again(file: int) -> None:
    state = arena(100, file)
    first, second, third = (take(state, 10 * PAGE)[0] for _ in range(3))
    give_back(state, first)
    give_back(state, third)
    assert take(state, 11 * PAGE) == (third, False)
    assert take(state, 2 * PAGE) == (first, False)
    assert second == BASE + 10 * PAGE
    assert state[kernels.MOST_USED] == 30 * PAGE


def test_a_block_is_found_by_any_address_in_it(file: int) -> None:
    state = arena(100, file)
    addresses = [take(state, (i + 1) * PAGE)[0] for i in range(5)]
    assert [block_at(state, a) for a in addresses] == [0, 1, 2, 3, 4]
    assert block_at(state, addresses[3] + 3 * PAGE) == 3


def test_no_room_on_the_disk_gives_nothing_out() -> None:
    state = arena(100, -1)  # no file can be made longer: as on a full disk
    assert take(state, PAGE) == (0, False)
    assert state[kernels.REFUSED] == 1
    assert blocks(state) == [(BASE, 100 * PAGE, 1)]


def test_the_rest_of_the_disk_is_for_others(file: int) -> None:
    state = arena(100, file)
    state[kernels.ROOM] = 10 * PAGE
    first = take(state, 8 * PAGE)[0]
    assert first == BASE
    assert take(state, 3 * PAGE) == (0, False)
    assert take(state, 2 * PAGE)[0] == BASE + 8 * PAGE
    assert state[kernels.RESERVED] == 10 * PAGE
    assert state[kernels.REFUSED] == 1


def test_a_full_table_gives_nothing_out(file: int) -> None:
    n = kernels.MOST_BLOCKS
    state = arena(n + 10, file)
    taken = [take(state, PAGE)[0] for _ in range(n)]
    assert 0 not in taken[:-1]
    assert taken[-1] == 0
    assert state[kernels.REFUSED] == 0, "there is room on the disk"
    give_back(state, taken[5])
    assert take(state, PAGE)[0] == taken[5]


def test_resident_memory_is_what_the_system_says() -> None:
    state = arena(1, -1)
    with open("/proc/self/statm", "rb", buffering=0) as statm:
        state[kernels.STATM] = statm.fileno()
        resident, outside = from_python(kernels.resident_bytes)(state, kernels.TEXT_OF_WATCH)
        _, all_pages, of_files, *_ = map(int, os.pread(statm.fileno(), 100, 0).split())
    assert resident == pytest.approx(all_pages * PAGE, rel=0.05)
    assert outside == pytest.approx((all_pages - of_files) * PAGE, rel=0.05)
    assert state[kernels.MOST_OUTSIDE] == outside
