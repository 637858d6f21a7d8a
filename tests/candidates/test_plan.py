"""Which keys are chosen, what they are said to cost, and what they are said to cover."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from vber_cli.candidates import plan as module
from vber_cli.candidates.plan import Key, KeyColumns, Plan, budget_of, key_columns, make_plan
from vber_cli.model.evidence import agreement_rate, collision_entropy, match_evidence, mismatch_evidence
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records


def population(rng, n, missing=0.0):
    """A postcode that decides the town, a skewed name, a sex, a birthday; nobody twice."""
    postcode = rng.integers(0, 120, n)
    name = np.minimum(rng.geometric(0.02, n) - 1, 299)
    codes = np.stack([postcode, postcode // 10, name, rng.integers(0, 2, n), rng.integers(0, 365, n)], axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    n_values = np.array([120, 12, 300, 2, 365])
    return Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(n, np.int32), n_values)


INITIAL, DECADE = 5, 6  # columns derived from the name and the birthday


def columns_of(records, prior):
    name, birthday = records.codes[:, 2], records.codes[:, 4]
    more = [np.where(name < 0, -1, name // 12), np.where(birthday < 0, -1, birthday // 7)]
    codes = np.ascontiguousarray(np.column_stack([records.codes, *more]), dtype=np.int32)
    field = np.array([*range(records.n_fields), 2, 4])
    return key_columns(codes, field, collision_entropy(prior), agreement_rate(prior))


def plan_of(records, threshold=2.0, seed=0, concentration=0.1):
    prior = make_prior(records, "empirical", concentration)
    field = np.repeat(np.arange(records.n_fields), records.n_values)
    match = np.bincount(field, weights=prior.base * match_evidence(prior))
    columns = columns_of(records, prior) if records.n_fields == 5 else plain(records, prior)
    return (
        make_plan(columns, match, mismatch_evidence(prior), threshold, seed),
        columns,
        match,
        mismatch_evidence(prior),
    )


def plain(records, prior):
    return key_columns(records.codes, np.arange(records.n_fields), collision_entropy(prior), agreement_rate(prior))


def pairs_of(codes, fields):
    """Pairs of records that show the same values in all the fields."""
    rows = codes[:, list(fields)]
    counts = Counter(map(tuple, rows[(rows >= 0).all(axis=1)].tolist()))
    return sum(n * (n - 1) // 2 for n in counts.values())


def simulated_coverage(rng, keys, columns, match, mismatch, threshold, n=4000):
    """Share of linkable pairs of one individual's records that agree on a key; pairs differ in quality.

    A pair's fields differ by one uniform draw each, and a column derived from a field differs less often than it.
    """
    shown = (columns.codes >= 0).mean(axis=0)
    covered = linkable = 0
    for _ in range(n):
        quality = np.exp(rng.normal())
        evidence, agreed = 0.0, set()
        both, luck = rng.random(len(match)), rng.random(len(match))
        for c, f in enumerate(columns.field):
            if both[f] >= shown[c] ** 2:
                continue
            odds = (1 - columns.agreement[c]) / columns.agreement[c] * quality
            same = luck[f] > odds / (1 + odds)
            if same:
                agreed.add(c)
            if c < len(match):
                evidence += match[f] if same else mismatch[f]
        if evidence > threshold:
            linkable += 1
            covered += any(set(key.fields) <= agreed for key in keys)
    return covered / linkable, linkable


@pytest.fixture
def tight(monkeypatch):
    """So few comparisons that two thousand records need keys."""
    monkeypatch.setattr(module, "budget_of", lambda n: 15.0 * n)


def test_the_budget_is_all_pairs_of_ten_thousand_records():
    assert budget_of(2) == budget_of(10_000) == 5e7
    assert budget_of(10_000_000) == 6e8


def test_few_records_are_compared_with_all_others(rng):
    for n in (1, 2, 50):
        assert plan_of(population(rng, n))[0] == Plan((), 1.0, True)
    limit = Records(np.zeros((10_000, 1), np.int32), np.zeros(10_000, np.int32), np.array([1]))
    assert plan_of(limit)[0].exhaustive
    over = Records(np.zeros((10_001, 1), np.int32), np.zeros(10_001, np.int32), np.array([1]))
    assert plan_of(over)[0] == Plan((), 0.0, False)  # the only key brings all pairs together, which is too many


def test_columns_are_measured(rng):
    records = population(rng, 500, 0.1)
    prior = make_prior(records, "empirical", 0.1)
    columns = columns_of(records, prior)
    assert columns.field.tolist() == [0, 1, 2, 3, 4, 2, 4]
    np.testing.assert_array_equal(columns.entropy[:5], collision_entropy(prior))
    np.testing.assert_array_equal(columns.agreement[:5], agreement_rate(prior))
    for c, f in ((INITIAL, 2), (DECADE, 4)):
        seen = columns.codes[columns.codes[:, c] >= 0, c].tolist()
        chance = sum((n / len(seen)) ** 2 for n in Counter(seen).values())
        assert columns.entropy[c] == pytest.approx(-np.log(chance))
        # it agrees wherever its field does, and in half of the other cases
        assert columns.agreement[c] == pytest.approx(1 - (1 - columns.agreement[f]) / 2)
    empty = key_columns(np.full((5, 2), -1, np.int32), np.zeros(2, np.int64), np.zeros(1), np.ones(1))
    assert empty.entropy.tolist() == [0.0, 0.0]


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("sample", [20_000, 1_000])
def test_costs_are_close_to_the_pairs_the_keys_bring_together(rng, missing, sample, monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", sample)
    records = population(rng, 2000, missing)
    found, columns, *_ = plan_of(records)
    assert not found.exhaustive
    assert len(found.keys) >= 2
    possible = module._possible_keys(columns, np.arange(7), 1e4, np.random.default_rng(1))
    assert {(0, 2), (0, 4), (2, 4), (0, DECADE), (4, INITIAL)} <= {key.fields for key in possible}
    for key in [*found.keys, *possible]:
        actual = pairs_of(columns.codes, key.fields)
        independent = 2000**2 / 2 * np.exp(-columns.entropy[list(key.fields)].sum())
        slack = 4 * np.sqrt(actual) * (2000 / min(sample, 2000))  # of the count in the sample
        assert actual - slack <= key.cost * 1.2
        assert key.cost <= max(1.2 * actual + slack, 1.2 * independent)
        assert key.cost >= independent * 0.999


@pytest.mark.usefixtures("tight")
def test_dependent_fields_cost_what_they_cost(rng):
    """Postcode and town: by independence a twelfth of the pairs that the postcode alone brings."""
    records = population(rng, 2000)
    columns = columns_of(records, make_prior(records, "empirical"))
    possible = module._possible_keys(columns, np.arange(7), 1e5, np.random.default_rng(1))
    cost = {key.fields: key.cost for key in possible}
    assert cost[0, 1] == pairs_of(records.codes, (0,)) == pairs_of(records.codes, (0, 1))
    assert cost[0, 1] > 8 * 2000**2 / 2 * np.exp(-columns.entropy[[0, 1]].sum())


@pytest.mark.usefixtures("tight")
def test_a_key_uses_a_field_once(rng):
    records = population(rng, 2000)
    columns = columns_of(records, make_prior(records, "empirical"))
    possible = module._possible_keys(columns, np.arange(7), 1e6, np.random.default_rng(1))
    assert any(INITIAL in key.fields for key in possible)
    for key in possible:
        fields = columns.field[list(key.fields)].tolist()
        assert len(set(fields)) == len(fields)
    few = module._possible_keys(columns, np.array([1, INITIAL]), 1e6, np.random.default_rng(1))
    assert {column for key in few for column in key.fields} <= {1, INITIAL}


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_no_key_is_dearer_than_allowed_and_all_together_stay_in_the_budget(rng):
    records = population(rng, 2000, 0.05)
    found, columns, *_ = plan_of(records)
    assert sum(key.cost + 2000 for key in found.keys) <= 15 * 2000
    assert sum(pairs_of(columns.codes, key.fields) for key in found.keys) <= 1.2 * 15 * 2000
    possible = module._possible_keys(columns, np.arange(7), 5e3, np.random.default_rng(1))
    assert all(key.cost <= 5e3 for key in possible)
    fields = [key.fields for key in possible]
    assert len(set(fields)) == len(fields)
    # a superset of a key that costs less than a pair a record is not looked at
    for cheap, other in itertools.product(possible, possible):
        assert not (cheap.cost < 2000 and set(cheap.fields) < set(other.fields))


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize(
    ("missing", "concentration", "threshold"), [(0.0, 0.8, 2.0), (0.15, 0.1, 2.0), (0.1, 0.5, 4.0)]
)
def test_coverage_is_what_a_simulation_finds(rng, missing, concentration, threshold):
    records = population(rng, 2000, missing)
    found, columns, match, mismatch = plan_of(records, threshold, 1, concentration)
    assert found.keys
    share, n = simulated_coverage(rng, found.keys, columns, match, mismatch, threshold)
    assert 0.3 < found.covered < 0.999
    assert abs(found.covered - share) < 4 * np.sqrt(share * (1 - share) * (1 / n + 1 / (20_000 * n / 4000)))


@pytest.mark.usefixtures("tight")
def test_renumbering_records_and_the_seed_of_the_sample_change_nothing_that_matters(rng):
    records = population(rng, 2000, 0.1)
    order = rng.permutation(2000)
    other = Records(np.ascontiguousarray(records.codes[order]), records.db_of_record, records.n_values)
    assert plan_of(records)[0] == plan_of(other)[0] == plan_of(records)[0]
    seeds = [plan_of(records, seed=s)[0].covered for s in range(4)]
    assert len(set(seeds)) > 1
    assert np.ptp(seeds) < 0.02


@pytest.mark.usefixtures("tight")
def test_a_threshold_that_nothing_reaches_asks_for_agreement_in_everything(rng):
    found, *_ = plan_of(population(rng, 2000), threshold=1e9)
    assert found.covered == 1.0
    assert len(found.keys) == 1
    assert isinstance(found.keys[0], Key)


def test_pairs_in_a_sample_are_counted(rng):
    for n in (1, 2, 300):
        codes = rng.integers(-1, 3, (n, 4)).astype(np.int32)
        for subset in ((0,), (1, 3), (0, 1, 2, 3)):
            assert module._pairs_in_sample(codes, subset) == pairs_of(codes, subset)
    assert module._pairs_in_sample(np.full((5, 2), -1, np.int32), (0, 1)) == 0


def test_patterns_are_bad_together(rng):
    """Two fields agree as often as the mixture over a pair's quality says, which is more often than by chance."""
    agreement, observed = np.array([0.9, 0.7, 0.99, 0.85]), np.array([1.0, 0.8, 0.5, 0.8])
    columns = KeyColumns(np.zeros((1, 4), np.int32), np.array([0, 1, 2, 1]), np.ones(4), agreement)
    agree, seen = module.agreement_patterns(rng, columns, observed)
    n = len(agree)
    assert np.all(np.abs(seen.mean(axis=0) - observed**2) < 4 / (2 * np.sqrt(n)))
    assert not np.any(agree & ~seen)
    # the column derived from field 1 is there when that is, and agrees wherever that does
    np.testing.assert_array_equal(seen[:, 1], seen[:, 3])
    assert not np.any(agree[:, 1] & ~agree[:, 3])
    assert np.any(agree[:, 3] & ~agree[:, 1])
    node, weight = np.polynomial.hermite_e.hermegauss(60)  # quality is standard normal
    weight = weight / weight.sum()
    differ = 1 / (1 + np.outer(np.exp(-node), agreement / (1 - agreement)))
    for c in range(4):
        expected = weight @ differ[:, c]
        assert abs(np.mean(~agree[seen[:, c], c]) - expected) < 4 * np.sqrt(expected / seen[:, c].sum())
    for f, g in itertools.combinations(range(3), 2):
        both = seen[:, f] & seen[:, g]
        expected = weight @ (differ[:, f] * differ[:, g])
        found = np.mean(~agree[both, f] & ~agree[both, g])
        assert abs(found - expected) < 4 * np.sqrt(expected / both.sum())
        assert expected > 1.3 * (weight @ differ[:, f]) * (weight @ differ[:, g])
