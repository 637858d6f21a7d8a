"""Leaves, which only compiled functions call, called from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb


def from_python(leaf: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with a way in."""

    @nb.njit
    def called(*arguments: Any) -> Any:
        return leaf(*arguments)

    return called
