"""From candidate pairs to hyperparameters: variational EM on the link posterior (model.md sections 3 to 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vber_cli.engine import hyper
from vber_cli.engine.block_model import BlockModel, Evidence, block_model
from vber_cli.engine.candidate_pairs import (
    CandidatePairs,
    PairGraph,
    log_odds_of,
    split_pairs,
    split_without_faint,
    without_faint,
)
from vber_cli.engine.checkpoints import NO_CHECKPOINTS, Checkpoints
from vber_cli.engine.dependence_tree import learn_tree
from vber_cli.engine.evidence_kernels import pair_levels
from vber_cli.engine.local_kernels import FRESH
from vber_cli.engine.moves import greedy_labels
from vber_cli.engine.noise_classes import choose_classes, with_changed_parts
from vber_cli.engine.posterior import Chains, Expectation, expect
from vber_cli.engine.relation_classes import (
    choose_structure,
    parts_that_links_change,
    refit_relations,
    without_strangers,
)
from vber_cli.engine.weak_pairs import add_weak_pairs, count_weak_pairs, find_joins
from vber_cli.model.constraints import n_free_pairs
from vber_cli.model.dependence import Dependence, individual_shares, tree_roots
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.presence import Presence, learn_presence, present_individuals, relative_rates
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records

_SURE, _LINK, _HARDLY = 0.95, 0.5, 1e-3
MAX_ROUNDS = 40
_STILL_N, _STILL_ALPHA, _STILL_SD = 1e-4, 2e-2, 0.25
_SWING = 0.1  # log α, by which it may turn back where chains move it by chance
_SWEEPS = 12


@dataclass(frozen=True)
class Hyperparameters:
    """Everything learned.

    Attributes
    ----------
    evidence
        θ and α, the noise classes, the similar values, the relations.
    n, log_new
        Expected number of recorded individuals; log weight of one more.
    tree
        How fields depend on each other between different individuals, where it was looked at.
    present
        Individuals in each database, where the databases differ from the paper's model (`model.presence`).
    """

    evidence: Evidence
    n: float
    log_new: float
    tree: Dependence | None = None
    present: tuple[float, ...] | None = None

    def occupancy(self, settings: Settings) -> Occupancy:
        """The prior over partitions, with what was learned about the databases."""
        return replace(settings.occupancy, present=self.present)

    def in_order(self, order: LongArray) -> Hyperparameters:
        """Return the same about the records in another order; `order` as in `model.order.in_order`."""
        dependence = self.evidence.dependence
        if len(dependence.drawn) == 0:
            return self
        moved = replace(dependence, drawn=dependence.drawn[order])
        return replace(self, evidence=replace(self.evidence, dependence=moved))


@dataclass(frozen=True)
class Settings:
    """What the user fixed, and how to run.

    Attributes
    ----------
    occupancy
        The prior over the number of individuals, K fixed or not.
    learn_concentration, learn_base, learn_relations
        Whether α (with it the noise classes and levels), θ, and relations are learned.
    seed, threads
        The threads have no influence on the result.
    keep_noise
        Whether the noise that was found together with relations stays as it is.
    on_round
        Called after every round of learning.
    checkpoints
        Told of every step, and asked for those of an earlier run.
    """

    occupancy: Occupancy
    learn_concentration: bool
    learn_base: bool
    learn_relations: bool
    seed: int
    threads: int
    keep_noise: bool = False
    on_round: Callable[[], None] = lambda: None
    checkpoints: Checkpoints = NO_CHECKPOINTS


def expectation(model: BlockModel, split: PairGraph, log_new: float, settings: Settings, number: int) -> Expectation:
    """The E step: one pass over the components, and the weak pairs at first order."""
    chains = None
    if split.graph.n_components > split.graph.n_small:
        greedy = greedy_labels(model, log_new, split.graph, settings.threads, split.graph.n_small)
        chains = Chains(model, split.graph, 2, greedy, settings.threads)
    found = expect(
        model, log_new, split.graph, chains,
        seed=settings.seed * 7919 + number, count=True, n_sweeps=_SWEEPS, threads=settings.threads,
    )  # fmt: skip
    weak = split.weak.a, split.weak.b
    joins = find_joins(model, found, split.graph, weak, split.weak_log_odds, log_new, settings.threads)
    found, links = add_weak_pairs(found, weak, split.weak_log_odds, joins)
    count_weak_pairs(model, found, weak, links, settings.threads)
    return found


def update(
    records: Records,
    model: BlockModel,
    pairs: tuple[IntArray, IntArray],
    now: Hyperparameters,
    found: Expectation,
    settings: Settings,
    *,
    watch_databases: bool,
) -> Hyperparameters:
    """The M step; `pairs` are those whose probabilities were found.

    Whether the databases have duplicates of their own is judged by what was found without a tilt, when nearly all has
    been learned: judged earlier, while few links are known, every database would look free of them, and stay so.
    """
    evidence = now.evidence
    prior, noise, near = evidence.prior, evidence.noise, evidence.near
    kept = settings.keep_noise and evidence.relations.n_classes > 0
    if settings.learn_concentration and not kept:
        root = tree_roots(model.tree, records.n_fields)
        noise, overall = hyper.best_noise(
            found.stats, found.class_weight, model.unrelated[:, 1:3] > 0, root, noise.anew
        )
        prior = prior.with_concentration(overall)
    if settings.learn_base:
        prior = hyper.learn_base(records, prior, found.repeats)
    if settings.learn_concentration:
        near = _near_by_chance(records, model, prior, evidence, pairs, found, settings.threads)
    presence = None
    if watch_databases or len(evidence.tilt):
        presence = _presence(records, now, pairs, found.pair_probability, found.n_mean, settings)
    dependence = evidence.dependence
    if dependence.n_edges:
        dependence = replace(dependence, drawn=individual_shares(records.n_records, pairs, found.pair_probability))
    tilt = np.zeros(0) if presence is None else presence.tilt
    now = replace(
        now,
        evidence=replace(evidence, prior=prior, noise=noise, tilt=tilt, dependence=dependence, near=near),
        n=found.n_mean,
        present=None if presence is None else tuple(presence.individuals.tolist()),
    )
    if now.present is not None and settings.occupancy.n_individuals is None:
        # Overlap says how many individuals are in no database. What is only probably the same is not counted as
        # overlap: from it would follow fewer individuals, from these more links, and from these still more overlap.
        sure = np.where(found.pair_probability > _SURE, 1.0, 0.0)
        everywhere = np.zeros(records.n_records, dtype=np.int32)
        n_sure = float(present_individuals(everywhere, 1, *pairs, sure)[0])
        plain = settings.occupancy.log_new(found.n_mean)
        return replace(now, log_new=min(now.occupancy(settings).log_new(max(n_sure, found.n_mean)), plain))
    return replace(now, log_new=now.occupancy(settings).next_log_new(now.log_new, found.n_mean, found.n_variance))


def _near_by_chance(
    records: Records,
    model: BlockModel,
    prior: Prior,
    evidence: Evidence,
    pairs: tuple[IntArray, IntArray],
    found: Expectation,
    threads: int,
) -> FloatArray:
    """`hyper.learn_near` from the pairs whose probabilities were found."""
    a, b = pairs
    likely = found.pair_probability > _HARDLY
    levels = pair_levels(model, a[likely], b[likely], threads)
    return hyper.learn_near(records, prior, evidence.similar, levels, found.pair_probability[likely])


def _presence(
    records: Records,
    now: Hyperparameters,
    pairs: tuple[IntArray, IntArray],
    probability: FloatArray,
    n: float,
    settings: Settings,
) -> Presence | None:
    """What the databases show about their own duplicates; nothing where a rule about databases says it."""
    decided = now.evidence.constraints
    ruled = decided.any and (decided.within_only or bool(decided.sole.any()))
    if ruled or not settings.learn_concentration or records.n_databases < 2:
        return None
    sizes = np.bincount(records.db_of_record, minlength=records.n_databases).astype(np.float64)
    individuals = present_individuals(records.db_of_record, records.n_databases, *pairs, probability)
    return learn_presence(sizes, individuals, settings.occupancy.mean(n))


def learn(
    records: Records,
    pairs: CandidatePairs,
    start: Hyperparameters,
    settings: Settings,
    max_rounds: int = MAX_ROUNDS,
    *,
    watch_databases: bool = False,
) -> Hyperparameters:
    """Variational EM: the link posterior, then noise, θ, n and K from it, and again.

    Stops once a round has `settled`. With `watch_databases` it is asked after every round what the databases show about
    their own duplicates.
    """
    done, (now, last) = settings.checkpoints.begun((start, start))
    odds_at_start = log_odds_of(block_model(records, start.evidence), pairs, start.log_new, settings.threads)
    pairs, known = without_faint(pairs, odds_at_start, settings.occupancy)
    for number in range(done + 1, max_rounds + 1):
        model = block_model(records, now.evidence)
        split = split_pairs(model, pairs, now.log_new, settings.threads, known if now is start else None)
        found = expectation(model, split, now.log_new, settings, number)
        earlier, last = last, now
        now = update(records, model, split.ends(), now, found, settings, watch_databases=watch_databases)
        settings.on_round()
        if settled((earlier, last, now), found):
            break
        settings.checkpoints.round_done(number, (now, last))
    return now


def settled(states: tuple[Hyperparameters, Hyperparameters, Hyperparameters], found: Expectation) -> bool:
    """Whether the last round moved n and every α by no more than is worth another.

    That is one in ten thousand of n and two percent of an α. Where n comes from chains, what it moves by chance between
    their sweeps is no reason either, nor is for an α a quarter of its own standard deviation, which is about one over
    the root of the fresh draws that it was learned from; and an α that turns back a little swings about where it is to
    stay.

    Parameters
    ----------
    states
        What was known two rounds ago, one round ago, and now.
    found
        What the last round was learned from.
    """
    sweeps = found.chain_n.var(axis=1) if found.chain_n.size else np.zeros(1)
    chance = float(np.sqrt(sweeps.mean() / len(sweeps)))
    before, change = np.diff(np.log([state.evidence.prior.concentration for state in states]), axis=0)
    fresh = found.stats[:, :, FRESH].sum(axis=0)
    still = np.abs(change) < np.maximum(_STILL_ALPHA, _STILL_SD / np.sqrt(1.0 + fresh))
    if found.chain_n.size:
        still |= (before * change < 0.0) & (np.abs(change) < _SWING)
    _, last, now = states
    return abs(now.n - last.n) < max(_STILL_N * max(now.n, 1.0), chance) and bool(still.all())


def possible_levels(model: BlockModel) -> np.ndarray:
    """(F, 4) bool: levels that two values of the field can be at."""
    out = np.ones((model.codes.shape[1], 4), dtype=bool)
    out[:, 1:3] = model.unrelated[:, 1:3] > 0
    return out


def choose_noise(
    records: Records, pairs: CandidatePairs, now: Hyperparameters, settings: Settings
) -> tuple[Hyperparameters, dict[int, float]]:
    """The noise classes that the clear links (probability above one half) show, and the BIC of each number of them."""
    model = block_model(records, now.evidence)
    split = split_without_faint(model, pairs, now.log_new, settings.occupancy, settings.threads)
    found = expectation(model, split, now.log_new, settings, 0)
    graph = split.graph
    probability = found.pair_probability[: len(graph.pair_a)]
    clear = probability > _LINK
    levels = pair_levels(model, graph.pair_a[clear], graph.pair_b[clear])
    choice = choose_classes(levels, probability[clear], possible_levels(model), settings.seed)
    now = replace(now, evidence=replace(now.evidence, noise=choice.noise))
    return told_from_strangers(records, now), choice.bic


def told_from_strangers(records: Records, now: Hyperparameters) -> Hyperparameters:
    """The same without noise classes that strangers or relatives would make, however they came about."""
    evidence = now.evidence
    model = block_model(records, evidence)
    pairs_per_record = n_free_pairs(model.constraints, records.n_records) / records.n_records
    noise = without_strangers(evidence.noise, model, _n_all(records), evidence.relations, pairs_per_record)
    if noise is evidence.noise:
        return now  # and with it the model that is remembered for it
    return replace(now, evidence=replace(evidence, noise=noise))


def _n_all(records: Records) -> int:
    """How many records there are, of which these may be a part."""
    return (records.whole or records).n_records


def choose_relations(
    records: Records, pairs: CandidatePairs, now: Hyperparameters, settings: Settings
) -> tuple[Hyperparameters, dict[int, float]]:
    """The number of classes of relations that the candidates speak for, with fitting noise, and each number's BIC."""
    if len(pairs) == 0:
        return now, {}
    model = block_model(records, now.evidence)
    possible = possible_levels(model)
    n_pairs = n_free_pairs(model.constraints, records.n_records)
    anchor = learn_tree(
        records, now.evidence, pairs.b, pairs.a, pairs.levels, possible, settings.occupancy, settings.seed,
        settings.threads,
    )  # fmt: skip
    near = hyper.learn_near(records, now.evidence.prior, now.evidence.similar, pairs.levels, anchor.probability)
    now = replace(now, tree=anchor.dependence, evidence=replace(now.evidence, dependence=anchor.dependence, near=near))
    if anchor.dependence.n_edges == 0:
        return now, {}  # where no field depends on another there are no relatives to tell from duplicates
    model = block_model(records, now.evidence)
    presence = _presence(records, now, (pairs.a, pairs.b), anchor.probability, anchor.n, settings)
    prior = np.zeros(len(pairs))
    if presence is not None:
        within, across = relative_rates(records.db_of_record, pairs.a, pairs.b, anchor.probability)
        database = records.db_of_record[pairs.a]
        prior = np.where(database == records.db_of_record[pairs.b], within[database], across)
    together = model.constraints.standing(pairs.a, pairs.b) > 0
    parts = parts_that_links_change(model, _n_all(records))
    found = choose_structure(
        model, pairs.b, pairs.levels, prior, anchor.probability, possible, n_pairs, parts, settings.seed, together,
        settings.threads,
    )  # fmt: skip
    noise = found.noise
    if found.relations.n_classes == 0:
        # no relatives to excuse: from all that the tree takes for links
        link = anchor.probability > _LINK
        noise = choose_classes(pairs.levels[link], anchor.probability[link], possible, settings.seed).noise
        noise = with_changed_parts(noise, parts)
    tilt = np.zeros(0) if presence is None else presence.tilt
    evidence = replace(now.evidence, noise=noise, relations=found.relations, tilt=tilt)
    return told_from_strangers(records, replace(now, evidence=evidence)), found.bic


def sharpen_relations(
    records: Records, pairs: CandidatePairs, now: Hyperparameters, settings: Settings
) -> Hyperparameters:
    """Relations fitted anew to what the full link posterior says are clearly different individuals."""
    model = block_model(records, now.evidence)
    split = split_without_faint(model, pairs, now.log_new, settings.occupancy, settings.threads)
    found = expectation(model, split, now.log_new, settings, 0)
    a, b = split.ends()
    known = (a.astype(np.int64) << 32) | b
    order = np.argsort(known)
    key = (pairs.a.astype(np.int64) << 32) | pairs.b
    at = np.minimum(np.searchsorted(known[order], key), max(len(known) - 1, 0))
    probability = np.zeros(len(pairs))
    if len(known):
        hit = known[order][at] == key
        probability[hit] = found.pair_probability[order][at[hit]]
    n_pairs = n_free_pairs(model.constraints, records.n_records)
    relations = refit_relations(model, pairs.b, pairs.levels, probability, now.evidence.relations, n_pairs)
    return replace(now, evidence=replace(now.evidence, relations=relations))
