"""Individuals by database: exact where partners are certain, and the paper's model where it fits (model.md 3)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from vber_cli.model.occupancy import Occupancy
from vber_cli.model.presence import learn_presence, present_individuals, relative_rates


def pairs_within(groups):
    a, b = zip(*[(x, y) for group in groups for i, x in enumerate(group) for y in group[i + 1 :]], strict=True)
    return np.array(a, np.int32), np.array(b, np.int32)


def test_certain_partners_are_counted_exactly():
    database = np.array([0, 0, 0, 0, 1, 1, 1, 2], np.int32)
    a, b = pairs_within([[0, 1, 4], [2, 3, 5, 6]])
    found = present_individuals(database, 3, a, b, np.ones(len(a)))
    np.testing.assert_allclose(found, [2.0, 2.0, 1.0], atol=1e-9)  # {0,1} {2,3}; {4} {5,6}; {7}


@pytest.mark.parametrize("p", [0.0, 0.2, 0.9])
def test_one_uncertain_partner_counts_by_its_probability(p):
    database = np.zeros(2, np.int32)
    found = present_individuals(database, 1, np.array([0], np.int32), np.array([1], np.int32), np.array([p]))
    assert found[0] == pytest.approx(2.0 - p, abs=1e-9)


def test_pairs_across_databases_do_not_count():
    database = np.array([0, 1], np.int32)
    found = present_individuals(database, 2, np.array([0], np.int32), np.array([1], np.int32), np.ones(1))
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-9)


def test_the_papers_model_is_kept_where_it_fits(rng):
    n_individuals, sizes = 5000, np.array([3000, 2000])
    seen = np.array([len(np.unique(rng.integers(0, n_individuals, size))) for size in sizes], float)
    assert learn_presence(sizes.astype(float), seen, n_individuals) is None


@pytest.mark.parametrize("clean", [True, False])
def test_databases_that_differ_from_it_are_noticed(clean):
    sizes, k = np.array([3000.0, 2000.0]), 5000.0
    seen = sizes if clean else 0.5 * sizes
    found = learn_presence(sizes, seen, k)
    assert found is not None
    np.testing.assert_array_equal(found.individuals, seen)
    assert np.all(found.tilt < -5) if clean else np.all(found.tilt > 1)


def test_the_tilt_is_one_where_the_papers_model_holds_on_average():
    sizes, k = np.array([3000.0, 2000.0]), 5000.0
    seen = k * -np.expm1(-sizes / k)
    # far more surely than the model allows, so that it is used, but off by hardly anything
    found = learn_presence(sizes * 1e6, seen * 1e6 * (1 + 1e-3), k * 1e6)
    assert found is not None
    np.testing.assert_allclose(found.tilt, 0.0, atol=1e-2)


def test_one_database_cannot_tell():
    assert learn_presence(np.array([3000.0]), np.array([3000.0]), 5000.0) is None
    assert learn_presence(np.array([3000.0, 0.0]), np.array([3000.0, 0.0]), 5000.0) is None


def test_rates_are_relative_to_all_pairs():
    database = np.repeat([0, 1], [60, 40]).astype(np.int32)
    a, b = np.array([0, 2, 61], np.int32), np.array([1, 70, 62], np.int32)
    within, across = relative_rates(database, a, b, np.array([1.0, 1.0, 0.5]))
    overall = (1.5 + 1.0 + 1.5) / (100 * 99 / 2)
    np.testing.assert_allclose(within, np.log(np.array([1.5 / 1770, 1.0 / 780]) / overall))
    assert across == pytest.approx(np.log(1.5 / 2400 / overall))


@pytest.mark.parametrize("n", [40, 55, 60])
def test_overlap_gives_the_population_as_capture_and_recapture_do(n):
    held = (30.0, 35.0)
    k, p = Occupancy(80, None, held).posterior(n)
    at = np.arange(n, n + 4000, dtype=float)
    log_w = gammaln(at + 1) - gammaln(at - n + 1) - np.log(at)
    for m in held:
        log_w -= gammaln(at + 1) - gammaln(at - m + 1)
    w = np.exp(log_w - log_w.max())
    for end in (0.25, 0.5, 0.75):
        ours, theirs = k[np.searchsorted(np.cumsum(p), end)], at[np.searchsorted(np.cumsum(w / w.sum()), end)]
        assert ours == pytest.approx(theirs, rel=0.03, abs=1.0)
    both = held[0] + held[1] - n
    mode = at[np.argmax(w)]
    assert abs(mode - held[0] * held[1] / both) < 0.2 * mode
