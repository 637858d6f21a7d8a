"""Fields that depend on each other are found among people in places, and not where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine.block_model import Evidence, block_model
from vber_cli.engine.dependence_tree import learn_tree
from vber_cli.engine.evidence_kernels import pair_levels
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

GIVEN, SURNAME, DAY, POSTCODE, TOWN = range(5)
SIZES = np.array([60, 200, 365, 80, 20], np.int64)
N_PEOPLE, N_AGAIN = 1200, 300


def make_people(rng, in_places):
    """(N, 5) codes of people and of some of them again, with an error in twenty, and whose each record is."""
    people = np.stack([rng.integers(0, size, N_PEOPLE) for size in SIZES], axis=1)
    if in_places:
        people[:, TOWN] = rng.permutation(np.arange(SIZES[POSTCODE]) % SIZES[TOWN])[people[:, POSTCODE]]
    who = np.concatenate([np.arange(N_PEOPLE), rng.choice(N_PEOPLE, N_AGAIN, replace=False)])
    codes = people[who]
    wrong = rng.random(codes.shape) < 0.05
    wrong[:N_PEOPLE] = False
    codes = np.where(wrong, np.stack([rng.integers(0, size, len(codes)) for size in SIZES], axis=1), codes)
    codes[rng.random(codes.shape) < 0.03] = -1
    return Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(codes), np.int32), SIZES), who


def learned(records, seed=0, near=None):
    """The anchor, with candidates that share two fields or more; `near` has pairs of values, numbered through."""
    prior = make_prior(records, "empirical")
    n_fields = records.n_fields
    similar = SimilarValues.none(prior.value_ptr)
    if near is not None:
        similar = SimilarValues.of(prior.value_ptr, *near, np.ones(len(near[0]), np.int8))
    evidence = Evidence(
        prior,
        Noise.single(prior.concentration),
        similar,
        Relations.none(n_fields),
        Dependence.none(n_fields),
    )
    model = block_model(records, evidence)
    a, b = (side.astype(np.int32) for side in np.triu_indices(records.n_records, 1))
    same = sum((column[a] == column[b]) & (column[a] >= 0) for column in records.codes.T)
    a, b = a[same >= 2], b[same >= 2]
    possible = np.tile([True, False, False, True], (n_fields, 1))
    possible[:, 1] = model.unrelated[:, 1] > 0
    levels = pair_levels(model, a, b)
    found = learn_tree(records, evidence, b, a, levels, possible, Occupancy(records.n_records), seed)
    return found, a, b


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_a_postcode_lies_in_a_town(rng):
    records, who = make_people(rng, in_places=True)
    found, a, b = learned(records)
    tree = found.dependence
    assert tree.parent[TOWN] == POSTCODE or tree.parent[POSTCODE] == TOWN
    assert tree.n_edges == 1
    child = TOWN if tree.parent[TOWN] == POSTCODE else POSTCODE
    assert tree.gain[child] > 0
    assert tree.levels[child].sum() == pytest.approx(1)
    # neighbours, who share a place and no more, are not taken for one person
    link = found.probability > 0.5
    duplicate = who[a] == who[b]
    assert (link & duplicate).sum() >= 0.9 * duplicate.sum()
    neighbour = (records.codes[a, POSTCODE] == records.codes[b, POSTCODE]) & ~duplicate
    assert neighbour.sum() > 100
    assert found.probability[neighbour].mean() < 0.01


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_duplicates_alone_are_no_dependence(rng):
    records, who = make_people(rng, in_places=False)
    found, a, b = learned(records)
    assert found.dependence.n_edges == 0
    assert (found.dependence.parent == -1).all()
    duplicate = who[a] == who[b]
    assert (found.probability[duplicate] > 0.5).mean() >= 0.9


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_heavy_noise_in_duplicates_is_no_dependence(rng):
    """Six records a person, of each value four in ten wrong, and a day of birth that hardly two persons share."""
    sizes = np.array([300, 600, 70, 900, 800, 400, 600, 8, 30_000], np.int64)
    people = np.stack([rng.integers(0, size, 400) for size in sizes], axis=1)
    who = np.repeat(np.arange(400), 6)
    fresh = np.stack([rng.integers(0, size, len(who)) for size in sizes], axis=1)
    codes = np.where(rng.random(fresh.shape) < 0.4, fresh, people[who])
    for f in range(len(sizes)):
        codes[:, f] = np.unique(codes[:, f], return_inverse=True)[1].ravel()
    seen = codes.max(axis=0) + 1
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(who), np.int32), seen)
    assert learned(records)[0].dependence.n_edges == 0


@pytest.mark.parametrize("sizes", [[100, 14, 33, 10], [15, 14, 13, 10]])
def test_the_same_few_people_again_and_again_are_no_dependence(sizes):
    """Of a hundred people with three records each all pairs show how the same few draws came out."""
    n_edges = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        people = np.stack([rng.integers(0, size, 100) for size in sizes], axis=1)
        who = np.repeat(np.arange(100), 3)
        fresh = np.stack([rng.integers(0, size, len(who)) for size in sizes], axis=1)
        codes = np.where(rng.random(fresh.shape) < 0.1, fresh, people[who])
        records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(who), np.int32), np.array(sizes))
        n_edges += learned(records)[0].dependence.n_edges
    assert n_edges == 0


def test_the_tree_is_a_forest_and_the_seed_decides(rng):
    records, _ = make_people(rng, in_places=True)
    # the town once more, as a district
    codes = np.column_stack([records.codes, np.where(records.codes[:, TOWN] >= 0, records.codes[:, TOWN] // 2, -1)])
    sizes = np.append(SIZES, 10)
    records = Records(np.ascontiguousarray(codes, np.int32), records.db_of_record, sizes)
    first, again = learned(records, 5)[0], learned(records, 5)[0]
    np.testing.assert_array_equal(first.dependence.parent, again.dependence.parent)
    np.testing.assert_array_equal(first.probability, again.probability)
    parent = first.dependence.parent
    assert first.dependence.n_edges == 2
    above = np.arange(len(parent))
    for _ in parent:
        above = np.where(above >= 0, parent[above], -1)
    assert (above == -1).all()


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_who_moves_keeps_the_name(rng):
    """All who are there twice have moved, many without a birthday: strangers do not share names for all that."""
    records, who = make_people(rng, in_places=True)
    codes = records.codes.copy()
    moved = np.arange(N_PEOPLE, N_PEOPLE + N_AGAIN)
    codes[moved, POSTCODE] = rng.integers(0, SIZES[POSTCODE], len(moved))
    town_of = {p: t for p, t in codes[:N_PEOPLE, [POSTCODE, TOWN]].tolist() if p >= 0 and t >= 0}
    codes[moved, TOWN] = [town_of[p] for p in codes[moved, POSTCODE].tolist()]
    codes[moved, DAY] = np.where(rng.random(len(moved)) < 0.4, -1, codes[moved, DAY])
    found, a, b = learned(Records(codes, records.db_of_record, SIZES))
    tree = found.dependence
    assert sorted((int(f), int(g)) for f, g in tree.edges) in ([(TOWN, POSTCODE)], [(POSTCODE, TOWN)])
    # a duplicate who shows a birthday is one, moved or not
    shown = (who[a] == who[b]) & (codes[a, DAY] == codes[b, DAY]) & (codes[a, DAY] >= 0)
    shown &= (codes[a, GIVEN] == codes[b, GIVEN]) & (codes[a, SURNAME] == codes[b, SURNAME])
    assert (found.probability[shown] > 0.5).mean() > 0.95


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_movers_among_many_duplicates_teach_no_names(rng):
    """Five records a person, a third of them from another place, and of all other values three in ten wrong."""
    sizes = np.array([300, 600, 3000, 400, 100, 25], np.int64)  # given name, surname, birthday, postcode, town, state
    address = [3, 4, 5]
    places = np.stack([np.arange(400), rng.integers(0, 100, 400), np.zeros(400, np.int64)], axis=1)
    places[:, 2] = places[:, 1] % 25
    people = np.stack([rng.integers(0, size, 500) for size in sizes], axis=1)
    people[:, address] = places[people[:, 3]]
    who = np.repeat(np.arange(500), 5)
    fresh = np.stack([rng.integers(0, size, len(who)) for size in sizes], axis=1)
    codes = people[who]
    moved = rng.random(len(who)) < 0.35
    codes[np.ix_(moved, address)] = places[rng.integers(0, 400, int(moved.sum()))]
    wrong = rng.random(codes.shape) < np.array([0.3, 0.3, 0.3, 0.2, 0.2, 0.05])
    codes = np.where(wrong, fresh, codes)
    for f in range(len(sizes)):
        codes[:, f] = np.unique(codes[:, f], return_inverse=True)[1].ravel()
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(who), np.int32), codes.max(axis=0) + 1)
    found, a, b = learned(records)
    edges = {(int(g), int(f)) for f, g in found.dependence.edges}
    assert len(edges) == 2
    assert set().union(*edges) == set(address)
    assert (who[a] == who[b])[found.probability > 0.5].mean() > 0.95


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_places_are_found_where_nothing_else_tells_much(rng):
    """Street, district and town go together, and besides them there are only fields of a few values."""
    sizes = np.array([140, 140, 60, 4, 2, 8, 6], np.int64)
    people = np.stack([rng.integers(0, size, 700) for size in sizes], axis=1)
    moved_on = rng.random((700, 2)) < [0.1, 0.5]
    people[:, 1] = np.where(moved_on[:, 0], people[:, 1], rng.permutation(140)[people[:, 0]])
    people[:, 2] = np.where(moved_on[:, 1], people[:, 2], rng.integers(0, 60, 140)[people[:, 1]])
    codes = people[np.concatenate([np.arange(700), rng.choice(700, 120, replace=False)])]
    wrong = rng.random(codes.shape) < 0.05
    codes = np.where(wrong, np.stack([rng.integers(0, size, len(codes)) for size in sizes], axis=1), codes)
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(len(codes), np.int32), sizes)
    tree = learned(records)[0].dependence
    ends = {frozenset((int(f), int(g))) for f, g in tree.edges}
    assert frozenset((0, 1)) in ends
    assert len(ends) == 2
    assert all(max(edge) <= 2 for edge in ends)


def misspelt_places(rng, misspelt, neighbours):
    """People of postcodes, each of one town and one state, and near pairs of postcodes, numbered through.

    So many postcodes are misspelt, each in a way of its own. Next postcodes of one state are near each other too, if
    there are `neighbours`.
    """
    given, surname, day, n_codes = 60, 200, 365, 80
    people = np.stack([rng.integers(0, size, N_PEOPLE) for size in (given, surname, day, n_codes)], axis=1)
    town, state = rng.permutation(n_codes) % 40, np.arange(n_codes) // 10
    codes = np.column_stack([people, town[people[:, 3]], state[people[:, 3]]])
    codes[:, 3] += n_codes * (rng.random(N_PEOPLE) < misspelt)
    sizes = np.array([given, surname, day, 2 * n_codes, 40, 8], np.int64)
    first = given + surname + day
    one, other = np.arange(n_codes), n_codes + np.arange(n_codes)
    if neighbours:
        inside = one[one % 10 < 9]
        one, other = np.append(one, inside), np.append(other, inside + 1)
    records = Records(np.ascontiguousarray(codes, np.int32), np.zeros(N_PEOPLE, np.int32), sizes)
    return records, (first + one, first + other)


def learned_places(rng, **options):
    records, near = misspelt_places(rng, **options)
    return learned(records, near=near)[0].dependence


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_near_values_of_strangers_hide_the_same_as_their_children_say(rng):
    tree = learned_places(rng, misspelt=0.1, neighbours=False)
    assert tree.hidden[3, 0] > 0.7
    # nine in ten near postcodes are next ones, of the same state and another town
    tree = learned_places(rng, misspelt=0.01, neighbours=True)
    assert tree.hidden[3, 0] < 0.2
    state = 5
    assert tree.parent[state] == 3
    assert tree.apart[state, 0] > 4.0  # of eight states
