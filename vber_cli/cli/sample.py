"""`vber sample`: run SMERED, the paper's Markov chain Monte Carlo baseline."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from vber_cli.cli.merge import print_summary
from vber_cli.cli.options import SampleCommand, given_options, remember_manners
from vber_cli.config import SAMPLE_OPTIONS, SampleOptions
from vber_cli.errors import UsageError
from vber_cli.progress import make_progress


@click.command(cls=SampleCommand, short_help="Sample the linkage by SMERED, the paper's MCMC baseline.")
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def sample(ctx: click.Context, /, **parameters: Any) -> int:
    """Sample which records of the databases FILES are the same individual, by Markov chain Monte Carlo.

    This is SMERED of Steorts, Hall and Fienberg, with which Broderick and Steorts compare variational Bayes. Values are
    compared letter for letter. Use it to check `vber merge` on data of moderate size, or as a baseline.

    The results are draws of the linkage (draws), the course of every chain (iterations), the most probable maximal
    matching sets (assignments), pair probabilities (links), and summary.json with R-hat and effective sample sizes.
    `vber evaluate` reads them.
    """
    from vber_cli.sampling import run_sample

    options = SampleOptions(**given_options(ctx, parameters, SAMPLE_OPTIONS))  # type: ignore[arg-type]
    remember_manners(ctx, debug=options.debug, log_json=options.log_json, verbose=options.verbose)
    if not options.files:
        raise UsageError("no database is given", "name the files, for example: vber sample clinic.csv police.csv")
    began = time.perf_counter()
    progress = make_progress(sys.stderr, quiet=options.quiet, verbose=options.verbose, log_json=options.log_json)
    outcome = run_sample(options, progress, stdin=sys.stdin.buffer if sys.stdin is not None else None)
    print_summary(options, progress, outcome.summary, options.out, time.perf_counter() - began)
    return 0
