"""The join against all pairs that share a key and exceed the threshold, over-full groups too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.called import from_python
from vber_cli.candidates import join as module
from vber_cli.candidates import join_kernels as kernels
from vber_cli.candidates.join import join, make_scorer
from vber_cli.candidates.plan import Key, Plan
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

SCORE = from_python(kernels.score_pair)
N_VALUES = (6, 4, 9, 3)
NEAR = {(0, 0, 1): 1, (0, 2, 3): 2, (0, 1, 4): 2, (2, 0, 8): 1, (2, 3, 4): 0, (2, 5, 7): 2}
KEYS = ((0,), (1, 2), (2, 3), (0, 1, 2, 3), (4, 1), (5,))
DERIVED = ((0, (0, 0, 1, 1, 2, -1)), (2, (0, 1, 1, 2, 2, 3, 3, -1, 0)))  # field, and a code for each of its values


def make_records(rng, n, kind):
    codes = np.stack([rng.integers(0, v, n) for v in N_VALUES], axis=1)
    if kind == "missing":
        codes[rng.random(codes.shape) < 0.4] = -1
    elif kind == "constant":
        codes[:] = 1
    elif kind == "tied":
        codes = codes[rng.integers(0, 5, n)]
    return Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), np.array(N_VALUES, np.int64))


def noise_of(n_fields=4):
    """Two classes: careful but for a typist's slips, and careless."""
    alpha = np.array([[0.01, 0.5, 0.05, 0.2], [3.0, 0.02, 0.4, 0.02]])[:, :n_fields]
    levels = np.array([[0.9, 0.08, 0.02], [0.5, 0.2, 0.3]])
    return Noise(alpha, np.repeat(levels[:, None], n_fields, axis=1), np.array([0.8, 0.2]))


class Scoring:
    """The scorer of some records, and the same scores by plain loops."""

    def __init__(self, records, near=NEAR, noise=None):
        self.records, self.near = records, near
        self.prior = make_prior(records, "empirical", 0.1)
        self.noise = noise or noise_of(records.n_fields)
        ends = np.array([[self.prior.value_ptr[f] + v for v in pair] for f, *pair in near], np.int64).reshape(-1, 2)
        levels = np.array(list(near.values()), np.int8)
        self.similar = SimilarValues.of(self.prior.value_ptr, *ends.T, levels)
        self.scorer = make_scorer(records, self.prior, self.similar, self.noise, self.similar.chance_levels(self.prior))
        self.chance = np.zeros((records.n_fields, 4))
        for f in range(records.n_fields):
            for v, w in itertools.product(range(records.n_values[f]), repeat=2):
                self.chance[f, self.level(f, v, w)] += self.theta(f, v) * self.theta(f, w)

    def theta(self, f, v):
        return self.prior.base[self.prior.value_ptr[f] + v]

    def level(self, f, v, w):
        return 0 if v == w else self.near.get((f, v, w), self.near.get((f, w, v), 3))

    def match(self, f, v):
        """What agreeing on a value is worth, with the overall α."""
        a, t = self.prior.concentration[f], self.theta(f, v)
        return np.log((a * t + 1) / ((a + 1) * t))

    def apart(self, f, level):
        """What a level of other values is worth: its most likely class's part of it, but one error in ten at least."""
        a, mu, share = self.noise.concentration[:, f], self.noise.levels[:, f], self.noise.share
        if level == 3:
            return np.log(max((share * a / (a + 1)).max(), 0.1))
        return np.log((share * (a + mu[:, level] / self.chance[f, level]) / (a + 1)).max())

    def score(self, a, b):
        total = 0.0
        for f in range(self.records.n_fields):
            v, w = self.records.codes[a, f].item(), self.records.codes[b, f].item()
            if v < 0 or w < 0:
                continue
            level = self.level(f, v, w)
            total += self.match(f, v) if level == 0 else self.apart(f, level)
        return total

    def brute_force(self, keys_of, threshold, keys):
        """Pairs that agree on all columns of some key, or all pairs without keys, and exceed the threshold."""
        return [
            (a, b)
            for a, b in itertools.combinations(range(self.records.n_records), 2)
            if (keys is None or any(agree(keys_of, a, b, key) for key in keys)) and self.score(a, b) > threshold
        ]


def columns_of(records):
    """The fields themselves, and codes derived from two of them."""
    more = [np.where(records.codes[:, f] < 0, -1, np.array(codes)[records.codes[:, f]]) for f, codes in DERIVED]
    return np.ascontiguousarray(np.column_stack([records.codes, *more]), dtype=np.int32)


def plan_of(*keys):
    return Plan(tuple(Key(fields, 0.0) for fields in keys), 1.0, False)


EXHAUSTIVE = Plan((), 1.0, True)


def agree(codes, a, b, columns):
    return all(codes[a, c] == codes[b, c] >= 0 for c in columns)


def found_by(pairs):
    assert pairs.a.dtype == pairs.b.dtype == np.int32
    assert len(pairs) == len(pairs.a) == len(pairs.b)
    return list(zip(pairs.a.tolist(), pairs.b.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["random", "missing", "constant", "tied"])
@pytest.mark.parametrize("near", [NEAR, {}])
def test_scores_meet_the_loops(rng, kind, near):
    scoring = Scoring(make_records(rng, 40, kind), near)
    given = 0
    for a, b in itertools.combinations(range(40), 2):
        expected = scoring.score(a, b)
        assert SCORE(a, b, scoring.scorer) == pytest.approx(expected, abs=1e-5)
        given += expected > -np.inf
    assert given > 0 or kind == "constant"  # what everybody shares is worth nothing
    assert near or given == 40 * 39 // 2  # without similar values nothing needs a closer look
    assert scoring.scorer.match.dtype == np.float32


def test_levels_count_as_in_the_class_that_explains_them_best(rng):
    scoring = Scoring(make_records(rng, 60, "random"))
    level = scoring.scorer.level_evidence
    assert np.all(level[:, 3] >= np.log(0.1))
    assert level[1, 3] == pytest.approx(np.log(0.8 * 0.5 / 1.5))  # the careful class, which is frequent
    assert level[0, 3] == pytest.approx(np.log(0.2 * 3.0 / 4.0))  # the careless one
    assert level[3, 3] == pytest.approx(np.log(0.8 * 0.2 / 1.2))
    assert np.all(level[[0, 2], 1] > level[[0, 2], 3])


@pytest.mark.parametrize("kind", ["random", "missing", "constant", "tied"])
@pytest.mark.parametrize("threshold", [-1e9, -2.0, 1.5])
@pytest.mark.parametrize("near", [NEAR, {}])
def test_the_join_is_all_pairs_that_share_a_key(rng, kind, threshold, near):
    for n in (1, 2, 70):
        records = make_records(rng, n, kind) if n > 4 else make_records(rng, 5, "random")
        if n < 5:
            records = Records(records.codes[:n].copy(), records.db_of_record[:n], records.n_values)
        scoring, columns = Scoring(records, near), columns_of(records)
        for plan, keys in ((EXHAUSTIVE, None), (plan_of(*KEYS), KEYS), (plan_of(KEYS[1]), KEYS[1:2])):
            pairs = join(columns, plan, scoring.scorer, threshold, 1)
            # sorted, each once, a < b
            assert found_by(pairs) == scoring.brute_force(columns, threshold, keys)
            # a pair that several keys bring together is compared once
            together = [
                pair
                for pair in itertools.combinations(range(n), 2)
                if any(agree(columns, *pair, key) for key in keys or [()])
            ]
            assert pairs.compared == len(together)


def test_derived_columns_find_pairs_that_the_fields_do_not(rng):
    records = make_records(rng, 70, "random")
    scoring, columns = Scoring(records), columns_of(records)
    by_field = found_by(join(columns, plan_of((0, 3)), scoring.scorer, 0.0, 1))
    by_derived = found_by(join(columns, plan_of((4, 3)), scoring.scorer, 0.0, 1))
    assert set(by_derived) - set(by_field)
    assert all(agree(columns, a, b, (4, 3)) for a, b in by_derived)


def test_a_plan_without_keys_finds_nothing(rng):
    records = make_records(rng, 10, "random")
    pairs = join(columns_of(records), plan_of(), Scoring(records).scorer, -1e9, 1)
    assert (found_by(pairs), pairs.compared) == ([], 0)


@pytest.mark.parametrize("kind", ["random", "missing", "tied"])
@pytest.mark.parametrize("plan", [EXHAUSTIVE, plan_of(*KEYS)])
def test_threads_and_the_size_of_the_parts_change_nothing(rng, kind, plan, monkeypatch):
    records = make_records(rng, 120, kind)
    args = columns_of(records), plan, Scoring(records).scorer, -1.0
    whole = join(*args, 1)
    monkeypatch.setattr(module, "_WORK_PER_PART", 7)
    monkeypatch.setattr(module, "_PAIRS_PER_PART", 500)
    for threads in (1, 2):
        parts = join(*args, threads)
        assert found_by(parts) == found_by(whole)
        assert parts.compared == whole.compared
    assert len(whole) > 0


def test_more_pairs_than_the_buffer_holds(rng):
    n = 400
    records = make_records(rng, n, "random")
    everything = join(records.codes, EXHAUSTIVE, Scoring(records, {}).scorer, -1e9, 1)
    assert len(everything) == n * (n - 1) // 2 > 1 << 16
    assert found_by(everything) == list(itertools.combinations(range(n), 2))
    constant = make_records(rng, n, "constant")
    alike = join(constant.codes, plan_of((0, 1, 2, 3)), Scoring(constant, {}).scorer, -1e9, 1)
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
    scoring = Scoring(records, {})
    others = [(0, f) for f in (1, 2, 3)]
    for threshold in (-1e9, 0.0):
        pairs = join(records.codes, plan_of((0,)), scoring.scorer, threshold, 1)
        small = [pair for pair in itertools.combinations(range(6), 2) if scoring.score(*pair) > threshold]
        expected = sorted({*scoring.brute_force(records.codes, threshold, others), *small})
        assert found_by(pairs) == expected
    assert pairs.compared < n * (n - 1) // 4
    # two keys that find the same pairs give each of them once
    both = join(records.codes, plan_of((0,), (0, 1)), scoring.scorer, 0.0, 2)
    assert found_by(both) == expected


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_groups_that_stay_overfull_are_refined_by_two_more_fields(rng, monkeypatch):
    monkeypatch.setattr(module, "_CAP", 10)
    n = 90
    codes = np.stack([np.zeros(n), rng.permutation(n) % 3, rng.permutation(n) % 3, rng.permutation(n) % 30], axis=1)
    records = Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), np.array([1, 3, 3, 30]))
    scoring = Scoring(records, {})
    found = set(found_by(join(records.codes, plan_of((0,)), scoring.scorer, -1e9, 1)))
    # fields 1 and 2 leave thirty records together, and about ten together; field 3 always leaves three
    for a, b in itertools.combinations(range(n), 2):
        if agree(records.codes, a, b, (3,)):
            assert (a, b) in found
        elif agree(records.codes, a, b, (1, 2)):
            together = sum(agree(records.codes, a, r, (1, 2)) for r in range(n))
            assert together > 10 or (a, b) in found
        elif not agree(records.codes, a, b, (1,)) and not agree(records.codes, a, b, (2,)):
            assert (a, b) not in found


def test_only_what_an_earlier_key_compared_in_full_is_passed_over(rng, monkeypatch):
    records = make_records(rng, 70, "random")
    columns, scorer = columns_of(records), Scoring(records).scorer
    told = []

    def spy(*args):
        told.append((args[6].copy(), args[7].copy()))
        return join_kernel(*args)

    join_kernel = kernels.join_kernel
    monkeypatch.setattr(kernels, "join_kernel", spy)
    monkeypatch.setattr(module, "_CAP", 10)
    join(columns, plan_of((0,), (1, 2), (3,)), scorer, -1e9, 1)
    codes = records.codes
    size = {key: [sum(agree(codes, a, b, key) for b in range(70)) for a in range(70)] for key in ((0,), (1, 2))}
    assert max(size[0,]) > 10 >= min(size[0,])
    assert [earlier.tolist() for earlier, _ in told] == [[], [[0]], [[0, -1], [1, 2]]]
    for bit, key in enumerate(size):
        in_full = told[2][1] >> bit & 1 == 1
        np.testing.assert_array_equal(in_full, [1 < n <= 10 for n in size[key]])
    assert not told[0][1].any()


def test_records_alike_in_every_field_stay_connected(rng, monkeypatch):
    monkeypatch.setattr(module, "_CAP", 4)
    records = make_records(rng, 40, "constant")
    scoring = Scoring(records, {})
    pairs = found_by(join(records.codes, plan_of((0,)), scoring.scorer, -1e9, 1))
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
    one = found_by(join(columns_of(records), plan, Scoring(records, {}).scorer, 0.0, 1))
    two = found_by(join(columns_of(moved), plan, Scoring(moved, {}).scorer, 0.0, 1))
    assert sorted(tuple(sorted((int(new[a]), int(new[b])))) for a, b in one) == two
    assert one


def test_keys_tell_records_apart_exactly_by_their_fields(rng):
    records = make_records(rng, 300, "missing")
    columns = columns_of(records)
    for fields in KEYS:
        key, complete = kernels.key_kernel(columns, np.array(fields, dtype=np.int64))
        rows = columns[:, list(fields)]
        np.testing.assert_array_equal(complete, (rows >= 0).all(axis=1))
        rows = list(map(tuple, rows[complete].tolist()))
        assert (
            len(set(zip(key[complete].tolist(), rows, strict=True)))
            == len(set(rows))
            == len(set(key[complete].tolist()))
        )


def test_a_near_pair_is_worth_less_the_more_often_strangers_are_near(rng):
    records = make_records(rng, 60, "random")
    made = Scoring(records)
    rare = made.similar.chance_levels(made.prior)
    often = rare.copy()
    often[:, 1] *= 3.0
    evidence = [make_scorer(records, made.prior, made.similar, made.noise, one).level_evidence for one in (rare, often)]
    has = rare[:, 1] > 0
    assert has.any()
    assert np.all(evidence[1][has, 1] < evidence[0][has, 1] - 0.5)
    np.testing.assert_array_equal(evidence[0][:, 2:], evidence[1][:, 2:])


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_a_group_that_other_fields_hardly_split_is_compared_in_full(rng, monkeypatch):
    """Split field by field every pair would be compared several times over."""
    monkeypatch.setattr(module, "_CAP", 10)
    n = 80
    codes = np.stack([np.zeros(n), rng.permutation(n) % 2, rng.permutation(n) % 2, rng.permutation(n) % 8], axis=1)
    records = Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), np.array([1, 2, 2, 8]))
    pairs = join(records.codes, plan_of((0,)), Scoring(records, {}).scorer, -1e9, 1)
    assert found_by(pairs) == list(itertools.combinations(range(n), 2))
    assert pairs.compared == n * (n - 1) // 2


def test_only_wanted_pairs_are_kept(rng):
    records = make_records(rng, 60, "random")
    scorer = Scoring(records, {}).scorer
    for plan in (EXHAUSTIVE, plan_of(*KEYS)):
        everything = join(records.codes, plan, scorer, -1e9, 1)
        some = join(records.codes, plan, scorer, -1e9, 2, lambda a, b: (a + b) % 3 == 0)
        assert found_by(some) == [pair for pair in found_by(everything) if sum(pair) % 3 == 0]
        assert some.compared == everything.compared
