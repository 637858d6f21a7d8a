"""The one orchestrator: read, encode, find candidates, infer, write."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vber_cli.candidates.audit import Certificate, audit
from vber_cli.candidates.join import Pairs, choose_threshold, join, make_scorer
from vber_cli.candidates.plan import Plan, key_columns, make_plan
from vber_cli.config import MergeOptions
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
from vber_cli.engine.block_model import block_model, exact_evidence
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.learn import CERTAIN_LOG_ODDS, Hyperparameters, Settings, tilt_of
from vber_cli.engine.optimise import Step
from vber_cli.errors import BudgetError, UsageError
from vber_cli.io.tables import Database
from vber_cli.io.write import ResultDirectory
from vber_cli.model import evidence
from vber_cli.model.constraints import Constraints, TooFewIndividualsError, allowed_pairs, n_free_pairs
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.order import canonical_order, in_order
from vber_cli.model.prior import DEFAULT_CONCENTRATION, Prior, make_prior
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.progress import Progress
from vber_cli.provenance import Provenance
from vber_cli.results.earlier import Earlier, read_earlier
from vber_cli.results.model_files import write_model
from vber_cli.results.output import write_tables
from vber_cli.results.summary import Search, summarise
from vber_cli.running import Run, open_databases, peak_memory, read_databases

_MANY_INDIVIDUALS = 100  # times the number of records: a fixed K beyond is worth a warning


@dataclass(frozen=True)
class MergeOutcome:
    """Where the results are, what the summary says, and whether the sweeps converged."""

    directory: Path
    summary: dict[str, Any]
    converged: bool


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
        earlier = None if options.start_from is None else read_earlier(options.start_from)
        databases, encoded, decisions = _read(options, run, stdin)
        compared = _compare(options, run, encoded, [d.name for d in databases])
        if earlier is not None:
            earlier.check_fields(encoded.codebook.fields, [kind.kind for kind in compared.types])
        order = canonical_order(compared.records, *decisions.keys())
        constraints = constraints_in_order(decisions, encoded.records, order, encoded, options.K)
        _check_options(options, run, compared.records)
        trace: list[tuple[Step, float]] = []
        try:
            learning = Learning(earlier, [d.name for d in databases])
            found, search = _infer(options, run, encoded.records, compared, order, constraints, trace, learning)
        except TooFewIndividualsError as error:
            raise too_few(error) from None
        learned = _hyperparameters(found, search, compared.records)
        provenance = Provenance.of(
            options.seed,
            options.digest([*decisions.digests, *([] if earlier is None else [f"start_from:{earlier.digest}"])]),
            [d.name for d in databases],
            [d.digest() for d in databases],
        )
        with run.phase("write"):
            written = write_tables(result, options, provenance, encoded, compared, order, found, learned.log_new, trace)
            write_model(
                result, provenance.metadata(), encoded, compared, learned,
                linked=search is not None, with_records=options.records,
            )  # fmt: skip
        summary = {
            **summarise(options, provenance, databases, encoded, compared, found, search, written),
            "constraints": summary_of(decisions, constraints),
            "start_from": None if earlier is None else {"name": Path(earlier.path).name, "sha256": earlier.digest},
            "warnings": run.warnings,
            "seconds": run.timings,
            "peak_memory_bytes": peak_memory(),
        }
        result.write_json("summary.json", summary)
        result.commit()
    return MergeOutcome(Path(options.out), summary, found.optimum.fit.converged)


def _read(options: MergeOptions, run: Run, stdin: BinaryIO | None) -> tuple[list[Database], Encoded, Decisions]:
    databases = open_databases(options, stdin)
    decisions = read_decisions(options, [d.name for d in databases])
    encoded = read_databases(options, run, databases)
    resolve(decisions, encoded)
    for note in decisions.notes():
        run.progress.note(note)
    return databases, encoded, decisions


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


@dataclass(frozen=True)
class Learning:
    """How learning begins: with a first guess and from there anew, or with what an earlier result has learned.

    Attributes
    ----------
    earlier
        The result of --start-from, if any.
    databases
        Names of the databases at hand.
    """

    earlier: Earlier | None
    databases: list[str]

    def learn(
        self, records: Records, prior: Prior, compared: Comparison, settings: Settings, candidates: Candidates
    ) -> infer.Learned:
        """Learn the hyperparameters of the records, which stand in the engine's order."""
        guess = infer.first_guess(records, prior, compared.similar, settings, candidates.constraints)
        if self.earlier is None:
            return infer.learn_from(records, candidates.find, guess, settings)
        start = self.earlier.start(guess, records, self.databases, settings.occupancy)
        return infer.learn_on(records, candidates.find, start, settings)


def _infer(
    options: MergeOptions,
    run: Run,
    encoded: Records,
    compared: Comparison,
    order: LongArray,
    constraints: Constraints,
    trace: list[tuple[Step, float]],
    learning: Learning,
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
        occupancy_of(constraints, records.n_records, options.K), fixed is None, options.prior == "empirical",
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
    candidates = Candidates(records, compared, order, settings.occupancy, constraints, options.seed, threads)
    with run.phase("learn") as phase:
        settings = replace(settings, on_round=phase.advance)
        learned = learning.learn(records, prior, compared, settings, candidates)
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
    possible = n_free_pairs(constraints, records.n_records)
    search = Search(learned, certificate, candidates.plan, len(learned.pairs), candidates.pairs.compared, possible)
    if found.optimum.forced:
        free_k = replace(settings, occupancy=replace(settings.occupancy, n_individuals=None), on_round=lambda: None)
        free = learning.learn(records, prior, compared, free_k, candidates)
        run.warn(
            f"--K {options.K:,} is fewer than the data show: about {free.hyperparameters.n:,.0f} individuals are "
            f"recorded; records were forced into {options.K:,}"
        )
    return found, search


def _hyperparameters(found: infer.Result, search: Search | None, records: Records) -> Hyperparameters:
    """What was learned; the literal updates keep A and learn nothing."""
    if search is not None:
        return search.learned.hyperparameters
    n = float(len(np.unique(found.label)))
    return Hyperparameters(
        exact_evidence(found.prior, records.n_fields),
        n,
        Occupancy(records.n_records, found.n_individuals).log_new(n),
    )


class Candidates:
    """Finds candidate pairs under given hyperparameters, and keeps the last plan and pairs for the certificate."""

    def __init__(
        self,
        records: Records,
        compared: Comparison,
        order: LongArray,
        occupancy: Occupancy,
        constraints: Constraints,
        seed: int,
        threads: int,
    ) -> None:
        self._records, self._occupancy, self.constraints = records, occupancy, constraints
        self._seed, self._threads = seed, threads
        self._key_codes = np.ascontiguousarray(compared.key_codes[order])
        self._key_field = compared.key_field
        self.plan = Plan((), 1.0, True)
        self.pairs = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), 0)

    def find(self, now: Hyperparameters) -> tuple[IntArray, IntArray]:
        """Plan and join; drop the pairs that cannot be links, and add those that must."""
        prior, noise = now.evidence.prior, now.evidence.noise
        entropy = evidence.collision_entropy(prior)
        identical = evidence.agreement_rate(prior) * (noise.share[:, None] * noise.levels[:, :, 0]).sum(axis=0)
        columns = key_columns(self._key_codes, self._key_field, entropy, identical)
        scorer = make_scorer(self._records, prior, now.evidence.similar, noise)
        threshold = choose_threshold(scorer, self._even(now), self._seed)
        self.plan = make_plan(columns, entropy, evidence.mismatch_evidence(prior), threshold, self._seed)
        found = join(self._key_codes, self.plan, scorer, threshold, self._threads)
        self.pairs = Pairs(*allowed_pairs(self.constraints, (found.a, found.b)), found.compared)
        return self.pairs.a, self.pairs.b

    def _even(self, now: Hyperparameters) -> float:
        """The evidence in nats around which pairs are worth a look, also where the databases nearly hold everybody."""
        return max(now.log_new, self._occupancy.log_new(now.n))

    def certify(self, now: Hyperparameters) -> Certificate:
        """Compare a sample of the records with all."""
        model = block_model(self._records, now.evidence)
        scorer = make_scorer(self._records, now.evidence.prior, now.evidence.similar, now.evidence.noise)

        def evidence_of(a: IntArray, b: IntArray) -> FloatArray:
            first, second = np.minimum(a, b), np.maximum(a, b)
            link, doubt = pair_evidence(model, second, pair_levels(model, first, second))
            known = self.constraints.standing(a, b)
            free = link - doubt + tilt_of(model, first, second)
            return np.where(known == 0, free, known * CERTAIN_LOG_ODDS)

        return audit(self.pairs, scorer, now.log_new, self._even(now), evidence_of, self._seed, self._threads)
