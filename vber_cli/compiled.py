"""Whether the kernels a merge needs were compiled before: the first run compiles them, which takes a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vber_cli.engine import cavi_kernels, component_kernels

# What every merge calls, whatever its data: asked for other kernels, runs whose records have nothing in common would be
# announced as the first each time. What only large components need may compile later, unannounced.
_MOVES: tuple[Callable[..., Any], ...] = (component_kernels.components_kernel,)
_SWEEPS: tuple[Callable[..., Any], ...] = (cavi_kernels.cells_kernel,)


def merge_compiled(*, moves: bool) -> bool:
    """Whether the kernels of a merge, with or without moves, lie in the cache and are not older than the code."""
    return are_cached((*_MOVES, *_SWEEPS) if moves else _SWEEPS)


def are_cached(kernels: Sequence[Callable[..., Any]]) -> bool:
    """Whether compiled forms of all kernels lie in their cache folder and are not older than the code."""
    return all(_is_cached(kernel) for kernel in kernels)


def _is_cached(kernel: Any) -> bool:
    code = kernel.py_func.__code__
    source = Path(code.co_filename)
    index = f"{source.stem}.{kernel.py_func.__qualname__}-{code.co_firstlineno}.*.nbi"
    changed = source.stat().st_mtime
    return any(file.stat().st_mtime >= changed for file in Path(kernel.stats.cache_path).glob(index))
