"""The one orchestrator: read, encode, find candidates, infer, write."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vber_cli.candidates.audit import Certificate, audit
from vber_cli.candidates.join import Pairs, choose_threshold, join, make_scorer
from vber_cli.candidates.plan import Plan, key_columns, make_plan
from vber_cli.config import MergeOptions, SampleOptions
from vber_cli.encode.codebook import Encoded, encode
from vber_cli.encode.comparison import Comparison, compare, types_asked_for
from vber_cli.encode.fields import map_fields
from vber_cli.engine import infer
from vber_cli.engine.block_model import block_model
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.learn import Hyperparameters, Settings
from vber_cli.engine.optimise import Step
from vber_cli.errors import BudgetError, UsageError
from vber_cli.io.tables import Database, open_database, resolve_sources
from vber_cli.io.write import ResultDirectory
from vber_cli.model import evidence
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import DEFAULT_CONCENTRATION, make_prior
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.progress import Progress
from vber_cli.provenance import Provenance
from vber_cli.results.output import write_tables
from vber_cli.results.summary import Search, summarise

_MANY_INDIVIDUALS = 100  # times the number of records: a fixed K beyond is worth a warning


@dataclass(frozen=True)
class MergeOutcome:
    """Where the results are, what the summary says, and whether the sweeps converged."""

    directory: Path
    summary: dict[str, Any]
    converged: bool


class Run:
    """Timings, warnings and the memory budget of a run."""

    def __init__(self, options: MergeOptions | SampleOptions, progress: Progress) -> None:
        self.progress = progress
        self.timings: dict[str, float] = {}
        self.warnings: list[str] = []
        self.budget = options.max_memory_bytes

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Any]:
        """Run a phase: shown, timed, and checked against the budget at its end."""
        began = time.perf_counter()
        with self.progress.phase(name, total) as phase:
            yield phase
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - began
        used = peak_memory()
        if self.budget is not None and used > self.budget:
            raise BudgetError(
                f"{name} took the memory to {used / 2**20:,.0f} MiB, over the {self.budget / 2**20:,.0f} MiB "
                "of --max-memory",
                "raise --max-memory, or compare fewer fields with --fields",
            )

    def warn(self, message: str) -> None:
        """Warn, and keep the warning for the summary."""
        self.warnings.append(message)
        self.progress.warn(message)


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def run_merge(options: MergeOptions, progress: Progress, *, stdin: BinaryIO | None) -> MergeOutcome:
    """Merge the databases and write the results.

    Parameters
    ----------
    options
        Checked options; `out` is where the results go.
    progress
        Told of every phase.
    stdin
        What `-` reads.

    Raises
    ------
    VberError
        Whatever a user can cause; the old results are untouched then.
    """
    run = Run(options, progress)
    if not options.moves and options.K is None:
        raise UsageError("--no-moves needs a fixed number of individuals", "give one with --K, or leave out --no-moves")
    with ResultDirectory(options.out, force=options.force) as result:
        databases, encoded = read_inputs(options, run, stdin)
        compared = _compare(options, run, encoded, [d.name for d in databases])
        order = canonical_order(compared.records)
        _check_options(options, run, compared.records)
        trace: list[tuple[Step, float]] = []
        found, search = _infer(options, run, encoded.records, compared, order, trace)
        provenance = Provenance.of(
            options.seed, options.digest(), [d.name for d in databases], [d.digest() for d in databases]
        )
        with run.phase("write"):
            written = write_tables(result, options, provenance, encoded, compared, order, found, trace)
        summary = {
            **summarise(options, provenance, databases, encoded, compared, found, search, written),
            "warnings": run.warnings,
            "seconds": run.timings,
            "peak_memory_bytes": peak_memory(),
        }
        result.write_json("summary.json", summary)
        result.commit()
    return MergeOutcome(Path(options.out), summary, found.optimum.fit.converged)


def read_inputs(
    options: MergeOptions | SampleOptions, run: Run, stdin: BinaryIO | None
) -> tuple[list[Database], Encoded]:
    """Open the databases, decide which columns are which fields, and read the values as codes.

    Raises
    ------
    VberError
        If a file cannot be read, or the databases have no field in common.
    """
    sources = resolve_sources(options.files)
    databases = [
        open_database(source, delimiter=options.delimiter, encoding=options.encoding, stdin=stdin) for source in sources
    ]
    field_map = map_fields(
        [d.name for d in databases],
        [d.columns for d in databases],
        fields=options.fields,
        exclude=options.exclude,
        maps=options.map,
        ids=options.id,
    )
    for note in [*(n for d in databases for n in d.announcements), *field_map.announcements]:
        run.progress.note(note)
    with run.phase("read") as phase:
        encoded = encode(
            [d.name for d in databases],
            lambda d, columns: databases[d].batches(columns),
            field_map,
            null_tokens=options.null,
            on_progress=phase.advance,
        )
    for note in encoded.announcements:
        run.progress.note(note)
    return databases, encoded


def _compare(options: MergeOptions, run: Run, encoded: Encoded, names: list[str]) -> Comparison:
    fields = encoded.codebook.fields
    asked = types_asked_for(options.type, fields)
    if not options.moves:
        # the literal algorithm compares the values as they are
        if options.type:
            run.progress.note("--type has no effect with --no-moves: the literal algorithm compares values as they are")
        asked = dict.fromkeys(fields, "category")
    with run.phase("compare"):
        compared = compare(
            encoded.records, encoded.codebook, tuple(names), asked, options.threads or os.cpu_count() or 1
        )
    for note in compared.notes:
        run.progress.note(note)
    return compared


def canonical_order(records: Records) -> LongArray:
    """(N,) int64: the records in an order that depends on their content only.

    Everything seeded then comes out the same whatever the order of the rows and the files, up to which of several
    records with the same content is which.
    """
    h = np.zeros(records.n_records, dtype=np.uint64)
    for column in records.codes.T:
        h = (h ^ (column.astype(np.int64) + 1).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(32)
    return np.lexsort((records.db_of_record, h)).astype(np.int64)


def in_order(records: Records, order: LongArray) -> Records:
    """The records in another order; their databases are then no longer non-decreasing."""
    codes = np.ascontiguousarray(records.codes[order])
    return Records(codes, records.db_of_record[order], records.n_values)


def _check_options(options: MergeOptions, run: Run, records: Records) -> None:
    n, k = records.n_records, options.K
    if k is not None and k > _MANY_INDIVIDUALS * n:
        run.warn(
            f"--K {k:,} is {k / n:,.0f} times the {n:,} records: among so many individuals hardly any two records "
            "would be of the same one"
        )
    if not options.moves and options.concentration is None:
        run.progress.note(
            f"the literal updates keep A fixed: concentration {DEFAULT_CONCENTRATION} for every field "
            "(--concentration sets another)"
        )
    if run.budget is not None:
        need = estimate_memory(records)
        if need > run.budget:
            raise BudgetError(
                f"this run needs about {need / 2**20:,.0f} MiB, over the {run.budget / 2**20:,.0f} MiB of --max-memory",
                "raise --max-memory, or compare fewer fields with --fields",
            )


def estimate_memory(records: Records) -> float:
    """Return a rough estimate of the bytes that inference will need, the program itself included."""
    n, f = records.n_records, records.n_fields
    return 150e6 + n * (f * 40.0 + 250.0) + 40.0 * float(records.n_values.sum())


def _infer(
    options: MergeOptions,
    run: Run,
    encoded: Records,
    compared: Comparison,
    order: LongArray,
    trace: list[tuple[Step, float]],
) -> tuple[infer.Result, Search | None]:
    records, as_read = in_order(compared.records, order), in_order(encoded, order)
    threads = options.threads or os.cpu_count() or 1
    fixed = options.concentration
    prior = make_prior(records, options.prior, DEFAULT_CONCENTRATION if fixed is None else fixed)
    clock = [time.perf_counter()]

    def on_step(step: Step) -> None:
        now = time.perf_counter()
        trace.append((step, now - clock[0]))
        clock[0] = now
        phase.advance()

    settings = Settings(
        Occupancy(records.n_records, options.K), fixed is None, options.prior == "empirical",
        fixed is None and not options.independent, options.seed, threads,
    )  # fmt: skip
    if not options.moves:
        start = "records" if options.start == "auto" else options.start
        with run.phase("sweep") as phase:
            found = infer.run_literal(
                as_read, prior, int(options.K or 0), start, settings,
                max_sweeps=options.max_sweeps, tol=options.tol, on_step=on_step,
            )  # fmt: skip
        return found, None
    candidates = _Candidates(records, compared, order, options.seed, threads)
    with run.phase("learn") as phase:
        settings = replace(settings, on_round=phase.advance)
        start_from = infer.first_guess(records, prior, compared.similar, settings)
        learned = infer.learn_from(records, candidates.find, start_from, settings)
    alpha = learned.hyperparameters.evidence.prior.concentration
    shown_prior = make_prior(as_read, options.prior, alpha)
    with run.phase("certify"):
        certificate = candidates.certify(learned.hyperparameters)
    with run.phase("link") as phase:
        clock[0] = time.perf_counter()
        found = infer.run_moves(
            records, learned.pairs, learned.hyperparameters, (as_read, shown_prior), settings, options.start,
            max_sweeps=options.max_sweeps, tol=options.tol, loss=options.loss_weights,
            missed_share=1.0 - certificate.recall, on_step=on_step, on_draw=phase.advance,
        )  # fmt: skip
    search = Search(learned, certificate, candidates.plan, len(learned.pairs), candidates.pairs.compared)
    if found.optimum.forced:
        free_k = replace(settings, occupancy=Occupancy(records.n_records), on_round=lambda: None)
        start_from = infer.first_guess(records, prior, compared.similar, free_k)
        free = infer.learn_from(records, candidates.find, start_from, free_k)
        run.warn(
            f"--K {options.K:,} is fewer than the data show: about {free.hyperparameters.n:,.0f} individuals are "
            f"recorded; records were forced into {options.K:,}"
        )
    return found, search


class _Candidates:
    """Finds candidate pairs under given hyperparameters, and keeps the last plan and pairs for the certificate."""

    def __init__(self, records: Records, compared: Comparison, order: LongArray, seed: int, threads: int) -> None:
        self._records, self._seed, self._threads = records, seed, threads
        self._key_codes = np.ascontiguousarray(compared.key_codes[order])
        self._key_field = compared.key_field
        self.plan = Plan((), 1.0, True)
        self.pairs = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), 0)

    def find(self, now: Hyperparameters) -> tuple[IntArray, IntArray]:
        """Plan and join."""
        prior, noise = now.evidence.prior, now.evidence.noise
        entropy = evidence.collision_entropy(prior)
        identical = evidence.agreement_rate(prior) * (noise.share[:, None] * noise.levels[:, :, 0]).sum(axis=0)
        columns = key_columns(self._key_codes, self._key_field, entropy, identical)
        scorer = make_scorer(self._records, prior, now.evidence.similar, noise)
        threshold = choose_threshold(scorer, now.log_new, self._seed)
        self.plan = make_plan(columns, entropy, evidence.mismatch_evidence(prior), threshold, self._seed)
        self.pairs = join(self._key_codes, self.plan, scorer, threshold, self._threads)
        return self.pairs.a, self.pairs.b

    def certify(self, now: Hyperparameters) -> Certificate:
        """Compare a sample of the records with all."""
        model = block_model(self._records, now.evidence)
        scorer = make_scorer(self._records, now.evidence.prior, now.evidence.similar, now.evidence.noise)

        def evidence_of(a: IntArray, b: IntArray) -> FloatArray:
            first, second = np.minimum(a, b), np.maximum(a, b)
            link, doubt = pair_evidence(model, second, pair_levels(model, first, second))
            return link - doubt

        return audit(self.pairs, scorer, now.log_new, evidence_of, self._seed, self._threads)
