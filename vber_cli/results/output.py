"""Writes the tables of a result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vber_cli.config import MergeOptions
from vber_cli.encode.codebook import Encoded
from vber_cli.engine import infer
from vber_cli.engine.candidate_pairs import tilt_of
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.optimise import Step
from vber_cli.io import schema
from vber_cli.io.write import ResultDirectory
from vber_cli.model.types import LongArray, Records
from vber_cli.provenance import Provenance
from vber_cli.results import individuals as tables


@dataclass(frozen=True)
class Written:
    """What came out on writing: individuals, links, φ left out (entries and mass), largest φ outside."""

    n_individuals: int
    n_links: int
    phi_left_out: int
    phi_left_out_mass: float
    phi_outside: float


# Bytes on disk of a result, compressed: once, by record, by record and field, by link, and by byte of distinct values.
_FIXED, _BY_RECORD, _BY_CELL, _BY_LINK, _BY_TEXT = 1.5e5, 64.0, 24.0, 48.0, 2.0
_RECORDS_SHARE = 0.15  # of a cell's bytes, in records.parquet


def estimate_bytes(encoded: Encoded, n_links: int = 0, *, with_records: bool) -> float:
    """About how large a result will be on disk, by its rows and columns.

    Parameters
    ----------
    encoded
        The records.
    n_links
        Pairs in links.parquet at most.
    with_records
        Whether records.parquet is among the tables.
    """
    n, n_fields = encoded.records.codes.shape
    text = float(sum(values.nbytes for values in encoded.codebook.values))
    cell = _BY_CELL if with_records else _BY_CELL * (1.0 - _RECORDS_SHARE)
    return float(_FIXED + n * (_BY_RECORD + cell * n_fields) + _BY_LINK * n_links + _BY_TEXT * text)


def write_tables(
    result: ResultDirectory,
    options: MergeOptions,
    provenance: Provenance,
    encoded: Encoded,
    order: LongArray,
    found: infer.Result,
    log_new: float,
    trace: list[tuple[Step, float]],
    threads: int,
) -> Written:
    """Write every table of a result.

    Parameters
    ----------
    result
        The directory under construction.
    options, provenance
        What goes into the schemas' metadata, and which rows are left out.
    encoded
        The records as they were read.
    order
        (N,) int64, the place in the input of each record in the engine's order.
    found, log_new
        What the engine found, and the log weight of one more individual.
    trace
        Its steps, with their seconds.
    threads
        Has no influence on the result.
    """
    facts = provenance.metadata()
    names = tables.RecordNames(
        tuple(item.name for item in provenance.inputs), encoded.records.db_of_record, encoded.row, encoded.record_id
    )
    hashes = names.hashes()
    own_hashes = hashes[order]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    linkage, counts = found.optimum.fit.linkage, found.optimum.fit.counts
    phi_ids = tables.linkage_ids(own_hashes, linkage)
    rows = tables.lambda_tables(encoded.codebook, found.prior, counts, phi_ids)
    result.writer("lambda", schema.LAMBDA, facts).write_all(rows)  # the largest by far: the first to begin
    writer = result.writer("phi", schema.PHI, facts)
    left_out, left_mass = 0, 0.0
    for table, count, mass in tables.phi_tables(
        names, linkage, phi_ids, infer.phi_probability(found), place, options.phi_min
    ):
        writer.write(table)
        left_out, left_mass = left_out + count, left_mass + mass
    label = found.label
    n = int(label.max(initial=-1)) + 1
    ids = tables.individual_ids(own_hashes, np.arange(len(label)), label, n)
    member = found.membership
    result.writer("assignments", schema.ASSIGNMENTS, facts).write(
        tables.assignment_table(
            names, ids, label[place], member.probability[place], member.runner_up[place],
            member.runner_up_probability[place],
        )
    )  # fmt: skip
    raw = Records(encoded.records.codes[order], encoded.records.db_of_record[order], encoded.records.n_values)
    rows = tables.individual_tables(encoded.codebook, found.prior, raw, ids, label, member.probability)
    columns = schema.individuals_schema(encoded.codebook.fields)
    result.writer("individuals", columns, facts).write_all(rows)
    n_links = _write_links(result, options, facts, names, encoded.codebook.fields, order, found, log_new, threads)
    result.writer("trace", schema.TRACE, facts).write(_trace_table(trace))
    outside = float(linkage.rest[~linkage.blank].max(initial=0.0))
    return Written(n, n_links, left_out, left_mass, outside)


def _write_links(
    result: ResultDirectory,
    options: MergeOptions,
    facts: dict[str, str],
    names: tables.RecordNames,
    fields: tuple[str, ...],
    order: LongArray,
    found: infer.Result,
    log_new: float,
    threads: int,
) -> int:
    posterior = found.posterior
    if posterior is None or found.model is None:
        return 0
    keep = posterior.probability >= options.link_min
    a, b, p = posterior.a[keep], posterior.b[keep], posterior.probability[keep]
    levels = pair_levels(found.model, a, b, threads)
    evidence, doubt = pair_evidence(found.model, b, levels, threads)
    log_odds = evidence - doubt - log_new + tilt_of(found.model, a, b)
    first, second = np.minimum(order[a], order[b]), np.maximum(order[a], order[b])
    table = tables.link_table(names, fields, first, second, p, levels, log_odds)
    result.writer("links", table.schema.remove_metadata(), facts).write(table)
    return len(table)


def _trace_table(trace: list[tuple[Step, float]]) -> pa.Table:
    kinds = pa.array([step.kind for step, _ in trace], pa.string()).dictionary_encode()
    return pa.Table.from_arrays(
        [
            pa.array(range(1, len(trace) + 1), pa.int32()),
            kinds.cast(schema.TRACE.field("kind").type),
            pa.array([step.bound for step, _ in trace], pa.float64()),
            pa.array([step.elbo for step, _ in trace], pa.float64()),
            pa.array([step.max_change for step, _ in trace], pa.float64()),
            pa.array([float(step.n) for step, _ in trace], pa.float64()),
            pa.array([seconds for _, seconds in trace], pa.float64()),
        ],
        schema=schema.TRACE,
    )
