"""The kernels a merge needs: whether they were compiled before, and compiling those of its end beside its beginning.

The first run after an installation compiles every kernel it calls, one after the other, for numba compiles one at a
time in a process. So the kernels that are called last are compiled by a second process meanwhile, which goes through
the linking of a few made-up records; the cache on the disk is common to both.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from vber_cli.engine import candidate_pairs, component_kernels, global_kernels, infer, learn
from vber_cli.engine.block_model import block_model
from vber_cli.engine.cavi import fit
from vber_cli.engine.decide import decide, membership
from vber_cli.engine.moves import greedy_labels
from vber_cli.engine.optimise import Limits, optimise
from vber_cli.engine.posterior import Chains, expect
from vber_cli.engine.start import start_from_records
from vber_cli.model.compile_kernels import save_whole
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records
from vber_cli.results import id_kernels

# What every merge calls, whatever its data: asked for other kernels, runs whose records have nothing in common would be
# announced as the first each time. The last is called when results are written, and by the first process only. What
# only large components need may compile later, unannounced.
_MOVES: tuple[Callable[..., Any], ...] = (component_kernels.components_kernel,)
_SWEEPS: tuple[Callable[..., Any], ...] = (global_kernels.cells_kernel, id_kernels.text_hash_kernel)
_RECORDS_OF = (12, *[1] * 40)  # made-up individuals; of the first too many to sum over their partitions
_N_FIELDS = 6
_TRIES = 100  # to end the second process, a tenth of a second each


def merge_compiled(*, moves: bool) -> bool:
    """Whether the kernels of a merge, with or without moves, lie in the cache and are not older than the code."""
    return are_cached((*_MOVES, *_SWEEPS) if moves else _SWEEPS)


def are_cached(kernels: Sequence[Callable[..., Any]]) -> bool:
    """Whether compiled forms of all kernels lie in their cache folder and are not older than the code."""
    return all(_is_cached(kernel) for kernel in kernels)


def _is_cached(kernel: Any) -> bool:
    code = kernel.py_func.__code__
    source = Path(code.co_filename)
    index = f"{source.stem}.{kernel.py_func.__qualname__}-{code.co_firstlineno}.*.nbi"
    changed = source.stat().st_mtime
    return any(file.stat().st_mtime >= changed for file in Path(kernel.stats.cache_path).glob(index))


@contextmanager
def compiling_beside(*, wanted: bool) -> Iterator[None]:
    """As long as it lasts, a second process compiles what linking calls; without one, linking compiles it itself."""
    other = _start_compiling() if wanted else None
    try:
        yield
    finally:
        if other is not None:
            _end(other)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, but not while it saves what it has compiled (`save_whole`), which takes no time."""
    for _ in range(_TRIES):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return
    process.kill()
    process.wait()


def _start_compiling() -> subprocess.Popen[bytes] | None:
    # modules come from where they came from here, and not from the folder where the command was called
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import compile_and_end; compile_and_end()"
    nowhere = subprocess.DEVNULL
    try:
        return subprocess.Popen([sys.executable, "-c", code], stdin=nowhere, stdout=nowhere, stderr=nowhere)
    except OSError:
        return None


def compile_and_end() -> None:
    """What the second process does."""
    save_whole()
    compile_linking()


def compile_linking() -> None:
    """Compile what linking calls, on made-up records: first what takes longest, then from the end.

    The first process compiles what it comes to in the order of the phases. In that order this one would catch up with
    it, and both would compile the same to the end.
    """
    who = np.repeat(np.arange(len(_RECORDS_OF)), _RECORDS_OF)
    n = len(who)
    records = Records(np.tile(who[:, None], _N_FIELDS).astype(np.int32), np.zeros(n, np.int32), np.full(_N_FIELDS, n))
    prior = make_prior(records, "empirical", 0.5)
    settings = learn.Settings(Occupancy(n), False, False, False, 0, 1)
    learned = infer.first_guess(records, prior, SimilarValues.none(prior.value_ptr), settings)
    model, log_new = block_model(records, learned.evidence), learned.log_new
    a, b = (side.astype(np.int32) for side in np.triu_indices(n, 1))
    graph = candidate_pairs.split_pairs(model, candidate_pairs.with_levels(model, (a, b)), log_new).graph
    apart = np.arange(n, dtype=np.int32)
    found = expect(
        model, log_new, graph, Chains(model, graph, 1, apart), seed=0, count=True, n_sweeps=2, threads=1
    )  # fmt: skip
    greedy_labels(model, log_new, graph, 1)
    fit(records, prior, start_from_records(records, n, 0), max_sweeps=2, tol=1e-3, settle_between=True)
    a, b = graph.pair_a, graph.pair_b
    membership(decide(a, b, found.pair_probability, n, (1.0, 1.0)), a, b, found.pair_probability, found.alone)
    optimise(records, prior, model, n, log_new, graph, (a, b), None, Limits(2, 1e-3, 1), lambda _: None)
