"""What it is worth that a record joins a block, for many records and few blocks; weights as in `local_kernels`."""

from __future__ import annotations

import numpy as np

from vber_cli.engine.local_kernels import compare_kernel, predictive, scratch
from vber_cli.model.compile_kernels import kernel
from vber_cli.model.similar_kernels import record_levels


@kernel
def join_weights_kernel(lo, hi, block_ptr, block_record, join_ptr, joiner, model, out):  # type: ignore[no-untyped-def]
    """Fill in Λ(b ∪ {r}) − Λ(b) of the records r = joiner[join_ptr[k]:join_ptr[k + 1]] for blocks k of lo..hi-1.

    A block's members ascend, and the chain rule goes over all records in ascending order: what comes before the record
    that joins is summed once for the block.
    """
    n_fields = model.codes.shape[1]
    work = scratch(model)
    for k in range(lo, hi):
        if join_ptr[k] == join_ptr[k + 1]:
            continue
        m = block_ptr[k + 1] - block_ptr[k]
        records = np.empty(m + 1, np.int32)
        records[:m] = block_record[block_ptr[k] : block_ptr[k + 1]]
        levels = np.zeros((m + 1, m + 1, n_fields), np.int8)
        compare_kernel(records[:m], model, levels)
        members = np.arange(m + 1)
        before = np.zeros(m + 1)  # Λ of the first so many members
        # first the block as it is, then with each record
        for e in range(join_ptr[k] - 1, join_ptr[k + 1]):
            joins = e >= join_ptr[k]
            at = np.int64(0)
            if joins:
                records[m] = joiner[e]
                for j in range(m):
                    first, second = min(records[j], joiner[e]), max(records[j], joiner[e])
                    record_levels(second, first, model, levels[m, j])
                    for f in range(n_fields):
                        levels[j, m, f] = levels[m, j, f]
                    at += records[j] < joiner[e]
                for p in range(at, m + 1):
                    members[p] = m if p == at else p - 1
            total = before[at]
            for p in range(max(at, 1), m + joins):
                total += predictive(members[p], members, p, records, levels, model, work)
                if not joins:
                    before[p + 1] = total
            if joins:
                out[e] = total - before[m]
                for p in range(at, m):
                    members[p] = p
