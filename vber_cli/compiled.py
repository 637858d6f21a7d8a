"""Whether the kernels a merge needs were compiled before: the first run compiles them, which takes a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vber_cli.engine import block_kernels, cavi_kernels, component_kernels, partition_kernels

# The last of a merge to be compiled, and some of the first: who has these has nearly all.
_MERGE: tuple[Callable[..., Any], ...] = (
    block_kernels.gibbs_kernel,
    block_kernels.merge_kernel,
    component_kernels.compare_components_kernel,
    partition_kernels.enumerate_kernel,
)
_LITERAL: tuple[Callable[..., Any], ...] = (cavi_kernels.cells_kernel,)


def merge_compiled(*, moves: bool) -> bool:
    """Whether the kernels of a merge, with or without moves, lie in the cache and are not older than the code."""
    return are_cached((*_MERGE, *_LITERAL) if moves else _LITERAL)


def are_cached(kernels: Sequence[Callable[..., Any]]) -> bool:
    """Whether compiled forms of all kernels lie in their cache folder and are not older than the code."""
    return all(_is_cached(kernel) for kernel in kernels)


def _is_cached(kernel: Any) -> bool:
    code = kernel.py_func.__code__
    source = Path(code.co_filename)
    index = f"{source.stem}.{kernel.py_func.__qualname__}-{code.co_firstlineno}.*.nbi"
    changed = source.stat().st_mtime
    return any(file.stat().st_mtime >= changed for file in Path(kernel.stats.cache_path).glob(index))
