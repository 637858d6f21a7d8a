"""The certificate against the link mass of all pairs."""

from __future__ import annotations

import itertools

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

    def run(self, log_new=1.0, seed=0, threads=1):
        return audit(self.pairs, self.scoring.scorer, log_new, self.evidence_of, seed, threads)

    def mass(self, log_new, sample):
        """(held, missed): each record of the sample with every other one whose score is above the floor."""
        known = set(zip(self.pairs.a.tolist(), self.pairs.b.tolist(), strict=True))
        held = missed = 0.0
        for r, s in itertools.product(sample, range(self.n)):
            pair = (min(r, s), max(r, s))
            if r == s or self.scoring.score(*pair) <= log_new - 14.0:
                continue
            p = 1 / (1 + np.exp(log_new - self.matrix[pair]))
            if pair in known:
                held += p
            else:
                missed += p
        return held, missed


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


def test_where_no_pair_can_be_a_link_nothing_is_known(rng):
    case = Audited(rng, 30, "random", 0.5, {})
    found = case.run(log_new=1000.0)
    assert (found.recall, found.low, found.high, found.n_sampled) == (1.0, 0.0, 1.0, 30)


def test_without_candidates_everything_is_missed(rng):
    case = Audited(rng, 30, "tied", 0.0, {})
    found = case.run()
    assert found.recall == found.low == 0.0
    assert found.high < 0.1
