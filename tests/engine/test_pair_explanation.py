"""The evidence of pairs by field: exact sums, no dependence on the order of fields, dependence named."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp, softmax

from tests.engine import built, naive
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.pair_explanation import class_weights, explain_pairs
from vber_cli.model.noise import Noise

PARTS = [(), ("near",), ("relations",), ("tree",), naive.FULL]


def explained(case):
    a, b = built.all_pairs(case.n)
    model = built.model_of(case)
    return model, a, b, explain_pairs(model, a, b)


@pytest.mark.parametrize(
    ("kind", "n_classes", "parts"), list(itertools.product((*naive.UGLY, "people"), (1, 3), PARTS))
)
def test_fields_and_doubt_sum_to_the_evidence(rng, kind, n_classes, parts):
    case = naive.make_case(rng, 9, kind, n_classes, parts)
    model, a, b, found = explained(case)
    levels = pair_levels(model, a, b)
    link, doubt = pair_evidence(model, b, levels)
    np.testing.assert_array_equal(found.levels, levels)
    by_tree = np.log([naive.tree_ratio(case, j, at) for j, at in zip(b.tolist(), levels, strict=True)])
    total, close = found.by_field.sum(axis=1), 1e-12 * (1 + np.abs(link).max())
    np.testing.assert_allclose(total, link - by_tree, rtol=0, atol=10 * close)
    np.testing.assert_allclose(found.independent.sum(axis=1), link, rtol=0, atol=close)
    np.testing.assert_allclose(found.total, link - doubt, rtol=0, atol=1e-11)
    assert (found.by_field[levels == 9] == 0).all()
    assert ((found.relation >= 0) == (len(model.relation_odds) > 0)).all()


def test_one_class_gives_every_field_its_own_factor(rng):
    case = naive.make_case(rng, 10, "people", 1, ("near",))
    model, _, b, found = explained(case)
    for f in range(case.records.n_fields):
        only = np.full_like(found.levels, 9)
        only[:, f] = found.levels[:, f]
        link, _ = pair_evidence(model, b, only)
        np.testing.assert_allclose(found.by_field[:, f], link, atol=1e-12)


def test_the_order_of_the_fields_does_not_matter(rng):
    case = naive.make_case(rng, 10, "people", 3, ())
    *_, found = explained(case)
    order = [2, 0, 1]
    ptr = case.prior.value_ptr
    base = np.concatenate([case.prior.base[ptr[f] : ptr[f + 1]] for f in order])
    n_values = case.records.n_values[order]
    prior = replace(
        case.prior,
        base=base,
        value_ptr=np.concatenate([[0], np.cumsum(n_values)]),
        concentration=case.prior.concentration[order],
    )
    records = replace(case.records, codes=np.ascontiguousarray(case.codes[:, order]), n_values=n_values)
    noise = Noise(case.noise.concentration[:, order], case.noise.levels[:, order], case.noise.share)
    moved = naive.Case(records, prior, noise, {}, case.relations, case.dependence)
    *_, other = explained(moved)
    np.testing.assert_allclose(other.by_field, found.by_field[:, order], atol=1e-9)


def test_class_weights_are_the_integral(rng):
    log_share = np.log(rng.dirichlet(np.ones(3)))
    total = rng.normal(0, 1, (3, 5)) * np.array([0.1, 3, 30, 100, 300])
    found = class_weights(log_share, total)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-12)
    for p in range(5):
        for q in range(3):
            wanted, _ = quad(lambda t, q=q, p=p: softmax(log_share + t * total[:, p])[q], 0, 1, limit=500)
            assert found[q, p] == pytest.approx(wanted, abs=1e-6)
    evidence = logsumexp(log_share[:, None] + total, axis=0)
    np.testing.assert_allclose((found * total).sum(axis=0), evidence, rtol=1e-6, atol=1e-6)


def test_what_a_parent_implies_is_worth_less(rng):
    """A field loses what it follows from its parent: all of it beside an identical one, none where it is not shown."""
    case = naive.make_case(rng, 14, "people", 1, ("tree",))
    model, _, b, found = explained(case)
    child, parent = model.tree[0]
    lost = found.independent - found.by_field
    same = (found.levels[:, parent] == 0) & (found.levels[:, child] == 0)
    assert same.any()
    later = b[same]
    expected = np.log(case.theta_given[later, child] / case.theta[later, child])
    np.testing.assert_allclose(lost[same, child], expected, atol=1e-9)
    assert np.abs(lost[same, child]).max() > 0.1
    assert np.abs(lost[:, np.setdiff1d(np.arange(3), model.tree[:, 0])]).max() == 0.0
    assert np.abs(lost[found.levels[:, child] == 9, child]).max(initial=0.0) < 1e-12


def test_the_relation_is_the_most_probable_one(rng):
    case = naive.make_case(rng, 8, "people", 1, ("relations",))
    model, a, b, found = explained(case)
    for i in range(len(a)):
        odds = []
        for c in range(len(model.relation_odds)):
            one = replace(case.relations, odds=case.relations.odds[c : c + 1], levels=case.relations.levels[c : c + 1])
            odds.append(naive.doubt_of(case.of(relations=one), int(b[i]), found.levels[i]))
        assert found.relation[i] == np.argmax(odds)
