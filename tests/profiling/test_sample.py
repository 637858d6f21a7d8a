"""The sample is bounded, seeded and blind to the order of rows, and shows what depends on what."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vber_cli.encode.codebook import encode
from vber_cli.encode.fields import map_fields
from vber_cli.profiling import sample
from vber_cli.profiling.cost import LARGEST_TIMED, estimate_cost
from vber_cli.profiling.run import _field_kinds
from vber_cli.profiling.sample import learn_from_sample, most_pairs, sample_records, sampled_rows

N = 1500


def people(rng):
    """Names, days and postcodes that lie in towns, all independent otherwise."""
    postcode = rng.integers(0, 80, N)
    columns = {
        "name": [f"name{k}" for k in rng.integers(0, 300, N)],
        "day": [f"day{k}" for k in rng.integers(0, 365, N)],
        "postcode": [f"p{k}" for k in postcode],
        "town": [f"town{k % 20}" for k in postcode],
    }
    return pa.record_batch({name: pa.array(cells).dictionary_encode() for name, cells in columns.items()})


def encoded_of(batch):
    field_map = map_fields(["a"], [batch.schema.names])
    return encode(["a"], lambda _d, columns: iter([batch.select(columns)]), field_map)


def learned(batch):
    encoded = encoded_of(batch)
    return learn_from_sample(encoded, ["a"], _field_kinds(encoded, {}), {}, 0, 1)


def test_a_town_depends_on_the_postcode(rng):
    found = learned(people(rng))
    assert [(edge.field, edge.parent) for edge in found.tree] == [("town", "postcode")]
    assert found.tree[0].gain_bits > 1.0
    assert found.n_records == N


def test_the_sample_is_bounded(rng, monkeypatch):
    monkeypatch.setattr(sample, "RECORDS", 400)
    monkeypatch.setattr(sample, "ROWS", 300)
    batch = people(rng)
    records, codebook = sample_records(encoded_of(batch), 0)
    assert records.n_records == 400
    for f, values in enumerate(codebook.values):
        assert np.array_equal(np.unique(records.codes[:, f]), np.arange(len(values)))
    assert learned(batch).n_records == 400
    assert len(sampled_rows(N, 0, 0)) == 300
    assert sorted(sampled_rows(10, 0, 0)) == list(range(10))


def test_of_many_fields_only_the_first_are_looked_at(rng, monkeypatch):
    monkeypatch.setattr(sample, "MOST_COLUMNS", 3)
    batch = people(rng)
    assert sample_records(encoded_of(batch), 0)[1].fields == ("name", "day", "postcode")
    assert learned(batch).tree == ()


def test_the_sample_does_not_depend_on_the_order_of_rows(rng, monkeypatch):
    monkeypatch.setattr(sample, "RECORDS", 700)
    batch = people(rng)
    again = batch.take(pa.array(rng.permutation(N)))
    assert learned(batch) == learned(again) == learned(batch)


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_records(rng, n):
    found = learned(people(rng).slice(0, n))
    assert found is None if n == 1 else found.tree == ()


def test_pairs_grow_with_the_square_up_to_what_is_kept():
    assert estimate_cost((5_000, 7), 700, 5_000, most_pairs(5_000)).pairs == 700
    assert estimate_cost((50_000, 7), 700, 10_000, most_pairs(50_000)).pairs == 700 * 25
    assert estimate_cost((10**6, 7), 10**5, 10_000, most_pairs(10**6)).pairs == most_pairs(10**6)


def test_the_estimate_says_where_it_ends():
    near, far = (estimate_cost((n, 7), 50_000, 10_000, most_pairs(n)) for n in (LARGEST_TIMED, 10 * LARGEST_TIMED))
    assert far.factor > near.factor
    assert "extrapolation" in far.basis
    assert "extrapolation" not in near.basis
    assert far.seconds > near.seconds
    assert "extrapolation" in estimate_cost((1_000, 12), 900, 1_000, 10_000).basis
    assert far.memory_bytes > near.memory_bytes


# records, fields, seconds and MiB of merges that were timed, with the kernels compiled
@pytest.mark.parametrize(
    ("n", "n_fields", "seconds", "mebibytes"),
    [
        (500, 7, 1.7, 280),
        (1_000, 9, 2.3, 275),
        (10_000, 9, 5.5, 356),
        (10_000, 7, 3.1, 344),
        (10_000, 9, 4.9, 354),
        (10_000, 9, 11.2, 364),
        (21_260, 11, 8.4, 425),
        (36_137, 8, 20.1, 484),
        (57_077, 6, 5.2, 442),
        (100_000, 7, 9.3, 604),
        (1_000_000, 7, 28.8, 1_314),
        (10_000_000, 7, 373.1, 8_911),
    ],
)
def test_the_formula_fits_the_merges_it_was_fitted_to(n, n_fields, seconds, mebibytes):
    found = estimate_cost((n, n_fields), 1_000, n, most_pairs(n))
    assert found.seconds / found.factor <= seconds <= found.seconds * found.factor
    assert found.memory_bytes / 2**20 == pytest.approx(mebibytes, rel=0.3)
