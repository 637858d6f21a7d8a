"""The components of the candidate graph: how they are found, kept from growing too large, and compared within."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vber_cli.engine.local_kernels import compare_kernel
from vber_cli.model.compile_kernels import kernel, leaf
from vber_cli.model.types import IntArray, LongArray


class Compared(NamedTuple):
    """Components whose records have been compared, for samplers that come back to them; arrays as in `graph.Graph`.

    Attributes
    ----------
    comp_ptr, comp_record, edge_ptr, edge_a, edge_b, inner_ptr, inner_a, inner_b
        The components, their edges, and further pairs whose probability is wanted.
    square_ptr
        (C + 1,) int64: where the squares of pairs of each component begin; empty for those not compared.
    levels
        (S, F) int8: what `compare_kernel` finds, row by row of each square.
    """

    comp_ptr: LongArray
    comp_record: IntArray
    edge_ptr: LongArray
    edge_a: IntArray
    edge_b: IntArray
    inner_ptr: LongArray
    inner_a: IntArray
    inner_b: IntArray
    square_ptr: LongArray
    levels: np.ndarray


@kernel
def compared(comps, c):  # type: ignore[no-untyped-def]
    """The records of component c, their levels (m, m, F)."""
    records = comps.comp_record[comps.comp_ptr[c] : comps.comp_ptr[c + 1]]
    m = len(records)
    lo, hi = comps.square_ptr[c], comps.square_ptr[c + 1]
    return records, comps.levels[lo:hi].reshape((m, m, comps.levels.shape[1]))


@kernel
def compare_components_kernel(lo, hi, comps, model):  # type: ignore[no-untyped-def]
    """Fill `comps.levels` of components lo..hi-1."""
    for c in range(lo, hi):
        records, levels = compared(comps, c)
        compare_kernel(records, model, levels)


@leaf
def _root_of(x, root):  # type: ignore[no-untyped-def]
    """The root of x; the path to it is halved."""
    while root[x] != x:
        root[x] = root[root[x]]
        x = root[x]
    return x


@kernel
def components_kernel(a, b, n_records):  # type: ignore[no-untyped-def]
    """Union–find: (N,) int32, the smallest record of each record's component."""
    root = np.arange(n_records).astype(np.int32)
    for i in range(len(a)):
        x, y = _root_of(a[i], root), _root_of(b[i], root)
        if x < y:
            root[y] = x
        elif y < x:
            root[x] = y
    for r in range(n_records):
        root[r] = _root_of(r, root)
    return root


@kernel
def capped_kernel(a, b, needed, n_records, largest):  # type: ignore[no-untyped-def]
    """Union–find along the edges in their order: (E,) bool, False where an edge that is not needed would make more.

    More, that is, than `largest` records in one component.
    """
    root = np.arange(n_records).astype(np.int32)
    size = np.ones(n_records, np.int64)
    keep = np.ones(len(a), np.bool_)
    for i in range(len(a)):
        x, y = _root_of(a[i], root), _root_of(b[i], root)
        if x == y:
            continue
        if size[x] + size[y] > largest and not needed[i]:
            keep[i] = False
            continue
        root[max(x, y)] = min(x, y)
        size[min(x, y)] = size[x] + size[y]
    return keep
