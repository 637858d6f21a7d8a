"""A_fv = α_f θ_f(v), against counts by hand (docs/model.md section 4)."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.model.prior import Prior, make_prior, normalise, uniform_base, value_counts, value_pointers
from vber_cli.model.types import Records


def make_records(codes, n_values):
    codes = np.ascontiguousarray(codes, dtype=np.int32)
    return Records(codes, np.zeros(len(codes), np.int32), np.array(n_values, np.int64))


@pytest.fixture
def records():
    # field 0: values 0, 0, 2, missing; field 1 has no value at all; field 2: always 0
    return make_records([[0, -1, 0], [0, -1, 0], [2, -1, 0], [-1, -1, 0]], [3, 0, 1])


def test_records_know_their_shape(records):
    assert (records.n_records, records.n_fields, records.n_databases) == (4, 3, 1)
    none = Records(np.empty((0, 2), np.int32), np.empty(0, np.int32), np.array([1, 1]))
    assert (none.n_records, none.n_fields, none.n_databases) == (0, 2, 0)


def test_values_are_numbered_through(records):
    pointers = value_pointers(records.n_values)
    assert pointers.dtype == np.int64
    assert pointers.tolist() == [0, 3, 3, 4]
    assert value_pointers(np.array([], np.int64)).tolist() == [0]


def test_empirical_base_is_the_share_of_records(records):
    # value 1 of field 0 is in no record and counts as half a one
    assert make_prior(records, "empirical", 0.2).base == pytest.approx([2 / 3.5, 0.5 / 3.5, 1 / 3.5, 1.0])


def test_uniform_base(records):
    assert make_prior(records, "uniform").base == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])
    assert uniform_base(np.array([2, 0, 4])) == pytest.approx([0.5, 0.5, *[0.25] * 4])


@pytest.mark.parametrize("kind", ["uniform", "empirical"])
@pytest.mark.parametrize("concentration", [0.3, np.array([0.1, 2.0, 50.0])])
def test_alpha_is_concentration_times_base(rng, kind, concentration):
    n_values = [5, 2, 9]
    codes = np.stack([rng.integers(-1, v, 40) for v in n_values], axis=1)
    prior = make_prior(make_records(codes, n_values), kind, concentration)
    per_field = np.broadcast_to(concentration, 3)
    for f in range(3):
        part = slice(prior.value_ptr[f], prior.value_ptr[f + 1])
        assert prior.base[part].sum() == pytest.approx(1.0)
        assert np.all(prior.base[part] > 0)
        assert prior.alpha[part] == pytest.approx(per_field[f] * prior.base[part])
        assert prior.alpha[part].sum() == pytest.approx(per_field[f])


def test_an_unknown_kind_is_refused(records):
    with pytest.raises(ValueError, match="flat"):
        make_prior(records, "flat")


def test_counts_and_weights(rng):
    codes = rng.integers(-1, 4, (50, 2))
    records = make_records(codes, [4, 6])
    weight = rng.random(50)
    pointers = value_pointers(records.n_values)
    for w in (None, weight):
        expected = np.zeros(10)
        for r, row in enumerate(codes):
            for f, v in enumerate(row):
                if v >= 0:
                    expected[pointers[f] + v] += 1.0 if w is None else w[r]
        assert value_counts(records, pointers, w) == pytest.approx(expected)


def test_normalise_each_field_alone():
    pointers = np.array([0, 2, 2, 5, 6])
    scaled = normalise(np.array([1.0, 3.0, 0.0, 0.0, 0.0, 7.0]), pointers)
    assert scaled == pytest.approx([0.25, 0.75, 1 / 3, 1 / 3, 1 / 3, 1.0])


def test_a_prior_is_changed_by_copies(records):
    prior = make_prior(records, "uniform", 0.5)
    other = prior.with_concentration(np.array([1, 2, 3])).with_base([0.2, 0.3, 0.5, 1.0])
    assert isinstance(other, Prior)
    assert other.alpha == pytest.approx([0.2, 0.3, 0.5, 3.0])
    assert prior.alpha == pytest.approx([0.5 / 3] * 3 + [0.5])
