"""A small part of many records to learn from: a random sample, and all that looks like one of it.

What is learned from a part, the noise and how fields depend on each other, must be learned from records whose partners
are in it. A plain sample of one record in a hundred would hold one link in ten thousand; here every sampled record
brings along the records that some key of the plan puts beside it and whose evidence speaks for it.
"""

from __future__ import annotations

import numpy as np

from vber_cli.candidates import join_kernels as kernels
from vber_cli.candidates.join import Scorer, groups_of_key
from vber_cli.candidates.plan import Plan
from vber_cli.model.types import IntArray, LongArray
from vber_cli.parallel import map_ranges, ranges

SEEDS = 6_000  # records sampled
FROM = 60_000  # records from which on a part is enough
_GROUPS_PER_PART = 2_000


def pilot_rows(keys: IntArray, plan: Plan, scorer: Scorer, threshold: float, seed: int, threads: int) -> LongArray:
    """Rows of the part, ascending.

    Parameters
    ----------
    keys, plan, scorer
        As in `join`.
    threshold
        Nats of evidence from which on a record is brought along.
    seed
        Of the sample.
    threads
        Has no influence on the result.
    """
    n = len(keys)
    sampled = np.zeros(n, dtype=np.bool_)
    sampled[np.random.default_rng([seed, 12]).choice(n, min(SEEDS, n), replace=False)] = True
    taken = sampled.copy()
    for key in plan.keys:
        order, ptr = groups_of_key(keys, key, sampled)

        def beside(lo: int, hi: int, order: IntArray = order, ptr: LongArray = ptr) -> IntArray:
            return np.asarray(kernels.beside_kernel(order, ptr, lo, hi, sampled, scorer, threshold))

        for found in map_ranges(beside, ranges(len(ptr) - 1, _GROUPS_PER_PART), threads):
            taken[found] = True
    return np.flatnonzero(taken)
