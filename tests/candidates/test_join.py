"""The join against all pairs that share a key and exceed the threshold, over-full groups too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vber_cli.candidates import join as module
from vber_cli.candidates import join_kernels as kernels
from vber_cli.candidates.join import join, record_match
from vber_cli.candidates.plan import Key, Plan
from vber_cli.model.evidence import match_evidence, mismatch_evidence
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records

N_VALUES = (6, 4, 9, 3)
KEYS = ((0,), (1, 2), (2, 3), (0, 1, 2, 3))


def make_records(rng, n, kind):
    codes = np.stack([rng.integers(0, v, n) for v in N_VALUES], axis=1)
    if kind == "missing":
        codes[rng.random(codes.shape) < 0.4] = -1
    elif kind == "constant":
        codes[:] = 1
    elif kind == "tied":
        codes = codes[rng.integers(0, 5, n)]
    return Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), np.array(N_VALUES, np.int64))


def evidence_of(records):
    prior = make_prior(records, "empirical", 0.1)
    return record_match(records, match_evidence(prior), prior.value_ptr), mismatch_evidence(prior)


def plan_of(*keys):
    return Plan(tuple(Key(fields, 0.0) for fields in keys), 1.0, False)


EXHAUSTIVE = Plan((), 1.0, True)


def evidence(records, match, mismatch, a, b):
    total = 0.0
    for f in range(records.n_fields):
        v, w = records.codes[a, f], records.codes[b, f]
        if v >= 0 and w >= 0:
            total += float(match[a, f]) if v == w else float(mismatch[f])
    return total


def agree(records, a, b, fields):
    return all(records.codes[a, f] == records.codes[b, f] >= 0 for f in fields)


def brute_force(records, match, mismatch, threshold, keys):
    """Pairs that agree on all fields of some key, or all pairs without keys."""
    return [
        (a, b)
        for a, b in itertools.combinations(range(records.n_records), 2)
        if (keys is None or any(agree(records, a, b, key) for key in keys))
        and evidence(records, match, mismatch, a, b) > threshold
    ]


def found_by(pairs):
    assert pairs.a.dtype == pairs.b.dtype == np.int32
    assert len(pairs) == len(pairs.a) == len(pairs.b)
    return list(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["random", "missing", "constant", "tied"])
@pytest.mark.parametrize("threshold", [-1e9, -2.0, 1.5])
def test_the_join_is_all_pairs_that_share_a_key(rng, kind, threshold):
    for n in (1, 2, 70):
        records = make_records(rng, n, kind) if n > 4 else make_records(rng, 5, "random")
        if n < 5:
            records = Records(records.codes[:n].copy(), records.db_of_record[:n], records.n_values)
        match, mismatch = evidence_of(records)
        for plan, keys in ((EXHAUSTIVE, None), (plan_of(*KEYS), KEYS), (plan_of(KEYS[1]), KEYS[1:2])):
            pairs = join(records, plan, match, mismatch, threshold, 1)
            # sorted, each once, a < b
            assert found_by(pairs) == brute_force(records, match, mismatch, threshold, keys)
            each = [
                [pair for pair in itertools.combinations(range(n), 2) if agree(records, *pair, key)]
                for key in keys or [()]
            ]
            assert pairs.compared == sum(map(len, each))


def test_a_plan_without_keys_finds_nothing(rng):
    records = make_records(rng, 10, "random")
    pairs = join(records, plan_of(), *evidence_of(records), -1e9, 1)
    assert (found_by(pairs), pairs.compared) == ([], 0)


@pytest.mark.parametrize("kind", ["random", "missing", "tied"])
@pytest.mark.parametrize("plan", [EXHAUSTIVE, plan_of(*KEYS)])
def test_threads_and_the_size_of_the_parts_change_nothing(rng, kind, plan, monkeypatch):
    records = make_records(rng, 120, kind)
    match, mismatch = evidence_of(records)
    whole = join(records, plan, match, mismatch, -1.0, 1)
    monkeypatch.setattr(module, "_GROUPS_PER_PART", 3)
    monkeypatch.setattr(module, "_PAIRS_PER_PART", 500)
    for threads in (1, 2):
        parts = join(records, plan, match, mismatch, -1.0, threads)
        assert found_by(parts) == found_by(whole)
        assert parts.compared == whole.compared


def test_more_pairs_than_the_buffer_holds(rng):
    n = 400
    records = make_records(rng, n, "random")
    match, mismatch = evidence_of(records)
    everything = join(records, EXHAUSTIVE, match, mismatch, -1e9, 1)
    assert len(everything) == n * (n - 1) // 2 > 1 << 16
    assert found_by(everything) == list(itertools.combinations(range(n), 2))
    constant = make_records(rng, n, "constant")
    match, mismatch = evidence_of(constant)
    alike = join(constant, plan_of((0, 1, 2, 3)), match, mismatch, -1e9, 1)
    assert found_by(alike) == list(itertools.combinations(range(n), 2))


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_an_overfull_group_keeps_every_pair_that_agrees_on_one_field_more(rng, missing, monkeypatch):
    monkeypatch.setattr(module, "_CAP", 12)
    n = 60
    # one value of the key for all but a few; the other fields split it into groups of a handful
    codes = np.stack([np.zeros(n), *(rng.permutation(n) % v for v in (12, 20, 30))], axis=1).astype(np.int32)
    codes[:, 1:][rng.random((n, 3)) < missing] = -1
    codes[:6, 0] = 1
    records = Records(np.ascontiguousarray(codes), np.zeros(n, np.int32), np.array([2, 12, 20, 30]))
    match, mismatch = evidence_of(records)
    others = [(0, f) for f in (1, 2, 3)]
    for threshold in (-1e9, 0.0):
        pairs = join(records, plan_of((0,)), match, mismatch, threshold, 1)
        small = [
            pair
            for pair in itertools.combinations(range(6), 2)
            if evidence(records, match, mismatch, *pair) > threshold
        ]
        expected = sorted({*brute_force(records, match, mismatch, threshold, others), *small})
        assert found_by(pairs) == expected
    assert pairs.compared < n * (n - 1) // 4
    # two keys that find the same pairs give each of them once
    both = join(records, plan_of((0,), (0, 1)), match, mismatch, 0.0, 2)
    assert found_by(both) == expected


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_groups_that_stay_overfull_are_refined_by_two_more_fields(rng, monkeypatch):
    monkeypatch.setattr(module, "_CAP", 10)
    n = 90
    codes = np.stack([np.zeros(n), rng.permutation(n) % 3, rng.permutation(n) % 3, rng.permutation(n) % 30], axis=1)
    records = Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), np.array([1, 3, 3, 30]))
    match, mismatch = evidence_of(records)
    found = set(found_by(join(records, plan_of((0,)), match, mismatch, -1e9, 1)))
    # fields 1 and 2 leave thirty records together, and about ten together; field 3 always leaves three
    for a, b in itertools.combinations(range(n), 2):
        if agree(records, a, b, (3,)):
            assert (a, b) in found
        elif agree(records, a, b, (1, 2)):
            together = sum(agree(records, a, r, (1, 2)) for r in range(n))
            assert together > 10 or (a, b) in found
        elif not agree(records, a, b, (1,)) and not agree(records, a, b, (2,)):
            assert (a, b) not in found


def test_records_alike_in_every_field_stay_connected(rng, monkeypatch):
    monkeypatch.setattr(module, "_CAP", 4)
    records = make_records(rng, 40, "constant")
    match, mismatch = evidence_of(records)
    pairs = found_by(join(records, plan_of((0,)), match, mismatch, -1e9, 1))
    assert {b for a, b in pairs if a == 0} == {1, 2, 3, 4}
    assert {(r, r + 1) for r in range(39)} <= set(pairs)
    assert len(pairs) < 40 * 39 / 4


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize("plan", [EXHAUSTIVE, plan_of(*KEYS)])
def test_renumbering_records_renames_the_pairs(rng, plan):
    records = make_records(rng, 80, "missing")
    new = rng.permutation(80)
    codes = np.empty_like(records.codes)
    codes[new] = records.codes
    moved = Records(codes, records.db_of_record, records.n_values)
    one = found_by(join(records, plan, *evidence_of(records), 0.0, 1))
    two = found_by(join(moved, plan, *evidence_of(moved), 0.0, 1))
    assert sorted(tuple(sorted((int(new[a]), int(new[b])))) for a, b in one) == two
    assert one


def test_what_an_agreement_is_worth_to_each_record(rng):
    for kind in ("random", "missing", "constant"):
        records = make_records(rng, 20, kind)
        prior = make_prior(records, "empirical", 0.1)
        value = match_evidence(prior)
        found = record_match(records, value, prior.value_ptr)
        assert found.dtype == np.float32
        for r, f in itertools.product(range(20), range(4)):
            v = records.codes[r, f]
            assert found[r, f] == (np.float32(value[prior.value_ptr[f] + v]) if v >= 0 else 0.0)


def test_keys_tell_records_apart_exactly_by_their_fields(rng):
    records = make_records(rng, 300, "missing")
    for fields in KEYS:
        key, complete = kernels.key_kernel(records.codes, np.array(fields, dtype=np.int64))
        rows = records.codes[:, list(fields)]
        np.testing.assert_array_equal(complete, (rows >= 0).all(axis=1))
        rows = list(map(tuple, rows[complete].tolist()))
        assert (
            len(set(zip(key[complete].tolist(), rows, strict=True)))
            == len(set(rows))
            == len(set(key[complete].tolist()))
        )


@pytest.mark.parametrize("kind", ["random", "missing", "tied"])
def test_evidence_of_given_pairs(rng, kind):
    records = make_records(rng, 30, kind)
    match, mismatch = evidence_of(records)
    a, b = (rng.integers(0, 30, 100).astype(np.int32) for _ in range(2))
    found = kernels.pair_evidence_kernel(a, b, records.codes, match, mismatch)
    expected = [evidence(records, match, mismatch, x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
