"""How the innermost kernels are compiled: those called for every record and block, which allocate nothing.

A call that hands on the block model costs more than the work itself while numba counts references to each of its
arrays, with atomic operations, on the way in and out. Functions that create no arrays need no such counts. Nor do they
need a way in from Python: to unpack so many arrays is much code, and only writing it, for these and all other kernels,
took an eighth of the time that the first run spent on compiling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a function that only other kernels call; called from Python it raises TypeError."""
    return _without_python(nb.njit(**_OPTIONS)(function))


def inlined_leaf(function: Callable[..., Any]) -> Any:
    """The same within its caller, which need not pass the model on at all: for what is called at few places."""
    return _without_python(nb.njit(**_OPTIONS, forceinline=True)(function))


def _without_python(kernel: Any) -> Any:
    """The kernel, which tells who calls it from Python in place of ending the process."""

    class Leaf(type(kernel)):  # type: ignore[misc]
        """A compiled function without a way in from Python."""

        def __call__(self, *_arguments: object, **_named: object) -> None:
            raise TypeError(f"{self.py_func.__name__} is called by compiled functions only")

    kernel.__class__ = Leaf
    return kernel
