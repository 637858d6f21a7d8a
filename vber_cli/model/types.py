"""Arrays that every layer shares: the records, the prior, and the hyperparameters.

Notation (model.md section 1): N records, F fields, V_f values of field f, D databases, K individuals.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vber_cli.model.counting_kernels import numbered_kernel, together_kernel

IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MISSING = -1
T = TypeVar("T")


@dataclass(frozen=True)
class Records:
    """All records of all databases as integer codes, in database order, then row order.

    Attributes
    ----------
    codes
        (N, F) int32, C-contiguous; the value's code in its field, `MISSING` (-1) where there is none.
    db_of_record
        (N,) int32, the database of each record, non-decreasing.
    n_values
        (F,) int64, V_f: codes of field f lie in 0..V_f - 1.
    whole, rows
        Of a part of the records: the records it was taken from, and which (N,) it took.
    values
        Where a part holds only some values: which (ΣV,) of those of the whole, all fields' numbered through.
    """

    codes: IntArray
    db_of_record: IntArray
    n_values: LongArray
    whole: Records | None = field(default=None, repr=False)
    rows: LongArray | None = field(default=None, repr=False)
    values: LongArray | None = field(default=None, repr=False)
    _memory: dict[Hashable, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def n_records(self) -> int:
        """N."""
        return int(self.codes.shape[0])

    @property
    def n_fields(self) -> int:
        """F."""
        return int(self.codes.shape[1])

    @property
    def n_databases(self) -> int:
        """D."""
        return int(self.db_of_record.max()) + 1 if len(self.db_of_record) else 0

    def part(self, rows: LongArray) -> Records:
        """Some of the records, with the codes they have; what is counted among records is counted among all."""
        codes = np.ascontiguousarray(self.codes[rows])
        return Records(codes, self.db_of_record[rows], self.n_values, self, rows)

    def with_only(self, values: LongArray) -> Records:
        """The same records with values numbered anew, in the same order: those given, all that they show among them."""
        begin = np.concatenate([[0], np.cumsum(self.n_values)])
        cuts = np.searchsorted(values, begin)
        codes = np.full(self.codes.shape, MISSING, dtype=np.int32)
        for f, column in enumerate(self.codes.T):
            seen = column >= 0
            codes[seen, f] = np.searchsorted(values[cuts[f] : cuts[f + 1]], begin[f] + column[seen])
        return replace(self, codes=codes, n_values=np.diff(cuts).astype(np.int64), values=values)

    def remembered(self, name: Hashable, of: object, make: Callable[[], T]) -> T:
        """What was made last under this name from these records, as long as it is made of the same object `of`."""
        if name not in self._memory or self._memory[name][0] is not of:
            self._memory[name] = of, make()
        made: T = self._memory[name][1]
        return made

    def forget_counts(self) -> None:
        """Give back the memory of what values were counted together; it is counted anew when asked for."""
        for name in [name for name in self._memory if isinstance(name, tuple)]:
            del self._memory[name]

    def counts_together(self, f: int, g: int, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N,) and (N,) float64: records with the same values of f and g as each, and with the same value of g.

        0 where either value is missing. A record counts as its weight (N,), all as 1 where there are no weights; so
        they do among a part of the records, whose counts are those among all. What was counted last is remembered.
        """
        weighted = weight if len(weight) and self.whole is None else None
        return self.remembered(("together", f, g), weighted, lambda: self._count_together(f, g, weighted))

    def _count_together(self, f: int, g: int, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        if self.whole is not None and self.rows is not None:
            both, parent = self.whole.counts_together(f, g, np.zeros(0))
            return both[self.rows], parent[self.rows]
        seen, pair, value = self.remembered(("places", f, g), None, lambda: self._place_together(f, g))
        both, parent = np.zeros((2, self.n_records))
        together_kernel(seen, pair, value, np.zeros(0) if weight is None else weight, both, parent)
        return both, parent

    def _place_together(self, f: int, g: int) -> tuple[IntArray, IntArray, IntArray]:
        """The records that show both f and g, and numbers of the pair of values and of g's value."""
        v, u = self.codes[:, f].astype(np.int64), self.codes[:, g].astype(np.int64)
        seen = np.flatnonzero((v >= 0) & (u >= 0))
        pair = numbered_kernel((u[seen] << 32) | v[seen])
        return seen.astype(np.int32), pair.astype(np.int32), u[seen].astype(np.int32)
