"""From candidate pairs to hyperparameters: variational EM on the link posterior (model.md sections 3, 4, 6 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vber_cli.engine import hyper
from vber_cli.engine.evidence_kernels import pair_evidence
from vber_cli.engine.graph import Graph, build_graph
from vber_cli.engine.moves import greedy_labels
from vber_cli.engine.noise_classes import choose_classes
from vber_cli.engine.posterior import Chains, Expectation, add_weak_pairs, expect
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, Records

# Pairs below these odds do not join components: they are too weak to change what happens around them, and are counted
# on their own, at first order.
EDGE_LOG_ODDS = -3.0
# Pairs below these odds hold a link in a thousand at most: they are left out while learning.
FAINT_LOG_ODDS = -7.0
_MAX_ROUNDS = 40
_SWEEPS = 18


@dataclass(frozen=True)
class Hyperparameters:
    """A, the noise classes, and how many individuals there are.

    Attributes
    ----------
    prior, noise
        θ with the α_f of all noise classes together; the classes.
    n, log_new
        Expected number of recorded individuals; log weight of one more.
    """

    prior: Prior
    noise: Noise
    n: float
    log_new: float


@dataclass(frozen=True)
class Settings:
    """What the user fixed, and how to run.

    Attributes
    ----------
    occupancy
        The prior over the number of individuals, K fixed or not.
    learn_concentration, learn_base
        Whether α (and with it the noise classes) and θ are learned.
    seed, threads
        The threads have no influence on the result.
    on_round
        Called after every round of learning.
    """

    occupancy: Occupancy
    learn_concentration: bool
    learn_base: bool
    seed: int
    threads: int
    on_round: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class PairGraph:
    """Candidate pairs split into those that join components and those too weak for it.

    Attributes
    ----------
    graph
        Components along the strong pairs.
    weak_a, weak_b, weak_odds
        The other pairs and their odds of being a link by themselves.
    """

    graph: Graph
    weak_a: IntArray
    weak_b: IntArray
    weak_odds: FloatArray


def split_pairs(records: Records, pairs: tuple[IntArray, IntArray], now: Hyperparameters) -> PairGraph:
    """Build the components of the pairs that are strong enough under the current hyperparameters."""
    a, b = pairs
    log_odds = pair_evidence(records, now.prior, now.noise, a, b) - now.log_new
    strong = log_odds > EDGE_LOG_ODDS
    graph = build_graph(a[strong], b[strong], records.n_records)
    # within a small component every pair is looked at, the weak ones too
    small = np.full(records.n_records, -1, dtype=np.int64)
    small_sizes = np.diff(graph.comp_ptr[: graph.n_small + 1])
    small[graph.comp_record[: graph.comp_ptr[graph.n_small]]] = np.repeat(np.arange(graph.n_small), small_sizes)
    weak = ~strong & ((small[a] < 0) | (small[a] != small[b]))
    return PairGraph(graph, a[weak], b[weak], np.exp(log_odds[weak]))


def without_faint(
    records: Records, pairs: tuple[IntArray, IntArray], now: Hyperparameters
) -> tuple[IntArray, IntArray]:
    """The pairs above FAINT_LOG_ODDS."""
    a, b = pairs
    keep = pair_evidence(records, now.prior, now.noise, a, b) - now.log_new > FAINT_LOG_ODDS
    return a[keep], b[keep]


def expectation(
    records: Records, split: PairGraph, now: Hyperparameters, settings: Settings, number: int
) -> Expectation:
    """The E step: one pass over the components, and the weak pairs at first order."""
    chains = None
    if split.graph.n_components > split.graph.n_small:
        greedy = greedy_labels(records, now.prior, now.log_new, split.graph, settings.threads)
        chains = Chains(split.graph, 2, greedy)
    found = expect(
        records, now.prior, now.noise, now.log_new, split.graph, chains,
        seed=settings.seed * 7919 + number, draw=False, n_sweeps=_SWEEPS, threads=settings.threads,
    )  # fmt: skip
    return add_weak_pairs(records, now.prior, now.noise, found, split.weak_a, split.weak_b, split.weak_odds)


def update(records: Records, now: Hyperparameters, found: Expectation, settings: Settings) -> Hyperparameters:
    """The M step."""
    prior, noise = now.prior, now.noise
    if settings.learn_concentration:
        noise, overall = hyper.best_noise(found.stats, found.class_weight)
        prior = prior.with_concentration(overall)
    if settings.learn_base:
        prior = hyper.learn_base(records, prior, found.repeats)
    log_new = settings.occupancy.next_log_new(now.log_new, found.n_mean, found.n_variance)
    return Hyperparameters(prior, noise, found.n_mean, log_new)


def learn(
    records: Records,
    pairs: tuple[IntArray, IntArray],
    start: Hyperparameters,
    settings: Settings,
    max_rounds: int = _MAX_ROUNDS,
) -> Hyperparameters:
    """Variational EM: the link posterior, then α, θ, n and K from it, and again.

    Stops when n moves by less than one in ten thousand and every α by less than two percent.
    """
    now = start
    pairs = without_faint(records, pairs, start)
    for number in range(1, max_rounds + 1):
        found = expectation(records, split_pairs(records, pairs, now), now, settings, number)
        before, now = now, update(records, now, found, settings)
        settings.on_round()
        alpha_change = np.max(np.abs(np.log(now.prior.concentration / before.prior.concentration)), initial=0.0)
        if abs(now.n - before.n) < 1e-4 * max(now.n, 1.0) and alpha_change < 2e-2:
            break
    return now


def agreement_of(records: Records, a: IntArray, b: IntArray) -> np.ndarray:
    """(P, F) int8 of pairs of records: 1 agree, 0 differ, -1 missing on either side."""
    left, right = records.codes[a], records.codes[b]
    return np.where((left < 0) | (right < 0), -1, left == right).astype(np.int8)


def choose_noise(
    records: Records, pairs: tuple[IntArray, IntArray], now: Hyperparameters, settings: Settings
) -> tuple[Hyperparameters, dict[int, float]]:
    """The noise classes that the clear links (probability above one half) show, and the BIC of each number of them."""
    split = split_pairs(records, without_faint(records, pairs, now), now)
    found = expectation(records, split, now, settings, 0)
    n_graph = len(split.graph.pair_a)
    probability = found.pair_probability[:n_graph]
    clear = probability > 0.5
    choice = choose_classes(
        agreement_of(records, split.graph.pair_a[clear], split.graph.pair_b[clear]), probability[clear], settings.seed
    )
    return Hyperparameters(now.prior, choice.noise, now.n, now.log_new), choice.bic
