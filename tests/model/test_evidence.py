"""The evidence of a pair against the exact marginals of its records (docs/model.md section 2)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import exact
from vber_cli.engine.block_model import Evidence, block_model, exact_model
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.model.dependence import Dependence
from vber_cli.model.evidence import agreement_rate, collision_entropy, match_evidence, mismatch_evidence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

N_VALUES = (4, 2, 1)


def make_prior(rng, concentration):
    base = np.concatenate([rng.dirichlet(np.ones(v)) for v in N_VALUES])
    pointers = np.concatenate([[0], np.cumsum(N_VALUES)])
    return Prior(pointers, base, np.broadcast_to(concentration, 3).astype(np.float64))


def fields_of(prior):
    return [prior.alpha[lo:hi] for lo, hi in itertools.pairwise(prior.value_ptr)]


def log_ratio(codes, alpha):
    """log m({a, b}) − log m({a}) − log m({b})."""
    return exact.log_marginal(codes, alpha, [0, 1]) - sum(exact.log_marginal(codes, alpha, [r]) for r in (0, 1))


def evidence_of_pairs(model, a, b):
    link, doubt = pair_evidence(model, b, pair_levels(model, a, b))
    assert not doubt.any()
    return link


@pytest.mark.parametrize("concentration", [1e-6, 0.1, 1.0, [0.01, 5.0, 1000.0]])
def test_match_and_mismatch_are_ratios_of_marginals(rng, concentration):
    prior = make_prior(rng, concentration)
    match, mismatch = match_evidence(prior), mismatch_evidence(prior)
    for f, alpha in enumerate(fields_of(prior)):
        for v, w in itertools.product(range(N_VALUES[f]), repeat=2):
            expected = log_ratio(np.array([[v], [w]]), [alpha])
            found = match[prior.value_ptr[f] + v] if v == w else mismatch[f]
            assert found == pytest.approx(float(expected), abs=1e-8)
    assert np.all(match >= 0)
    assert np.all(mismatch < 0)


@pytest.mark.parametrize("concentration", [0.1, [0.01, 5.0, 1000.0]])
def test_pairs_add_up_over_fields_and_missing_values_say_nothing(rng, concentration):
    prior = make_prior(rng, concentration)
    codes = np.stack([rng.integers(-1, v, 30) for v in N_VALUES], axis=1).astype(np.int32)
    codes[:2] = -1
    records = Records(codes, np.zeros(30, np.int32), np.array(N_VALUES))
    a, b = (x.astype(np.int32) for x in np.triu_indices(30, 1))
    found = evidence_of_pairs(exact_model(records, prior), a, b)
    expected = [log_ratio(codes[[i, j]], fields_of(prior)) for i, j in zip(a, b, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert found[0] == 0.0


def test_noise_classes_mix_the_pairs_not_the_fields(rng):
    prior = make_prior(rng, 0.1)
    concentration = np.array([[0.01, 0.02, 0.5], [3.0, 2.0, 0.1], [0.3, 9.0, 1.0]])
    noise = Noise(concentration, np.tile([1.0, 0.0, 0.0], (3, 3, 1)), np.array([0.5, 0.3, 0.2]))
    codes = np.stack([rng.integers(-1, v, 20) for v in N_VALUES], axis=1).astype(np.int32)
    records = Records(codes, np.zeros(20, np.int32), np.array(N_VALUES))
    a, b = (x.astype(np.int32) for x in np.triu_indices(20, 1))
    nothing = SimilarValues.none(prior.value_ptr), Relations.none(3), Dependence.none(3)
    found = evidence_of_pairs(block_model(records, Evidence(prior, noise, *nothing)), a, b)
    by_class = [
        [log_ratio(codes[[i, j]], fields_of(prior.with_concentration(c))) for c in noise.concentration]
        for i, j in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(found, np.log(np.exp(by_class) @ noise.share), rtol=0, atol=1e-9)
    assert noise.n_classes == 3


@pytest.mark.parametrize("concentration", [1e-6, 0.1, 7.0])
def test_agreement_rate_is_that_of_two_draws_from_one_individual(rng, concentration):
    prior = make_prior(rng, concentration)
    rate = agreement_rate(prior)
    for f, alpha in enumerate(fields_of(prior)):
        same = [np.exp(exact.log_marginal(np.array([[v], [v]]), [alpha], [0, 1])) for v in range(N_VALUES[f])]
        assert rate[f] == pytest.approx(np.sum(same))
    assert rate[2] == pytest.approx(1.0)


def test_collision_entropy():
    prior = Prior(np.array([0, 4, 4, 5]), np.array([0.25, 0.25, 0.25, 0.25, 1.0]), np.ones(3))
    assert collision_entropy(prior) == pytest.approx([np.log(4), 0.0, 0.0])


def test_unseen_values_are_as_often_near_as_seen_ones():
    """Nine tenths of the draws show values not seen here: of strangers' pairs no fewer are near for that."""
    ptr = np.array([0, 4])
    similar = SimilarValues.of(ptr, np.array([0]), np.array([1]), np.array([1], np.int8))
    all_seen = similar.chance_levels(Prior(ptr, np.full(4, 0.25), np.ones(1)))
    few_seen = similar.chance_levels(Prior(ptr, np.full(4, 0.025), np.ones(1)))
    assert all_seen[0, 1] == pytest.approx(2 / 16)
    assert few_seen[0, 1] == pytest.approx(2 / 16)
