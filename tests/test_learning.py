"""Learning from a part of many records, and what then has to hold for all."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli import learning
from vber_cli.candidates import pilot
from vber_cli.candidates import plan as planning
from vber_cli.candidates.join import make_scorer
from vber_cli.candidates.plan import Key, Plan
from vber_cli.engine import infer
from vber_cli.engine.block_model import block_model
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.learn import Settings
from vber_cli.learning import Candidates, learn
from vber_cli.model.constraints import NO_CONSTRAINTS
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import Prior, make_prior, value_pointers
from vber_cli.model.similar import SimilarValues
from vber_cli.model.simulate import simulate, zipf_base
from vber_cli.model.types import Records

N, PEOPLE = 6_000, 4_000


@pytest.fixture(scope="module")
def made():
    sizes = (300, 200, 120, 60)
    pointers = value_pointers(np.array(sizes))
    base = np.concatenate([zipf_base(size, 0.5) for size in sizes])
    return simulate(Prior(pointers, base, np.array([0.1, 0.15, 0.2, 0.1])), N, 2, PEOPLE, seed=5)


def begin(records):
    occupancy = Occupancy(records.n_records)
    settings = Settings(occupancy, True, True, False, 1, 2)
    prior = make_prior(records, "empirical", 0.1)
    similar = SimilarValues.none(prior.value_ptr)
    candidates = Candidates(
        records, records.codes, np.arange(records.n_fields), occupancy, NO_CONSTRAINTS, 1, 2
    )  # fmt: skip
    return settings, candidates, infer.first_guess(records, prior, similar, settings)


def test_a_part_teaches_what_all_do(made, monkeypatch):
    records = made.records
    settings, candidates, start = begin(records)
    whole = learn(records, candidates, start, settings).hyperparameters
    monkeypatch.setattr(pilot, "FROM", 1_000)
    monkeypatch.setattr(planning, "budget_of", lambda n: 300.0 * n)  # or all pairs would be compared
    monkeypatch.setattr(pilot, "SEEDS", 1_500)
    asked = []
    monkeypatch.setattr(
        learning.infer, "learn_from",
        lambda part, *rest, real=infer.learn_from: (asked.append(part.n_records), real(part, *rest))[1],
    )  # fmt: skip
    found = learn(records, candidates, start, settings)
    assert len(asked) == 1
    assert 1_500 < asked[0] < 0.9 * N
    now = found.hyperparameters
    assert now.n == pytest.approx(made.n_occupied, rel=0.02)
    assert now.n == pytest.approx(whole.n, rel=0.01)
    np.testing.assert_allclose(now.evidence.prior.concentration, whole.evidence.prior.concentration, rtol=0.15)
    assert found.pairs.b.max() > asked[0]  # the pairs are those of all records


def test_a_part_holds_the_sample_and_what_looks_like_it(made, monkeypatch):
    records = made.records
    _, _, start = begin(records)
    monkeypatch.setattr(pilot, "SEEDS", 300)
    evidence = start.evidence
    scorer = make_scorer(records, evidence.prior, evidence.similar, evidence.noise, evidence.unrelated())
    plan = Plan(tuple(Key((f,), 1.0) for f in range(4)), 1.0, False)
    found = [pilot.pilot_rows(records.codes, plan, scorer, 8.0, 1, threads) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    rows = set(found[0].tolist())
    sampled = np.random.default_rng([1, 12]).choice(N, 300, replace=False)
    assert rows >= set(sampled.tolist())
    codes = records.codes
    worth = np.array([scorer.match[r] for r in range(N)])
    for a in sampled[:60].tolist():
        same = (codes == codes[a]) & (codes >= 0)
        score = np.where(same, worth[a], np.where(codes >= 0, scorer.level_evidence[:, 3], 0.0)).sum(axis=1)
        alike = np.flatnonzero((score > 8.5) & same.any(axis=1))
        assert rows >= set(alike.tolist())
    assert len(rows) > 300
    assert len(rows) < 3_000


def test_what_is_counted_in_a_part_is_counted_among_all():
    codes = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [-1, 1], [0, -1]], np.int32)
    records = Records(codes, np.zeros(6, np.int32), np.array([2, 2]))
    alike = np.zeros(0)
    both, parent = records.counts_together(0, 1, alike)
    assert both.tolist() == [2, 2, 1, 1, 0, 0]
    assert parent.tolist() == [2, 2, 2, 2, 0, 0]
    # the first two are one individual
    both, parent = records.counts_together(0, 1, np.array([0.5, 0.5, 1.0, 1.0, 1.0, 1.0]))
    assert both.tolist() == [1, 1, 1, 1, 0, 0]
    assert parent.tolist() == [1, 1, 2, 2, 0, 0]
    part = records.part(np.array([0, 3, 4]))
    assert part.codes.tolist() == [[0, 0], [1, 1], [-1, 1]]
    assert [one.tolist() for one in part.counts_together(0, 1, alike)] == [[2, 1, 0], [2, 2, 0]]


def test_candidates_by_evidence_are_those_not_far_from_links(made, monkeypatch):
    records = made.records
    _, candidates, start = begin(records)
    monkeypatch.setattr(planning, "budget_of", lambda n: 300.0 * n)
    a, b = candidates.find(start)
    model = block_model(records, start.evidence)
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
    even = max(start.log_new, Occupancy(records.n_records).log_new(start.n))
    monkeypatch.setattr(learning, "_KEPT", 0.0)  # or nearly all would be kept of so few records
    near = link - doubt > even
    assert 0.05 < near.mean() < 0.95
    kept = candidates.find_by_evidence(start)
    np.testing.assert_array_equal(kept, (a[near], b[near]))
