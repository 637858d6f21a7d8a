"""The blocks of one component as linked lists, and its edges as neighbours; local numbering as in `local_kernels`."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.unit_kernels import following
from vber_cli.model.compile_kernels import kernel, leaf


@leaf
def link_blocks(records, label, block, head, follow, size):  # type: ignore[no-untyped-def]
    """Local blocks from global labels, as linked lists; the records must be ascending."""
    head[:] = -1
    size[:] = 0
    for i in range(len(records) - 1, -1, -1):
        k = np.searchsorted(records, label[records[i]])
        block[i] = k
        follow[i] = head[k]
        head[k] = i
        size[k] += 1


@leaf
def publish_labels(records, label, block):  # type: ignore[no-untyped-def]
    """Global labels from local blocks."""
    for i in range(len(records)):
        label[records[i]] = records[block[i]]


@leaf
def unlink(i, block, head, follow, size):  # type: ignore[no-untyped-def]
    """Take record i out of its block."""
    k = block[i]
    if head[k] == i:
        head[k] = follow[i]
    else:
        at = head[k]
        while follow[at] != i:
            at = follow[at]
        follow[at] = follow[i]
    size[k] -= 1


@leaf
def insert(i, k, block, head, follow, size):  # type: ignore[no-untyped-def]
    """Put record i into block k."""
    follow[i] = head[k]
    head[k] = i
    block[i] = k
    size[k] += 1


@leaf
def unlink_unit(i, mate, block, head, follow, size):  # type: ignore[no-untyped-def]
    """Take the unit that i leads out of its block."""
    while i >= 0:
        unlink(i, block, head, follow, size)
        i = following(i, mate)


@leaf
def insert_unit(i, k, mate, block, head, follow, size):  # type: ignore[no-untyped-def]
    """Put the unit that i leads into block k."""
    while i >= 0:
        insert(i, k, block, head, follow, size)
        i = following(i, mate)


@leaf
def members_of(k, head, follow, out):  # type: ignore[no-untyped-def]
    """Write the records of block k to `out`; returns how many there are."""
    n = 0
    i = head[k]
    while i >= 0:
        out[n] = i
        n += 1
        i = follow[i]
    return n


@leaf
def free_block(start, size):  # type: ignore[no-untyped-def]
    """The first empty block from a hint on; there is one whenever a block splits."""
    m = len(size)
    for i in range(m):
        k = (start + i) % m
        if size[k] == 0:
            return k
    return -1


@kernel
def neighbours_of(records, edge_a, edge_b, lo, hi):  # type: ignore[no-untyped-def]
    """The component's edges lo..hi-1 as local CSR, neighbours in the order of the edges."""
    m = len(records)
    ptr = np.zeros(m + 1, np.int64)
    ends = np.empty((hi - lo, 2), np.int64)
    for e in range(lo, hi):
        ends[e - lo, 0] = np.searchsorted(records, edge_a[e])
        ends[e - lo, 1] = np.searchsorted(records, edge_b[e])
        ptr[ends[e - lo, 0] + 1] += 1
        ptr[ends[e - lo, 1] + 1] += 1
    for i in range(m):
        ptr[i + 1] += ptr[i]
    fill = ptr[:-1].copy()
    nbr = np.empty(2 * (hi - lo), np.int64)
    for e in range(hi - lo):
        i, j = ends[e, 0], ends[e, 1]
        nbr[fill[i]] = j
        nbr[fill[j]] = i
        fill[i] += 1
        fill[j] += 1
    return ptr, nbr, ends
