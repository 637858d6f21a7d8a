"""From the engine's arrays to the tables of a result: ids, phi, lambda, assignments, individuals, links."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vber_cli.arrays import distinct, stable_order
from vber_cli.encode.codebook import Codebook
from vber_cli.engine.cavi import FieldCounts, Linkage, accumulate, hard_linkage
from vber_cli.io import schema
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.results.id_kernels import text_hash_kernel
from vber_cli.results.lambda_kernels import lambda_rows_kernel

_ROWS_PER_TABLE, _INDIVIDUALS_PER_TABLE = 1 << 19, 1 << 17
LEAST_DOUBT = 1e-15  # log odds are those of probabilities up to 1 less this


@dataclass(frozen=True)
class RecordNames:
    """How the records are called, in the order of the inputs.

    Attributes
    ----------
    databases
        (D,) names.
    db_of_record, row
        (N,) int32 and int64: database and 0-based row of each record.
    record_id
        (N,) text.
    """

    databases: tuple[str, ...]
    db_of_record: IntArray
    row: LongArray
    record_id: pa.Array

    def columns(self, records: np.ndarray | None = None) -> list[pa.Array]:
        """Return database, row and record id of some records, or of all."""
        db, row, ids = self.db_of_record, self.row, self.record_id
        if records is not None:
            db, row, ids = db[records], row[records], ids.take(pa.array(records))
        names = pa.array(self.databases, pa.string())
        return [pa.DictionaryArray.from_arrays(pa.array(db, pa.int32()), names), pa.array(row), ids.cast(pa.string())]

    def hashes(self) -> LongArray:
        """(N,) int64, 53-bit hashes of database and record id."""
        ids = self.record_id.cast(pa.large_string())
        _, offset, data = ids.buffers()
        offsets = np.frombuffer(offset, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        salts = text_hash_kernel(*_text(self.databases), np.uint64(0))
        out = np.empty(len(ids), np.int64)
        edges = np.searchsorted(self.db_of_record, np.arange(len(self.databases) + 1))
        for d, (lo, hi) in enumerate(itertools.pairwise(edges.tolist())):
            out[lo:hi] = text_hash_kernel(text, offsets[lo : hi + 1], np.uint64(salts[d]))
        return out


def _text(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [name.encode("utf-8", "surrogateescape") for name in names]
    offset = np.concatenate([[0], np.cumsum([len(name) for name in encoded])]).astype(np.int64)
    return np.frombuffer(b"".join(encoded) or b"\0", np.uint8), offset


def individual_ids(hashes: LongArray, record: LongArray, individual: IntArray, n_individuals: int) -> LongArray:
    """(n,) int64: each individual is called after that of its records whose hash is least.

    Parameters
    ----------
    hashes
        (N,) from `RecordNames.hashes`.
    record, individual
        (M,) which record lies in which individual, 0..n−1.
    n_individuals
        n; an individual without a record gets a number of its own.
    """
    out = np.full(n_individuals, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(out, individual, hashes[record])
    return _made_unique(out)


def _made_unique(ids: LongArray) -> LongArray:
    """Count up where two individuals have the same number; in the order of the individuals, so always the same way."""
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) == len(ids):
        return ids
    out: LongArray = ids.copy()
    taken = set(unique.tolist())
    for value in unique[counts > 1].tolist():
        for at in np.flatnonzero(ids == value)[1:].tolist():
            new = value % (1 << 53)
            while new in taken:
                new = (new + 1) % (1 << 53)
            taken.add(new)
            out[at] = new
    return out


def linkage_ids(hashes: LongArray, linkage: Linkage) -> LongArray:
    """(n_stored,) int64 ids of φ's individuals: from the records that lean on each most, else on it at all."""
    _, likeliest = linkage.likeliest()
    own = np.flatnonzero(likeliest >= 0)
    out = np.full(linkage.n_stored, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(out, likeliest[own], hashes[own])
    bare = out == np.iinfo(np.int64).max
    if bare.any():
        record = np.repeat(np.arange(len(linkage.ptr) - 1), np.diff(linkage.ptr))
        on_bare = bare[linkage.individual]
        np.minimum.at(out, linkage.individual[on_bare], hashes[record[on_bare]])
    return _made_unique(out)


def phi_tables(
    names: RecordNames,
    linkage: Linkage,
    ids: LongArray,
    probability: FloatArray,
    place: LongArray,
    phi_min: float,
) -> Iterator[tuple[pa.Table, int, float]]:
    """Rows of `phi`, in the order of the inputs, with the number and the mass of the entries left out.

    Parameters
    ----------
    names
        The records' names.
    linkage, ids, probability
        φ, the ids of its individuals, and (E,) the calibrated memberships, in the engine's order of records.
    place
        (N,) int64: place of each input record in the engine's order.
    phi_min
        Entries below are left out.
    """
    sizes = np.diff(linkage.ptr)
    n = len(place)
    step = max(1, int(_ROWS_PER_TABLE * n / max(len(linkage.phi), n)))
    for lo in range(0, n, step):
        inputs = np.arange(lo, min(lo + step, n))
        rows = place[inputs]
        count = sizes[rows]
        record = np.repeat(inputs, count)
        entry = np.repeat(linkage.ptr[rows] - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(
            count.sum()
        )
        phi, individual, p = linkage.phi[entry], ids[linkage.individual[entry]], probability[entry]
        # what lies on the individuals that are not stored is one row without a number
        rest = np.where(linkage.blank[rows], 1.0, linkage.rest[rows])
        some = rest > 0
        record = np.concatenate([record, inputs[some]])
        phi = np.concatenate([phi, rest[some]])
        individual = np.concatenate([individual, np.full(int(some.sum()), -1)])
        p = np.concatenate([p, rest[some]])
        keep = phi >= phi_min
        order = np.lexsort((-phi[keep], record[keep]))
        record, phi_kept, p = record[keep][order], phi[keep][order], p[keep][order]
        individual = individual[keep][order]
        columns = names.columns(record)
        yield (
            pa.Table.from_arrays(
                [*columns, pa.array(individual, mask=individual < 0), pa.array(phi_kept), pa.array(p)],
                schema=schema.PHI,
            ),
            int((~keep).sum()),
            float(phi[~keep].sum()),
        )


def lambda_tables(codebook: Codebook, prior: Prior, counts: FieldCounts, ids: LongArray) -> Iterator[pa.Table]:
    """Rows of `lambda`: every value an individual was seen with, and one row for all the values it was not."""
    n_fields = len(codebook.fields)
    alpha = prior.alpha
    fields = pa.array(codebook.fields, pa.string())
    step = max(1, _ROWS_PER_TABLE // max(2 * n_fields, 1))
    values = pa.chunked_array(list(codebook.values), pa.string()).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    for lo in range(0, counts.n_stored, step):
        hi = min(lo + step, counts.n_stored)
        individual, field, value, lam, share, own = lambda_rows_kernel(
            lo, hi, counts.cell_ptr, counts.cell_value, counts.cell_count, counts.n_observed, alpha,
            prior.concentration,
        )  # fmt: skip
        yield pa.Table.from_arrays(
            [
                pa.array(ids[individual]),
                pa.DictionaryArray.from_arrays(pa.array(field), fields),
                values.take(pa.array(value, mask=value < 0)),
                pa.array(lam),
                pa.array(share),
                pa.array(own),
            ],
            schema=schema.LAMBDA,
        )


def assignment_table(
    names: RecordNames, ids: LongArray, label: IntArray, probability: FloatArray, rival: IntArray, rival_p: FloatArray
) -> pa.Table:
    """`assignments`: one row per record, in the order of the inputs; all arrays in that order."""
    return pa.Table.from_arrays(
        [
            *names.columns(),
            pa.array(ids[label]),
            pa.array(probability),
            pa.array(ids[np.maximum(rival, 0)], mask=rival < 0),
            pa.array(rival_p, mask=(rival < 0) & (rival_p <= 0)),
        ],
        schema=schema.ASSIGNMENTS,
    )


def individual_tables(
    codebook: Codebook, prior: Prior, records: Records, ids: LongArray, label: IntArray, probability: FloatArray
) -> Iterator[pa.Table]:
    """`individuals`, the merged database, in the order of the ids.

    Parameters
    ----------
    codebook, prior, records
        Values, A, and the records with the values as they were read: of each individual's spellings the most frequent
        one is shown.
    ids, label, probability
        (n,) ids; (N,) the assignment and the memberships.
    """
    n = len(ids)
    by_id = np.argsort(ids, kind="stable")
    rank = np.empty(n, dtype=np.int32)
    rank[by_id] = np.arange(n, dtype=np.int32)
    ranked = rank[label]
    order = stable_order(ranked)
    for lo in range(0, n, _INDIVIDUALS_PER_TABLE):
        hi = min(lo + _INDIVIDUALS_PER_TABLE, n)
        begin, end = np.searchsorted(ranked, [lo, hi], sorter=order)
        rows = order[begin:end]
        part, own = records.part(rows), (ranked[rows] - lo).astype(np.int32)
        counts = accumulate(part, prior, hard_linkage(part, own, hi - lo))
        yield individual_table(codebook, prior, counts, ids[by_id[lo:hi]], own, part.db_of_record, probability[rows])


def individual_table(
    codebook: Codebook,
    prior: Prior,
    counts: FieldCounts,
    ids: LongArray,
    label: IntArray,
    db_of_record: IntArray,
    probability: FloatArray,
) -> pa.Table:
    """Rows of `individuals`, in the order of the ids.

    Parameters
    ----------
    codebook, prior
        Values and A.
    counts
        c of the assignment's individuals (n of them), as `engine.cavi.accumulate` returns for hard φ.
    ids, label, db_of_record, probability
        (n,) ids; (N,) the assignment, the databases and the memberships.
    """
    n, n_fields = len(ids), len(codebook.fields)
    size = np.bincount(label, minlength=n)
    n_databases = int(db_of_record.max(initial=0)) + 1
    both = distinct(label.astype(np.int64) * n_databases + db_of_record)
    in_databases = np.bincount(both // n_databases, minlength=n)
    confidence = np.bincount(label, weights=probability, minlength=n) / np.maximum(size, 1)
    order = np.argsort(ids, kind="stable")
    columns: list[pa.Array] = [
        pa.array(ids[order]),
        pa.array(size[order].astype(np.int32)),
        pa.array(in_databases[order].astype(np.int32)),
        pa.array(confidence[order]),
    ]
    lam = prior.alpha[counts.cell_value] + counts.cell_count
    sizes = np.diff(counts.cell_ptr)
    shown = np.flatnonzero(sizes)  # pairs of an individual and a field with any value
    first = _first_largest(lam, counts.cell_ptr[shown], sizes[shown])
    best = np.full(n * n_fields, -1, dtype=np.int64)
    share = np.zeros(n * n_fields)
    best[shown] = counts.cell_value[first]
    share[shown] = lam[first] / (prior.concentration + counts.n_observed).ravel()[shown]
    best, share = best.reshape(n, n_fields)[order], share.reshape(n, n_fields)[order]
    for f in range(n_fields):
        code = np.where(best[:, f] < 0, -1, best[:, f] - prior.value_ptr[f])
        columns += [codebook.decode(f, code.astype(np.int32)), pa.array(share[:, f], mask=code < 0)]
    return pa.Table.from_arrays(columns, schema=schema.individuals_schema(codebook.fields))


def _first_largest(values: FloatArray, begin: LongArray, size: LongArray) -> LongArray:
    """Where each stretch of `values`, none empty and one behind the other, is largest; the first place of several."""
    if len(begin) == 0:
        return np.zeros(0, dtype=np.int64)
    largest = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, begin), size))
    return np.asarray(largest[np.searchsorted(largest, begin)])


def link_table(
    names: RecordNames,
    fields: Sequence[str],
    a: LongArray,
    b: LongArray,
    probability: FloatArray,
    levels: np.ndarray,
    pair_log_odds: FloatArray | None = None,
) -> pa.Table:
    """`links`, the most probable first.

    Parameters
    ----------
    names, fields
        The records' and the fields' names.
    a, b, probability
        (P,) records in the order of the inputs, a before b.
    levels
        (P, F) int8: 0 identical, 1 close, 2 near, 3 different, 9 missing on either side.
    pair_log_odds
        (P,) log odds of the two records by themselves, without all others; None where there are none.
    """
    order = np.lexsort((b, a, -probability))
    alone = pa.nulls(len(order), pa.float64()) if pair_log_odds is None else pa.array(pair_log_odds[order])
    a, b, probability, levels = a[order], b[order], probability[order], levels[order]
    p = np.clip(probability, 1e-300, 1.0 - LEAST_DOUBT)
    return pa.Table.from_arrays(
        [
            *names.columns(a),
            *names.columns(b),
            pa.array(probability),
            pa.array(np.log(p) - np.log1p(-p)),
            alone,
            *(pa.array(np.ascontiguousarray(levels[:, f])) for f in range(len(fields))),
        ],
        schema=schema.links_schema(fields),
    )
