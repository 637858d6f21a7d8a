"""Learning α, the noise classes and θ, on data simulated from the model and against its plain likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests import exact
from tests.engine import naive
from vber_cli.engine import hyper
from vber_cli.engine.partition_kernels import BINS, DEPTH
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior, make_prior
from vber_cli.model.types import Records


def simulate(rng, alpha, theta, n_individuals, sizes, missing=0.0):
    """Records of the model of docs/model.md section 1: (codes, individual of each record)."""
    z = np.repeat(np.arange(n_individuals), rng.choice(sizes, n_individuals))
    codes = np.empty((len(z), len(theta)), np.int32)
    for f, base in enumerate(theta):
        for k in range(n_individuals):
            beta = rng.dirichlet(alpha[f] * base)
            codes[z == k, f] = rng.choice(len(base), np.sum(z == k), p=beta)
    codes[rng.random(codes.shape) < missing] = -1
    return codes, z


def statistics_of(codes, z, theta, noise):
    """Statistics of the true partition, by the loops."""
    own = np.ones(codes.shape)
    for f, base in enumerate(theta):
        seen = codes[:, f] >= 0
        own[seen, f] = base[codes[seen, f]]
    parts = [naive.block_statistics(codes, own, noise, block) for block in naive.blocks_of(z)]
    return [sum(part) for part in zip(*parts, strict=True)]


def marginal(codes, z, base, alpha):
    """log p(x | partition, α) of one field: the Dirichlet-multinomial of every block."""
    return sum(exact.log_marginal(codes, [alpha * base], block) for block in naive.blocks_of(z))


def later_values(codes, z, f):
    """(record, c, n) of every value that has others before it in its block."""
    for block in naive.blocks_of(z):
        for i, r in enumerate(block):
            c, n = naive.copies(codes, r, f, block[:i])
            if n:
                yield r, c, n


def mode_and_deviation(log_likelihood):
    """Of log α under the weak prior, the deviation from the curvature there."""

    def minus(x):
        return -log_likelihood(np.exp(x)) - weak_prior(np.exp(x))

    best = minimize_scalar(minus, bounds=(-9, 4), method="bounded", options={"xatol": 1e-4})
    return best.x, 0.05 / np.sqrt(minus(best.x + 0.05) + minus(best.x - 0.05) - 2 * best.fun)


def weak_prior(alpha):
    """One mismatch in twenty comparisons."""
    share = alpha / (1 + alpha)
    return np.log(share) + 19 * np.log1p(-share)


def two_bases(rng, sizes=(30, 4)):
    return [rng.dirichlet(np.full(v, 0.7)) + 1e-6 for v in sizes]


@pytest.fixture
def simulated(rng):
    theta = [base / base.sum() for base in two_bases(rng)]
    alpha = np.array([0.15, 2.0])
    codes, z = simulate(rng, alpha, theta, 150, [1, 2, 3, 5], 0.1)
    return codes, z, theta, alpha


def test_the_likelihood_is_the_dirichlet_multinomial_but_for_the_width_of_the_bins(simulated):
    codes, z, theta, alpha = simulated
    noise = Noise.single(alpha)
    stats = statistics_of(codes, z, theta, noise)[0]
    grid = np.exp(np.linspace(-9, 5, 12))
    ours = hyper.log_likelihood(stats[0], np.tile(grid, (2, 1)), np.zeros((2, 2)))
    for f, base in enumerate(theta):
        theirs = np.array([marginal(codes[:, [f]], z, base, a) for a in grid])
        # a bin is half a nat wide: θ is off by at most a quarter, and matters where αθ is not small beside the count
        allowed = np.zeros(len(grid))
        for r, c, _ in later_values(codes, z, f):
            if c:
                low, high = (grid * base[codes[r, f]] * np.exp(s) for s in (-0.25, 0.25))
                allowed += np.log((high + c) / (low + c))
        away = (ours[f] - ours[f, 0]) - (theirs - theirs[0])
        assert np.all(np.abs(away) <= allowed + 1e-8)
        assert np.ptp(theirs) > 100  # it is a likelihood worth meeting


def test_the_likelihood_is_exact_at_the_middle_of_the_bins(rng):
    middle = np.exp(-0.5 * (np.array([3, 5, 8, 12]) + 0.5))
    base = np.append(middle, 1 - middle.sum())
    z = np.repeat(np.arange(40), 4)
    codes = rng.integers(0, 4, (40, 1)).repeat(4, axis=0)
    codes = np.where(rng.random(codes.shape) < 0.3, rng.integers(0, 4, codes.shape), codes).astype(np.int32)
    stats = statistics_of(codes, z, [base], Noise.single(np.array([0.5])))[0]
    grid = np.exp(np.linspace(-8, 6, 9))
    ours = hyper.log_likelihood(stats[0], grid[None, :], np.zeros((2, 1)))[0]
    theirs = np.array([marginal(codes, z, base, a) for a in grid])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=0, atol=1e-8)
    with_prior = hyper.log_likelihood(stats[0], grid[None, :], np.array([[1.0], [19.0]]))[0]
    np.testing.assert_allclose(with_prior - ours, weak_prior(grid), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("alpha", [[0.02, 0.3], [0.1, 1.0]])
def test_the_concentration_comes_back(rng, alpha):
    theta = [base / base.sum() for base in two_bases(rng, (30, 12))]
    codes, z = simulate(rng, alpha, theta, 400, [1, 2, 4], 0.1)
    stats = statistics_of(codes, z, theta, Noise.single(np.ones(2)))[0]
    found = hyper.best_concentration(stats[0])
    for f, base in enumerate(theta):
        events = [(c, n, base[codes[r, f]]) for r, c, n in later_values(codes, z, f)]
        c, n, t = (np.array(column, dtype=np.float64) for column in zip(*events, strict=True))
        binned = np.exp(-0.5 * (np.floor(-np.log(t) / 0.5) + 0.5))
        best, deviation = mode_and_deviation(
            lambda a, c=c, n=n, t=binned: np.sum(np.log(np.where(c > 0, a * t + c, a)) - np.log(a + n))
        )
        assert np.log(found[f]) == pytest.approx(best, abs=0.06 * deviation)  # half a step of the grid
        exactly, deviation = mode_and_deviation(lambda a, f=f, base=base: marginal(codes[:, [f]], z, base, a))
        assert np.log(found[f]) == pytest.approx(exactly, abs=0.25)  # half a bin
        assert abs(np.log(found[f] / alpha[f])) < 4 * deviation
        assert deviation < 0.6


def test_draws_have_the_posterior_of_the_concentration(simulated, rng):
    codes, z, theta, alpha = simulated
    stats, class_weight, _ = statistics_of(codes, z, theta, Noise.single(alpha))
    drawn = np.log([hyper.draw_noise(stats, class_weight, rng).concentration[0] for _ in range(400)])
    grid = np.linspace(-9, 5, 2001)
    density = hyper.log_likelihood(stats[0], np.tile(np.exp(grid), (2, 1)), np.array([[1.0, 1.0], [19.0, 19.0]]))
    for f in range(2):
        p = np.exp(density[f] - density[f].max())
        p /= p.sum()
        mean = p @ grid
        deviation = np.sqrt(p @ (grid - mean) ** 2)
        assert abs(drawn[:, f].mean() - mean) < 4 * deviation / np.sqrt(400)
        assert abs(drawn[:, f].std() / deviation - 1) < 4 / np.sqrt(2 * 400)


def test_without_any_link_the_prior_speaks(rng):
    nothing = np.zeros((1, 2, 3, DEPTH, BINS))
    noise, overall = hyper.best_noise(nothing, np.zeros(1))
    # mode in log α of share · (1 − share)^19
    assert overall == pytest.approx(np.full(3, 1 / 19), rel=0.02)  # the grid's step, the posterior being wide
    np.testing.assert_array_equal(noise.concentration[0], overall)
    assert noise.share.tolist() == [1.0]
    drawn = hyper.draw_noise(nothing, np.zeros(1), rng)
    assert drawn.concentration.shape == (1, 3)
    assert drawn.share.tolist() == [1.0]


def test_extreme_fields_stay_within_bounds():
    stats = np.zeros((2, 2, DEPTH, BINS))
    stats[0, 0, 1, 4] = stats[1, 0, 1, 0] = 1e7  # ten million agreements
    stats[0, 1, 0, 0] = stats[1, 1, 1, 0] = 1e7  # ten million mismatches
    low, high = hyper.best_concentration(stats)
    assert 1e-6 <= low < 1e-5
    assert 100 < high <= 1e3 * (1 + 1e-12)


def test_classes_are_learned_from_their_own_statistics(simulated, rng):
    codes, z, theta, alpha = simulated
    noise = Noise(np.array([alpha * 0.1, alpha * 10.0]), np.array([0.7, 0.3]))
    stats, class_weight, _ = statistics_of(codes, z, theta, noise)
    learned, overall = hyper.best_noise(stats, class_weight)
    assert overall == pytest.approx(hyper.best_concentration(stats.sum(axis=0)))
    np.testing.assert_allclose(learned.share, (class_weight + 1) / (class_weight + 1).sum())
    share = overall / (1 + overall)
    for q in range(2):
        expected = hyper.best_concentration(stats[q], 4 * np.stack([share, 1 - share]))
        np.testing.assert_allclose(learned.concentration[q], expected)
    assert np.all(learned.concentration[0] < overall)
    assert np.all(learned.concentration[1] > overall)
    drawn = [hyper.draw_noise(stats, class_weight, rng) for _ in range(300)]
    share = np.array([noise.share[0] for noise in drawn])
    a, b = class_weight + 1
    assert abs(share.mean() - a / (a + b)) < 4 * np.sqrt(a * b / (a + b) ** 2 / (a + b + 1) / 300)
    middle = np.median([noise.concentration for noise in drawn], axis=0)
    assert np.all(np.abs(np.log(middle / learned.concentration)) < 0.5)


def test_theta_counts_individuals_not_records(rng):
    # a quarter of the individuals shows value 0, and has six records each; the others have one
    value = np.where(np.arange(400) < 100, 0, rng.integers(1, 5, 400))
    copies = np.where(value == 0, 6, 1)
    z = np.repeat(np.arange(400), copies)
    codes = np.ascontiguousarray(value[z][:, None], dtype=np.int32)
    records = Records(codes, np.zeros(len(z), np.int32), np.array([6]))
    prior = make_prior(records, "empirical", 1e-6)
    assert prior.base[0] > 0.6
    repeats = statistics_of(codes, z, [prior.base], Noise.single(prior.concentration))[2]
    learned = hyper.learn_base(records, prior, repeats)
    # value 5 is in no record, and gets the little that is kept for it
    np.testing.assert_allclose(learned.base[:5], np.bincount(value, minlength=5) / 400, rtol=0.02)
    assert 0 < learned.base[5] < 0.01
    np.testing.assert_array_equal(learned.concentration, prior.concentration)


def test_copies_do_not_change_theta_whoever_holds_them(rng):
    records, prior, _ = naive.make_case(rng, 200, "missing")
    repeats = rng.uniform(0, 0.6, records.codes.shape)
    learned = hyper.learn_base(records, prior, repeats)
    assert isinstance(learned, Prior)
    assert np.all(learned.base > 0)
    # the same records twice over, once as copies; and what is a copy spread evenly over the records with the value
    twice = Records(np.tile(records.codes, (2, 1)), np.zeros(400, np.int32), records.n_values)
    doubled = hyper.learn_base(twice, prior, np.concatenate([repeats, np.ones_like(repeats)]))
    np.testing.assert_allclose(doubled.base, learned.base, rtol=1e-9)
    even = repeats.copy()
    for f in range(3):
        for v in range(records.n_values[f]):
            even[records.codes[:, f] == v, f] = repeats[records.codes[:, f] == v, f].mean()
    np.testing.assert_allclose(hyper.learn_base(records, prior, even).base, learned.base, rtol=1e-9)
    # fewer copies of a value are more draws of it
    more = np.where((records.codes == 0), 0.0, repeats)
    assert np.all(
        hyper.learn_base(records, prior, more).base[prior.value_ptr[:-1]] > learned.base[prior.value_ptr[:-1]]
    )
