"""Learning as `vber merge` does it: candidates under what is known, and a part of many records to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vber_cli.candidates import pilot
from vber_cli.candidates.audit import Certificate, audit
from vber_cli.candidates.join import Pairs, Scorer, choose_threshold, join, make_scorer
from vber_cli.candidates.plan import KeyColumns, Plan, key_columns, make_plan
from vber_cli.candidates.swapped import swapped_pairs
from vber_cli.engine import infer
from vber_cli.engine.block_model import block_model
from vber_cli.engine.candidate_pairs import CERTAIN_LOG_ODDS, CandidatePairs, with_levels
from vber_cli.engine.checkpoints import NO_CHECKPOINTS, Checkpoints
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.learn import MAX_ROUNDS, Hyperparameters, Settings
from vber_cli.model import evidence
from vber_cli.model.constraints import Constraints, allowed_pairs
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import value_counts
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records

_LAST_ROUNDS = 2  # on all records, after a part has been learned from
# Log odds by their evidence above which pairs are kept then. Where there are many pairs, those below FAINT_LOG_ODDS by
# what is learned in the end take no part; that moves hardly a pair up by more than the two nats in between.
_KEPT = -9.0


class Candidates:
    """Finds candidate pairs under given hyperparameters, and keeps the last plan and pairs for the certificate.

    Parameters
    ----------
    records, key_codes, key_field
        (N, F) records, the (N, G) columns that keys are made of, and the (G,) fields these belong to.
    occupancy, constraints
        The prior over partitions, and who may be who.
    seed, threads
        The threads have no influence on the result.
    checkpoints
        Told of every step.
    """

    def __init__(
        self,
        records: Records,
        key_codes: IntArray,
        key_field: LongArray,
        occupancy: Occupancy,
        constraints: Constraints,
        seed: int,
        threads: int,
        checkpoints: Checkpoints = NO_CHECKPOINTS,
    ) -> None:
        self._records, self._occupancy, self.constraints = records, occupancy, constraints
        self._seed, self._threads, self._checkpoints = seed, threads, checkpoints
        self._key_codes, self._key_field = np.ascontiguousarray(key_codes), key_field
        self.plan = Plan((), 1.0, True)
        self.pairs = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), 0)

    def find(self, now: Hyperparameters) -> tuple[IntArray, IntArray]:
        """Plan and join; drop the pairs that cannot be links, and add those that must."""
        self.plan, self.pairs = self._checkpoints.step("candidates", lambda: self._find(now))
        return self.pairs.a, self.pairs.b

    def find_by_evidence(self, now: Hyperparameters) -> tuple[IntArray, IntArray]:
        """`find` where much is known: pairs are kept by their evidence, which is less than scores that hope for it.

        Of many records most pairs that scores let through are far from being links.
        """
        self.plan, self.pairs = self._checkpoints.step("candidates", lambda: self._find(now, by_evidence=True))
        return self.pairs.a, self.pairs.b

    def _find(self, now: Hyperparameters, *, by_evidence: bool = False) -> tuple[Plan, Pairs]:
        scorer = self._scorer(now)
        threshold = choose_threshold(scorer, self._even(now), self._seed)
        plan = self._plan(now, threshold)
        wanted = None
        if by_evidence:
            model = block_model(self._records, now.evidence)

            def wanted(a: IntArray, b: IntArray) -> np.ndarray:
                return np.asarray(with_levels(model, (a, b)).evidence(model) > self._even(now) + _KEPT)

        found = join(self._key_codes, plan, scorer, threshold, self._threads, wanted)
        found = self._with_swapped(now, found, threshold)
        return plan, Pairs(*allowed_pairs(self.constraints, (found.a, found.b)), found.compared)

    def _with_swapped(self, now: Hyperparameters, found: Pairs, threshold: float) -> Pairs:
        """The pairs with those added whose values have changed places, which no key need bring together."""
        a, b = swapped_pairs(self._records, now.evidence.similar.swaps)
        if len(a) == 0:
            return found
        model = block_model(self._records, now.evidence)
        link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
        likely = link - doubt > threshold
        return found.plus(a[likely], b[likely], len(a))

    def pilot(self, now: Hyperparameters) -> LongArray:
        """Rows of a part of the records that is enough to learn from."""
        even = self._even(now)
        plan = self._plan(now, even)
        return pilot.pilot_rows(self._key_codes, plan, self._scorer(now), even, self._seed, self._threads)

    def among(self, part: Records, rows: LongArray, occupancy: Occupancy) -> Candidates:
        """The same search among a part of the records, `part`, which holds these rows."""
        return Candidates(
            part, self._key_codes[rows], self._key_field, occupancy, self.constraints, self._seed, self._threads,
            self._checkpoints,
        )  # fmt: skip

    def _scorer(self, now: Hyperparameters) -> Scorer:
        known = now.evidence
        return make_scorer(self._records, known.prior, known.similar, known.noise, known.unrelated())

    def _plan(self, now: Hyperparameters, threshold: float) -> Plan:
        prior, noise = now.evidence.prior, now.evidence.noise
        entropy = evidence.collision_entropy(prior)
        identical = evidence.agreement_rate(prior) * (noise.share[:, None] * noise.levels[:, :, 0]).sum(axis=0)
        columns: KeyColumns = key_columns(self._key_codes, self._key_field, entropy, identical)
        return make_plan(columns, entropy, evidence.mismatch_evidence(prior), threshold, self._seed)

    def _even(self, now: Hyperparameters) -> float:
        """The evidence in nats around which pairs are worth a look, also where the databases nearly hold everybody."""
        return max(now.log_new, self._occupancy.log_new(now.n))

    def forget_keys(self) -> None:
        """Give back the memory of the keys; nothing can be found after."""
        self._key_codes = self._key_codes[:0].copy()

    def certify(self, now: Hyperparameters, pairs: CandidatePairs) -> Certificate:
        """Compare a sample of the records with all; `pairs` are the candidates that were learned from."""
        model = block_model(self._records, now.evidence)
        threads = self._threads

        def evidence_of(pairs: CandidatePairs) -> FloatArray:
            known = self.constraints.standing(pairs.a, pairs.b)
            return np.where(known == 0, pairs.evidence(model, threads), known * CERTAIN_LOG_ODDS)

        def evidence_between(a: IntArray, b: IntArray) -> FloatArray:
            return evidence_of(with_levels(model, (np.minimum(a, b), np.maximum(a, b)), threads))

        return audit(
            self.pairs, evidence_of(pairs), self._scorer(now), now.log_new, self._even(now), evidence_between,
            1.0 - self.plan.covered, self._seed, threads,
        )  # fmt: skip


def learn(
    records: Records,
    candidates: Candidates,
    start: Hyperparameters,
    settings: Settings,
    known: Hyperparameters | None = None,
) -> infer.Learned:
    """Learn from all records, or from a part of many and then what depends on their number from all.

    Parameters
    ----------
    records, candidates, start, settings
        The data, what finds candidates among them, the first guess, and how to run.
    known
        What an earlier run has learned: then no structure is chosen anew.
    """
    if known is not None:
        learned = infer.Learned(known, infer.NO_PAIRS, {}, {})
        kept = replace(settings, keep_noise=True)
        return infer.learn_on(records, candidates.find, learned, kept, max_rounds=MAX_ROUNDS)
    if records.n_records < pilot.FROM or start.evidence.constraints.any:
        return infer.learn_from(records, candidates.find, start, settings)
    step = settings.checkpoints.step
    found, share = step("part", lambda: _learn_from_part(records, candidates, start, settings))
    now = _scaled_up(found.hyperparameters, share, settings)
    return infer.learn_on(
        records, candidates.find_by_evidence, replace(found, hyperparameters=now), settings, max_rounds=_LAST_ROUNDS
    )


def _learn_from_part(
    records: Records, candidates: Candidates, start: Hyperparameters, settings: Settings
) -> tuple[infer.Learned, float]:
    """What a part of the records shows, its pairs left out, and its share of all."""
    rows = settings.checkpoints.step("pilot", lambda: candidates.pilot(start))
    share = len(rows) / records.n_records
    fixed = settings.occupancy.n_individuals
    occupancy = Occupancy(len(rows), None if fixed is None else max(round(fixed * share), 1))
    few = replace(settings, occupancy=occupancy, learn_base=False)
    n = 0.9 * len(rows)
    prior, similar = start.evidence.prior, start.evidence.similar
    part = records.part(rows)
    shown = np.flatnonzero(value_counts(part, prior.value_ptr))  # what the others show is to cost nothing
    part = part.with_only(similar.swaps.twins_of(shown, prior.value_ptr))
    evidence = replace(start.evidence, prior=prior.part(part), similar=similar.part(part))
    among = candidates.among(part, rows, occupancy)
    start = replace(start, evidence=evidence, n=n, log_new=occupancy.log_new(n))
    found = infer.learn_from(part, among.find, start, few)
    now = found.hyperparameters
    prior = prior.with_concentration(now.evidence.prior.concentration)
    now = replace(now, evidence=replace(now.evidence, prior=prior, similar=similar))
    return replace(found, hyperparameters=now, pairs=infer.NO_PAIRS), share


def _scaled_up(learned: Hyperparameters, share: float, settings: Settings) -> Hyperparameters:
    """What was learned from such a share of the records, for all: of all pairs, far fewer are related there."""
    relations = learned.evidence.relations
    fewer = replace(relations, odds=relations.odds * share)
    present = None if learned.present is None else tuple(one / share for one in learned.present)
    evidence = replace(learned.evidence, relations=fewer, dependence=learned.evidence.dependence.alone())
    now = replace(learned, evidence=evidence, n=learned.n / share, present=present)
    return replace(now, log_new=now.occupancy(settings).log_new(now.n))
