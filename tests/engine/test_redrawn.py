"""Twins, who share all but the given name and what goes with it, are told from people with a wrong given name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine import built
from vber_cli.engine import hyper
from vber_cli.engine.block_model import Evidence, block_model
from vber_cli.engine.candidate_pairs import CandidatePairs
from vber_cli.engine.evidence_kernels import pair_levels
from vber_cli.engine.learn import Hyperparameters, Settings, choose_relations
from vber_cli.engine.redrawn import with_dependents
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

GIVEN, SEX, SURNAME, STREET, TOWN, BIRTHDAY = range(6)
SIZES = np.array([80, 2, 150, 300, 25, 2000], np.int64)
N_FAMILIES, MEMBERS = 350, 4
WRONG = (0.1, 0.01, 0.04, 0.02, 0.02, 0.04)


def drawn(rng, n):
    out = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    out[:, SEX] = out[:, GIVEN] % 2
    out[:, TOWN] = out[:, STREET] % SIZES[TOWN]
    return out


def make_families(rng, *, n_twins=0, n_juniors=0, moving=0.0, again=3, wrong=WRONG):
    """Families, in some of which two were born on one day, or a son has his father's name.

    One of `again` people has a second record. It is wrong in a field as often as `wrong` says, and of who has moved.
    """
    family = np.repeat(np.arange(N_FAMILIES), MEMBERS)
    people, common = drawn(rng, len(family)), drawn(rng, N_FAMILIES)
    people[:, [SURNAME, STREET, TOWN]] = common[family][:, [SURNAME, STREET, TOWN]]
    first = np.arange(max(n_twins, n_juniors)) * MEMBERS
    people[first[:n_twins] + 1, BIRTHDAY] = people[first[:n_twins], BIRTHDAY]
    people[np.ix_(first[:n_juniors] + 1, [GIVEN, SEX])] = people[np.ix_(first[:n_juniors], [GIVEN, SEX])]
    twice = rng.choice(len(people), len(people) // again, replace=False)
    person = np.concatenate([np.arange(len(people)), twice])
    codes, second = people[person], np.arange(len(people) + len(twice)) >= len(people)
    anew = drawn(rng, len(codes))
    codes = np.where((rng.random(codes.shape) < np.array(wrong)) & second[:, None], anew, codes)
    moved = second & (rng.random(len(codes)) < moving)
    codes[np.ix_(moved, [STREET, TOWN])] = anew[np.ix_(moved, [STREET, TOWN])]
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(codes), np.int32), SIZES)
    return records, person


def with_juniors(rng, n_juniors, *, moving, wrong_birthday):
    """Such families, half of the people twice, and birthdays wrong as often whoever moves."""
    wrong = (0.04, 0.01, 0.04, 0.02, 0.02, wrong_birthday)
    return make_families(rng, n_juniors=n_juniors, moving=moving, again=2, wrong=wrong)


def n_pairs_of(person, n_families):
    """Pairs of records of the first two of each of so many families."""
    a, b = built.all_pairs(len(person))
    first, second = np.minimum(person[a], person[b]), np.maximum(person[a], person[b])
    return int(((first % MEMBERS == 0) & (second == first + 1) & (first // MEMBERS < n_families)).sum())


def relations_of(records):
    n_fields = records.n_fields
    prior = make_prior(records, "empirical", 0.1)
    prior = hyper.learn_base(records, prior, np.zeros(records.codes.shape), others_only=False)
    nothing = SimilarValues.none(prior.value_ptr), Relations.none(n_fields), Dependence.none(n_fields)
    evidence = Evidence(prior, Noise.single(prior.concentration), *nothing)
    occupancy = Occupancy(records.n_records)
    n = 0.9 * records.n_records
    a, b = built.all_pairs(records.n_records)
    levels = pair_levels(block_model(records, evidence), a, b)
    worth = (levels[:, [GIVEN, SURNAME, STREET, BIRTHDAY]] == 0).sum(axis=1) >= 2
    pairs = CandidatePairs(a[worth], b[worth], levels[worth])
    settings = Settings(occupancy, True, True, True, 1, 1)
    now, _ = choose_relations(records, pairs, Hyperparameters(evidence, n, occupancy.log_new(n)), settings)
    return now.evidence


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_twins_are_found_by_their_sex(rng):
    n_twins = 150
    records, person = make_families(rng, n_twins=n_twins)
    found = relations_of(records)
    relations, noise = found.relations, found.noise
    assert set(relations.redrawn[relations.redrawn >= 0]) == {GIVEN}
    twins = relations.redrawn == GIVEN
    assert twins.sum() == noise.n_classes
    # pairs of records of twins who were given different names
    number = float(relations.odds[twins].sum()) * records.n_records * (records.n_records - 1) / 2
    assert number == pytest.approx(n_pairs_of(person, n_twins), rel=0.4)
    # a wrong given name stays what one record in ten of the second ones has, with the right sex
    mismatch = noise.share @ (noise.concentration / (1.0 + noise.concentration))
    assert mismatch[GIVEN] == pytest.approx(0.1, abs=0.06)
    assert mismatch[SEX] < 0.05
    # whoever is the twin of somebody has a name and a sex of their own, and the rest as a link has
    level = relations.levels[twins]
    np.testing.assert_allclose(level.sum(axis=2), 1.0)
    assert (level[:, SEX, 0] < 0.6).all()
    assert np.average(level[:, STREET, 0], weights=relations.odds[twins]) > 0.8


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_who_moves_is_not_a_namesake_of_oneself(rng):
    """Street and town change together in a quarter of the second records, as if drawn anew."""
    records, _ = make_families(rng, moving=0.25)
    redrawn = relations_of(records).relations.redrawn
    assert STREET not in redrawn
    assert TOWN not in redrawn


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_where_no_twins_are_there_are_hardly_any(rng):
    records, _ = make_families(rng)
    relations = relations_of(records).relations
    n_pairs = records.n_records * (records.n_records - 1) / 2
    assert float(relations.odds[~relations.own].sum()) * n_pairs < 10


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_a_son_of_his_fathers_name_is_told_by_those_who_moved(rng):
    """No field goes with the birthday; but of those who moved hardly any has another one."""
    n_juniors = 150
    records, person = with_juniors(rng, n_juniors, moving=0.4, wrong_birthday=0.01)
    found = relations_of(records)
    relations, noise = found.relations, found.noise
    assert BIRTHDAY in relations.redrawn
    juniors = relations.redrawn == BIRTHDAY
    number = float(relations.odds[juniors].sum()) * records.n_records * (records.n_records - 1) / 2
    assert number == pytest.approx(n_pairs_of(person, n_juniors), rel=0.5)
    # they live at one address, and differ in the birthday as strangers do
    assert np.average(relations.levels[juniors][:, STREET, 0], weights=relations.odds[juniors]) > 0.8
    assert (relations.levels[juniors][:, BIRTHDAY, 0] < 0.01).all()
    mismatch = noise.share @ (noise.concentration / (1.0 + noise.concentration))
    assert mismatch[BIRTHDAY] < 0.05


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize(("moving", "wrong_birthday"), [(0.4, 0.01), (0.4, 0.1), (0.0, 0.1)])
def test_a_wrong_birthday_makes_no_son(rng, moving, wrong_birthday):
    records, _ = with_juniors(rng, 0, moving=moving, wrong_birthday=wrong_birthday)
    assert BIRTHDAY not in relations_of(records).relations.redrawn


def test_what_depends_on_a_field():
    edges = np.array([[1, 0], [2, 0], [4, 2], [5, 3]])
    assert sorted(with_dependents(edges, 0)) == [0, 1, 2, 4]
    assert with_dependents(edges, 4) == [4]
    assert sorted(with_dependents(edges, 3)) == [3, 5]
