"""Buffers that grow, for kernels that list pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def grown(fill: Callable[..., int], guess: int, dtypes: Iterable[Any] = (np.int32, np.int32)) -> list[NDArray[Any]]:
    """Call what fills buffers and says how much there is, again if they were too small; return the filled parts."""
    dtypes = tuple(dtypes)
    buffers = [np.empty(max(guess, 16), dtype) for dtype in dtypes]
    used = fill(*buffers)
    if used > len(buffers[0]):
        buffers = [np.empty(used, dtype) for dtype in dtypes]
        fill(*buffers)
    return [buffer[:used].copy() for buffer in buffers]
