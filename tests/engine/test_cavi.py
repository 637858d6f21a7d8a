"""The sparse engine against the dense reference, and the properties the updates must have."""

from __future__ import annotations

import numpy as np
import pytest

from tests import exact, reference
from vber_cli.engine import cavi
from vber_cli.engine.start import start_at_random, start_from_records
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records


def make_records(seed, n=60, n_values=(8, 3, 20, 5), missing=0.15, blank=2):
    rng = np.random.default_rng(seed)
    people = np.stack([rng.integers(0, v, max(n // 2, 1)) for v in n_values], axis=1)
    codes = people[rng.integers(0, len(people), n)].astype(np.int32)
    noise = rng.random(codes.shape)
    codes = np.where(noise < 0.1, np.stack([rng.integers(0, v, n) for v in n_values], axis=1), codes)
    codes = np.where(rng.random(codes.shape) < missing, -1, codes).astype(np.int32)
    codes[:blank] = -1
    return Records(np.ascontiguousarray(codes), np.zeros(n, np.int32), np.array(n_values, np.int64))


def split_alpha(prior):
    return [prior.alpha[lo:hi] for lo, hi in zip(prior.value_ptr[:-1], prior.value_ptr[1:], strict=True)]


def dense_of(linkage):
    phi = np.zeros((len(linkage.ptr) - 1, linkage.n_individuals))
    for r in range(len(phi)):
        if linkage.blank[r]:
            phi[r] = 1 / linkage.n_individuals
            continue
        row = slice(linkage.ptr[r], linkage.ptr[r + 1])
        phi[r, linkage.individual[row]] = linkage.phi[row]
        if linkage.n_rest:
            phi[r, linkage.n_stored :] = linkage.rest[r] / linkage.n_rest
    return phi


def dense_counts_of(counts, prior, n_individuals):
    n_fields = len(prior.concentration)
    out = [np.tile(a, (n_individuals, 1)) for a in split_alpha(prior)]
    for k in range(n_individuals):
        for f in range(n_fields):
            lo = prior.value_ptr[f]
            if k < counts.n_stored:
                for e in range(counts.cell_ptr[k * n_fields + f], counts.cell_ptr[k * n_fields + f + 1]):
                    out[f][k, counts.cell_value[e] - lo] += counts.cell_count[e]
            else:
                out[f][k] += counts.rest_count[lo : prior.value_ptr[f + 1]]
    return out


STARTS = {"records": start_from_records, "random": start_at_random}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["uniform", "empirical"])
@pytest.mark.parametrize(
    ("start", "n", "n_individuals", "concentration"),
    [
        ("records", 60, 25, 0.05),
        ("records", 200, 90, 1.0),
        ("records", 60, 200, 0.5),
        ("random", 60, 30, 0.01),
        ("random", 120, 150, 3.0),
        ("random", 20, 1, 0.2),
        ("records", 40, 40, 50.0),
    ],
)
def test_sparse_equals_dense(seed, kind, start, n, n_individuals, concentration):
    records = make_records(seed, n)
    prior = make_prior(records, kind, concentration)
    alpha = split_alpha(prior)
    linkage = STARTS[start](records, n_individuals, seed)
    counts = cavi.accumulate(records, prior, linkage)
    lam = dense_counts_of(counts, prior, n_individuals)
    for _ in range(6):
        linkage = cavi.local(records, prior, counts, n_individuals)
        phi = reference.dense_phi(records.codes, lam, n_individuals)
        np.testing.assert_allclose(dense_of(linkage), phi, rtol=0, atol=1e-9)
        counts = cavi.accumulate(records, prior, linkage)
        lam = reference.dense_lambda(records.codes, alpha, phi)
        for ours, theirs in zip(dense_counts_of(counts, prior, n_individuals), lam, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
        expected = reference.short_elbo(alpha, phi, lam)
        assert cavi.elbo(records, prior, linkage, counts) == pytest.approx(expected, rel=1e-11, abs=1e-9)
        assert expected == pytest.approx(reference.full_elbo(records.codes, alpha, phi, lam), rel=1e-9)


@pytest.mark.parametrize("start", ["records", "random"])
@pytest.mark.parametrize("concentration", [1e-8, 0.02, 0.5, 5.0, 1e8])
def test_the_bound_never_falls(start, concentration):
    records = make_records(3, 150)
    prior = make_prior(records, "empirical", concentration)
    bounds = []
    cavi.fit(
        records, prior, STARTS[start](records, 80, 1), max_sweeps=40, tol=0.0, on_sweep=lambda s: bounds.append(s.elbo)
    )
    assert len(bounds) >= 3
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1]))


@pytest.mark.parametrize("n_individuals", [1, 2, 4])
def test_the_bound_stays_below_the_exact_evidence(n_individuals):
    for seed in range(5):
        records = make_records(seed, 6, (3, 4), blank=0)
        prior = make_prior(records, "uniform", 0.4)
        fitted = cavi.fit(records, prior, start_at_random(records, n_individuals, seed), max_sweeps=50, tol=1e-10)
        assert fitted.elbo <= exact.log_evidence(records.codes, split_alpha(prior), n_individuals) + 1e-9


def test_one_individual_makes_the_bound_exact():
    records = make_records(5, 6, (3, 4), blank=1)
    prior = make_prior(records, "empirical", 0.7)
    fitted = cavi.fit(records, prior, start_at_random(records, 1, 0), max_sweeps=5, tol=1e-10)
    assert fitted.elbo == pytest.approx(exact.log_evidence(records.codes, split_alpha(prior), 1), abs=1e-9)


def test_the_gradient_vanishes_at_the_fixed_point():
    records = make_records(4, 40, blank=0)
    prior = make_prior(records, "empirical", 2.0)
    fitted = cavi.fit(records, prior, start_from_records(records, 12, 0), max_sweeps=4000, tol=1e-12)
    assert fitted.converged
    alpha, phi = split_alpha(prior), dense_of(fitted.linkage)
    lam = dense_counts_of(fitted.counts, prior, 12)
    step = 1e-5

    def slope(at):
        return (at(step) - at(-step)) / (2 * step)

    rng = np.random.default_rng(0)
    for _ in range(20):
        direction = rng.normal(size=phi.shape) * phi
        direction -= phi * direction.sum(axis=1, keepdims=True)

        def along_phi(t, direction=direction):
            moved = np.clip(phi + t * direction, 1e-300, None)
            return reference.full_elbo(records.codes, alpha, moved / moved.sum(axis=1, keepdims=True), lam)

        assert abs(slope(along_phi)) < 1e-4
        factors = [rng.normal(size=a.shape) for a in lam]

        def along_lambda(t, factors=factors):
            moved = [a * (1 + t * b) for a, b in zip(lam, factors, strict=True)]
            return reference.full_elbo(records.codes, alpha, phi, moved)

        assert abs(slope(along_lambda)) < 1e-4


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(cavi, "_RECORDS_PER_PART", 16)
    records = make_records(6, 200)
    prior = make_prior(records, "empirical", 0.3)
    one, two = (
        cavi.fit(records, prior, start_at_random(records, 90, 0), max_sweeps=10, tol=0.0, threads=t) for t in (1, 2)
    )
    assert one.elbo == two.elbo
    np.testing.assert_array_equal(one.linkage.phi, two.linkage.phi)
    np.testing.assert_array_equal(one.counts.cell_count, two.counts.cell_count)


def test_relabelling_values_changes_nothing():
    records = make_records(7, 80)
    prior = make_prior(records, "empirical", 0.3)
    flipped = Records(
        np.ascontiguousarray(np.where(records.codes < 0, -1, records.n_values - 1 - records.codes), dtype=np.int32),
        records.db_of_record,
        records.n_values,
    )
    ours = cavi.fit(records, prior, start_from_records(records, 40, 0), max_sweeps=20, tol=0.0)
    theirs = cavi.fit(
        flipped, make_prior(flipped, "empirical", 0.3), start_from_records(flipped, 40, 0), max_sweeps=20, tol=0.0
    )
    assert ours.elbo == pytest.approx(theirs.elbo, rel=1e-12)


def test_records_start_takes_distinct_records_only():
    records = make_records(8, 50, (2, 2), missing=0.0)
    start = start_from_records(records, 50, 0)
    assert start.n_stored == len(np.unique(records.codes[2:], axis=0))
    assert start.n_rest == 50 - start.n_stored


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_looking_individuals_up_by_two_values_changes_nothing(seed, start, monkeypatch):
    records = make_records(seed, n=300, n_values=(40, 30, 50, 20))
    prior = make_prior(records, "empirical", 0.02)
    linkage = STARTS[start](records, 170, seed)
    walked = cavi.fit(records, prior, linkage, max_sweeps=300, tol=1e-9)
    monkeypatch.setattr(cavi, "_MANY_STORED", 0)
    found = cavi.fit(records, prior, linkage, max_sweeps=300, tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(dense_of(found.linkage), dense_of(walked.linkage), atol=1e-8)
    assert found.elbo == pytest.approx(walked.elbo, abs=1e-8)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_settling_between_sweeps_leads_to_a_fixed_point_in_fewer(seed, start):
    """The bound rises all the way, and where the sweeps end a plain sweep changes nothing."""
    records = make_records(seed, n=300, n_values=(40, 30, 50, 20))
    prior = make_prior(records, "empirical", 0.02)
    linkage = STARTS[start](records, 170, seed)
    plain = cavi.fit(records, prior, linkage, max_sweeps=900, tol=1e-9)
    bounds = []
    found = cavi.fit(
        records, prior, linkage, max_sweeps=300, tol=1e-9, settle_between=True,
        on_sweep=lambda sweep: bounds.append(sweep.elbo),
    )  # fmt: skip
    assert found.converged
    assert found.n_sweeps <= plain.n_sweeps / 2
    assert np.diff(bounds).min() > -1e-7
    again = cavi.local(records, prior, found.counts, 170)
    np.testing.assert_allclose(dense_of(again), dense_of(found.linkage), atol=2e-9)
    counts = cavi.accumulate(records, prior, found.linkage)
    np.testing.assert_array_equal(counts.cell_count, found.counts.cell_count)


@pytest.mark.parametrize("seed", [0, 1])
def test_settling_raises_the_bound_with_every_record(seed):
    records = make_records(seed, n=200, n_values=(40, 30, 50, 20))
    prior = make_prior(records, "empirical", 0.02)
    before = STARTS["random"](records, 120, seed)
    after = cavi.local(records, prior, cavi.accumulate(records, prior, before), 120)
    counts = cavi.accumulate(records, prior, after)
    low = cavi.elbo(records, prior, after, counts)
    settled, found = cavi.settle(records, prior, after, before, counts, 1e-10)
    expected = cavi.accumulate(records, prior, settled)
    for name in ("cell_ptr", "cell_value", "cell_count", "n_observed", "rest_count", "rest_observed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert cavi.elbo(records, prior, settled, found) > low + 1e-3
    np.testing.assert_array_equal(settled.individual, after.individual)
    sums = np.add.reduceat(np.append(settled.phi, 0.0), settled.ptr[:-1]) * (np.diff(settled.ptr) > 0)
    np.testing.assert_allclose((sums + settled.rest)[~settled.blank], 1.0, atol=1e-12)
    # who leans on nobody that moved is left as it is
    same, _ = cavi.settle(records, prior, after, after, cavi.accumulate(records, prior, after), 1e-10)
    np.testing.assert_array_equal(same.phi, after.phi)
