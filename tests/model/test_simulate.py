"""The simulator draws from the model: moments, goodness of fit, and the urn against explicit Dirichlet draws."""

import dataclasses
import itertools
import time
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from vber_cli.model.dependence import Dependence
from vber_cli.model.prior import Prior, value_pointers
from vber_cli.model.simulate import parents_first, simulate, urn, zipf_base


def prior_of(*fields):
    """Fields as (V, α, Zipf's exponent)."""
    return Prior(
        value_pointers(np.array([v for v, _, _ in fields], dtype=np.int64)),
        np.concatenate([zipf_base(v, s) for v, _, s in fields]),
        np.array([a for _, a, _ in fields]),
    )


def chi_square(counts, probability):
    return stats.chisquare(counts, probability / probability.sum() * counts.sum()).pvalue


def test_zipf_base():
    assert zipf_base(4, 0.0) == pytest.approx([0.25] * 4)
    assert zipf_base(3, 1.0) == pytest.approx(np.array([6, 3, 2]) / 11)
    assert zipf_base(1, 5.0) == pytest.approx([1.0])
    steep = zipf_base(100_000, 100.0)
    assert steep.min() > 0
    assert steep.sum() == pytest.approx(1.0)


def test_shapes_and_bookkeeping():
    made = simulate(prior_of((5, 0.1, 0.0), (2, 0.1, 1.0)), 11, 3, 7, seed=1)
    records = made.records
    assert (records.codes.dtype, records.codes.shape, records.codes.flags.c_contiguous) == (np.int32, (11, 2), True)
    assert records.db_of_record.dtype == np.int32
    assert np.bincount(records.db_of_record).tolist() == [4, 4, 3]
    assert (np.diff(records.db_of_record) >= 0).all()
    assert records.n_values.tolist() == [5, 2]
    assert (made.z.min() >= 0, made.z.max() < 7) == (True, True)
    assert made.n_occupied == len(set(made.z.tolist()))
    same = made.z[:, None] == made.z[None, :]
    assert made.n_pairs == (same.sum() - 11) // 2


def test_individuals_are_uniform_and_as_many_recorded_as_expected():
    n_records, population = 2_000, 1_500
    found = [simulate(prior_of((2, 1.0, 0.0)), n_records, 1, population, seed=s).n_occupied for s in range(200)]
    empty = (1 - 1 / population) ** n_records
    both = (1 - 2 / population) ** n_records
    mean = population * (1 - empty)
    variance = population * empty + population * (population - 1) * both - (population * empty) ** 2
    assert abs(np.mean(found) - mean) < 4 * np.sqrt(variance / 200)
    assert 0.7 < np.var(found, ddof=1) / variance < 1.4
    counts = np.bincount(simulate(prior_of((2, 1.0, 0.0)), 100_000, 1, 50, seed=3).z, minlength=50)
    assert chi_square(counts, np.ones(50)) > 1e-3


def test_values_have_their_frequencies():
    # one record for each of very many individuals: the values are independent draws from θ
    prior = prior_of((30, 0.2, 1.0), (7, 3.0, 0.0))
    made = simulate(prior, 50_000, 2, 10**12, seed=4)
    assert made.n_occupied == 50_000
    for f, begin in enumerate(prior.value_ptr[:-1]):
        theta = prior.base[begin : prior.value_ptr[f + 1]]
        assert chi_square(np.bincount(made.records.codes[:, f], minlength=len(theta)), theta) > 1e-3
    table = np.zeros((30, 7))
    np.add.at(table, tuple(made.records.codes.T), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("concentration", [1e-6, 0.05, 1.0, 20.0, 1e9])
def test_two_records_of_one_individual_agree_as_often_as_they_should(concentration):
    theta = zipf_base(6, 0.7)
    m = 100_000
    pair = urn(np.repeat(np.arange(m), 2), theta, concentration, np.random.default_rng(5)).reshape(m, 2)
    agree = (1 + concentration * (theta**2).sum()) / (1 + concentration)
    assert abs((pair[:, 0] == pair[:, 1]).mean() - agree) <= 4 * np.sqrt(agree * (1 - agree) / m) + 1e-9
    for side in range(2):
        assert chi_square(np.bincount(pair[:, side], minlength=6), theta) > 1e-3


def test_the_urn_is_a_dirichlet_and_its_draws(rng):
    theta, alpha, size, m = np.array([0.5, 0.3, 0.2]), 0.8, 4, 60_000
    drawn = urn(np.repeat(np.arange(m), size), theta, alpha, rng).reshape(m, size)
    beta = rng.dirichlet(alpha * theta, size=m)
    explicit = (rng.random((m, size, 1)) > np.cumsum(beta, axis=1)[:, None, :2]).sum(axis=2)
    weights = 3 ** np.arange(size)
    table = np.array([np.bincount(x @ weights, minlength=3**size) for x in (drawn, explicit)])
    assert stats.chi2_contingency(table).pvalue > 1e-3
    # exact: Γ(α) / Γ(α + m) Π_v Γ(αθ_v + c_v) / Γ(αθ_v), sequence by sequence
    exact = np.zeros(3**size)
    for values in itertools.product(range(3), repeat=size):
        seen, p = np.zeros(3), 1.0
        for j, v in enumerate(values):
            p *= (alpha * theta[v] + seen[v]) / (alpha + j)
            seen[v] += 1
        exact[np.dot(values, weights)] = p
    assert exact.sum() == pytest.approx(1.0)
    for row in table:
        assert chi_square(row, exact) > 1e-3


def test_large_groups_have_the_right_number_of_distinct_values(rng):
    # with a base that never repeats, the number of different values is a sum of Bernoulli(α / (α + j))
    alpha, size, m = 2.0, 50, 2_000
    base = np.full(5_000_000, 1 / 5_000_000)
    drawn = urn(np.repeat(np.arange(m), size), base, alpha, rng).reshape(m, size)
    p = alpha / (alpha + np.arange(size))
    mean, variance = p.sum(), (p * (1 - p)).sum()
    distinct = [len(set(row.tolist())) for row in drawn]
    assert abs(np.mean(distinct) - mean) < 4 * np.sqrt(variance / m)


def test_values_are_missing_at_random():
    made = simulate(prior_of((3, 0.1, 0.0), (3, 0.1, 0.0), (3, 0.1, 0.0)), 40_000, 2, 20_000,
                    missing=np.array([0.0, 0.3, 1.0]), seed=6)  # fmt: skip
    absent = made.records.codes < 0
    assert (absent[:, 0].any(), absent[:, 2].all()) == (False, True)
    assert abs(absent[:, 1].mean() - 0.3) < 4 * np.sqrt(0.21 / 40_000)
    assert made.records.codes.min() == -1
    table = np.zeros((2, 3))
    np.add.at(table, (absent[:, 1].astype(int), made.records.codes[:, 0]), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_the_seed_decides_everything():
    prior = prior_of((50, 0.1, 1.0), (9, 0.5, 0.0))
    one, two, other = (simulate(prior, 500, 2, 400, missing=0.1, seed=s) for s in (7, 7, 8))
    assert np.array_equal(one.records.codes, two.records.codes)
    assert np.array_equal(one.z, two.z)
    assert not np.array_equal(one.records.codes, other.records.codes)
    assert not np.array_equal(one.z, other.z)
    # one more field leaves the others as they are
    more = simulate(prior_of((50, 0.1, 1.0), (9, 0.5, 0.0), (4, 1.0, 0.0)), 500, 2, 400, missing=0.1, seed=7)
    assert np.array_equal(more.records.codes[:, :2], one.records.codes)


def test_a_million_records_in_seconds_and_without_k_times_v():
    prior = prior_of((100_000, 0.1, 1.0), (2, 0.1, 0.0), (30_000, 0.1, 0.0))
    began = time.perf_counter()
    made = simulate(prior, 1_000_000, 3, 800_000, missing=0.05, seed=9)
    assert time.perf_counter() - began < 10
    assert made.records.codes.shape == (1_000_000, 3)
    tracemalloc.start()
    simulate(prior, 100_000, 3, 10**9, seed=9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def tree_of(*parents, kappa):
    parent = np.array(parents, dtype=np.int64)
    return dataclasses.replace(Dependence.none(len(parents)), parent=parent, strength=np.full(len(parents), kappa))


def test_a_field_with_a_parent_has_values_of_its_own_for_each_of_the_parents():
    # a single record for each individual: two that share the parent's value agree like two draws of one urn
    kappa, m = 0.5, 40_000
    prior = prior_of((m // 2, 0.1, 0.0), (10, 0.1, 0.0))
    codes = simulate(prior, m, 1, 10**12, dependence=tree_of(-1, 0, kappa=kappa), seed=1).records.codes
    order = np.argsort(codes[:, 0], kind="stable")
    a, b = order[:-1], order[1:]
    couples = codes[a, 0] == codes[b, 0]
    agree = (codes[a, 1] == codes[b, 1])[couples]
    expected = (1 + kappa / 10) / (1 + kappa)
    assert abs(agree.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / (len(agree) / 2))
    assert chi_square(np.bincount(codes[::50, 1], minlength=10), np.ones(10)) > 1e-3
    # and others agree by chance alone
    assert abs((codes[: m // 2, 1] == codes[m // 2 :, 1]).mean() - 0.1) < 4 * np.sqrt(0.09 / (m // 2))


def test_a_mismatch_in_the_parent_is_one_in_the_field():
    alpha = np.array([0.2, 0.1, 0.3])
    prior = prior_of((10**6, alpha[0], 0.0), (10**6, alpha[1], 0.0), (10**6, alpha[2], 0.0))
    m = 60_000
    made = simulate(prior, m, 1, m // 4, dependence=tree_of(1, 2, -1, kappa=1e9), seed=2)
    order = np.argsort(made.z, kind="stable")
    first, size = np.unique(made.z[order], return_index=True, return_counts=True)[1:]
    a, b = order[first[size == 2]], order[first[size == 2] + 1]
    same = made.records.codes[a] == made.records.codes[b]
    # agreeing in a field takes agreeing in those above it; then α says how often
    for f, above in ((2, None), (1, 2), (0, 1)):
        agree = same[:, f] if above is None else same[same[:, above], f]
        share = 1 / (1 + alpha[f])
        assert abs(agree.mean() - share) < 4 * np.sqrt(share * (1 - share) / len(agree))
        assert above is None or not same[~same[:, above], f].any()


def test_dependence_and_typos_leave_other_fields_as_they_are():
    prior = prior_of((50, 0.1, 1.0), (9, 0.5, 0.0), (30, 0.2, 0.0))
    plain = simulate(prior, 500, 2, 400, missing=0.1, seed=7)
    made = simulate(prior, 500, 2, 400, missing=0.1, misspelt=0.3, dependence=tree_of(-1, -1, 1, kappa=0.1), seed=7)
    assert np.array_equal(made.records.codes[:, 0], plain.records.codes[:, 0])
    assert np.array_equal(made.z, plain.z)
    assert np.array_equal(made.records.codes < 0, plain.records.codes < 0)
    assert not plain.misspelt.any()
    assert not made.misspelt[made.records.codes < 0].any()
    shown = made.records.codes >= 0
    assert abs(made.misspelt[shown].mean() - 0.3) < 4 * np.sqrt(0.21 / shown.sum())


def test_parents_come_first():
    assert parents_first(np.array([1, 2, -1, 2])) == [2, 1, 3, 0]
    with pytest.raises(ValueError, match="circle"):
        parents_first(np.array([1, 0, -1]))
