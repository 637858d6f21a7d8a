"""Run a kernel over consecutive ranges in threads. Ranges never depend on the number of threads, so results do not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ranges(n: int, step: int) -> list[tuple[int, int]]:
    """Consecutive (lo, hi) that cover 0..n in steps of at most `step`."""
    return [(lo, min(lo + step, n)) for lo in range(0, n, step)]


def map_ranges(work: Callable[[int, int], T], parts: list[tuple[int, int]], threads: int) -> list[T]:
    """`work(lo, hi)` of every part, in the order of the parts; `work` should release the GIL."""
    if threads <= 1 or len(parts) <= 1:
        return [work(lo, hi) for lo, hi in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda part: work(*part), parts))
