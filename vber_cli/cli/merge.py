"""`vber merge`: run the pipeline, then print what was asked for."""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from vber_cli.cli.options import MergeCommand, merge_options
from vber_cli.cli.streams import drop_stdout
from vber_cli.config import MergeOptions, SampleOptions
from vber_cli.errors import OutputError, UsageError
from vber_cli.progress import JsonProgress, Progress, make_progress, one_line

EXIT_UNCONVERGED = 6


@click.command(cls=MergeCommand, short_help="Find the records that are the same individual.")
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def merge(ctx: click.Context, /, **parameters: Any) -> int:
    """Find which records of the databases FILES are the same individual.

    The results are Parquet files and summary.json in the directory --out: who is who (assignments, phi), the pairs
    (links), the merged database (individuals), the fields' distributions (lambda) and the course of the run (trace).

    With --stdout a result is printed as CSV as well; then the directory is kept only if --out names it.
    """
    options, given = merge_options(ctx, parameters)
    if not options.files:
        raise UsageError("no database is given", "name the files, for example: vber merge clinic.csv police.csv")
    if options.stdout is not None and sys.stdout is None:
        raise OutputError("standard output is closed", "leave out --stdout, or redirect it to a file")
    keep = options.stdout is None or "out" in given
    if options.resume and not keep:
        raise UsageError(
            "--resume has nothing to go on from: with --stdout alone nothing is kept on disk",
            "name the result directory of the interrupted run with --out",
        )
    return run(options, keep=keep)


def run(options: MergeOptions, *, keep: bool) -> int:
    """Merge as the options say and return the exit code.

    Parameters
    ----------
    options
        Checked options with at least one file.
    keep
        Whether the result directory is kept; else it is a temporary one.
    """
    from vber_cli.pipeline import run_merge

    began = time.perf_counter()
    progress = make_progress(sys.stderr, quiet=options.quiet, verbose=options.verbose, log_json=options.log_json)
    stdin = sys.stdin.buffer if sys.stdin is not None else None
    with _result_path(options.out, keep=keep) as out:
        outcome = run_merge(dataclasses.replace(options, out=out), progress, stdin=stdin, checkpoints=keep)
        if options.stdout is not None:
            try:
                print_table(Path(outcome.directory) / f"{options.stdout}.parquet")
            except BrokenPipeError:  # the reader has seen enough
                drop_stdout()
    if outcome.out_of_time:
        progress.warn(
            f"stopped after the {options.max_time} of --max-time; the results are written, but not complete"
            + (f" (--resume --force goes on from {outcome.checkpoint})" if outcome.checkpoint else "")
        )
    elif not outcome.converged:
        progress.warn(
            f"not converged after {options.max_sweeps:,} sweeps; "
            "the results are written all the same (--max-sweeps allows more)"
        )
    print_summary(options, progress, outcome.summary, out if keep else None, time.perf_counter() - began)
    return 0 if outcome.converged and not outcome.out_of_time else EXIT_UNCONVERGED


@contextmanager
def _result_path(out: str, *, keep: bool) -> Iterator[str]:
    if keep:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="vber-") as directory:
        yield os.path.join(directory, "result")


def print_table(path: Path) -> None:
    """Write a result table to standard output as CSV.

    Parameters
    ----------
    path
        A Parquet file.

    Raises
    ------
    OutputError
        If the run did not write this table.
    """
    import pyarrow.parquet as pq

    from vber_cli.results.csv_text import csv_chunk, csv_header

    if not path.exists():
        raise OutputError(f"this run wrote no table {path.stem}", "choose another table for --stdout")
    out = sys.stdout.buffer
    with pq.ParquetFile(path) as file:
        out.write(csv_header(file.schema_arrow.names))
        for batch in file.iter_batches():
            out.write(csv_chunk(batch))
    out.flush()


def print_summary(
    options: MergeOptions | SampleOptions,
    progress: Progress,
    summary: Mapping[str, Any],
    out: str | None,
    seconds: float,
) -> None:
    """Say on a terminal, or where it was asked for, what a run has found and where; as an event with --log-json."""
    if isinstance(progress, JsonProgress):
        progress.event("done", out=out, seconds=round(seconds, 3))
        return
    stream = sys.stderr
    if options.quiet or stream is None or not (stream.isatty() or options.verbose):
        return
    with suppress(OSError, ValueError):
        for line in summary_lines(summary, out, seconds):
            stream.write(one_line(line) + "\n")
        stream.flush()


def summary_lines(summary: Mapping[str, Any], out: str | None, seconds: float) -> list[str]:
    """Return what a finished run says on a terminal, from what its summary holds.

    Parameters
    ----------
    summary
        The content of summary.json.
    out
        The result directory, None if nothing is kept.
    seconds
        How long the run took.
    """
    lines = []
    inputs = summary.get("inputs")
    if isinstance(inputs, list):
        records = [item.get("n_records") for item in inputs if isinstance(item, dict)]
        counted = [count for count in records if isinstance(count, int)]
        lines.append(f"{sum(counted):,} records in {len(inputs):,} database{'s' if len(inputs) != 1 else ''}")
    found = summary.get("n")
    if isinstance(found, dict) and "mean" in found:
        line = f"{found['mean']:,.0f} individuals"
        if found.get("low") is not None and found.get("high") is not None:
            line += f" (90% interval {found['low']:,.0f} to {found['high']:,.0f})"
        lines.append(line)
    links = summary.get("n_links")
    if isinstance(links, int):
        lines.append(f"{links:,} pairs that may be one individual")
    warnings = summary.get("warnings")
    if isinstance(warnings, list) and warnings:
        lines.append(f"{len(warnings):,} warning{'s' if len(warnings) != 1 else ''}, see above")
    lines.append(f"{'results in ' + out if out is not None else 'no results kept'} ({seconds:.1f} s)")
    return lines
