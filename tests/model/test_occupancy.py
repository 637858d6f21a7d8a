"""The prior of partitions by their number of blocks, against sums over every whole K (docs/model.md section 3)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from vber_cli.model.occupancy import Occupancy, log_labellings


def every_k(n_records, n, limit):
    """All K from n to the limit and log [p(K) K! / ((K − n)! K^N)] with p(K) = 1/K."""
    k = np.arange(max(n, 1), limit + 1, dtype=np.float64)
    falling = gammaln(k + 1) - gammaln(k - n + 1)
    if k[-1] > 1e4:  # the difference of two large numbers loses digits: add up the factors instead
        falling = np.zeros_like(k)
        for i in range(n):
            falling += np.log(k - i)
    return k, falling - (n_records + 1) * np.log(k)


def most_probable(draws, n):
    """Root of n = K (1 − e^{−draws/K}), by bisection."""
    lo, hi = float(n), 1e12
    for _ in range(200):
        middle = math.sqrt(lo * hi)
        lo, hi = (middle, hi) if middle * -math.expm1(-draws / middle) < n else (lo, middle)
    return lo


def test_log_labellings_meets_log_gamma(rng):
    for k in [1, 2, 19, 20, 21, 40, 100, 1000, *rng.integers(1, 5000, 30).tolist()]:
        for n in sorted({0, 1, k // 2, max(k - 21, 0), max(k - 20, 0), max(k - 19, 0), k - 1, k}):
            expected = math.fsum(math.log((k - i) / k) for i in range(n))
            assert float(log_labellings(k, n)) == pytest.approx(expected, rel=1e-12, abs=1e-9)
            direct = gammaln(k + 1) - gammaln(k - n + 1) - n * math.log(k)
            assert float(log_labellings(k, n)) == pytest.approx(float(direct), rel=1e-9, abs=1e-9)
    assert float(log_labellings(5, 6)) == -math.inf
    np.testing.assert_array_equal(log_labellings(np.array([3.0, 9.0]), 4) == -np.inf, [True, False])


def test_log_labellings_keeps_its_digits_far_above_n():
    for k, n in ((1e12, 1e4), (1e15, 1e3), (1e10, 10.0)):
        expected = -n * (n - 1) / (2 * k)  # Σ log(1 − i/K) to first order
        assert float(log_labellings(k, n)) == pytest.approx(expected, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("n_records", "n_individuals"), [(1, 1), (6, 3), (50, 50), (50, 4000), (3000, 2500)])
def test_fixed_k(n_records, n_individuals):
    occupancy = Occupancy(n_records, n_individuals)
    most = min(n_records, n_individuals)
    for n in {*range(1, most + 1, max(most // 60, 1)), most - 1, most} - {0}:
        expected = gammaln(n_individuals + 1) - gammaln(n_individuals - n + 1) - n_records * math.log(n_individuals)
        assert occupancy.log_h(n) == pytest.approx(float(expected), rel=1e-9, abs=1e-8)
        # between log(K − n), the weight of one more individual, and log(K − n + 1), of one less
        left = n_individuals - n
        assert occupancy.log_new(n) <= math.log(left + 1)
        assert occupancy.log_new(n) >= (math.log(left) if left else -1.0)
        if left > 100:
            step = occupancy.log_h(n + 1) - occupancy.log_h(n)
            assert occupancy.log_new(n) == pytest.approx(step, abs=1 / left)
    assert occupancy.log_h(n_individuals + 1) == -math.inf
    assert occupancy.mean(1) == n_individuals
    k, p = occupancy.posterior(1)
    assert (k.tolist(), p.tolist()) == ([n_individuals], [1.0])


@pytest.mark.parametrize(
    ("n_records", "ns", "rel"),
    [
        # every K up to the limit is summed, or all that matter
        (1, [1], 1e-9),
        (12, [1, 2, 7, 11, 12], 1e-9),
        (30, [1, 15, 29, 30], 1e-9),
        (150, [1, 30, 120], 1e-9),
        # integrated over log K
        (100, [98, 99, 100], 1e-4),
        (150, [148, 149, 150], 1e-4),
    ],
)
def test_learned_k_meets_the_sum_over_every_k(n_records, ns, rel):
    occupancy = Occupancy(n_records)
    assert occupancy.limit == 10 * max(n_records, 2) ** 2
    for n in ns:
        k, log_w = every_k(n_records, n, occupancy.limit)
        total = logsumexp(log_w)
        assert occupancy.log_h(n) == pytest.approx(total, rel=0, abs=rel)
        p = np.exp(log_w - total)
        points, probability = occupancy.posterior(n)
        assert probability.sum() == pytest.approx(1.0, abs=1e-12)
        assert probability.min() >= 0
        assert points.min() >= n
        assert probability @ points == pytest.approx(float(p @ k), rel=2 * rel)
        expected = logsumexp(log_w[k > n], b=(k - n)[k > n]) - total
        assert occupancy.log_new(n) == pytest.approx(float(expected), abs=2 * rel)
        for share in (0.05, 0.5, 0.95):
            ours = points[np.searchsorted(np.cumsum(probability), share)]
            theirs = k[np.searchsorted(np.cumsum(p), share)]
            assert ours == pytest.approx(theirs, rel=0.02)


@pytest.mark.parametrize(("n_records", "n"), [(40, 20), (300, 30), (300, 200), (300, 298), (5000, 4600), (5000, 4990)])
def test_one_more_individual_is_a_step_of_h(n_records, n):
    occupancy = Occupancy(n_records)
    step = occupancy.log_h(n + 1) - occupancy.log_h(n)
    assert occupancy.log_new(n) == pytest.approx(step, abs=1e-3)
    # between whole numbers it moves evenly
    ends = occupancy.log_new(n), occupancy.log_new(n + 1)
    assert ends[0] < ends[1]
    assert occupancy.log_new(n + 0.25) == pytest.approx(0.75 * ends[0] + 0.25 * ends[1], abs=1e-9)


@pytest.mark.parametrize(
    ("n_records", "n"), [(300, 120), (300, 299), (1000, 900), (1000, 995), (5000, 4999), (20000, 18000)]
)
def test_the_most_probable_k_solves_the_occupancy_equation(n_records, n):
    found = Occupancy(n_records).mean(n)
    # p(K) = 1/K counts as one record more, which shows where there are few duplicates only
    assert found == pytest.approx(most_probable(n_records + 1, n), rel=0.01, abs=1.5)
    if n_records - n >= 100:
        assert found == pytest.approx(most_probable(n_records, n), rel=0.02)


def test_the_most_probable_k_does_not_depend_on_how_k_is_summed():
    # 44 records are summed over every K, 45 over a grid; without duplicates the mode is near N²/2, far below the limit
    for n_records in (43, 44, 45, 46, 100):
        occupancy = Occupancy(n_records)
        k, log_w = every_k(n_records, n_records, occupancy.limit)
        assert occupancy.mean(n_records) == pytest.approx(float(k[np.argmax(log_w)]), rel=0.02)
    assert Occupancy(1).mean(1) == 1.0


def test_the_posterior_of_k_is_calibrated(rng):
    """K drawn from 1/K on a stretch, n from K; the 90 % interval holds K nine times in ten."""
    n_records, inside, trials = 200, 0, 400
    for _ in range(trials):
        n_individuals = int(np.exp(rng.uniform(np.log(40), np.log(4000))))
        n = len(np.unique(rng.integers(0, n_individuals, n_records)))
        k, p = Occupancy(n_records).posterior(n)
        cumulative = np.cumsum(p)
        inside += k[np.searchsorted(cumulative, 0.05)] <= n_individuals <= k[np.searchsorted(cumulative, 0.95)]
    assert abs(inside / trials - 0.9) < 4 * math.sqrt(0.09 / trials)


def test_databases_without_duplicates_are_drawn_without_replacement():
    """Two lists of which each holds everyone once at most: h(n) is the hypergeometric of capture and recapture."""
    one, two = 30, 20
    occupancy = Occupancy(one + two, sole=(one, two))
    n = 40.0  # ten in both
    k, p = occupancy.posterior(n)
    both = one + two - n
    # p(both | K): two of the second list's records fall among the first's, the rest outside; and p(K) ∝ 1 / K
    log_p = gammaln(k - one + 1) - gammaln(k - one - (two - both) + 1) + gammaln(k - two + 1) - gammaln(k + 1)
    log_p -= np.log(k)
    expected = np.exp(log_p - log_p.max())
    np.testing.assert_allclose(p, expected / expected.sum(), rtol=1e-6)
    assert k.min() == n
    assert 45 <= occupancy.mean(n) <= 62  # by 30 · 20 / 10 it is 60, and 1 / K draws that down
    # drawn with replacement the same n would speak for far more people, since no list repeats anyone
    assert Occupancy(one + two).mean(n) > 1.5 * occupancy.mean(n)


def test_a_list_without_duplicates_alone_says_nothing_of_k():
    k, p = Occupancy(25, sole=(25,)).posterior(25.0)
    assert k.min() == 25
    density = p / np.gradient(k) * k
    np.testing.assert_allclose(density[5:-5], density[5], rtol=0.2)


@pytest.mark.parametrize("n_individuals", [None, 400])
def test_shared_out_among_databases_one_more_individual_weighs_its_share(n_individuals):
    plain, shared = Occupancy(100, n_individuals), Occupancy(100, n_individuals, dispersion=np.log(2.0))
    assert shared.log_new(80.0) == pytest.approx(plain.log_new(80.0) - np.log(2.0))
    assert shared.log_h(81) - shared.log_h(80) == pytest.approx(plain.log_h(81) - plain.log_h(80) - np.log(2.0))
    np.testing.assert_allclose(shared.posterior(80.0)[1], plain.posterior(80.0)[1], rtol=1e-9)


def test_one_more_individual_has_a_finite_weight_where_the_databases_hold_everybody():
    present = Occupancy(300, present=(100.0, 100.0, 100.0))
    for n in (100.0, 100.4, 250.0, 299.9):
        assert np.isfinite(present.log_new(n))
        k, weight = present.posterior(n)
        assert np.isfinite(weight).all()
        assert k.min() >= n - 1


def test_draws_of_k_follow_its_posterior(rng):
    occupancy = Occupancy(60)
    k, p = occupancy.posterior(50.0)
    drawn = [occupancy.draw(50.3, rng) for _ in range(4000)]
    np.testing.assert_allclose([mean for _, mean in drawn], k @ p)
    cumulative = np.cumsum(p)
    for tail in (0.05, 0.5, 0.95):
        share = np.mean([value <= k[np.searchsorted(cumulative, tail)] for value, _ in drawn])
        assert share == pytest.approx(tail, abs=4 * math.sqrt(tail * (1 - tail) / 4000) + 0.01)


def test_a_fixed_k_is_always_drawn(rng):
    assert Occupancy(60, 55).draw(50.0, rng) == (55.0, pytest.approx(55.0))
