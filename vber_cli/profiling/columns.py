"""What one column of one database holds: missing, distinct and frequent values, type, order of dates, capitals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.codebook import is_missing
from vber_cli.encode.dates import DateReading, resolve_reading
from vber_cli.encode.types import FieldType, canonical
from vber_cli.model.types import IntArray, LongArray

LONGEST = 200  # characters of a value that are shown; the rest is cut


@dataclass(frozen=True)
class ColumnValues:
    """A column as distinct values and codes.

    Attributes
    ----------
    values, counts
        V texts, and (V,) int64 how many rows have each, none of them missing or unused.
    codes
        (R,) int32 the value of each row, -1 where missing.
    """

    values: pa.StringArray
    counts: LongArray
    codes: IntArray

    @classmethod
    def of(cls, column: pa.DictionaryArray, null_keys: pa.Array) -> ColumnValues:
        """Take a column apart; `null_keys` are the spellings of missing, see `codebook.null_keys`."""
        texts = column.dictionary.cast(pa.string())
        index = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = pc.fill_null(is_missing(texts, null_keys), True).to_numpy(zero_copy_only=False)
        counts = np.bincount(index[index >= 0], minlength=len(texts))
        used = np.flatnonzero((counts > 0) & ~missing)
        code_of = np.full(len(texts) + 1, -1, dtype=np.int32)  # the last entry is where -1 looks
        code_of[used] = np.arange(len(used), dtype=np.int32)
        return cls(texts.take(pa.array(used)), counts[used].astype(np.int64), code_of[index])

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return int((self.codes < 0).sum())

    def most_frequent(self, n: int) -> tuple[tuple[str, int], ...]:
        """The n most frequent values and their rows; of equally frequent ones the first in order of their bytes."""
        n = min(n, len(self.counts))
        if n == 0:
            return ()
        least = np.partition(self.counts, -n)[-n]
        above, level = np.flatnonzero(self.counts > least), np.flatnonzero(self.counts == least)
        first = pc.select_k_unstable(
            pa.table({"value": self.values.take(pa.array(level))}), n - len(above), [("value", "ascending")]
        ).to_numpy()
        chosen = np.concatenate([above, level[first]])
        found = [(text, int(c)) for text, c in zip(self.values.take(pa.array(chosen)).to_pylist(), self.counts[chosen],
                                                   strict=True)]  # fmt: skip
        found.sort(key=lambda one: (-one[1], one[0]))
        return tuple((_cut(text), count) for text, count in found)

    def capitals(self) -> tuple[int, int]:
        """Rows whose value has two letters or more that know capitals, and those of them all in capitals.

        A single letter may well be a code.
        """
        upper = pc.utf8_upper(self.values)
        cased = pc.and_(pc.not_equal(upper, pc.utf8_lower(self.values)), pc.greater(pc.utf8_length(self.values), 1))
        cased_rows = cased.to_numpy(zero_copy_only=False).astype(bool)
        capital_rows = cased_rows & pc.equal(upper, self.values).to_numpy(zero_copy_only=False).astype(bool)
        return int(self.counts[cased_rows].sum()), int(self.counts[capital_rows].sum())

    def reading(self, name: str, kind: FieldType) -> DateReading | None:
        """How this column's dates are read, where it is one of a field of kind date; as `comparison.compare` does."""
        if kind.kind != "date":
            return None
        latest = kind.dates.latest_year if kind.dates is not None else None
        return resolve_reading(name, self.values.to_pylist(), self.counts, latest)[0]

    def sampled_forms(self, rows: LongArray, kind: FieldType, reading: DateReading | None) -> pa.StringArray:
        """(n,) comparison forms of the values in some rows."""
        codes = self.codes[rows]
        used, index = np.unique(codes, return_inverse=True)
        forms = canonical(self.values.take(pa.array(used, mask=used < 0)), kind, reading)
        return forms.take(pa.array(index))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
