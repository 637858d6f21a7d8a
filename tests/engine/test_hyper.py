"""Learning α, the levels of copies, the noise classes and θ: on simulated data, against the plain likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests import exact
from tests.engine import naive
from vber_cli.engine import hyper
from vber_cli.engine.local_kernels import DEPTH, FRESH, N_STATS, SHOWN
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior, make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.species import fit_species
from vber_cli.model.types import Records

NO_LEVELS = np.zeros((2, 2), bool)


def simulate(rng, alpha, theta, n_individuals, sizes, missing=0.0):
    """A case of the model of docs/model.md section 1, and the individual of each record."""
    z = np.repeat(np.arange(n_individuals), rng.choice(sizes, n_individuals))
    codes = np.empty((len(z), len(theta)), np.int32)
    for f, base in enumerate(theta):
        for k in range(n_individuals):
            beta = rng.dirichlet(alpha[f] * base)
            codes[z == k, f] = rng.choice(len(base), np.sum(z == k), p=beta)
    codes[rng.random(codes.shape) < missing] = -1
    return case_of(codes, theta, Noise.single(np.asarray(alpha, float)), {}), z


def case_of(codes, theta, noise, near):
    n_values = np.array([len(base) for base in theta])
    records = Records(codes, np.zeros(len(codes), np.int32), n_values)
    prior = Prior(np.concatenate([[0], np.cumsum(n_values)]), np.concatenate(theta), noise.concentration[0])
    n_fields = len(theta)
    return naive.Case(records, prior, noise, near, Relations.none(n_fields), Dependence.none(n_fields))


def simulate_levels(rng, alpha, mu, n_individuals, sizes):
    """The same by its urn, with copies that come out close or near: values in sixes, of three close pairs each.

    Every value has one close value and four near ones, so that the model holds exactly.
    """
    v, groups = 6, 10
    near = {}
    for f in range(len(alpha)):
        for lo in range(0, v * groups, v):
            for x in range(v):
                for y in range(x + 1, v):
                    near[f, lo + x, lo + y] = 1 if x ^ 1 == y else 2
    z = np.repeat(np.arange(n_individuals), rng.choice(sizes, n_individuals))
    codes = np.empty((len(z), len(alpha)), np.int32)
    for f in range(len(alpha)):
        for block in naive.blocks_of(z):
            for n, r in enumerate(block):
                x = rng.integers(v * groups)
                if n and rng.random() < n / (alpha[f] + n):
                    source = codes[block[rng.integers(n)], f]
                    lo, at = source // v * v, source % v
                    level = rng.choice(3, p=mu[f])
                    others = [y for y in range(v) if y not in (at, at ^ 1)]
                    x = source if level == 0 else lo + (at ^ 1 if level == 1 else rng.choice(others))
                codes[r, f] = x
    theta = [np.full(v * groups, 1 / (v * groups))] * len(alpha)
    return case_of(codes, theta, Noise.single(alpha, mu), near), z


def marginal(case, z, f, alpha):
    """log p(x | partition, α) of one field: the Dirichlet-multinomial of every block."""
    base = case.prior.base[case.prior.value_ptr[f] : case.prior.value_ptr[f + 1]]
    return sum(exact.log_marginal(case.codes[:, [f]], [alpha * base], block) for block in naive.blocks_of(z))


def prior_at(case, noise, z):
    """(2, F) mismatches and matches that the fields are given beforehand, by what all of them show."""
    stats = naive.partition_statistics(case.of(noise=noise), z)[0][0]
    return hyper.field_prior(stats[:, FRESH], stats[:, SHOWN + 1 :].sum(axis=1))


def weak_prior(alpha, counts):
    share = alpha / (1 + alpha)
    return counts[0] * np.log(share) + counts[1] * np.log1p(-share)


def mode_and_deviation(log_likelihood, counts):
    """Of log α under the weak prior, the deviation from the curvature there."""

    def minus(x):
        return -log_likelihood(np.exp(x)) - weak_prior(np.exp(x), counts)

    best = minimize_scalar(minus, bounds=(-9, 4), method="bounded", options={"xatol": 1e-4})
    return best.x, 0.05 / np.sqrt(minus(best.x + 0.05) + minus(best.x - 0.05) - 2 * best.fun)


def two_bases(rng, sizes=(30, 4)):
    bases = [rng.dirichlet(np.full(v, 0.7)) + 1e-6 for v in sizes]
    return [base / base.sum() for base in bases]


def climb(case, z, near, rounds):
    """EM on the true partition from a poor start: the events by the loops, then the most probable noise."""
    noise = case.noise
    for _ in range(rounds):
        stats, class_weight, _ = naive.partition_statistics(case.of(noise=noise), z)
        noise, _ = hyper.best_noise(stats, class_weight, near, np.arange(2))
    return noise


@pytest.fixture
def simulated(rng):
    return simulate(rng, np.array([0.15, 2.0]), two_bases(rng), 150, [1, 2, 3, 5], 0.1)


def test_the_likelihood_of_expected_events_is_the_plain_sum(simulated, rng):
    case, z = simulated
    stats = naive.partition_statistics(case, z)[0][0]
    grid = np.exp(np.linspace(-8, 6, 9))
    prior_counts = rng.uniform(0.5, 20, (2, 2))
    found = hyper.log_likelihood(stats, np.tile(grid, (2, 1)), prior_counts)
    for f in range(2):
        for alpha, ours in zip(grid, found[f], strict=True):
            expected = stats[f, FRESH] * np.log(alpha)
            for n in range(1, DEPTH):
                expected -= stats[f, SHOWN + n] * np.log(alpha + n)
            share = alpha / (1 + alpha)
            expected += prior_counts[0, f] * np.log(share) + prior_counts[1, f] * np.log(1 - share)
            assert ours == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_expected_events_have_the_slope_of_the_dirichlet_multinomial(rng):
    """Fisher's identity, at the α that the events were expected under; for values common and rare."""
    case, z = simulate(rng, np.array([0.15, 2.0]), two_bases(rng), 80, [1, 2, 3, 5], 0.1)
    for alpha in ([0.01, 0.3], [0.2, 2.0], [4.0, 50.0]):
        noise = Noise.single(np.array(alpha))
        stats = naive.partition_statistics(case.of(noise=noise), z)[0][0]
        step = np.array([-1e-4, 1e-4])
        grid = np.array(alpha)[:, None] * np.exp(step)
        ours = np.diff(hyper.log_likelihood(stats, grid, np.zeros((2, 2))), axis=1)[:, 0] / 2e-4
        theirs = [(marginal(case, z, f, grid[f, 1]) - marginal(case, z, f, grid[f, 0])) / 2e-4 for f in range(2)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("alpha", [[0.05, 0.3], [0.1, 1.0]])
def test_the_concentration_comes_back(rng, alpha):
    case, z = simulate(rng, alpha, two_bases(rng, (30, 12)), 200, [1, 2, 4], 0.1)
    start = case.of(noise=Noise.single(np.ones(2)))
    found = climb(start, z, NO_LEVELS, 15)
    np.testing.assert_array_equal(found.levels, [[[1, 0, 0], [1, 0, 0]]])
    counts = prior_at(start, found, z)
    for f in range(2):
        best, deviation = mode_and_deviation(lambda a, f=f: marginal(case, z, f, a), counts[:, f])
        assert np.log(found.concentration[0, f]) == pytest.approx(best, abs=0.06 * deviation)  # half a step of the grid
        assert abs(np.log(found.concentration[0, f] / alpha[f])) < 4 * deviation
        assert deviation < 0.6


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_concentration_and_levels_come_back(rng):
    alpha, mu = np.array([0.15, 0.6]), np.array([[0.8, 0.15, 0.05], [0.5, 0.1, 0.4]])
    case, z = simulate_levels(rng, alpha, mu, 250, [1, 2, 3])
    start = case.of(noise=Noise.single(np.ones(2), np.full((2, 3), 1 / 3)))
    found = climb(start, z, np.ones((2, 2), bool), 15)
    blocks = naive.blocks_of(z)
    counts, prior = np.array([9.0, 0.6, 0.4]), prior_at(start, found, z)

    def log_posterior(f, x):
        """Of log α, log μ1 / μ0, log μ2 / μ0 of one field, the other's fixed."""
        a, m = found.concentration.copy(), found.levels.copy()
        a[0, f] = np.exp(x[0])
        m[0, f] = np.exp([0.0, *x[1:]]) / np.exp([0.0, *x[1:]]).sum()
        noise = case.of(noise=Noise(a, m, np.ones(1)))
        return (
            sum(naive.block_weight(noise, block) for block in blocks)
            + weak_prior(a[0, f], prior[:, f])
            + counts @ np.log(m[0, f])
        )

    for f in range(2):
        at = np.log([found.concentration[0, f], *(found.levels[0, f, 1:] / found.levels[0, f, 0])])
        truth = np.log([alpha[f], *(mu[f, 1:] / mu[f, 0])])
        middle, step = log_posterior(f, at), 0.05
        for k in range(3):
            up, down = (log_posterior(f, at + sign * step * (np.arange(3) == k)) for sign in (1, -1))
            deviation = step / np.sqrt(2 * middle - up - down)
            assert abs((up - down) / (2 * step)) * deviation < 0.06  # the most probable, to half a step of the grid
            assert abs(at[k] - truth[k]) < 4 * deviation
            assert deviation < 0.6


def test_fields_are_given_what_all_of_them_show():
    shown = np.full(4, 200.0)
    for wrong, weight in (([30.0, 31.0, 29.0, 30.0], 32.0), ([2.0, 60.0, 0.0, 90.0], 4.0)):
        mismatches, matches = hyper.field_prior(np.array(wrong), shown)
        share = (1 + sum(wrong)) / (20 + 800)
        np.testing.assert_allclose(mismatches, weight * share)
        np.testing.assert_allclose(matches, weight * (1 - share))
    # of few comparisons it is 1 in 20, and a draw of the weight is one of those
    few = hyper.field_prior(np.zeros(3), np.full(3, 0.1), np.random.default_rng(1))
    np.testing.assert_allclose(few[0] / few.sum(axis=0), 1 / 20.3)
    assert few.sum(axis=0)[0] == pytest.approx(min((4.0, 8.0, 16.0, 32.0), key=lambda w: abs(w - few.sum(axis=0)[0])))
    # a field of which little is known is taken to be as the others are
    stats = np.zeros((3, N_STATS))
    stats[:, SHOWN + 1] = 300.0, 300.0, 6.0
    stats[:, FRESH] = 60.0, 60.0, 0.0
    clean = stats.copy()
    clean[:2, FRESH] = 3.0
    assert hyper.best_concentration(stats)[2] > 4 * hyper.best_concentration(clean)[2]


def test_levels_that_no_two_values_are_at_stay_impossible():
    nothing = np.zeros((1, 2, N_STATS))
    near = np.array([[True, False], [False, False]])
    noise, _ = hyper.best_noise(nothing, np.zeros(1), near, np.arange(len(near)))
    np.testing.assert_allclose(noise.levels[0], [[9 / 9.6, 0.6 / 9.6, 0.0], [1.0, 0.0, 0.0]])


def test_without_any_link_the_prior_speaks():
    nothing, near = np.zeros((1, 3, N_STATS)), np.zeros((3, 2), bool)
    noise, overall = hyper.best_noise(nothing, np.zeros(1), near, np.arange(len(near)))
    # mode in log α of share · (1 − share)^19, or a power of it
    grid, _ = hyper._grids(nothing[0], hyper.field_prior(np.zeros(3), np.zeros(3)))
    half_a_step = np.diff(grid, axis=1).max() / 2
    assert half_a_step < 0.06  # the posterior being wide
    assert np.abs(np.log(overall * 19)).max() <= half_a_step
    np.testing.assert_array_equal(noise.concentration[0], overall)
    assert noise.share.tolist() == [1.0]


def test_extreme_fields_stay_within_bounds():
    stats = np.zeros((2, N_STATS))
    stats[:, SHOWN + 1] = 1e7  # ten million agreements, ten million mismatches
    stats[1, FRESH] = 1e7
    low, high = hyper.best_concentration(stats)
    assert 1e-6 <= low < 1e-5
    assert 100 < high <= 1e3 * (1 + 1e-12)


def test_classes_are_learned_from_their_own_statistics(rng):
    alpha, mu = np.array([0.15, 2.0]), np.array([[0.8, 0.15, 0.05], [0.5, 0.1, 0.4]])
    case, z = simulate_levels(rng, alpha, mu, 100, [1, 2, 3, 5])
    noise = Noise(np.array([alpha * 0.1, alpha * 10.0]), np.stack([mu, mu[::-1]]), np.array([0.7, 0.3]))
    stats, class_weight, _ = naive.partition_statistics(case.of(noise=noise), z)
    near = np.ones((2, 2), bool)
    learned, overall = hyper.best_noise(stats, class_weight, near, np.arange(2))
    assert overall == pytest.approx(hyper.best_concentration(stats.sum(axis=0)))
    np.testing.assert_allclose(learned.share, (class_weight + 1) / (class_weight + 1).sum())
    prior = hyper.class_prior(stats[:, :, FRESH], stats[:, :, SHOWN + 1 :].sum(axis=2), np.arange(2))
    together = stats[:, :, 1:4].sum(axis=0) + np.array([9.0, 0.6, 0.4])
    for q in range(2):
        expected = hyper.best_concentration(stats[q], prior[:, q])
        np.testing.assert_allclose(learned.concentration[q], expected)
        for f in range(2):
            counts = stats[q, f, 1:4] + 4 * together[f] / together[f].sum()
            np.testing.assert_allclose(learned.levels[q, f], counts / counts.sum())
    assert np.all(learned.concentration[0] < overall)
    assert np.all(learned.concentration[1] > overall)


def test_a_class_is_given_the_rate_of_those_that_mostly_get_a_field_right():
    shown = np.full((3, 2), 1000.0)
    wrong = np.array([[990.0, 10.0], [12.0, 980.0], [8.0, 9.0]])  # two classes that each go wrong in a field
    prior = hyper.class_prior(wrong, shown, np.arange(wrong.shape[1]))
    share, weight = prior[0] / prior.sum(axis=0), prior.sum(axis=0)
    base = hyper.field_prior(np.array([20.0, 19.0]), np.full(2, 2000.0))
    np.testing.assert_allclose(share[2], (base[0] + [20, 19]) / (base.sum(axis=0) + 2000))
    usual = np.array([[False, True], [True, False], [True, True]])
    np.testing.assert_array_equal(share[usual], share[2][np.nonzero(usual)[1]])
    assert len(np.unique(weight[usual].round(9))) == 1  # the same weight for every field
    # a class that mostly gets a field wrong is not drawn towards those that get it right
    assert np.all(share[~usual] > 0.8)
    assert np.all(weight[~usual] <= 2.0)
    alike = hyper.class_prior(np.full((3, 2), 10.0), shown, np.arange(2))
    unlike = hyper.class_prior(np.array([[0.0, 0.0], [1.0, 30.0], [120.0, 0.0]]), shown, np.arange(2))
    assert alike.sum() > unlike.sum()  # classes that agree draw each other more


def test_a_class_is_free_to_go_wrong_in_one_part_only():
    shown = np.full((2, 5), 1000.0)
    wrong = np.array([[900.0, 950.0, 20.0, 700.0, 10.0], [12.0, 15.0, 18.0, 20.0, 11.0]])
    root = np.array([1, 1, 2, 3, 4])
    prior = hyper.class_prior(wrong, shown, root)
    free = prior.sum(axis=0) <= 2.0
    assert free.tolist() == [[True, True, False, False, False], [False] * 5]
    # in its second part it is given what the others show there
    np.testing.assert_allclose(prior[:, 0, 3], prior[:, 1, 3])
    assert prior[0, 0, 3] / prior[:, 0, 3].sum() < 0.05
    # where every field is a part of its own, it is the one that it most often gets wrong
    alone = hyper.class_prior(wrong, shown, np.arange(5)).sum(axis=0) <= 2.0
    assert alone.tolist() == [[False, True, False, False, False], [False] * 5]


def test_a_class_that_draws_a_part_anew_is_like_all_links_in_the_rest(rng):
    case, z = simulate_levels(rng, np.array([0.1, 0.3, 0.2]), rng.dirichlet([8.0, 1.0, 1.0], 3), 150, [2, 3])
    stats = naive.partition_statistics(case, z)[0][0]
    near = np.ones((3, 2), bool)
    anew = np.array([[False] * 3, [True, True, False]])
    strange = 0.3 * stats
    strange[:, FRESH] *= 3.0  # links of the second class would have it that the last field is often wrong
    root = np.array([0, 0, 2])
    both = np.stack([stats, strange])
    found, _ = hyper.best_noise(both, np.array([90.0, 10.0]), near, root, anew)
    np.testing.assert_array_equal(found.anew, anew)
    np.testing.assert_array_equal(found.concentration[1, :2], 99.0)
    pooled = both.sum(axis=0)[2]
    usual = hyper.best_concentration(np.stack([stats[0], stats[1], pooled]))
    assert found.concentration[1, 2] == pytest.approx(usual[2], rel=1e-6)
    # the first class is learned from its own links alone
    alone, _ = hyper.best_noise(stats[None], np.array([90.0]), near, root)
    np.testing.assert_allclose(found.concentration[0], alone.concentration[0])
    np.testing.assert_allclose(found.levels[0], alone.levels[0])


def test_few_links_hardly_move_the_share_of_those_that_changed():
    changes = np.array([False, True])
    prior = hyper.share_prior(changes, np.array([5.0, 5.0]), np.array([100.0, 100.0]))
    np.testing.assert_allclose(prior, [47.5, 2.5])  # a twentieth of fifty links
    none = hyper.share_prior(np.array([False, False]), np.array([5.0]), np.array([100.0]))
    np.testing.assert_array_equal(none, 1.0)
    # nothing wrong, and still some may have changed; of many parts each has less
    np.testing.assert_allclose(hyper.share_prior(changes, np.zeros(2), np.ones(2)), [49.0, 1.0])
    four = hyper.share_prior(np.array([False, True, True, True, True]), np.array([10.0]), np.array([100.0]))
    np.testing.assert_allclose(four, [40.0, 2.5, 2.5, 2.5, 2.5])


def test_the_weight_of_the_class_prior_is_drawn_by_its_likelihood(rng):
    shown, wrong = np.full((4, 3), 40.0), rng.uniform(0, 6, (4, 3))
    best = hyper.class_prior(wrong, shown, np.arange(wrong.shape[1])).sum(axis=0)[0, 0]
    drawn = [hyper.class_prior(wrong, shown, np.arange(3), rng).sum(axis=0)[0, 0] for _ in range(400)]
    values, count = np.unique(np.round(drawn, 9), return_counts=True)
    assert len(values) > 1
    assert values[np.argmax(count)] == pytest.approx(best)


def test_theta_counts_individuals_not_records(rng):
    # a quarter of the individuals shows value 0, and has six records each; the others have one
    value = np.where(np.arange(400) < 100, 0, rng.integers(1, 5, 400))
    copies = np.where(value == 0, 6, 1)
    z = np.repeat(np.arange(400), copies)
    codes = np.ascontiguousarray(value[z][:, None], dtype=np.int32)
    records = Records(codes, np.zeros(len(z), np.int32), np.array([6]))
    prior = make_prior(records, "empirical", 1e-6)
    assert prior.base[0] > 0.6
    case = case_of(codes, [prior.base], Noise.single(prior.concentration), {})
    learned = hyper.learn_base(records, prior, naive.partition_statistics(case, z)[2])
    # value 5 is in no record, and counts as one draw
    np.testing.assert_allclose(learned.base[:5], np.bincount(value, minlength=5) / 400, rtol=0.03)
    assert 0 < learned.base[5] < 0.01
    np.testing.assert_array_equal(learned.concentration, prior.concentration)


def test_theta_is_that_of_the_draws(rng):
    case = naive.make_case(rng, 200, "missing")
    repeats = rng.uniform(0, 1, case.codes.shape)
    learned = hyper.learn_base(case.records, case.prior, repeats)
    for f, (lo, hi) in enumerate(zip(case.prior.value_ptr[:-1], case.prior.value_ptr[1:], strict=True)):
        draws = np.zeros(hi - lo)
        for r in range(200):
            if case.codes[r, f] >= 0:
                draws[case.codes[r, f]] += 1 - repeats[r, f]
        draws = np.maximum(draws, 1.0)
        shown = np.bincount(case.codes[case.codes[:, f] >= 0, f], minlength=hi - lo)
        counted = np.where(shown > 1, draws - (draws - 1) / np.maximum(shown - 1, 1), 1.0)
        expected = fit_species(draws).probability(counted, draws.sum())
        np.testing.assert_allclose(learned.base[lo:hi], expected, rtol=1e-9)


def test_theta_does_not_ask_which_record_holds_a_copy(rng):
    case = naive.make_case(rng, 200, "missing")
    records, prior = case.records, case.prior
    repeats = rng.uniform(0, 0.6, records.codes.shape)
    learned = hyper.learn_base(records, prior, repeats)
    assert isinstance(learned, Prior)
    assert np.all(learned.base > 0)
    # what is a copy spread evenly over the records with the value
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


def test_a_record_s_own_draw_does_not_count():
    # value 0 is seen once, value 1 by two records on their own, value 2 by a record and its copy, value 3 by four
    codes = np.array([[0], [1], [1], [2], [2], [3], [3], [3], [3]], np.int32)
    records = Records(codes, np.zeros(9, np.int32), np.array([4]))
    prior = make_prior(records, "uniform", 0.1)
    repeats = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [0.0], [0.0], [1.0], [0.5]])
    draws = np.array([1.0, 2.0, 1.0, 2.5])
    species = fit_species(draws)
    plain = hyper.learn_base(records, prior, repeats, others_only=False).base
    np.testing.assert_allclose(plain, species.probability(draws, 6.5))
    found = hyper.learn_base(records, prior, repeats).base
    np.testing.assert_allclose(found, species.probability(np.array([1.0, 1.0, 1.0, 2.0]), 6.5))


def test_what_classes_are_given_beforehand_is_the_same_alone_and_among_many_draws(rng):
    shown = rng.integers(1, 200, (6, 3, 4)).astype(float)
    wrong = np.floor(shown * rng.random(shown.shape))
    root, changes = np.array([0, 0, 2, 3]), np.array([False, True, True])
    fields, classes = hyper.field_prior(wrong[:, 0], shown[:, 0]), hyper.class_prior(wrong, shown, root)
    shares = hyper.share_prior(changes, wrong[:, 0], shown[:, 0])
    assert (fields.shape, classes.shape, shares.shape) == ((2, 6, 4), (2, 6, 3, 4), (6, 3))
    for d in range(6):
        np.testing.assert_allclose(fields[:, d], hyper.field_prior(wrong[d, 0], shown[d, 0]))
        np.testing.assert_allclose(classes[:, d], hyper.class_prior(wrong[d], shown[d], root))
        np.testing.assert_allclose(shares[d], hyper.share_prior(changes, wrong[d, 0], shown[d, 0]))
