"""Run tasks in threads. What they are never depends on the number of threads, so results do not.

Threads work in a copy of the caller's context, which for one says who makes numpy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
Task = TypeVar("Task")


def ranges(n: int, step: int) -> list[tuple[int, int]]:
    """Consecutive (lo, hi) that cover 0..n in steps of at most `step`."""
    return [(lo, min(lo + step, n)) for lo in range(0, n, step)]


def map_ranges(work: Callable[[int, int], T], parts: list[tuple[int, int]], threads: int) -> list[T]:
    """`work(lo, hi)` of every part, in the order of the parts; `work` should release the GIL."""
    return in_threads(lambda part: work(*part), parts, threads)


def in_threads(run: Callable[[Task], T], tasks: Sequence[Task], threads: int) -> list[T]:
    """`run` of every task, in the order of the tasks; `run` should release the GIL."""
    if threads <= 1 or len(tasks) <= 1:
        return [run(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        contexts = [copy_context() for _ in tasks]  # no two threads may be in one
        return list(pool.map(lambda context, task: context.run(run, task), contexts, tasks))


def one_ahead(run: Callable[[Task], T], tasks: Sequence[Task], threads: int) -> Iterator[T]:
    """`run` of every task, in the order of the tasks, the next one while the last is used."""
    if threads <= 1:
        yield from map(run, tasks)
        return
    with ThreadPoolExecutor(1) as pool:
        ahead: Future[T] | None = None
        for task in tasks:
            made, ahead = ahead, pool.submit(copy_context().run, run, task)
            if made is not None:
                yield made.result()
        if ahead is not None:
            yield ahead.result()
