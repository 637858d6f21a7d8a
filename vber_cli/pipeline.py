"""The one orchestrator: read, encode, find candidates, infer, write."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from vber_cli.arrays import n_distinct
from vber_cli.compiled import compiling_beside, merge_compiled
from vber_cli.config import OPTIONS, MergeOptions
from vber_cli.constrain import (
    Decisions,
    constraints_in_order,
    occupancy_of,
    read_decisions,
    resolve,
    summary_of,
    too_few,
)
from vber_cli.encode.codebook import Encoded
from vber_cli.encode.comparison import Comparison, compare, types_asked_for
from vber_cli.engine import infer
from vber_cli.engine.block_model import exact_evidence
from vber_cli.engine.learn import Hyperparameters, Settings
from vber_cli.engine.optimise import Step
from vber_cli.errors import UsageError
from vber_cli.io.tables import Database
from vber_cli.io.write import ResultDirectory
from vber_cli.journal import Journal
from vber_cli.learning import Candidates, learn
from vber_cli.model.constraints import Constraints, TooFewIndividualsError, n_free_pairs
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.order import canonical_order, in_order
from vber_cli.model.prior import DEFAULT_CONCENTRATION, make_prior
from vber_cli.model.types import IntArray, LongArray, Records
from vber_cli.progress import Progress
from vber_cli.provenance import Provenance
from vber_cli.results.earlier import Earlier, read_earlier
from vber_cli.results.model_files import write_model
from vber_cli.results.output import estimate_bytes, write_tables
from vber_cli.results.summary import Search, summarise
from vber_cli.resuming import identity_of
from vber_cli.running import (
    Run,
    least_memory_of_merge,
    memory_of_merge,
    n_cores,
    open_databases,
    peak_memory,
    read_databases,
)

_SURELY = 0.75  # of the memory that a run is expected to need: with less it is not even begun
_COMPILING = 2.8e8  # bytes that the compiler holds besides
_MANY_INDIVIDUALS = 100  # times the number of records: a fixed K beyond is worth a warning


@dataclass(frozen=True)
class MergeOutcome:
    """Where the results are, what the summary says, and whether they are complete.

    Attributes
    ----------
    directory, summary
        The results, and what summary.json holds.
    converged
        Whether the sweeps did.
    out_of_time, checkpoint
        Whether the time was up before all was done; then where the rest can be continued from.
    """

    directory: Path
    summary: dict[str, Any]
    converged: bool
    out_of_time: bool = False
    checkpoint: str | None = None


def run_merge(
    options: MergeOptions, progress: Progress, *, stdin: BinaryIO | None, checkpoints: bool = True
) -> MergeOutcome:
    """Merge the databases and write the results.

    Parameters
    ----------
    options
        Checked options; `out` is where the results go.
    progress
        Told of every phase.
    stdin
        What `-` reads.
    checkpoints
        Whether a run that is stopped leaves a checkpoint beside `out`.

    Raises
    ------
    VberError
        Whatever a user can cause; the old results are untouched then.
    Stopped
        By a signal; it tells where the checkpoint is.
    """
    run = Run(options, progress)
    if not options.moves and options.K is None:
        raise UsageError("--no-moves needs a fixed number of individuals", "give one with --K, or leave out --no-moves")
    compiled = merge_compiled(moves=options.moves)  # before a second process begins to
    with (
        ResultDirectory(options.out, force=options.force) as result,
        Journal(
            result.path.with_name(f".{result.path.name}.vber-checkpoint") if checkpoints else None,
            progress, resume=options.resume, max_seconds=options.max_seconds,
        ) as journal,
        compiling_beside(wanted=not compiled and _may_compile_beside(options)),
        run.within_budget(result.path.parent),
    ):  # fmt: skip
        if result.restored:
            progress.note(f"a run died while it replaced {options.out}: the older result is back")
        data = _prepare(options, run, stdin, result, journal, compiled=compiled)
        try:
            found, search = _infer(options, run, data, journal, result)
        except TooFewIndividualsError as error:
            raise too_few(error) from None
        summary = _write(options, run, data, found, search, result, journal)
        result.commit()
        checkpoint = None
        if journal.cut:
            checkpoint = journal.keep()
        else:
            journal.remove()
    return MergeOutcome(Path(options.out), summary, found.optimum.fit.converged, journal.cut, checkpoint)


def _may_compile_beside(options: MergeOptions) -> bool:
    """Whether there are a core and memory for a second process, and something that it knows to compile."""
    return _threads(options) > 1 and options.max_memory_bytes is None and options.moves


def _threads(options: MergeOptions) -> int:
    return options.threads or n_cores()


@dataclass(frozen=True)
class _Data:
    """What is inferred from: the databases as read and as compared, and what is known beside them.

    `order` (N,) is the engine's order of the records. `keys` holds the (N, G) array of their key codes, in that order,
    until the search for candidates takes it: the comparison keeps none. `earlier` is the result of --start-from.
    """

    databases: list[Database]
    encoded: Encoded
    decisions: Decisions
    earlier: Earlier | None
    provenance: Provenance
    compared: Comparison
    order: LongArray
    keys: list[IntArray]
    constraints: Constraints

    @property
    def names(self) -> list[str]:
        return [d.name for d in self.databases]


def _prepare(
    options: MergeOptions,
    run: Run,
    stdin: BinaryIO | None,
    result: ResultDirectory,
    journal: Journal,
    *,
    compiled: bool,
) -> _Data:
    """Read and compare; whatever the files or the options make impossible is found here."""
    earlier = None if options.start_from is None else read_earlier(options.start_from)
    databases, encoded, decisions = _read(options, run, stdin)
    names = [d.name for d in databases]
    read_beside = [*decisions.digests, *([] if earlier is None else [f"start_from:{earlier.digest}"])]
    provenance = Provenance.of(options.seed, options.digest(read_beside), names, [d.digest() for d in databases])
    journal.begin(identity_of(options, OPTIONS, provenance, read_beside), OPTIONS)
    result.check_space(estimate_bytes(encoded, with_records=options.records))
    if not compiled:
        run.progress.note(
            "compiling the inner loops, once after an installation or update: it may take a minute or two"
        )
    compared = _compare(options, run, encoded, names, journal)
    if earlier is not None:
        earlier.check_fields(encoded.codebook.fields, [kind.kind for kind in compared.types])
    order = canonical_order(compared.records, *decisions.keys())
    constraints = constraints_in_order(decisions, encoded.records, order, encoded, options.K)
    _check_options(options, run, compared.records, compiled=compiled)
    journal.share(similar=compared.similar, constraints=constraints)
    key_codes = compared.key_codes[order]
    compared = replace(compared, key_codes=compared.key_codes[:0].copy())
    return _Data(databases, encoded, decisions, earlier, provenance, compared, order, [key_codes], constraints)


def _write(
    options: MergeOptions,
    run: Run,
    data: _Data,
    found: infer.Result,
    search: Search | None,
    result: ResultDirectory,
    journal: Journal,
) -> dict[str, Any]:
    """Write all tables but the model's, which are begun before, and the summary, which is returned."""
    with run.phase("write"):
        posterior = found.posterior
        n_links = 0 if posterior is None else int((posterior.probability >= options.link_min).sum())
        begun = search is not None  # the records are a file of the model's
        result.check_space(estimate_bytes(data.encoded, n_links, with_records=options.records and not begun))
        learned = _hyperparameters(found, search, data.compared.records)
        written = write_tables(
            result, options, data.provenance, data.encoded, data.order, found, learned.log_new, journal.trace,
            _threads(options),
        )  # fmt: skip
        if not begun:
            _write_model(options, data, learned, result, linked=False)
    if journal.earlier:
        run.timings["before"] = journal.earlier
    converged, earlier = found.optimum.fit.converged, data.earlier
    summary = {
        **summarise(options, data.provenance, data.databases, data.encoded, data.compared, found, search, written),
        "complete": converged and not journal.cut,
        "stopped_by": "max-time" if journal.cut else None if converged else "max-sweeps",
        "constraints": summary_of(data.decisions, data.constraints),
        "start_from": None if earlier is None else {"name": Path(earlier.path).name, "sha256": earlier.digest},
        "warnings": run.warnings,
        "seconds": run.timings,
        "peak_memory_bytes": peak_memory(),
    }
    result.write_json("summary.json", summary)
    return summary


def _write_model(
    options: MergeOptions, data: _Data, learned: Hyperparameters, result: ResultDirectory, *, linked: bool
) -> None:
    """Begin to write what was learned, and the records as they were read; that goes on beside what follows."""
    write_model(
        result, data.provenance.metadata(), data.encoded, data.compared, learned.in_order(data.order.argsort()),
        linked=linked, with_records=options.records,
    )  # fmt: skip


def _read(options: MergeOptions, run: Run, stdin: BinaryIO | None) -> tuple[list[Database], Encoded, Decisions]:
    databases = open_databases(options, stdin)
    decisions = read_decisions(options, [d.name for d in databases])
    encoded = read_databases(options, run, databases)
    resolve(decisions, encoded)
    for note in decisions.notes():
        run.progress.note(note)
    return databases, encoded, decisions


def _compare(options: MergeOptions, run: Run, encoded: Encoded, names: list[str], journal: Journal) -> Comparison:
    fields = encoded.codebook.fields
    asked = types_asked_for(options.type, fields)
    if not options.moves:
        # the literal algorithm compares the values as they are
        if options.type:
            run.progress.note("--type has no effect with --no-moves: the literal algorithm compares values as they are")
        asked = dict.fromkeys(fields, "category")
    with run.phase("compare"):
        threads = _threads(options)
        compared = journal.step(
            "compare", lambda: compare(encoded.records, encoded.codebook, tuple(names), asked, threads)
        )
    for note in compared.notes:
        run.progress.note(note)
    return compared


def _check_options(options: MergeOptions, run: Run, records: Records, *, compiled: bool) -> None:
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
    need, least = memory_of_merge(n, records.n_fields), least_memory_of_merge(n, records.n_fields)
    run.check_budget(
        "this run" if compiled else "this run, which compiles the inner loops first,",
        need, least if compiled else least + _COMPILING,
        "raise --max-memory, or compare fewer fields with --fields", surely=_SURELY,
    )  # fmt: skip


def _infer(
    options: MergeOptions, run: Run, data: _Data, journal: Journal, result: ResultDirectory
) -> tuple[infer.Result, Search | None]:
    compared, order, constraints = data.compared, data.order, data.constraints
    records, as_read = in_order(compared.records, order), in_order(data.encoded.records, order)
    threads = _threads(options)
    fixed = options.concentration
    prior = make_prior(records, options.prior, DEFAULT_CONCENTRATION if fixed is None else fixed)
    clock = [time.perf_counter()]

    def on_step(step: Step) -> None:
        now = time.perf_counter()
        journal.trace.append((step, now - clock[0]))
        clock[0] = now
        phase.advance()

    settings = Settings(
        occupancy_of(constraints, records.n_records, options.K), fixed is None, options.prior == "empirical",
        fixed is None and not options.independent, options.seed, threads, checkpoints=journal,
    )  # fmt: skip
    if not options.moves:
        start = "records" if options.start == "auto" else options.start
        journal.finish()
        with run.phase("sweep") as phase:
            found = infer.run_literal(
                as_read, prior, int(options.K or 0), start, settings,
                max_sweeps=options.max_sweeps, tol=options.tol, on_step=on_step,
            )  # fmt: skip
        return found, None
    candidates = Candidates(
        records, data.keys.pop(), compared.key_field, settings.occupancy, constraints, options.seed, threads,
        journal,
    )  # fmt: skip

    def learned_under(settings: Settings) -> infer.Learned:
        guess = infer.first_guess(records, prior, compared.similar, settings, constraints)
        earlier = data.earlier
        known = None if earlier is None else earlier.start(guess, records, data.names, settings.occupancy)
        return learn(records, candidates, guess, settings, known)

    with run.phase("learn") as phase:
        settings = replace(settings, on_round=phase.advance)
        learned, candidates.plan, candidates.pairs = journal.step(
            "learn",
            lambda: (learned_under(settings), candidates.plan, candidates.pairs),
        )
    alpha = learned.hyperparameters.evidence.prior.concentration
    shown_prior = make_prior(as_read, options.prior, alpha)
    with run.phase("certify"):
        certificate = journal.step("certify", lambda: candidates.certify(learned.hyperparameters, learned.pairs))
        records.forget_counts()
        if options.K is None:  # with a fixed K it may be that all is to be learned anew, with K free
            candidates.forget_keys()
    journal.finish()
    _write_model(options, data, learned.hyperparameters, result, linked=True)
    with run.phase("link") as phase:
        clock[0] = time.perf_counter()
        found = infer.run_moves(
            records, learned.pairs, learned.hyperparameters, (as_read, shown_prior), settings, options.start,
            max_sweeps=options.max_sweeps, tol=options.tol, loss=options.loss_weights,
            missed_share=1.0 - certificate.recall, missed=certificate.missed, on_step=on_step, on_draw=phase.advance,
        )  # fmt: skip
    possible = n_free_pairs(constraints, records.n_records)
    search = Search(learned, certificate, candidates.plan, len(learned.pairs), candidates.pairs.compared, possible)
    if found.optimum.forced:
        free_k = replace(settings, occupancy=replace(settings.occupancy, n_individuals=None), on_round=lambda: None)
        free = journal.step("free", lambda: learned_under(free_k))
        run.warn(
            f"--K {options.K:,} is fewer than the data show: about {free.hyperparameters.n:,.0f} individuals are "
            f"recorded; records were forced into {options.K:,}"
        )
    return found, search


def _hyperparameters(found: infer.Result, search: Search | None, records: Records) -> Hyperparameters:
    """What was learned; the literal updates keep A and learn nothing."""
    if search is not None:
        return search.learned.hyperparameters
    n = float(n_distinct(found.label))
    return Hyperparameters(
        exact_evidence(found.prior, records.n_fields),
        n,
        Occupancy(records.n_records, found.n_individuals).log_new(n),
    )
