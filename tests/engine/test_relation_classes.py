"""Relations between different individuals: planted ones are found, and none where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.engine import built
from vber_cli.engine import hyper, learn, relation_classes
from vber_cli.engine.block_model import Evidence, block_model, exact_evidence
from vber_cli.engine.candidate_pairs import CandidatePairs
from vber_cli.engine.dependence_tree import learn_tree
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.learn import Hyperparameters, Settings, choose_noise, choose_relations, possible_levels
from vber_cli.engine.relation_classes import (
    _alike_in,
    anchored_noise,
    choose_structure,
    parts_that_change,
    parts_that_links_change,
    refit_relations,
    without_relations,
    without_strangers,
)
from vber_cli.model.dependence import Dependence, connected_parts
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

N_VALUES = np.array([40, 120, 300, 150, 350])  # first name, surname, street, birthday, phone
SHARED = np.array([False, True, True, False, False])


def population(rng, n_families, members, noise=0.06):
    """People of families that share surname and street, some with a second record: (records, person, family)."""
    family = np.repeat(np.arange(n_families), members)
    n_people = len(family)
    people = np.stack([rng.integers(0, v, n_people) for v in N_VALUES], axis=1)
    common = np.stack([rng.integers(0, v, n_families) for v in N_VALUES], axis=1)
    people = np.where(SHARED, common[family], people)
    person = np.concatenate([np.arange(n_people), rng.choice(n_people, n_people // 4, replace=False)])
    person = rng.permutation(person)
    codes = people[person]
    wrong = rng.random(codes.shape) < noise
    codes = np.where(wrong, np.stack([rng.integers(0, v, len(codes)) for v in N_VALUES], axis=1), codes)
    records = Records(np.ascontiguousarray(codes, dtype=np.int32), np.zeros(len(codes), np.int32), N_VALUES)
    return records, person, family[person]


def begin(records):
    """Where learning starts: nine records in ten an individual of its own."""
    prior = make_prior(records, "empirical", 0.1)
    prior = hyper.learn_base(records, prior, np.zeros(records.codes.shape), others_only=False)
    nothing = SimilarValues.none(prior.value_ptr), Relations.none(5), Dependence.none(5)
    evidence = Evidence(prior, Noise.single(prior.concentration), *nothing)
    occupancy = Occupancy(records.n_records)
    n = 0.9 * records.n_records
    a, b = built.all_pairs(records.n_records)
    model = block_model(records, evidence)
    levels = pair_levels(model, a, b)
    worth = (levels == 0).sum(axis=1) >= 1  # candidates share something
    pairs = CandidatePairs(a[worth], b[worth], levels[worth])
    settings = Settings(
        occupancy=occupancy, learn_concentration=True, learn_base=True, learn_relations=True, seed=1, threads=1
    )
    return model, pairs, Hyperparameters(evidence, n, occupancy.log_new(n)), settings


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_planted_relatives_are_found(rng):
    """With nothing else to explain them: surname and street follow from each other, which a tree would say too."""
    records, person, family = population(rng, 150, 3)
    model, pairs, now, settings = begin(records)
    n_pairs = records.n_records * (records.n_records - 1) / 2
    possible = possible_levels(model)
    anchor = learn_tree(records, now.evidence, pairs.b, pairs.a, pairs.levels, possible, settings.occupancy, 1)
    nothing = np.zeros(len(pairs))
    found = choose_structure(
        model,
        pairs.b,
        pairs.levels,
        nothing,
        anchor.probability,
        possible,
        n_pairs,
        parts_that_links_change(model, records.n_records),
        1,
    )
    relations, bic = found.relations, found.bic
    assert relations.n_classes >= 1
    assert bic[relations.n_classes] == max(bic.values()) > bic[0]
    related = (family[pairs.a] == family[pairs.b]) & (person[pairs.a] != person[pairs.b])
    # a class that shares surname and street, and nothing else
    alike = relations.levels[:, SHARED, 0].min(axis=1)
    c = int(np.argmax(alike))
    assert alike[c] > 0.8
    assert np.all(relations.levels[c, ~SHARED, 0] < 0.1)
    assert relations.odds[alike > 0.5].sum() * n_pairs == pytest.approx(related.sum(), rel=0.3)
    np.testing.assert_allclose(relations.levels.sum(axis=2), 1.0)
    assert np.all(relations.levels[:, :, 3].max(axis=1) >= 0.9 - 1e-9)  # each differs almost for certain somewhere


@pytest.mark.parametrize(
    ("bic", "best"),
    [
        ({0: 9.0, 1: 8.0, 2: 7.0, 4: 20.0, 8: 3.0, 12: 2.0}, 4),  # one and two are no better, and are not the end
        ({0: 9.0, 1: 8.0, 2: 7.0, 4: 6.0}, 0),
        ({0: 1.0, 1: 9.0, 2: 8.0, 4: 7.0}, 1),
        ({0: 1.0, 1: 2.0, 2: 3.0, 4: 4.0, 8: 3.0, 12: 9.0}, 12),
    ],
)
def test_the_search_ends_after_two_that_are_no_better_and_four_classes(rng, monkeypatch, bic, best):
    """What is tried, and what is kept, by the BIC of each number of classes."""

    def fit(_, level, possible, *__):
        noise = anchored_noise(possible)
        return relation_classes._Fit(Relations(np.full(len(level), 1e-6), level), noise, bic[len(level)], 0.0, False)

    monkeypatch.setattr(relation_classes, "_fit", fit)
    records, *_ = population(rng, 150, 3)
    model, pairs, _, _ = begin(records)
    nothing = np.zeros(len(pairs))
    n_pairs = records.n_records * (records.n_records - 1) / 2
    found = choose_structure(model, pairs.b, pairs.levels, nothing, nothing, possible_levels(model), n_pairs, [], 1)
    assert found.bic == bic
    assert found.relations.n_classes == best


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_relatives_are_no_links(rng):
    """Whether the tree or relations explain them; duplicates are no less likely links than they were."""
    records, person, family = population(rng, 150, 3)
    _, pairs, now, settings = begin(records)
    found, _ = choose_relations(records, pairs, now, settings)
    assert found.evidence.dependence.n_edges > 0
    model = block_model(records, found.evidence)
    related = (family[pairs.a] == family[pairs.b]) & (person[pairs.a] != person[pairs.b])
    link, doubt = pair_evidence(model, pairs.b, pairs.levels)
    same = person[pairs.a] == person[pairs.b]
    assert np.mean(link[same] - doubt[same] > found.log_new) > 0.9
    assert np.mean(link[related] - doubt[related] > found.log_new) < 0.02


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_no_relations_among_the_unrelated(rng):
    records, person, _ = population(rng, 400, 1)
    model, pairs, now, settings = begin(records)
    found, _ = choose_relations(records, pairs, now, settings)
    assert found.evidence.relations.n_classes == 0
    # nor when they are looked for where fields do not even depend on each other
    link, _ = pair_evidence(model, pairs.b, pairs.levels)
    anchor = 1 / (1 + np.exp(np.clip(now.log_new - link, -500, 500)))
    n_pairs = records.n_records * (records.n_records - 1) / 2
    structure = choose_structure(
        model, pairs.b, pairs.levels, np.zeros(len(pairs)), anchor, possible_levels(model), n_pairs, [], 1
    )
    assert structure.relations.n_classes == 0
    assert len(structure.bic) > 2
    assert structure.bic[0] == max(structure.bic.values())
    assert (person[pairs.a] == person[pairs.b]).sum() > 50  # though there are links


def test_the_same_seed_gives_the_same_relations(rng):
    records, *_ = population(rng, 80, 3)
    _, pairs, now, settings = begin(records)
    one, two = (choose_relations(records, pairs, now, settings)[0].evidence.relations for _ in range(2))
    np.testing.assert_array_equal(one.odds, two.odds)
    np.testing.assert_array_equal(one.levels, two.levels)


def test_relations_are_refitted_to_those_who_are_clearly_different(rng):
    records, person, family = population(rng, 150, 3)
    model, pairs, *_ = begin(records)
    same = person[pairs.a] == person[pairs.b]
    n_pairs = records.n_records * (records.n_records - 1) / 2
    identical = np.where(SHARED, 0.7, 0.1)
    level = np.stack([identical, *[(1 - identical) / 3] * 3], axis=1)
    start = Relations(np.array([1e-4]), level[None])
    found = refit_relations(model, pairs.b, pairs.levels, same.astype(np.float64), start, n_pairs)
    related = (family[pairs.a] == family[pairs.b]) & ~same
    assert found.odds[0] * n_pairs == pytest.approx(related.sum(), rel=0.3)
    assert np.all(found.levels[0, SHARED, 0] > 0.85)
    assert np.all(found.levels[0, ~SHARED, 0] < 0.1)
    # those which agree like links stay, with others beside them or without
    twins = Relations(np.array([1e-4, 2e-5]), np.stack([level, level[::-1]]), np.array([-1, 0]))
    both = refit_relations(model, pairs.b, pairs.levels, same.astype(np.float64), twins, n_pairs)
    assert both.odds[0] != twins.odds[0]
    assert both.odds[1] == twins.odds[1]
    np.testing.assert_array_equal(both.levels[1], twins.levels[1])
    alone = Relations(twins.odds[1:], twins.levels[1:], twins.redrawn[1:])
    assert refit_relations(model, pairs.b, pairs.levels, same.astype(np.float64), alone, n_pairs) is alone


def test_the_anchored_noise_is_of_three_qualities(rng):
    possible = np.array([[True, True, True, True], [True, True, False, True], [True, False, False, True]])
    noise = anchored_noise(possible)
    other = noise.concentration / (1 + noise.concentration)
    np.testing.assert_allclose(noise.levels.sum(axis=2), 1.0)
    assert noise.share.sum() == pytest.approx(1.0)
    assert np.all(np.diff(other, axis=0) > 0)
    np.testing.assert_array_equal(noise.levels[:, 1, 2], 0.0)
    np.testing.assert_array_equal(noise.levels[:, 2, 1:], 0.0)
    # with other noise and no relations a model is that of these parts
    records, *_ = population(rng, 5, 2)
    prior = make_prior(records, "empirical", 0.1)
    exactly = Noise(np.full((2, 5), 0.3), np.tile([1.0, 0.0, 0.0], (2, 5, 1)), np.array([0.4, 0.6]))
    rest = SimilarValues.none(prior.value_ptr), Dependence.none(5)
    related = Relations(np.array([0.1]), np.full((1, 5, 4), 0.25))
    before = block_model(records, Evidence(prior, Noise.single(prior.concentration), rest[0], related, rest[1]))
    after = block_model(records, Evidence(prior, exactly, rest[0], Relations.none(5), rest[1]))
    made = without_relations(before, exactly)
    assert made.constraints is after.constraints
    for name, ours, theirs in zip(made._fields[:-1], made[:-1], after[:-1], strict=True):
        if name != "hidden":  # of use with a tree only
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_pairs_known_to_be_links_are_no_relatives(rng):
    """Siblings by all appearance, of whom it is known that they are one person with a wrong birthday and phone."""
    records, person, family = population(rng, 150, 3)
    model, pairs, _, _ = begin(records)
    anchor = np.where(person[pairs.a] == person[pairs.b], 0.99, 0.001)
    sibling = (family[pairs.a] == family[pairs.b]) & (person[pairs.a] != person[pairs.b])
    certain = sibling & (rng.random(len(pairs)) < 0.7)
    n_pairs = records.n_records * (records.n_records - 1) / 2
    possible = possible_levels(model)
    parts = parts_that_links_change(model, records.n_records)
    plain, told = (
        choose_structure(model, pairs.b, pairs.levels, np.zeros(len(pairs)), anchor, possible, n_pairs, parts, 1, known)
        for known in (None, certain)
    )
    alpha = [s.noise.concentration[:, 3] for s in (plain, told)]
    differs = [float(s.noise.share @ (a / (1.0 + a))) for s, a in zip((plain, told), alpha, strict=True)]
    assert differs[1] > differs[0] + 0.2  # links now differ in the birthday
    alike = [s.relations.odds[s.relations.levels[:, SHARED, 0].min(axis=1) > 0.5].sum() for s in (plain, told)]
    assert alike[1] < 0.6 * alike[0]


def test_links_may_change_any_connected_part(rng):
    """A street, its town and the town's country; a name with its sex; and a birthday that nothing depends on."""
    street = rng.integers(0, 4000, 3000)
    name = rng.integers(0, 300, 3000)
    columns = [street, street // 20, street // 400, name, name % 2, rng.integers(0, 365, 3000)]
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns]).astype(np.int32)
    records = Records(codes, np.zeros(3000, np.int32), codes.max(axis=0) + 1)
    parent = np.array([-1, 0, 1, -1, 3, -1])
    tree = replace(Dependence.none(6), parent=parent, strength=np.where(parent >= 0, 0.1, 1.0))
    prior = make_prior(records, "empirical", 0.1)
    similar = SimilarValues.none(prior.value_ptr)
    evidence = Evidence(prior, Noise.single(prior.concentration), similar, Relations.none(6), tree)
    model = block_model(records, evidence)

    found = [np.flatnonzero(part).tolist() for part in parts_that_links_change(model, 3000)]
    # of the name with the sex, which tells next to nothing, nobody could say whether it has changed or is a twin's; of
    # the town with its country, one of ten, one can
    assert found == [[0, 1], [1, 2], [0, 1, 2]]
    assert [np.flatnonzero(part).tolist() for part in parts_that_change(model)] == [[0, 1, 2]]
    assert [np.flatnonzero(part).tolist() for part in connected_parts(model.tree, 6)] == [
        [0, 1], [1, 2], [3, 4], [0, 1, 2]
    ]  # fmt: skip


def test_no_class_of_links_draws_so_much_anew_that_strangers_share_the_rest():
    # most fields hang together, and of the two that do not only the name tells anybody apart
    rng = np.random.default_rng(1)
    place = rng.integers(0, 3000, 2000)
    others = [place, place // 2, rng.integers(0, 30, 2000), rng.integers(0, 2, 2000)]
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in others]).astype(np.int32)
    records = Records(codes, np.zeros(2000, np.int32), codes.max(axis=0) + 1)
    prior = make_prior(records, "empirical", 0.1)
    tree = replace(Dependence.none(4), parent=np.array([-1, 0, -1, -1]), strength=np.array([1.0, 0.1, 1.0, 1.0]))
    similar = SimilarValues.none(prior.value_ptr)
    evidence = Evidence(prior, Noise.single(prior.concentration), similar, Relations.none(4), tree)

    model = block_model(records, evidence)

    def found(n):
        return [np.flatnonzero(one).tolist() for one in parts_that_links_change(model, n)]

    # two strangers share name and sex once in 60 pairs: among 2000 records each has a dozen such, among 10 hardly one
    assert found(2000) == []
    assert found(10) == [[0, 1]]


def test_what_goes_with_a_field_that_strangers_share_tells_no_more_of_them(rng):
    codes = rng.integers(0, 30, (200, 3)).astype(np.int32)
    records = Records(codes, np.zeros(200, np.int32), np.full(3, 30))
    prior = make_prior(records, "empirical", 0.1)
    tree = replace(
        Dependence.none(3), parent=np.array([-1, 0, -1]), levels=np.array([[1.0] * 4, [0.8, 0, 0, 0.2], [1.0] * 4])
    )
    similar = SimilarValues.none(prior.value_ptr)
    evidence = Evidence(prior, Noise.single(prior.concentration), similar, Relations.none(3), tree)
    model = block_model(records, evidence)
    same = model.unrelated[:, 0]
    assert _alike_in(model, np.array([True, True, False]), 200) == pytest.approx(100 * same[0] * 0.8)
    assert _alike_in(model, np.array([False, True, True]), 200) == pytest.approx(100 * same[1] * same[2])


def test_a_class_that_strangers_would_fill_is_left_out(rng):
    codes = np.column_stack([rng.integers(0, size, 400) for size in (4, 5, 300)]).astype(np.int32)
    records = Records(codes, np.zeros(400, np.int32), np.array([4, 5, 300]))
    model = block_model(records, exact_evidence(make_prior(records, "empirical", 0.1), 3))
    right, no_name, no_sex = [0.1, 0.1, 0.2], [0.1, 0.1, 50.0], [50.0, 0.1, 0.2]
    exact = np.tile([1.0, 0.0, 0.0], (3, 3, 1))
    noise = Noise(np.array([right, no_name, no_sex]), exact, np.array([0.5, 0.3, 0.2]))
    # ten strangers per record share the first two fields, 0.13 the last two
    nobody = Relations.none(3)
    kept = without_strangers(noise, model, 400, nobody, 199.5)
    np.testing.assert_array_equal(kept.concentration, [right])
    np.testing.assert_array_equal(kept.share, [1.0])
    # among few records nobody shares the last two
    few = without_strangers(noise, model, 100, nobody, 49.5)
    np.testing.assert_array_equal(few.concentration, [right, no_sex])
    np.testing.assert_allclose(few.share, [5 / 7, 2 / 7])
    # something has to explain the links
    only = noise.only(np.array([False, True, False]))
    assert without_strangers(only, model, 400, nobody, 199.5) is only


def test_a_class_that_relatives_would_fill_is_left_out(rng):
    """Wrong in the given name and the birth date, it would be made of the family, who share surname and postcode."""
    codes = rng.integers(0, 3000, (400, 4)).astype(np.int32)  # given name, surname, birth date, postcode
    records = Records(codes, np.zeros(400, np.int32), np.full(4, 3000))
    model = block_model(records, exact_evidence(make_prior(records, "empirical", 0.1), 4))
    right, family, moved = [0.1, 0.1, 0.1, 0.1], [3.0, 0.1, 5.0, 0.1], [0.1, 0.1, 0.1, 50.0]
    noise = Noise(np.array([right, family, moved]), np.tile([1.0, 0.0, 0.0], (3, 4, 1)), np.array([0.6, 0.1, 0.3]))
    level = np.zeros((1, 4, 4))
    level[0, :, 0] = [0.01, 0.9, 0.001, 0.95]
    level[0, :, 3] = 1.0 - level[0, :, 0]
    pairs_per_record = 199.5
    for related, kept in ((0.3, [right, moved]), (0.1, [right, family, moved])):  # relatives per record
        relations = Relations(np.array([related / pairs_per_record]), level)
        found = without_strangers(noise, model, 400, relations, pairs_per_record)
        np.testing.assert_array_equal(found.concentration, kept)
    # twins, who agree as links do, are no measure of them
    twins = Relations(np.array([0.3 / pairs_per_record]), level, np.array([0]))
    assert without_strangers(noise, model, 400, twins, pairs_per_record).n_classes == 3


def test_a_class_that_has_come_to_hold_relatives_is_left_out_of_what_is_known():
    records, *_ = population(np.random.default_rng(1), 150, 3)
    _, _, now, _ = begin(records)
    n_fields = records.n_fields
    wrong = np.full((2, n_fields), 0.1)
    wrong[1, :-1] = 9.0
    noise = Noise(wrong, np.tile([1.0, 0.0, 0.0], (2, n_fields, 1)), np.array([0.8, 0.2]))
    level = np.zeros((1, n_fields, 4))
    level[0, :, 3] = 1.0
    level[0, -1] = [0.9, 0.0, 0.0, 0.1]
    related = Relations(np.array([1.0 / records.n_records]), level)  # half a pair for each record
    now = replace(now, evidence=replace(now.evidence, noise=noise, relations=related))
    told = learn.told_from_strangers(records, now)
    np.testing.assert_array_equal(told.evidence.noise.concentration, wrong[:1])


def test_what_is_learned_from_a_part_is_for_all(monkeypatch):
    """Of a part of the records fewer strangers share what is left; the classes are for all of them."""
    records, *_ = population(np.random.default_rng(1), 150, 3)
    part = records.part(np.arange(200))
    _, pairs, now, settings = begin(part)
    asked = []

    def told(usual, name):
        def ask(*arguments):
            model, n_records = arguments[:2] if name == "parts_that_links_change" else arguments[1:3]
            asked.append((name, len(model.codes), n_records))
            return usual(*arguments)

        return ask

    for name in ("parts_that_links_change", "without_strangers"):
        monkeypatch.setattr(learn, name, told(getattr(learn, name), name))
    choose_relations(part, pairs, now, settings)
    choose_noise(part, pairs, now, settings)
    assert asked == [
        ("parts_that_links_change", 200, records.n_records),
        ("without_strangers", 200, records.n_records),
        ("without_strangers", 200, records.n_records),
    ]
