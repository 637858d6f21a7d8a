"""One step of the sampler from given partitions, by each kind of step alone."""

from __future__ import annotations

import numpy as np

from tests.called import from_python
from vber_cli.engine import block_kernels as kernels
from vber_cli.engine import block_list_kernels

_sweep, _swap, _split_merge = (
    from_python(step) for step in (kernels._gibbs_sweep, kernels._swap, kernels._split_merge)
)
_link_blocks = from_python(block_list_kernels.link_blocks)


def labels_after_a_step(local, edges, starts, log_new, step, rng):
    """Yield for each partition in `starts` (label of every record) where one step of the kind leads, labelled alike.

    `step` is "sweep", "swap" or "split and merge"; of the latter two several proposals are made, most being refused.
    """
    n = len(local.records)
    *given, work = local.args
    given += local.units
    block, head, follow, size, members, one, two = (np.zeros(n, np.int64) for _ in range(7))
    option, score, order = np.zeros(n + 1, np.int64), np.zeros(n + 1), np.arange(n)
    nbr_ptr, nbr, ends = block_list_kernels.neighbours_of(local.records, *edges, 0, len(edges[0]))
    stream = np.array([7], np.uint64)
    for start in starts:
        _link_blocks(local.records, start.astype(np.int32), block, head, follow, size)
        if step == "sweep":
            _sweep(
                order, nbr_ptr, nbr, *given, log_new, block, head, follow, size, stream, members, option, score, work
            )
        elif step == "swap":
            for _ in range(8):
                _swap(*given, block, head, follow, size, stream, one, two, work)
        else:
            for _ in range(4):
                e = rng.integers(len(ends))
                a, b = ends[e] if rng.random() < 0.5 else ends[e, ::-1]
                _split_merge(a, b, e, *given, log_new, block, head, follow, size, stream, members, one, two, work)
        np.testing.assert_array_equal(size, np.bincount(block, minlength=n))
        yield tuple(int(np.flatnonzero(block == k)[0]) for k in block)
