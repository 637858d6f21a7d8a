"""From candidate pairs to hyperparameters and calibrated link probabilities (MODEL.md sections 3, 4 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vber_cli.engine import hyper
from vber_cli.engine.block_kernels import merge_kernel
from vber_cli.engine.evidence_kernels import pair_evidence
from vber_cli.engine.graph import Graph, build_graph
from vber_cli.engine.parallel import map_ranges
from vber_cli.engine.posterior import Chains, Expectation, component_parts, expect, record_theta
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, Records

# Pairs this many nats below even odds do not join components: together they would hold a link in about 400.
EDGE_SLACK = 6.0
_MAX_ROUNDS = 40
_SWEEPS_LEARNING = 30
_SWEEPS_POSTERIOR = 60


@dataclass(frozen=True)
class Hyperparameters:
    """A, and how many individuals there are: log_new is the log weight of one more."""

    prior: Prior
    n: float
    log_new: float


@dataclass
class Settings:
    """What the user fixed, and how to run.

    Attributes
    ----------
    occupancy
        The prior over the number of individuals, K fixed or not.
    learn_concentration, learn_base
        Whether α and θ are learned.
    """

    occupancy: Occupancy
    learn_concentration: bool
    learn_base: bool
    seed: int
    threads: int
    on_round: Callable[[int, float], None] | None = field(default=None)


def edges_of(a: IntArray, b: IntArray, evidence: FloatArray, log_new: float) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs that may be links, strong enough to join components, and their evidence."""
    keep = evidence - log_new > -EDGE_SLACK
    return a[keep], b[keep], evidence[keep]


def greedy_labels(records: Records, prior: Prior, log_new: float, graph: Graph, threads: int) -> IntArray:
    """(N,) int32 labels after greedy merges along the edges, the strongest first."""
    label = np.arange(records.n_records, dtype=np.int32)
    merge_pass(records, prior, log_new, graph, label, threads)
    return label


def merge_pass(
    records: Records, prior: Prior, log_new: float, graph: Graph, label: IntArray, threads: int
) -> int:
    """Greedy merges in place (MODEL.md section 2); returns how many."""
    theta = record_theta(records, prior)
    order = edge_order(records, prior, graph)
    lists = [np.zeros(records.n_records, np.int32) for _ in range(3)]

    def work(lo: int, hi: int) -> int:
        return int(
            merge_kernel(
                lo, hi, graph.comp_ptr, graph.comp_record, graph.pair_ptr, graph.pair_a, graph.pair_b, order,
                records.codes, theta, prior.concentration, log_new, label, *lists,
            )
        )  # fmt: skip

    return sum(map_ranges(work, component_parts(graph, 0, graph.n_components), threads))


def edge_order(records: Records, prior: Prior, graph: Graph) -> np.ndarray:
    """(P,) int64: the pairs of each component, by falling evidence."""

    weight = pair_evidence(records, prior, graph.pair_a, graph.pair_b)
    component = np.repeat(np.arange(graph.n_components), np.diff(graph.pair_ptr))
    return np.lexsort((-weight, component)).astype(np.int64)


def learn(
    records: Records,
    pairs: tuple[IntArray, IntArray],
    evidence_of: Callable[[Prior], FloatArray],
    start: Hyperparameters,
    settings: Settings,
    max_rounds: int = _MAX_ROUNDS,
) -> tuple[Hyperparameters, int]:
    """Variational EM to convergence: the link posterior, then α, θ, n and K from it, and again.

    Stops when n moves by less than one in twenty thousand and every α by less than half a percent. Returns the
    hyperparameters and the number of rounds.
    """
    now = start
    for number in range(1, max_rounds + 1):
        a, b, _ = edges_of(*pairs, evidence_of(now.prior), now.log_new)
        graph = build_graph(a, b, records.n_records)
        found = _pass(records, now, graph, settings, number, _SWEEPS_LEARNING)
        before, now = now, update(records, now, found, settings)
        if settings.on_round is not None:
            settings.on_round(number, now.n)
        alpha_change = np.max(np.abs(np.log(now.prior.concentration / before.prior.concentration)), initial=0.0)
        if abs(now.n - before.n) < 5e-5 * max(now.n, 1.0) and alpha_change < 5e-3:
            break
    return now, number


def _pass(
    records: Records, now: Hyperparameters, graph: Graph, settings: Settings, number: int, sweeps: int
) -> Expectation:
    chains = None
    if graph.n_components > graph.n_small:
        chains = Chains(graph, 2, greedy_labels(records, now.prior, now.log_new, graph, settings.threads))
    return expect(
        records, now.prior, now.log_new, graph, chains,
        seed=settings.seed * 7919 + number, draw=False, n_sweeps=sweeps, threads=settings.threads,
    )  # fmt: skip


def update(records: Records, now: Hyperparameters, found: Expectation, settings: Settings) -> Hyperparameters:
    """The M step."""
    prior = now.prior
    if settings.learn_concentration:
        prior = prior.with_concentration(hyper.best_concentration(found.stats))
    if settings.learn_base:
        prior = hyper.learn_base(records, prior, found.repeats)
    return Hyperparameters(prior, found.n_mean, settings.occupancy.log_new(found.n_mean))
