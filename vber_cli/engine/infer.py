"""The whole inference on encoded records, with or without moves; the pipeline's one door to the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vber_cli.arrays import n_distinct
from vber_cli.engine import cavi, hyper
from vber_cli.engine.block_model import BlockModel, Evidence, block_model
from vber_cli.engine.candidate_pairs import CandidatePairs, split_pairs, with_levels
from vber_cli.engine.cavi import Linkage, blank_records
from vber_cli.engine.cavi_kernels import mass_kernel
from vber_cli.engine.decide import Expected, Membership, decide, expected_scores, membership
from vber_cli.engine.learn import (
    MAX_ROUNDS,
    Hyperparameters,
    Settings,
    choose_noise,
    choose_relations,
    learn,
    sharpen_relations,
    told_from_strangers,
)
from vber_cli.engine.link_posterior import LinkPosterior, link_posterior
from vber_cli.engine.moves import Partition
from vber_cli.engine.optimise import Limits, Optimum, Step, argmax_labels, optimise
from vber_cli.engine.start import start_at_random, start_from_records
from vber_cli.model.constraints import NO_CONSTRAINTS, Constraints
from vber_cli.model.dependence import Dependence
from vber_cli.model.missed import MissedLinks
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import FloatArray, IntArray, Records

NO_PAIRS = CandidatePairs(np.empty(0, np.int32), np.empty(0, np.int32), np.empty((0, 0), np.int8))
_RARE_CLASS = 0.002  # of links, that have changed a part, are not looked for any further
_FIRST_ROUNDS = 4  # of learning, on the first candidates; then candidates are planned anew
STARTS = {"records": start_from_records, "random": start_at_random}


@dataclass(frozen=True)
class Learned:
    """Hyperparameters, and the BIC of the numbers of noise classes and of relations that were tried (larger is better).

    Attributes
    ----------
    hyperparameters, pairs
        What was learned, and the candidates it was learned from.
    noise_bic, relation_bic
        By number of classes.
    """

    hyperparameters: Hyperparameters
    pairs: CandidatePairs
    noise_bic: dict[int, float]
    relation_bic: dict[int, float]


def first_guess(
    records: Records,
    prior: Prior,
    similar: SimilarValues,
    settings: Settings,
    constraints: Constraints = NO_CONSTRAINTS,
) -> Hyperparameters:
    """Where learning starts: one record in ten a duplicate, exact copies or whatever near values there are."""
    n = max(0.9 * records.n_records, 1.0)
    if settings.learn_base:
        prior = hyper.learn_base(records, prior, np.zeros(records.codes.shape), others_only=False)
    chance = similar.chance_levels(prior)[:, 1:3] > 0
    levels = np.column_stack([np.ones(records.n_fields), 0.06 * chance[:, 0], 0.04 * chance[:, 1]])
    noise = Noise.single(prior.concentration, levels / levels.sum(axis=1, keepdims=True))
    n_fields = records.n_fields
    evidence = Evidence(
        prior, noise, similar, Relations.none(n_fields), Dependence.none(n_fields), constraints=constraints
    )
    return Hyperparameters(evidence, n, settings.occupancy.log_new(n))


def learn_from(
    records: Records,
    find_pairs: Callable[[Hyperparameters], tuple[IntArray, IntArray]],
    start: Hyperparameters,
    settings: Settings,
) -> Learned:
    """Learn on a first set of candidates, plan them anew with what was learned, and learn to convergence.

    Parameters
    ----------
    records, start, settings
        The data and where to start.
    find_pairs
        Candidates (a, b), a < b, under given hyperparameters.
    """
    step = settings.checkpoints.step
    begun = Learned(start, NO_PAIRS, {}, {})
    # of the first time only what was learned goes on, not the pairs
    first = step(
        "first", lambda: replace(_learn_once(records, find_pairs, begun, settings, last=False), pairs=NO_PAIRS)
    )
    # the last time is no step of its own: whoever finds the pairs may keep them, and is asked for them in any case
    return _learn_once(records, find_pairs, first, settings, last=True)


def _learn_once(
    records: Records,
    find_pairs: Callable[[Hyperparameters], tuple[IntArray, IntArray]],
    learned: Learned,
    settings: Settings,
    *,
    last: bool,
) -> Learned:
    """Find candidates with what was learned so far, and learn on."""
    step = settings.checkpoints.step
    now, noise_bic, relation_bic = learned.hyperparameters, learned.noise_bic, learned.relation_bic
    pairs = with_levels(block_model(records, now.evidence), find_pairs(now), settings.threads)

    def rounds(most: int, *, watch: bool) -> Hyperparameters:
        return step("rounds", lambda: learn(records, pairs, now, settings, most, watch_databases=watch))

    if last:  # what is hardly ever found would only take time
        noise = now.evidence.noise.without_rare(_RARE_CLASS)
        now = told_from_strangers(records, replace(now, evidence=replace(now.evidence, noise=noise)))
    if settings.learn_relations and not last:
        now, relation_bic = step("relations", lambda: choose_relations(records, pairs, now, settings))
    now = rounds(_FIRST_ROUNDS, watch=False)
    independent = now.evidence.relations.n_classes == 0 and now.evidence.dependence.n_edges == 0
    if settings.learn_concentration and independent:  # else the noise was found with what depends on what
        now, noise_bic = step("noise", lambda: choose_noise(records, pairs, now, settings))
    now = rounds(MAX_ROUNDS if last else _FIRST_ROUNDS, watch=last)
    if last and settings.learn_relations and now.evidence.relations.own.any():
        now = step("sharpen", lambda: sharpen_relations(records, pairs, now, settings))
        now = rounds(MAX_ROUNDS, watch=True)
    return Learned(now, pairs, noise_bic, relation_bic)


def learn_on(
    records: Records,
    find_pairs: Callable[[Hyperparameters], tuple[IntArray, IntArray]],
    learned: Learned,
    settings: Settings,
    *,
    max_rounds: int,
) -> Learned:
    """Learn on from what is known, by a part of the records or from an earlier run; no structure is chosen anew.

    Parameters
    ----------
    records, find_pairs, settings
        As in `learn_from`.
    learned
        Everything that is known.
    max_rounds
        At most so many.
    """
    now = learned.hyperparameters
    pairs = with_levels(block_model(records, now.evidence), find_pairs(now), settings.threads)
    now = settings.checkpoints.step(
        "rounds", lambda: learn(records, pairs, now, settings, max_rounds, watch_databases=True)
    )
    return replace(learned, hyperparameters=now, pairs=pairs)


@dataclass(frozen=True)
class Result:
    """Everything that is written out, in the engine's order of the records.

    Attributes
    ----------
    optimum
        φ and λ.
    prior, n_individuals
        A and K.
    label, membership
        The assignment (0..n−1) and how sure it is.
    posterior, expected, model
        None with the literal updates, which have no link posterior.
    """

    prior: Prior
    n_individuals: int
    optimum: Optimum
    label: IntArray
    membership: Membership
    posterior: LinkPosterior | None
    expected: Expected | None
    model: BlockModel | None


def run_literal(
    records: Records,
    prior: Prior,
    n_individuals: int,
    start: str,
    settings: Settings,
    *,
    max_sweeps: int,
    tol: float,
    on_step: Callable[[Step], None],
) -> Result:
    """The paper's two updates and nothing else (model.md section 1); `bound` in the trace is the ELBO itself."""
    linkage = STARTS[start](records, n_individuals, settings.seed)
    occupied = linkage.n_stored

    def on_sweep(sweep: cavi.Sweep) -> None:
        on_step(Step("sweep", sweep.elbo, sweep.elbo, sweep.max_change, occupied))

    fitted = settings.checkpoints.step(
        "sweeps",
        lambda: cavi.fit(
            records, prior, linkage, max_sweeps=max_sweeps, tol=tol, threads=settings.threads, on_sweep=on_sweep,
            checkpoints=settings.checkpoints,
        ),
    )  # fmt: skip
    label = argmax_labels(fitted.linkage)
    return Result(
        prior,
        n_individuals,
        Optimum(fitted, fitted.elbo, False),
        label,
        _by_phi(fitted.linkage, label),
        None,
        None,
        None,
    )


def _by_phi(linkage: Linkage, label: IntArray) -> Membership:
    """Membership by φ alone: the largest φ of each record, and the next."""
    n = len(label)
    record = np.repeat(np.arange(n), np.diff(linkage.ptr))
    order = np.lexsort((linkage.individual, -linkage.phi, record))
    rank = np.arange(len(order)) - np.repeat(linkage.ptr[:-1], np.diff(linkage.ptr))
    best, second = np.zeros(n), np.zeros(n)
    second_individual = np.full(n, -1, dtype=np.int64)
    sorted_record = record[order]
    best[sorted_record[rank == 0]] = linkage.phi[order][rank == 0]
    second[sorted_record[rank == 1]] = linkage.phi[order][rank == 1]
    second_individual[sorted_record[rank == 1]] = linkage.individual[order][rank == 1]
    lone = linkage.rest / max(linkage.n_rest, 1)
    best = np.maximum(best, lone)
    # the label of each stored individual, through a record that chose it; −1 where none did
    label_of = np.full(linkage.n_stored + 1, -1, dtype=np.int32)
    chosen = sorted_record[rank == 0]
    label_of[linkage.individual[order][rank == 0]] = label[chosen]
    return Membership(best, label_of[second_individual].astype(np.int32), second)


def run_moves(
    records: Records,
    pairs: CandidatePairs,
    learned: Hyperparameters,
    shown: tuple[Records, Prior],
    settings: Settings,
    start: str,
    *,
    max_sweeps: int,
    tol: float,
    loss: tuple[float, float],
    missed_share: float,
    missed: MissedLinks,
    on_step: Callable[[Step], None],
    on_draw: Callable[[], None],
) -> Result:
    """The bound's maximum, the link posterior, and the assignment of least expected loss.

    Parameters
    ----------
    records, pairs, learned, settings
        As in `link_posterior`.
    shown
        The records with the values as they were read, and their A: what φ and λ are about. Moves and link posterior go
        by the comparison forms of `records`.
    start
        auto (greedy merges), records or random.
    max_sweeps, tol
        As in `optimise`.
    loss
        (fp, fn).
    missed_share, missed
        Estimated share of the link mass that the candidates miss, and how many links that may be.
    on_step, on_draw
        Called after every step and every draw.
    """
    found = settings.checkpoints.step(
        "draws", lambda: link_posterior(records, pairs, learned, settings, on_draw, missed)
    )
    n_individuals = settings.occupancy.n_individuals or max(round(learned.occupancy(settings).mean(found.n.mean)), 1)
    model = block_model(records, learned.evidence)
    graph = split_pairs(model, pairs, learned.log_new, settings.threads).graph
    linkage = None if start == "auto" else STARTS[start](shown[0], n_individuals, settings.seed)
    merged = None
    if settings.occupancy.n_individuals is None:
        # K is the most probable one given n, but never fewer than the individuals that the moves leave
        alone = model.constraints.leads(records.n_records)
        merged = Partition(model, learned.log_new, graph, alone, settings.threads)
        merged.merge()
        n_individuals = max(n_individuals, merged.n_blocks)
    as_read, prior = shown
    optimum = optimise(
        as_read, prior, model, n_individuals, learned.log_new, graph, (pairs.a, pairs.b), linkage,
        Limits(max_sweeps, tol, settings.threads, settings.checkpoints), on_step, merged,
    )  # fmt: skip
    label = decide(found.a, found.b, found.probability, records.n_records, loss, model.constraints)
    told = n_distinct(label[~blank_records(records)])  # records without values stand alone whatever K is
    if optimum.forced or told > (settings.occupancy.n_individuals or told):
        label = argmax_labels(optimum.fit.linkage, model.constraints)
    mass = float(found.probability.sum())
    missed_mass = mass * missed_share / max(1.0 - missed_share, 1e-9)
    return Result(
        prior,
        n_individuals,
        optimum,
        label,
        membership(label, found.a, found.b, found.probability, found.alone),
        found,
        expected_scores(label, found.a, found.b, found.probability, missed_mass),
        model,
    )


def phi_probability(result: Result) -> FloatArray:
    """(E,) calibrated membership of every entry of φ: see `decide.membership`, with φ's own individuals."""
    linkage = result.optimum.fit.linkage
    if result.posterior is None:
        return linkage.phi
    record = np.repeat(np.arange(len(linkage.ptr) - 1), np.diff(linkage.ptr))
    _, block = linkage.likeliest()
    size = np.bincount(block[block >= 0], minlength=linkage.n_stored)
    found = result.posterior
    total = np.zeros(len(linkage.phi))
    for records, others in ((found.a, found.b), (found.b, found.a)):
        mass_kernel(linkage.ptr, linkage.individual, block, records, others, found.probability, total)
    own = block[record] == linkage.individual
    others = size[linkage.individual] - own
    mean = total / np.maximum(others, 1)
    return np.clip(np.where(own & (others == 0), found.alone[record], mean), 0.0, 1.0)
