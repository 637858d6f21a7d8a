"""The certificate against the link mass of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from tests.candidates.test_join import Scoring, make_records
from vber_cli.candidates import audit as module
from vber_cli.candidates.audit import audit
from vber_cli.candidates.join import Pairs


class Audited:
    """Records, some of their pairs as candidates, and evidence that is not the scorer's."""

    def __init__(self, rng, n, kind, share, near):
        self.n = n
        self.scoring = Scoring(make_records(rng, n, kind), near)
        self.matrix = np.triu(rng.normal(0, 3, (n, n)), 1)
        a, b = (side.astype(np.int32) for side in np.triu_indices(n, 1))
        keep = rng.random(len(a)) < share
        self.pairs = Pairs(a[keep], b[keep], int(keep.sum()))

    def evidence_of(self, a, b):
        return self.matrix[np.minimum(a, b), np.maximum(a, b)]

    def run(self, log_new=1.0, seed=0, threads=1, uncovered=1.0):
        evidence = self.evidence_of(self.pairs.a, self.pairs.b)
        return audit(
            self.pairs, evidence, self.scoring.scorer, log_new, log_new, self.evidence_of, uncovered, seed, threads
        )

    def mass(self, log_new, sample):
        """(held, missed): each record of the sample with every other one whose score is worth counting.

        The odds of a pair stand beside 1, those of the record's other pairs, and those of the other one's candidates.
        """
        known = set(zip(self.pairs.a.tolist(), self.pairs.b.tolist(), strict=True))
        odds = np.exp(self.matrix + self.matrix.T - log_new)
        held = missed = 0.0
        for r in sample:
            seen = [s for s in range(self.n) if s != r and self.scoring.score(min(r, s), max(r, s)) > log_new - 14.0]
            for s in seen:
                pair = (min(r, s), max(r, s))
                candidates = sum(odds[s, t] for t in range(self.n) if (min(s, t), max(s, t)) in known)
                rivals = sum(odds[r, t] for t in seen if t != s) + max(candidates - odds[r, s], 0.0)
                p = odds[r, s] / (1.0 + odds[r, s] + rivals)
                if pair in known:
                    held += p
                else:
                    missed += p
        return held, missed


@pytest.fixture(autouse=True)
def _all_of_the_faint(monkeypatch):
    monkeypatch.setattr(module, "_ONE_IN", 1)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_of_many_faint_pairs_a_few_stand_for_all(rng, monkeypatch):
    case = Audited(rng, 400, "random", 0.0, {})
    a, b = np.triu_indices(400, 1)
    score = np.array([case.scoring.score(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)])
    log_new = float(np.median(score)) + 9.0  # half of the pairs are faint
    case.matrix[a, b] = log_new - 7.0  # hardly a link, each of them, and together a good part of the mass
    strong = np.flatnonzero(score > np.quantile(score, 0.999))
    case.matrix[a[strong], b[strong]] = log_new + 4.0
    case.pairs = Pairs(a[strong].astype(np.int32), b[strong].astype(np.int32), len(strong))
    exact = case.run(log_new=log_new).recall
    assert 0.2 < exact < 0.95
    monkeypatch.setattr(module, "_ONE_IN", 16)
    thin = case.run(log_new=log_new).recall
    assert thin != exact
    assert thin == pytest.approx(exact, abs=0.02)
    monkeypatch.setattr(module, "_FAINT", -1e9)
    assert case.run(log_new=log_new).recall == exact  # whatever is not faint is listed


def test_a_faint_pair_of_records_that_found_their_partners_is_not_missed(rng):
    case = Audited(rng, 4, "tied", 0.0, {})
    case.matrix[:] = 0.0
    case.matrix[0, 1] = case.matrix[2, 3] = 30.0
    case.matrix[1, 2] = 5.0  # odds of 5 nats by itself, but both have better partners among the candidates
    case.pairs = Pairs(np.array([0, 2], np.int32), np.array([1, 3], np.int32), 2)
    assert case.run(log_new=1.0).recall > 1 - 1e-9
    case.pairs = Pairs(np.array([2], np.int32), np.array([3], np.int32), 1)
    assert case.run(log_new=1.0).recall == pytest.approx(0.5, abs=0.01)  # 0 and 1 are missed, 2 and 3 are not


@pytest.mark.parametrize("kind", ["random", "missing", "tied"])
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_with_every_record_sampled_it_is_the_share_of_the_mass(rng, kind, near, share):
    case = Audited(rng, 50, kind, share, {(0, 0, 1): 1, (2, 3, 4): 0, (2, 5, 7): 2} if near else {})
    found = case.run()
    held, missed = case.mass(1.0, range(50))
    assert found.n_sampled == 50
    assert found.recall == pytest.approx(held / (held + missed), abs=1e-12)
    low, high = beta.ppf([0.05, 0.95], held + 0.5, missed + 0.5)
    assert (found.low, found.high) == (pytest.approx(min(low, found.recall)), pytest.approx(max(high, found.recall)))
    assert 0 <= found.low <= found.recall <= found.high <= 1
    assert found == case.run(threads=2)
    assert found.missed.seen == pytest.approx(missed / 2, abs=1e-12)
    assert found.missed.scale < 1e-9  # there is nothing else to miss


def test_the_sample_tells_how_many_links_are_missed(rng, monkeypatch):
    case = Audited(rng, 200, "tied", 0.0, {})
    case.matrix[:] = -20.0
    even = np.arange(0, 160, 2)
    case.matrix[even, even + 1] = 20.0  # 80 links, and half of them are candidates
    case.pairs = Pairs(even[40:].astype(np.int32), (even[40:] + 1).astype(np.int32), 40)
    assert case.run().missed.draw(2000, rng).mean() == pytest.approx(40.0, abs=0.6)
    monkeypatch.setattr(module, "_WORK", 200 * 60)
    draws = [case.run(seed=seed).missed.draw(500, rng) for seed in range(40)]
    assert np.mean(draws) == pytest.approx(40.0, abs=3.0)
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    assert 30 <= np.sum((low <= 40) & (high >= 40)) <= 40
    assert np.median(high - low) > 8


def test_a_small_sample_is_taken_with_what_the_plan_leaves_out(rng, monkeypatch):
    case = Audited(rng, 200, "tied", 0.0, {})
    case.matrix[:] = -20.0
    even = np.arange(0, 200, 2)
    case.matrix[even, even + 1] = 20.0
    case.pairs = Pairs(even.astype(np.int32), (even + 1).astype(np.int32), 100)  # none is missed
    monkeypatch.setattr(module, "_WORK", 200 * 20)
    means = [case.run(uncovered=share).missed.draw(4000, rng).mean() for share in (0.0, 0.01, 0.1, 1.0)]
    assert means[0] < 0.15
    assert means[1] == pytest.approx(0.5 / (0.2 / 0.81 + 0.5), rel=0.2)  # half a link in a tenth of them, and half in 1
    assert means[1] < means[2] < means[3] < 2.5


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_a_sample_sees_the_records_it_drew(rng, monkeypatch):
    case = Audited(rng, 80, "random", 0.5, {})
    monkeypatch.setattr(module, "_WORK", 80 * 30)
    for seed in (0, 1):
        found = case.run(seed=seed)
        sample = np.random.default_rng([seed, 8]).choice(80, 30, replace=False)
        held, missed = case.mass(1.0, sample.tolist())
        assert found.n_sampled == 30
        assert found.recall == pytest.approx(held / (held + missed), abs=1e-12)
    assert case.run(seed=0) == case.run(seed=0)
    assert case.run(seed=0) != case.run(seed=1)
    monkeypatch.setattr(module, "_WORK", 1)
    assert case.run().n_sampled == 20  # never fewer


@pytest.mark.parametrize("rng", range(20), indirect=True)
def test_what_is_held_is_no_more_than_all(rng):
    """However the sums are rounded, where next to nothing is missed."""
    case = Audited(rng, 60, "tied", 0.5, {})
    known = np.zeros(case.matrix.shape, bool)
    known[case.pairs.a, case.pairs.b] = True
    case.matrix[~known] = -60.0
    found = case.run()
    assert found.low <= found.recall <= found.high <= 1.0
    assert found.missed.seen >= 0.0


def test_where_no_pair_can_be_a_link_nothing_is_known(rng):
    case = Audited(rng, 30, "random", 0.5, {})
    found = case.run(log_new=1000.0)
    assert (found.recall, found.low, found.high, found.n_sampled) == (1.0, 0.0, 1.0, 30)


def test_without_candidates_everything_is_missed(rng):
    case = Audited(rng, 30, "tied", 0.0, {})
    found = case.run()
    assert found.recall == found.low == 0.0
    assert found.high < 0.1
