"""The orchestrator of `vber sample`: read, run the chains with checkpoints, write."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vber_cli.config import SAMPLE_OPTIONS, SampleOptions
from vber_cli.engine.smered import Chain, Sampler, Settings
from vber_cli.errors import OutputError, VberError
from vber_cli.io.checkpoint import load_checkpoint, save_checkpoint
from vber_cli.io.write import ResultDirectory
from vber_cli.model.order import canonical_order, in_order
from vber_cli.parallel import map_ranges
from vber_cli.progress import Progress
from vber_cli.provenance import Provenance
from vber_cli.results.sampled import summarise_sample, write_sample
from vber_cli.resuming import check_same, identity_of
from vber_cli.running import Run, n_cores, open_databases, peak_memory, read_databases

_ROUND_SECONDS = (0.2, 0.8)  # a round of all chains should take about so long
_CHECKPOINT_SHARE = 0.05  # of the time at most, whatever --checkpoint-every says, unless it says 0
_BYTES, _PER_RECORD, _PER_DRAW = 150e6, 150.0, 16.0  # of memory: once, for a chain's record, and for each of its draws
_LARGEST_R_HAT = 1.1


@dataclass(frozen=True)
class SampleOutcome:
    """Where the results are, and what the summary says."""

    directory: Path
    summary: dict[str, Any]


def run_sample(options: SampleOptions, progress: Progress, *, stdin: BinaryIO | None) -> SampleOutcome:
    """Sample the linkage of the databases and write the results.

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
    with ResultDirectory(options.out, force=options.force) as result, run.within_budget(result.path.parent):
        checkpoint = _Checkpoint(result.path.with_name(f"{result.path.name}.checkpoint.npz"), options, progress)
        databases = open_databases(options, stdin)
        encoded = read_databases(options, run, databases)
        n = encoded.records.n_records
        settings = Settings(
            n if options.K is None else options.K, options.iterations, options.n_burn_in, options.thin_every,
            n if options.moves_per_sweep is None else options.moves_per_sweep,
            options.beta_parameters, options.theta_prior, options.seed,
        )  # fmt: skip
        _check_budget(run, options, n)
        provenance = Provenance.of(
            options.seed, options.digest(), [d.name for d in databases], [d.digest() for d in databases]
        )
        order = canonical_order(encoded.records)
        with run.phase("prepare"):
            sampler = Sampler(in_order(encoded.records, order), settings)
        chains, seconds = _run_chains(sampler, options, run, checkpoint, provenance)
        with run.phase("write"):
            written = write_sample(result, options, provenance, encoded, order, chains)
        summary = summarise_sample(options, settings, provenance, databases, encoded, chains, written, seconds)
        _warn_of_disagreement(run, summary)
        summary |= {"warnings": run.warnings, "seconds": run.timings, "peak_memory_bytes": peak_memory()}
        result.write_json("summary.json", summary)
        result.commit()
        checkpoint.remove()
    return SampleOutcome(Path(options.out), summary)


def _run_chains(
    sampler: Sampler, options: SampleOptions, run: Run, checkpoint: _Checkpoint, provenance: Provenance
) -> tuple[list[Chain], float]:
    """Run all chains to their end, in rounds; an interruption leaves a checkpoint."""
    chains, before = checkpoint.restore(sampler, provenance)
    done = sum(chain.iteration for chain in chains)
    if done:
        run.progress.note(f"going on after {min(chain.iteration for chain in chains):,} iterations of each chain")
    threads = options.threads or n_cores()
    parts = [(c, c + 1) for c in range(len(chains))]
    step, began = 1, time.perf_counter()
    with run.phase("sample", len(chains) * options.iterations) as phase:
        phase.advance(done)
        try:
            while done < len(chains) * options.iterations:
                until, round_began = min(chain.iteration for chain in chains) + step, time.perf_counter()
                map_ranges(lambda c, _, until=until: sampler.advance(chains[c], until), parts, threads)  # type: ignore[misc]
                now = time.perf_counter()
                moved = sum(chain.iteration for chain in chains) - done
                done += moved
                phase.advance(moved)
                if now - round_began < _ROUND_SECONDS[0]:
                    step *= 2
                elif now - round_began > _ROUND_SECONDS[1]:
                    step = max(step // 2, 1)
                checkpoint.save_if_due(chains, before + now - began)
        except BaseException as error:
            if not isinstance(error, VberError):
                checkpoint.save(chains, before + time.perf_counter() - began)
                run.progress.note(f"the chains so far are in {checkpoint.path}; --resume goes on from there")
            raise
    return chains, before + time.perf_counter() - began


class _Checkpoint:
    """The checkpoint file of a run."""

    def __init__(self, path: Path, options: SampleOptions, progress: Progress) -> None:
        self.path = path
        self._options = options
        self._found: tuple[dict[str, np.ndarray], dict[str, Any]] | None = None
        self._identity: dict[str, Any] = {}
        self._saved = time.perf_counter()
        self._cost = 0.0
        if options.resume and path.exists():
            self._found = load_checkpoint(path)
        elif options.resume:
            progress.note(f"there is no checkpoint {path.name}: beginning")
        elif path.exists() and not options.force:
            raise OutputError(
                f"{path} holds the chains of an interrupted run", "go on with --resume, or begin again with --force"
            )

    def restore(self, sampler: Sampler, provenance: Provenance) -> tuple[list[Chain], float]:
        """Return the chains to go on with, and the seconds spent on them before."""
        self._identity = identity_of(self._options, SAMPLE_OPTIONS, provenance)
        if self._found is None:
            return [sampler.start(c) for c in range(self._options.chains)], 0.0
        arrays, facts = self._found
        check_same(str(self.path), facts.get("identity", {}), self._identity, SAMPLE_OPTIONS)
        chains = []
        for c in range(self._options.chains):
            prefix = f"{c}/"
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            chains.append(sampler.restored(own))
        return chains, float(facts["seconds"])

    def save_if_due(self, chains: list[Chain], seconds: float) -> None:
        """Save if the last time is long enough ago."""
        every = self._options.checkpoint_every
        wait = max(every, self._cost / _CHECKPOINT_SHARE) if every > 0 else 0.0
        if time.perf_counter() - self._saved >= wait:
            self.save(chains, seconds)

    def save(self, chains: list[Chain], seconds: float) -> None:
        """Write where the chains are; none may be moving."""
        began = time.perf_counter()
        arrays = {f"{c}/{name}": array for c, chain in enumerate(chains) for name, array in chain.arrays().items()}
        save_checkpoint(self.path, arrays, {"identity": self._identity, "seconds": seconds})
        self._saved = time.perf_counter()
        self._cost = self._saved - began

    def remove(self) -> None:
        """Remove the file, where there is one."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


def _check_budget(run: Run, options: SampleOptions, n_records: int) -> None:
    """Refuse a run whose draws would not fit: kept, copied for the checkpoint, and hashed."""
    of_chains = _PER_RECORD * options.chains * n_records
    draws = _PER_DRAW * options.chains * n_records * options.n_draws
    run.check_budget(
        f"a run that keeps {options.chains * options.n_draws:,} draws of {n_records:,} records",
        _BYTES + of_chains + draws, _BYTES + of_chains, "raise --max-memory or --thin, or lower --chains",
    )  # fmt: skip


def _warn_of_disagreement(run: Run, summary: dict[str, Any]) -> None:
    found = summary["convergence"] | {f"the distortion of {item['field']}": item for item in summary["fields"]}
    worst = max(found, key=lambda name: found[name]["r_hat"] or 0.0)
    r_hat = found[worst]["r_hat"]
    if r_hat is None:
        run.warn("too few iterations after the burn-in to tell whether the chains agree: raise --iterations")
    elif r_hat > _LARGEST_R_HAT:
        shown = {"n": "the number of individuals", "log_joint": "the log joint"}.get(worst, worst)
        run.warn(f"the chains have not come together: R-hat of {shown} is {r_hat:.2f}; raise --iterations")
