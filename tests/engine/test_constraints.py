"""The whole engine under constraints: sums over the partitions they allow, samplers, decisions, moves and sweeps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import exact, reference
from tests.engine import built, decided, naive
from tests.engine.steps import labels_after_a_step
from tests.engine.test_block_kernels import (
    N_BATCHES,
    Sampler,
    assert_within_monte_carlo_error,
    sparse_edges,
    summary_of,
)
from tests.engine.test_optimise import naive_bound, steady
from vber_cli.engine import cavi
from vber_cli.engine.block_model import block_model
from vber_cli.engine.candidate_pairs import log_odds_of, split_pairs, with_levels
from vber_cli.engine.decide import decide
from vber_cli.engine.family import Family, bound_records
from vber_cli.engine.feasible import fit_in, keep_apart
from vber_cli.engine.graph import build_graph
from vber_cli.engine.learn import Hyperparameters, Settings
from vber_cli.engine.link_posterior import link_posterior
from vber_cli.engine.moves import Partition, greedy_labels
from vber_cli.engine.optimise import Limits, argmax_labels, optimise
from vber_cli.engine.posterior import expect, tiny_posterior
from vber_cli.engine.start import relabel, start_at_random, start_from_records
from vber_cli.model.constraints import NO_CONSTRAINTS, TooFewIndividualsError, allowed_pairs
from vber_cli.model.occupancy import Occupancy

KINDS = ["must", "cannot", "sole", "within", "all"]
SEEDS = pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
STRUCTURES = [(1, ()), (2, naive.FULL)]


def constrained(case, rules):
    evidence = built.evidence_of(case)
    return block_model(case.records, type(evidence)(**{**vars(evidence), "constraints": rules.made()}))


def matrix(values, n):
    out = np.zeros((n, n))
    out[np.triu_indices(n, 1)] = values
    return out + out.T


def assert_allowed(rules, label):
    assert rules.allow(np.asarray(label))


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_classes", "parts"), STRUCTURES)
def test_enumeration_sums_over_the_allowed_partitions(rng, kind, n_classes, parts):
    for n in (3, 5, 7):
        case = naive.make_case(rng, n, "people", n_classes, parts)
        rules = decided.random_rules(rng, n, kind)
        model, log_h = constrained(case, rules), 0.7 * np.arange(n + 1)
        expected = decided.posterior(case, rules, log_h)
        graph = build_graph(*built.all_pairs(n), n)
        found = expect(model, 0.7, graph, None, seed=1, count=True, n_sweeps=0, threads=1)
        np.testing.assert_allclose(matrix(found.pair_probability, n), expected.pair, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.alone, expected.alone, rtol=0, atol=1e-9)
        np.testing.assert_allclose((found.n_mean, found.n_variance), expected.moments, rtol=0, atol=1e-9)
        pair, of_n = tiny_posterior(model, np.array([-np.inf, *rng.normal(0, 2, n)]))
        assert (pair[expected.pair == 0] == 0).all()
        assert of_n[expected.n == 0].sum() == 0


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_individuals", [None, 20])
def test_the_link_posterior_of_few_records_is_that_sum(rng, kind, n_individuals):
    n = 7
    case = naive.make_case(rng, n, "people")
    rules = decided.random_rules(rng, n, kind)
    evidence = type(built.evidence_of(case))(**{**vars(built.evidence_of(case)), "constraints": rules.made()})
    occupancy = Occupancy(n, n_individuals)
    log_h = np.array([-np.inf, *(occupancy.log_h(m) for m in range(1, n + 1))])
    model = block_model(case.records, evidence)
    pairs = with_levels(model, allowed_pairs(rules.made(), built.all_pairs(n)))
    learned = Hyperparameters(evidence, 0.8 * n, occupancy.log_new(0.8 * n))
    found = link_posterior(case.records, pairs, learned, Settings(occupancy, False, False, False, 3, 1))
    expected = decided.posterior(case, rules, log_h)
    np.testing.assert_allclose(matrix(found.probability, n), expected.pair, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.alone, expected.alone, rtol=0, atol=1e-9)
    assert found.n.mean == pytest.approx(expected.n @ np.arange(n + 1), abs=1e-9)
    known = rules.made().standing(found.a, found.b)
    assert (found.probability[known > 0] == 1.0).all()
    assert (found.probability[known < 0] == 0.0).all()


def test_too_few_individuals_for_few_records_are_refused(rng):
    case = naive.make_case(rng, 4, "people")
    rules = decided.Rules((), ((0, 1), (1, 2), (0, 2)), np.zeros(4, np.int32), np.zeros(1, bool), False)
    evidence = type(built.evidence_of(case))(**{**vars(built.evidence_of(case)), "constraints": rules.made()})
    pairs = with_levels(block_model(case.records, evidence), allowed_pairs(rules.made(), built.all_pairs(4)))
    for k in (2, 3):
        learned = Hyperparameters(evidence, 2.0, Occupancy(4, k).log_new(2.0))
        settings = Settings(Occupancy(4, k), False, False, False, 3, 1)
        if k == 2:
            with pytest.raises(TooFewIndividualsError):
                link_posterior(case.records, pairs, learned, settings)
        else:
            assert link_posterior(case.records, pairs, learned, settings).n.mean == pytest.approx(3.0)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_classes", "parts"), STRUCTURES)
@pytest.mark.parametrize("extra", [None, 1])
def test_gibbs_meets_the_sum_over_allowed_partitions(rng, kind, n_classes, parts, extra):
    n, log_new, n_keep = 6, 1.0, 120
    case = naive.make_case(rng, n, "people", n_classes, parts)
    rules = decided.random_rules(rng, n, kind)
    edges = built.all_pairs(n) if extra is None else sparse_edges(rng, n, extra)
    sampler = Sampler(case, log_new, edges, rules.made().leads(n))
    sampler.model = constrained(case, rules)
    seed = int(rng.integers(1 << 30))
    batches = []
    for i in range(N_BATCHES):
        batches.append(sampler.batch(20, n_keep, seed + i)[0])
        assert_allowed(rules, sampler.label)
    expected = decided.posterior(case, rules, log_new * np.arange(n + 1))
    values, variance = summary_of(expected, edges)
    assert_within_monte_carlo_error(batches, values, variance, N_BATCHES * n_keep)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_classes", "parts"), STRUCTURES)
@pytest.mark.parametrize("step", ["split and merge", "sweep", "swap"])
def test_each_kind_of_step_alone_keeps_the_posterior(rng, kind, n_classes, parts, step):
    n, log_new, n_draws = 5, 0.5, 4000
    case = naive.make_case(rng, n, "people", n_classes, parts)
    rules = decided.random_rules(rng, n, kind)
    edges = sparse_edges(rng, n, 1)
    expected = decided.posterior(case, rules, log_new * np.arange(n + 1))
    at = rng.choice(len(expected.labels), n_draws, p=expected.probability)
    index = {tuple(label): i for i, label in enumerate(expected.labels.tolist())}
    local = built.Local(constrained(case, rules), np.arange(n))
    after = np.zeros(len(expected.labels))
    for label in labels_after_a_step(local, edges, expected.labels[at], log_new, step, rng):
        after[index[label]] += 1
    p = expected.probability
    assert after[p == 0].sum() == 0
    assert np.all(np.abs(after / n_draws - p) <= naive.four_errors(p * (1 - p), n_draws))


def test_rivals_for_one_place_change_it(rng):
    """Ten copies of one record, two of which cannot be together: whichever is with the others leaves by a swap only."""
    n, log_new = 10, -3.0
    case = naive.make_case(rng, n, "constant")
    case = case.of(prior=case.prior.with_concentration(np.full(3, 1e-3)))
    case = case.of(noise=type(case.noise).single(case.prior.concentration))
    rules = decided.Rules((), ((3, 7),), np.zeros(n, np.int32), np.zeros(1, bool), False)
    sampler = Sampler(case, log_new, built.all_pairs(n), np.where(np.arange(n) == 7, 7, 0).astype(np.int32))
    sampler.model = constrained(case, rules)
    found = np.mean([sampler.batch(5, 40, seed)[0] for seed in range(20)], axis=0)
    first = dict(zip(zip(*(side.tolist() for side in built.all_pairs(n)), strict=True), found, strict=False))
    assert first[0, 3] == pytest.approx(0.5, abs=0.1)
    assert first[0, 7] == pytest.approx(0.5, abs=0.1)
    assert first[3, 7] == 0.0


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_classes", "parts"), STRUCTURES)
def test_moves_gain_and_keep_to_the_constraints(rng, kind, n_classes, parts):
    n, log_new = 14, 1.5
    case = naive.make_case(rng, n, "people", n_classes, parts)
    rules = decided.random_rules(rng, n, kind)
    model = constrained(case, rules)
    graph = build_graph(*built.all_pairs(n), n)

    def worth(label):
        return sum(naive.block_weight(case, block) + log_new for block in naive.blocks_of(label))

    label = greedy_labels(model, log_new, graph, 1)
    assert_allowed(rules, label)
    partition = Partition(model, log_new, graph, rules.made().leads(n), 1)
    now = worth(partition.label)
    for step in (partition.merge, partition.reassign, partition.split) * 4:
        made = step()
        assert_allowed(rules, partition.label)
        assert (worth(partition.label) > now) == (made > 0)
        now = worth(partition.label)
    assert made == 0


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [(1.0, 1.0), (1.0, 4.0)])
def test_decisions_are_the_best_that_are_allowed(rng, kind, loss):
    for n in (5, 8, 14):
        rules = decided.random_rules(rng, n, kind)
        made = rules.made()
        a, b = allowed_pairs(made, built.all_pairs(n))
        p = np.where(made.standing(a, b) > 0, 1.0, rng.beta(0.6, 0.6, len(a)))
        label = decide(a, b, p, n, loss, made)
        assert_allowed(rules, label)
        gain = np.full((n, n), -loss[0])
        gain[a, b] = loss[1] * p - loss[0] * (1 - p)

        def worth(other, gain=gain):
            return sum(gain[i, j] for i, j in itertools.combinations(range(len(other)), 2) if other[i] == other[j])

        if n <= 8:
            best = max(worth(other) for other in naive.labellings(n) if rules.allow(other))
            assert worth(label) == pytest.approx(best, abs=1e-9)
        else:  # one unit of each block holds its place; no other gains by joining another block
            gaining = [
                label[lead]
                for lead in np.unique(made.lead)
                if any(
                    rules.allow(other) and worth(other) > worth(label) + 1e-9
                    for other in (np.where(made.lead == lead, to, label) for to in np.unique(label))
                )
            ]
            assert len(gaining) == len(set(gaining))


def run_optimise(case, rules, n_individuals, start, seed=3):
    n = case.n
    model = constrained(case, rules)
    pairs = allowed_pairs(rules.made(), built.all_pairs(n))
    steps = []
    begin = None if start == "auto" else STARTS[start](case.records, n_individuals, seed)
    optimum = optimise(
        case.records, case.prior, model, n_individuals, 2.0, build_graph(*pairs, n), pairs, begin,
        Limits(300, 1e-7, 1), steps.append,
    )  # fmt: skip
    return optimum, steps


STARTS = {"records": start_from_records, "random": start_at_random}


def rows_of(linkage):
    """(N,) φ of every record as a dictionary over individuals; the unoccupied ones, together, are −1."""
    out = []
    for r in range(len(linkage.ptr) - 1):
        at = slice(linkage.ptr[r], linkage.ptr[r + 1])
        row = dict(zip(linkage.individual[at].tolist(), linkage.phi[at].tolist(), strict=True))
        if linkage.rest[r] > 0:
            row[-1] = float(linkage.rest[r])
        out.append(row)
    return out


def assert_phi_allowed(rules, linkage):
    """Records that must be together share a row, those that cannot share no individual."""
    rows = rows_of(linkage)
    a, b = built.all_pairs(len(rows))
    for i, j, known in zip(a, b, rules.made().standing(a, b), strict=True):
        if known > 0:
            assert rows[i] == rows[j]
        elif known < 0:
            assert not set(rows[i]) & set(rows[j])
    total = np.array([sum(row.values()) for row in rows])
    np.testing.assert_allclose(total[~linkage.blank], 1.0, atol=1e-9)


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["auto", "records", "random"])
@pytest.mark.parametrize(("n_classes", "parts"), STRUCTURES)
@pytest.mark.parametrize("shape", ["people", "blank"])
def test_the_bound_never_falls_and_phi_keeps_to_the_constraints(rng, kind, start, n_classes, parts, shape):
    n = 24
    case = steady(rng, n, n_classes, parts, shape)
    rules = decided.random_rules(rng, n, kind)
    optimum, steps = run_optimise(case, rules, 40, start)
    bounds = np.array([step.bound for step in steps])
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1]))
    assert optimum.bound == bounds[-1]
    assert optimum.fit.converged
    assert_phi_allowed(rules, optimum.fit.linkage)
    label = argmax_labels(optimum.fit.linkage, rules.made())
    if shape == "people":
        assert_allowed(rules, label)
        assert optimum.bound >= naive_bound(case, 40, label) - 1e-6


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_one_sweep_is_the_update_of_the_smaller_family(rng, kind):
    """φ of a unit against dense sums over its records; the ELBO against the dense one, each unit's entropy once."""
    n, k = 12, 20
    case = naive.make_case(rng, n, "people")
    case = case.of(prior=case.prior.with_concentration(np.array([0.5, 2.0, 5.0])))
    rules = decided.random_rules(rng, n, kind)
    made = rules.made()
    label = relabel(keep_apart(made, made.lead % 3))
    assert_allowed(rules, label)
    family = Family(case.records, made, label)
    start = cavi.hard_linkage(case.records, label, k, bound_records(made))
    counts = cavi.accumulate(case.records, case.prior, start)
    values = []
    for _ in range(5):
        linkage = family.local(case.records, case.prior, counts, k)
        dense_before = dense(start, k)
        alpha = case.alpha_by_field
        score = dense_scores(case, reference.dense_lambda(case.codes, alpha, dense_before))
        now = dense(linkage, k)
        for lead in np.unique(made.lead):
            unit = np.flatnonzero(made.lead == lead)
            total = score[unit].sum(axis=0)
            support = now[lead] > 0
            weight = np.where(support, np.exp(total - total[support].max()), 0.0)
            np.testing.assert_allclose(now[unit], np.tile(weight / weight.sum(), (len(unit), 1)), rtol=0, atol=1e-9)
        counts = cavi.accumulate(case.records, case.prior, linkage)
        value = cavi.elbo(case.records, case.prior, linkage, counts, family.entropy)
        expected = reference.short_elbo(alpha, now, reference.dense_lambda(case.codes, alpha, now))
        for r in range(n):
            if made.lead[r] != r:
                p = now[r][now[r] > 0]
                expected += float(p @ np.log(p))
        assert value == pytest.approx(expected, abs=1e-8)
        values.append(value)
        assert_phi_allowed(rules, linkage)
        start = linkage
    assert np.all(np.diff(values) >= -1e-9)
    assert kind == "within" or any(0.0 < p < 0.999 for row in rows_of(start) for p in row.values())


def dense(linkage, k):
    out = np.zeros((len(linkage.ptr) - 1, k))
    for r, row in enumerate(rows_of(linkage)):
        for at, p in row.items():
            if at >= 0:
                out[r, at] = p
            else:
                out[r, linkage.n_stored :] = p / linkage.n_rest
        if linkage.blank[r]:
            out[r] = 1.0 / k
    return out


def dense_scores(case, lam):
    """(N, K) Σ_f ψ(λ_kf,x) − ψ(Σ λ_kf)."""
    from scipy.special import digamma

    out = 0.0
    for f, table in enumerate(lam):
        seen = case.codes[:, f] >= 0
        part = digamma(table)[:, np.maximum(case.codes[:, f], 0)].T - digamma(table.sum(axis=1))
        out = out + np.where(seen[:, None], part, 0.0)
    return out


@SEEDS
@pytest.mark.parametrize("kind", ["must", "cannot"])
def test_forced_into_few_individuals_the_constraints_still_hold(rng, kind):
    case = steady(rng, 24, 1, ())
    rules = decided.random_rules(rng, 24, kind)
    optimum, _ = run_optimise(case, rules, 4, "auto")
    assert optimum.forced
    label = argmax_labels(optimum.fit.linkage, rules.made())
    assert_allowed(rules, label)
    assert label.max() < 4


def test_where_records_do_not_fit_it_is_said():
    everyone = tuple(itertools.combinations(range(4), 2))
    made = decided.Rules((), everyone, np.zeros(5, np.int32), np.zeros(1, bool), False).made()
    label = np.arange(5, dtype=np.int32)
    assert len(np.unique(fit_in(made, label, 4))) == 4
    with pytest.raises(TooFewIndividualsError):
        fit_in(made, label, 3)


def test_a_block_that_fits_nowhere_is_taken_apart():
    """Of 0 and 1, 2 and 3, 4 and 5 the last two may join neither of the others together, but one each."""
    made = decided.Rules((), ((0, 4), (2, 5), (1, 3)), np.zeros(6, np.int32), np.zeros(1, bool), False).made()
    assert fit_in(made, np.array([0, 0, 1, 1, 2, 2], np.int32), 2).tolist() == [0, 0, 1, 1, 1, 0]


@SEEDS
@pytest.mark.parametrize("kind", KINDS)
def test_any_partition_of_units_is_cut_to_an_allowed_one(rng, kind):
    rules = decided.random_rules(rng, 14, kind)
    made = rules.made()
    label = rng.integers(0, 3, 14)[made.lead]
    cut = keep_apart(made, label)
    assert_allowed(rules, cut)
    for block in naive.blocks_of(cut):
        assert len(np.unique(label[block])) == 1
    one = keep_apart(
        NO_CONSTRAINTS._replace(**{**made._asdict(), "sole": np.zeros(3, bool), "within_only": False}), label
    )
    assert kind != "sole" or len(np.unique(one)) == len(np.unique(label))


def test_units_larger_than_any_component_stay_whole(rng):
    n = 100
    case = naive.make_case(rng, n, "people")
    must = tuple((0, i) for i in range(1, 90))
    rules = decided.Rules(must, ((95, 3),), np.zeros(n, np.int32), np.zeros(1, bool), False)
    model = constrained(case, rules)
    pairs = with_levels(model, allowed_pairs(rules.made(), built.all_pairs(n)))
    split = split_pairs(model, pairs, 3.0)
    home = {
        int(r): c
        for c in range(split.graph.n_components)
        for r in split.graph.comp_record[slice(*split.graph.comp_ptr[c : c + 2])]
    }
    assert len({home[r] for r in range(90)}) == 1
    assert (log_odds_of(model, pairs, 3.0)[rules.made().standing(pairs.a, pairs.b) > 0] == 500.0).all()


def test_the_exact_model_under_constraints_is_a_sum_of_marginals(rng):
    """Against the marginals themselves, not the chain rule: 1 and 2 must, 2 and 3 cannot."""
    n = 5
    case = naive.make_case(rng, n, "people")
    rules = decided.Rules(((1, 2),), ((2, 3),), np.zeros(n, np.int32), np.zeros(1, bool), False)
    log_w, pair = [], []
    for label in naive.labellings(n):
        if rules.allow(label):
            blocks = naive.blocks_of(label)
            log_w.append(sum(exact.log_marginal(case.codes, case.alpha_by_field, b) for b in blocks) + len(blocks))
            pair.append(label[0] == label[1])
    w = np.exp(np.array(log_w) - max(log_w))
    graph = build_graph(*built.all_pairs(n), n)
    found = expect(constrained(case, rules), 1.0, graph, None, seed=1, count=True, n_sweeps=0, threads=1)
    assert matrix(found.pair_probability, n)[0, 1] == pytest.approx(w[np.array(pair)].sum() / w.sum(), abs=1e-9)
    assert found.pair_probability[[4, 7]].tolist() == [pytest.approx(1.0, abs=1e-12), 0.0]
