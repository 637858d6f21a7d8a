"""The bound of hard partitions, kept block by block: after moves only the blocks that changed are weighed anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.arrays import first_alike, stable_order
from vber_cli.engine import cavi
from vber_cli.engine.block_kernels import blocks_weight_kernel
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.moves import symmetrised
from vber_cli.engine.start import relabel
from vber_cli.model.prior import Prior
from vber_cli.model.types import IntArray, Records
from vber_cli.parallel import map_ranges, ranges

_BLOCKS_PER_PART = 16384


@dataclass(frozen=True)
class Weighed:
    """The ELBO of a partition's hard φ, its bound under the full model, and how many blocks it has."""

    elbo: float
    bound: float
    n: int


class PartitionBound:
    """Weighs partitions of the same records, one after the other.

    Parameters
    ----------
    records, prior, model, n_individuals
        The data, A of the ELBO, the weights of the full model, and K.
    placed
        (N,) bool, records without any value that stand where they are put; None where all of them stand nowhere.
    threads
        Has no influence on the result.
    """

    def __init__(
        self,
        records: Records,
        prior: Prior,
        model: BlockModel,
        n_individuals: int,
        placed: np.ndarray | None,
        threads: int,
    ) -> None:
        self._records, self._prior, self._model, self._threads = records, prior, model, threads
        self._n_individuals, self._placed = n_individuals, placed
        n = records.n_records
        # of the partition weighed last: each record's block, by its first record, and what that block adds
        self._first: IntArray = np.full(n, -1, dtype=np.int32)
        self._elbo, self._weight = np.zeros(n), np.zeros(n)
        blank = cavi.blank_records(records)
        self._n_blank = int((blank if placed is None else blank & ~placed).sum())
        self._apart = model.log_theta

    def of(self, label: IntArray) -> Weighed:
        """Weigh the partition `label` (N,), which has at most K blocks."""
        first = first_alike(label)
        changed = np.flatnonzero(first != self._first)
        touched = np.zeros(len(first), dtype=bool)
        touched[first[changed]] = True
        before = self._first[changed]
        touched[before[before >= 0]] = True
        self._elbo[touched] = 0.0
        self._weight[touched] = 0.0
        rows = np.flatnonzero(touched[first])
        if len(rows):
            self._weigh(rows, first[rows])
        self._first = first
        n, log_k = int(np.count_nonzero(first == np.arange(len(first)))), float(np.log(self._n_individuals))
        elbo = float(np.sum(self._elbo)) - (len(first) - self._n_blank) * log_k
        weight = float(np.sum(self._weight)) + self._apart - len(first) * log_k
        return Weighed(elbo, symmetrised(weight, self._n_individuals, n), n)

    def _weigh(self, rows: np.ndarray, first: IntArray) -> None:
        """Store what the blocks add that the records `rows` make up, at their first records."""
        leads = rows[first == rows]
        label = relabel(first)
        part = self._records.part(rows)
        placed = None if self._placed is None else self._placed[rows]
        linkage = cavi.hard_linkage(part, label, max(self._n_individuals, len(leads)), placed)
        counts = cavi.accumulate(part, self._prior, linkage, self._threads)
        self._elbo[leads] = cavi.log_partitions(self._prior, counts, self._threads)
        order = rows[stable_order(label)].astype(np.int32)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(label))]).astype(np.int64)
        blocks = map_ranges(
            lambda lo, hi: blocks_weight_kernel(ptr[lo : hi + 1], order, self._model),
            ranges(len(leads), _BLOCKS_PER_PART),
            self._threads,
        )
        self._weight[leads] = np.concatenate(blocks)
