"""Link probabilities, n and K with what the hyperparameters leave uncertain (model.md sections 3 and 7).

Given the hyperparameters the posterior factorises over components and is exact in the small ones. Around that the
hyperparameters are drawn: the noise on tabulated pairs (`noise_posterior`), K given n, and what the model may have
wrong about all links together. Link probabilities are averages of the conditional ones; n is a mixture of the
conditional distributions, each nearly normal as a sum over many components. Among very many records the small
components keep the probabilities of the learned noise, and each draw passes over some of them, for n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit, ndtr, ndtri

from vber_cli.arrays import among, lex_order
from vber_cli.engine.block_model import BlockModel, block_model, with_noise
from vber_cli.engine.candidate_pairs import CandidatePairs, log_odds_of, split_pairs, without_faint
from vber_cli.engine.evidence_kernels import pair_levels
from vber_cli.engine.graph import Graph
from vber_cli.engine.learn import Hyperparameters, Settings
from vber_cli.engine.moves import greedy_labels
from vber_cli.engine.noise_posterior import HyperDraw, draw_noises
from vber_cli.engine.partition_kernels import MAX_EXACT
from vber_cli.engine.posterior import Chains, Expectation, expect, log_weights_by_blocks, sweep_steps, tiny_posterior
from vber_cli.engine.unit_kernels import IMPOSSIBLE
from vber_cli.engine.weak_pairs import add_weak_pairs, find_joins
from vber_cli.model.constraints import Constraints, TooFewIndividualsError, unit_maximum
from vber_cli.model.missed import NONE_MISSED, MissedLinks
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.root import bisect
from vber_cli.model.types import FloatArray, IntArray, Records

INTERVAL = 0.90
_WORK = 300_000  # records times draws
_MIN_DRAWS, _MAX_DRAWS = 10, 200
_FIRST_SWEEPS, _SWEEPS = 30, 6
_DRAW_BUDGET = 1e9  # elementary steps that the sweeps of all draws may take, where there are more than _MIN_DRAWS
_MIXED = 4000  # normal distributions, that n is a mixture of
# A draw passes over the components of so many records, and of all where it would be more than half of them: among many
# records the noise is so certain that it shows in the number of individuals only.
_PER_DRAW = 100_000
# Nats, the standard deviation of how far off the log odds of all links together may be, where the model is not exact.
# A simplification that counts some evidence twice or not at all does so in thousands of pairs alike.
_DISCREPANCY = 0.5
_HARDLY, _SURE_ODDS = 1e-7, 12.0  # of a pair to be a link, with the noise that was learned


@dataclass(frozen=True)
class Interval:
    """Mean and the ends of the central 90 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class LinkPosterior:
    """What the data say about who is who.

    Attributes
    ----------
    a, b, probability
        (P,) candidate pairs a < b, sorted, with P(same individual).
    alone
        (N,) P(no other record describes the same individual).
    n, n_individuals
        Recorded individuals, and K.
    n_draws
        Draws of the hyperparameters that were averaged over; 0 where the posterior was summed exactly.
    r_hat
        Of the number of blocks in the sampled components, over the chains; 1 where nothing was sampled.
    disagreement
        Largest difference between two chains' probabilities of one pair.
    largest_component
        Records in the largest component.
    discrepancy
        Nats, the standard deviation of what the log odds of all links together were taken to be wrong by.
    """

    a: IntArray
    b: IntArray
    probability: FloatArray
    alone: FloatArray
    n: Interval
    n_individuals: Interval
    n_draws: int
    r_hat: float
    disagreement: float
    largest_component: int
    discrepancy: float


def link_posterior(
    records: Records,
    pairs: CandidatePairs,
    learned: Hyperparameters,
    settings: Settings,
    on_draw: Callable[[], None] = lambda: None,
    missed: MissedLinks = NONE_MISSED,
) -> LinkPosterior:
    """Average the link posterior over the hyperparameters.

    Parameters
    ----------
    records, pairs, learned, settings
        The data, the candidates, and what was learned from them.
    on_draw
        Called after every draw.
    missed
        Links that are no candidates: each is one individual less.
    """
    model = block_model(records, learned.evidence)
    if records.n_records <= MAX_EXACT:
        return _tiny(model, settings.occupancy)
    occupancy = learned.occupancy(settings)
    rng = np.random.default_rng([settings.seed, 20_141])
    log_odds = log_odds_of(model, pairs, learned.log_new, settings.threads)
    near, near_log_odds = without_faint(pairs, log_odds, occupancy)
    split = split_pairs(model, near, learned.log_new, settings.threads, near_log_odds)
    graph, weak = split.graph, split.weak
    a, b = split.ends()
    chains = None
    if graph.n_components > graph.n_small:
        greedy = greedy_labels(model, learned.log_new, graph, settings.threads, graph.n_small)
        chains = Chains(model, graph, 4, greedy, settings.threads)

    def pass_over(
        now: BlockModel, log_new: float, number: int, known: Expectation | None = None, among: slice = slice(None)
    ) -> Expectation:
        return expect(
            now, log_new, graph, chains, seed=settings.seed * 7919 + 1000 + number, count=False,
            n_sweeps=_SWEEPS if number else _FIRST_SWEEPS, threads=settings.threads, known=known, among=among,
        )  # fmt: skip

    def with_weak(found: Expectation, weak_log_odds: FloatArray) -> Expectation:
        return add_weak_pairs(found, (weak.a, weak.b), weak_log_odds, joins)[0]

    checkpoints = settings.checkpoints
    strong, place = checkpoints.step("first pass", lambda: (pass_over(model, learned.log_new, 0), _place(chains)))
    if chains is not None:  # where the pass left them, also if it was made in the run that is continued
        chains.put(*place)
    joins = find_joins(model, strong, graph, (weak.a, weak.b), split.weak_log_odds, learned.log_new, settings.threads)
    first = with_weak(strong, split.weak_log_odds)
    every = min(records.n_records // _PER_DRAW, len(strong.part_n))
    known = strong if every > 1 else None
    n_draws = _n_draws(model, graph, chains)
    noises = _noises(model, (a, b), first, learned, settings, n_draws, rng)
    discrepancy = 0.0 if learned.evidence.is_exact else _DISCREPANCY
    shifts = discrepancy * _normal_scores(n_draws, settings.seed)
    nothing = np.zeros(len(a)), np.zeros(records.n_records)
    done, sums = checkpoints.begun(DrawSums(*nothing, (), (), (), None, *place, rng.bit_generator.state))
    sums.go_on_from(chains, rng)
    drawn = _draws(model, noises[done:], shifts[done:], learned, settings, rng)
    for number, (now, log_new) in enumerate(drawn, done + 1):
        among = slice(None) if known is None else slice(number % every, None, every)
        weak_log_odds = log_odds_of(now, weak, log_new, settings.threads)
        found = with_weak(pass_over(now, log_new, number, known, among), weak_log_odds)
        sums = sums.plus(found, n_draws, occupancy, chains, missed, rng)
        on_draw()
        if number < n_draws:
            if number >= _MIN_DRAWS and checkpoints.time_is_up():
                break
            checkpoints.round_done(number, sums)
    n_made = len(sums.moments)
    probability, alone = sums.probability * (n_draws / n_made), sums.alone * (n_draws / n_made)
    a, b, probability = _with_faint(pairs, log_odds, a, b, probability, alone)
    probability = _as_decided(model.constraints, a, b, probability)
    order = lex_order(b, a)
    sizes = np.diff(graph.comp_ptr)
    fixed = occupancy.n_individuals
    return LinkPosterior(
        a[order], b[order], np.clip(probability[order], 0.0, 1.0), np.clip(alone, 0.0, 1.0),
        _mixture(sums.moments, missed.draw(max(_MIXED // n_made, 1) * n_made, rng), records.n_records, fixed),
        _quantiles(sums.totals) if fixed is None else Interval(float(fixed), float(fixed), float(fixed)),
        n_made,
        _r_hat(sums.chain_n),
        sums.disagreement,
        int(sizes.max(initial=1)),
        discrepancy,
    )  # fmt: skip


@dataclass(frozen=True)
class DrawSums:
    """What the draws so far add up to, and where the sampling stands after them.

    Attributes
    ----------
    probability, alone
        (P,) and (N,) float64, as in `Expectation`, summed over the draws and divided by how many there are to be.
    moments, totals, chain_n, chain_pairs
        Of each draw, the mean and variance of n, K (where it is not fixed), and the numbers of blocks in the chains;
        and the sum of the chains' pair probabilities.
    labels, n_calls, stream
        The chains, and the state of the source of chance.
    """

    probability: FloatArray
    alone: FloatArray
    moments: tuple[tuple[float, float], ...]
    totals: tuple[float, ...]
    chain_n: tuple[FloatArray, ...]
    chain_pairs: FloatArray | None
    labels: tuple[IntArray, ...]
    n_calls: int
    stream: Mapping[str, Any]

    def plus(
        self,
        found: Expectation,
        n_draws: int,
        occupancy: Occupancy,
        chains: Chains | None,
        missed: MissedLinks,
        rng: np.random.Generator,
    ) -> DrawSums:
        """One more draw; n and K are drawn given it."""
        n_records = len(self.alone)
        moment = max(found.n_mean, 1.0), max(found.n_variance, 1e-9)
        drawn = rng.normal(found.n_mean, np.sqrt(moment[1])) - missed.draw(1, rng)[0]
        n_now = float(np.clip(drawn, 1.0, n_records))
        totals = self.totals
        if occupancy.n_individuals is None:
            totals = (*totals, occupancy.draw(n_now, rng)[0])
        return DrawSums(
            self.probability + found.pair_probability / n_draws,
            self.alone + found.alone / n_draws,
            (*self.moments, moment),
            totals,
            (*self.chain_n, found.chain_n),
            found.chain_pairs if self.chain_pairs is None else self.chain_pairs + found.chain_pairs,
            *_place(chains),
            rng.bit_generator.state,
        )

    def go_on_from(self, chains: Chains | None, rng: np.random.Generator) -> None:
        """Put the chains and the source of chance where they stood."""
        rng.bit_generator.state = self.stream
        if chains is not None:
            chains.put(self.labels, self.n_calls)

    @property
    def disagreement(self) -> float:
        """Largest difference between two chains' probabilities of one pair."""
        if self.chain_pairs is None or self.chain_pairs.size == 0:
            return 0.0
        return float(np.ptp(self.chain_pairs / len(self.moments), axis=0).max())


def _place(chains: Chains | None) -> tuple[tuple[IntArray, ...], int]:
    return ((), 0) if chains is None else (tuple(label.copy() for label in chains.labels), chains.n_calls)


def _noises(
    model: BlockModel,
    pairs: tuple[IntArray, IntArray],
    found: Expectation,
    learned: Hyperparameters,
    settings: Settings,
    n_draws: int,
    rng: np.random.Generator,
) -> list[HyperDraw]:
    """Draws of the noise, around what the first pass found."""
    if not settings.learn_concentration:
        return [HyperDraw(learned.evidence.noise, learned.n)] * n_draws
    a, b = pairs
    p = found.pair_probability
    likely = p > _HARDLY
    levels = pair_levels(model, a[likely], b[likely], settings.threads)
    log_odds = np.minimum(logit(np.minimum(p[likely], 1.0)), _SURE_ODDS)
    return draw_noises(
        model, levels, log_odds, learned.evidence.noise, learned.n, n_draws, rng,
        anchored=learned.evidence.dependence.n_edges > 0 or learned.evidence.relations.n_classes > 0,
    )  # fmt: skip


def _normal_scores(n: int, seed: int) -> FloatArray:
    """(n,) standard normal quantiles at equal steps of probability, in random order: ten lie as wide as a thousand."""
    order = np.random.default_rng([seed, 20_142]).permutation(n)
    return np.asarray(ndtri((order + 0.5) / max(n, 1)))


def _draws(
    model: BlockModel,
    noises: list[HyperDraw],
    shifts: FloatArray,
    learned: Hyperparameters,
    settings: Settings,
    rng: np.random.Generator,
) -> Iterator[tuple[BlockModel, float]]:
    """Draws of the hyperparameters: the model, and the log weight of one more individual, moved by `shifts` (D,)."""
    occupancy = learned.occupancy(settings)
    for drawn, shift in zip(noises, shifts.tolist(), strict=True):
        now, log_new = with_noise(model, drawn.noise), learned.log_new + shift
        if occupancy.n_individuals is None:
            k, mean = occupancy.draw(drawn.n, rng)
            n = np.round(drawn.n)
            chance = np.log(max(k - n, 0.5)) - np.log(max(mean - n, 0.5))
            log_new += occupancy.log_new(drawn.n) - occupancy.log_new(learned.n) + float(chance)
        yield now, log_new


def _with_faint(
    pairs: CandidatePairs,
    log_odds: FloatArray,
    a: IntArray,
    b: IntArray,
    probability: FloatArray,
    alone: FloatArray,
) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs with the candidates added that were too faint to take part, each with its own small probability."""
    known = (a.astype(np.int64) << 32) | b
    faint = ~among((pairs.a.astype(np.int64) << 32) | pairs.b, known)
    more_a, more_b = pairs.a[faint], pairs.b[faint]
    p = alone[more_a] * alone[more_b] / (1.0 + np.exp(-log_odds[faint]))
    return np.concatenate([a, more_a]), np.concatenate([b, more_b]), np.concatenate([probability, p])


def _as_decided(constraints: Constraints, a: IntArray, b: IntArray, probability: FloatArray) -> FloatArray:
    """The probabilities with all pairs of two units alike, and exactly 1 or 0 where that is decided."""
    if not constraints.any:
        return probability
    known = constraints.standing(a, b)
    probability = unit_maximum(constraints, a, b, np.where(known < 0, 0.0, probability))
    return np.where(known > 0, 1.0, probability)


def draws_for(n_records: int) -> int:
    """How many draws of the hyperparameters: many for few records, where they are uncertain, few for many."""
    return int(np.clip(_WORK // max(n_records, 1), _MIN_DRAWS, _MAX_DRAWS))


def _n_draws(model: BlockModel, graph: Graph, chains: Chains | None) -> int:
    """As many, or fewer where chains take long: among large blocks a draw takes much longer, and among many pairs."""
    n_draws = draws_for(graph.n_records)
    if chains is None:
        return n_draws
    most = _DRAW_BUDGET / max(_SWEEPS * sweep_steps(model, graph, chains), 1.0)
    return max(int(min(n_draws / chains.crowding(graph) ** 2, most)), _MIN_DRAWS)


def _tiny(model: BlockModel, occupancy: Occupancy) -> LinkPosterior:
    """Few enough records to sum over all their partitions, with the exact weight of every n."""
    n = len(model.codes)
    log_h = np.array([-np.inf, *(occupancy.log_h(float(m)) for m in range(1, n + 1))])
    if model.constraints.any and occupancy.n_individuals is not None:
        by_blocks = log_weights_by_blocks(model, np.arange(n, dtype=np.int32)) + log_h
        if by_blocks.max() < IMPOSSIBLE / 2:
            raise TooFewIndividualsError(occupancy.n_individuals)
    pair, weight = tiny_posterior(model, log_h)
    a, b = (index.astype(np.int32) for index in np.triu_indices(n, 1))
    # P(alone) is one minus P(some partner); for a record the partners' events overlap, so it is summed as blocks of one
    alone = np.array([_alone(model, log_h, r) for r in range(n)]) if n > 1 else np.ones(n)
    numbers = np.arange(n + 1, dtype=np.float64)
    cumulative = np.cumsum(weight)
    tail = (1.0 - INTERVAL) / 2
    low, high = np.searchsorted(cumulative, [tail, 1.0 - tail])
    if occupancy.n_individuals is None:
        mixed: dict[float, float] = {}
        for m in range(1, n + 1):
            for k, p in zip(*occupancy.posterior(float(m)), strict=True):
                mixed[k] = mixed.get(k, 0.0) + p * weight[m]
        ks = np.array(sorted(mixed))
        c = np.cumsum([mixed[k] for k in ks])
        at = np.minimum(np.searchsorted(c, [tail, 0.5, 1.0 - tail]), len(ks) - 1)
        total = Interval(float(ks[at[1]]), float(ks[at[0]]), float(ks[at[2]]))
    else:
        total = Interval(*([float(occupancy.n_individuals)] * 3))
    n_interval = Interval(float(numbers @ weight), float(low), float(min(high, n)))
    return LinkPosterior(
        a, b, _as_decided(model.constraints, a, b, pair[a, b]), alone, n_interval, total, 0, 1.0, 0.0, n, 0.0
    )


def _alone(model: BlockModel, log_h: FloatArray, record: int) -> float:
    """P(record has no partner): the weight of partitions with it on its own, the others partitioned freely."""
    if model.constraints.any and model.constraints.grouped[record]:
        return 0.0
    members = np.arange(len(model.codes), dtype=np.int32)
    others = log_weights_by_blocks(model, np.delete(members, record))
    everyone = log_weights_by_blocks(model, members)
    top = np.max(everyone + log_h)
    return float(np.exp(others + log_h[1:] - top).sum() / np.exp(everyone + log_h - top).sum())


def _mixture(moments: Sequence[tuple[float, float]], missed: FloatArray, n_records: int, fixed: int | None) -> Interval:
    """Mean and central 90 % interval of the mixture of normals with these moments; n is whole, so are its ends.

    Each of them is repeated, less one of the numbers of `missed` links each time.
    """
    mean, variance = np.tile(np.array(moments), (len(missed) // len(moments), 1)).T
    mean, sd = mean - missed, np.sqrt(variance)
    ends = []
    for tail in ((1.0 - INTERVAL) / 2, (1.0 + INTERVAL) / 2):
        lo, hi = float((mean - 10 * sd).min()) - 1, float((mean + 10 * sd).max()) + 1
        at = bisect(lambda x, tail=tail: float(ndtr((x - mean) / sd).mean()) - tail, lo, hi)  # type: ignore[misc]
        ends.append(float(np.ceil(at - 0.5)))  # the first whole n with P(n or fewer) above the tail
    top = float(n_records if fixed is None else min(n_records, fixed))
    low, high = max(min(ends[0], top), 1.0), min(ends[1], top)
    return Interval(float(np.clip(mean.mean(), low, high)), low, high)


def _quantiles(draws: Sequence[float]) -> Interval:
    low, middle, high = np.quantile(draws, [(1.0 - INTERVAL) / 2, 0.5, (1.0 + INTERVAL) / 2])
    return Interval(float(middle), float(low), float(high))


def _r_hat(chain_n: Sequence[FloatArray]) -> float:
    """Potential scale reduction of the number of blocks, over chains and all kept sweeps."""
    if not chain_n or chain_n[0].size == 0:
        return 1.0
    draws = np.concatenate(chain_n, axis=1)
    within = float(draws.var(axis=1, ddof=1).mean())
    between = float(draws.mean(axis=1).var(ddof=1))
    return 1.0 if within == 0.0 else float(np.sqrt(1.0 + between / within))
