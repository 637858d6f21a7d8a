"""Tables and summary of a sampler's run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from vber_cli.config import SampleOptions
from vber_cli.encode.codebook import Encoded
from vber_cli.engine import smered_kernels as kernels
from vber_cli.engine.decide import membership
from vber_cli.engine.diagnostics import effective_sample_size, split_r_hat
from vber_cli.engine.matching import MatchingSets, PairShares, matching_sets, pair_shares
from vber_cli.engine.smered import Chain, Settings
from vber_cli.io import schema
from vber_cli.io.tables import Database
from vber_cli.io.write import ResultDirectory
from vber_cli.model.types import MISSING, FloatArray, IntArray, LongArray, Records
from vber_cli.provenance import Provenance, versions
from vber_cli.results import individuals as tables
from vber_cli.results.summary import describe_inputs

_IDENTICAL, _DIFFERENT, _GAP = 0, 3, 9
_INTERVAL = (0.05, 0.95)


@dataclass(frozen=True)
class WrittenSample:
    """What came out on writing: individuals of the point estimate, and links."""

    n_individuals: int
    n_links: int


def write_sample(
    result: ResultDirectory,
    options: SampleOptions,
    provenance: Provenance,
    encoded: Encoded,
    order: LongArray,
    chains: Sequence[Chain],
) -> WrittenSample:
    """Write draws, iterations, assignments and links.

    Parameters
    ----------
    result
        The directory under construction.
    options, provenance
        What decides which rows are written, and what goes into the metadata.
    encoded, order
        The records as they were read; (N,) int64, the place in the input of each in the engine's order.
    chains
        All chains, at their end.
    """
    facts = provenance.metadata()
    names = tables.RecordNames(
        tuple(item.name for item in provenance.inputs), encoded.records.db_of_record, encoded.row, encoded.record_id
    )
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    _write_iterations(result, facts, encoded.codebook.fields, chains)
    _write_draws(result, options, facts, names, place, chains)
    draws = [draw for chain in chains for draw in chain.draws]
    sets, pairs = matching_sets(draws), pair_shares(draws)
    n = _write_assignments(result, facts, names, order, place, sets, pairs)
    n_links = _write_links(result, options, facts, names, encoded, order, pairs)
    return WrittenSample(n, n_links)


def _write_iterations(
    result: ResultDirectory, facts: dict[str, str], fields: tuple[str, ...], chains: Sequence[Chain]
) -> None:
    writer = result.writer("iterations", schema.iterations_schema(fields), facts)
    for c, chain in enumerate(chains):
        n = len(chain.trace)
        columns = [
            np.full(n, c, np.int32), np.arange(1, n + 1, dtype=np.int32), chain.trace[:, 0].astype(np.int32),
            *(np.ascontiguousarray(column) for column in chain.trace[:, 1:].T),
        ]  # fmt: skip
        writer.write(pa.Table.from_arrays([pa.array(x) for x in columns], schema=writer.schema))


def _write_draws(
    result: ResultDirectory,
    options: SampleOptions,
    facts: dict[str, str],
    names: tables.RecordNames,
    place: LongArray,
    chains: Sequence[Chain],
) -> None:
    writer = result.writer("draws", schema.DRAWS, facts)
    n = len(place)
    database, row, _ = names.columns()
    for c, chain in enumerate(chains):
        for t, draw in enumerate(chain.draws):
            iteration = options.n_burn_in + (t + 1) * options.thin_every
            columns = [np.full(n, c, np.int32), np.full(n, iteration, np.int32)]
            individual = pa.array(first_records(draw[place]))
            writer.write(
                pa.Table.from_arrays([*map(pa.array, columns), database, row, individual], schema=writer.schema)
            )


def first_records(label: IntArray) -> LongArray:
    """(N,) int64: for each record the first one with the same label, a number in 0..N−1."""
    first = np.zeros(len(label), dtype=np.int64)
    first[label[::-1]] = np.arange(len(label) - 1, -1, -1)
    return np.asarray(first[label])


def _write_assignments(
    result: ResultDirectory,
    facts: dict[str, str],
    names: tables.RecordNames,
    order: LongArray,
    place: LongArray,
    sets: MatchingSets,
    pairs: PairShares,
) -> int:
    n = int(sets.label.max(initial=-1)) + 1
    ids = tables.individual_ids(names.hashes()[order], np.arange(len(order)), sets.label, n)
    member = membership(sets.label, pairs.a, pairs.b, pairs.probability, sets.alone)
    table = tables.assignment_table(
        names, ids, sets.label[place], member.probability[place], member.runner_up[place],
        member.runner_up_probability[place],
    )  # fmt: skip
    table = table.append_column(schema.SAMPLED_ASSIGNMENTS.field("set_probability"), pa.array(sets.probability[place]))
    result.writer("assignments", schema.SAMPLED_ASSIGNMENTS, facts).write(table)
    return n


def _write_links(
    result: ResultDirectory,
    options: SampleOptions,
    facts: dict[str, str],
    names: tables.RecordNames,
    encoded: Encoded,
    order: LongArray,
    pairs: PairShares,
) -> int:
    keep = pairs.probability >= options.link_min
    a, b = order[pairs.a[keep]], order[pairs.b[keep]]
    first, second = np.minimum(a, b), np.maximum(a, b)
    fields = encoded.codebook.fields
    levels = compared_letter_for_letter(encoded.records, first, second)
    table = tables.link_table(names, fields, first, second, pairs.probability[keep], levels)
    result.writer("links", table.schema.remove_metadata(), facts).write(table)
    return len(table)


def compared_letter_for_letter(records: Records, a: LongArray, b: LongArray) -> np.ndarray:
    """(P, F) int8 levels of pairs: identical, different, or missing on either side."""
    x, y = records.codes[a], records.codes[b]
    levels = np.where(x == y, _IDENTICAL, _DIFFERENT)
    return np.where((x == MISSING) | (y == MISSING), _GAP, levels).astype(np.int8)


def summarise_sample(
    options: SampleOptions,
    settings: Settings,
    provenance: Provenance,
    databases: Sequence[Database],
    encoded: Encoded,
    chains: Sequence[Chain],
    written: WrittenSample,
    seconds: float,
) -> dict[str, Any]:
    """Everything that `summary.json` holds but timings, memory and warnings; `seconds` is the time of the chains."""
    trace = np.stack([chain.trace[options.n_burn_in :] for chain in chains])
    quantities = {"n": trace[:, :, 0], "log_joint": trace[:, :, 1]}
    fields = encoded.codebook.fields
    missing = (encoded.records.codes < 0).mean(axis=0)
    return {
        "method": "SMERED",
        "inputs": describe_inputs(provenance, databases, encoded),
        "options": {key: value for key, value in options.to_dict().items() if key not in ("files", "out")},
        "config_digest": provenance.config_digest,
        "codebook_checksum": encoded.codebook.checksum,
        "versions": versions(),
        "n": _mean_and_interval(trace[:, :, 0]),
        "K": {"mean": float(settings.n_individuals), "low": None, "high": None},
        "n_individuals": written.n_individuals,
        "n_links": written.n_links,
        "fields": [
            {
                "field": field,
                "n_values": int(encoded.records.n_values[f]),
                "missing": float(missing[f]),
                "beta": _mean_and_interval(trace[:, :, 2 + f]),
                **_convergence(trace[:, :, 2 + f]),
            }
            for f, field in enumerate(fields)
        ],
        "convergence": {name: _convergence(draws) for name, draws in quantities.items()},
        "sampler": _sampler_summary(options, settings, chains, seconds),
    }


def _mean_and_interval(draws: FloatArray) -> dict[str, float]:
    low, high = np.quantile(draws, _INTERVAL)
    return {"mean": float(draws.mean()), "low": float(low), "high": float(high)}


def _convergence(draws: FloatArray) -> dict[str, float | None]:
    return {"r_hat": split_r_hat(draws), "effective_sample_size": effective_sample_size(draws)}


def _sampler_summary(
    options: SampleOptions, settings: Settings, chains: Sequence[Chain], seconds: float
) -> dict[str, Any]:
    counter = np.sum([chain.state.counter for chain in chains], axis=0)
    made = settings.iterations * len(chains)
    names = {"merge": kernels.MERGES, "split": kernels.SPLITS, "reassign": kernels.SHIFTS}
    return {
        "chains": len(chains),
        "iterations": settings.iterations,
        "burn_in": settings.burn_in,
        "thin": settings.thin,
        "draws": len(chains) * options.n_draws,
        "moves_per_sweep": settings.n_moves,
        "seconds": seconds,
        "iterations_per_second": made / seconds if seconds > 0 else None,
        "moves_per_second": made * settings.n_moves / seconds if seconds > 0 else None,
        "moves": {name: {"proposed": int(counter[at]), "accepted": int(counter[at + 1])} for name, at in names.items()},
    }
