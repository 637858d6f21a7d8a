"""Helpers for kernels that list pairs: buffers that grow, tasks in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Task = TypeVar("Task")
Result = TypeVar("Result")


def grown(fill: Callable[..., int], guess: int, dtypes: Iterable[Any] = (np.int32, np.int32)) -> list[NDArray[Any]]:
    """Call what fills buffers and says how much there is, again if they were too small; return the filled parts."""
    dtypes = tuple(dtypes)
    buffers = [np.empty(max(guess, 16), dtype) for dtype in dtypes]
    used = fill(*buffers)
    if used > len(buffers[0]):
        buffers = [np.empty(used, dtype) for dtype in dtypes]
        fill(*buffers)
    return [buffer[:used].copy() for buffer in buffers]


def in_threads(run: Callable[[Task], Result], tasks: Sequence[Task], threads: int) -> list[Result]:
    """Run tasks; the results come in the tasks' order."""
    if threads <= 1 or len(tasks) <= 1:
        return [run(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, tasks))
