"""Arrays that every layer shares: the records, the prior, and the hyperparameters.

Notation (model.md section 1): N records, F fields, V_f values of field f, D databases, K individuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
LongArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MISSING = -1


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
    """

    codes: IntArray
    db_of_record: IntArray
    n_values: LongArray

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
