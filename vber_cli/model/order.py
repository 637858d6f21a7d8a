"""The order in which the engine sees the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vber_cli.model.types import IntArray, LongArray, Records


def canonical_order(
    records: Records, pairs: Sequence[tuple[IntArray, IntArray]] = (), names: Sequence[str] | None = None
) -> LongArray:
    """(N,) int64: the records in an order that depends on their content only.

    Everything seeded then comes out the same whatever the order of the rows and the files, up to which of several
    records with the same content, and decided `pairs` with records of the same content, is which.
    """
    h = np.zeros(records.n_records, dtype=np.uint64)
    for column in records.codes.T:
        h = (h ^ (column.astype(np.int64) + 1).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(32)
    decided = np.zeros((len(pairs), len(h)), dtype=np.uint64)
    for out, (a, b) in zip(decided, pairs, strict=True):
        np.add.at(out, a, h[b])
        np.add.at(out, b, h[a])
    # databases by name, not by their place on the command line, where rules may tell them apart
    database = records.db_of_record if names is None else np.argsort(np.argsort(names))[records.db_of_record]
    return np.lexsort((database, *decided, h)).astype(np.int64)


def in_order(records: Records, order: LongArray) -> Records:
    """The records in another order; their databases are then no longer non-decreasing."""
    codes = np.ascontiguousarray(records.codes[order])
    return Records(codes, records.db_of_record[order], records.n_values)
