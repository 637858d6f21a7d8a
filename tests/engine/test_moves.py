"""Moves on a hard partition never lower the bound, stop where none gains, and stay below the exact evidence."""

from __future__ import annotations

import numpy as np
import pytest

from tests import exact
from tests.engine import built, naive
from vber_cli.engine.graph import build_graph
from vber_cli.engine.moves import Partition, greedy_labels, symmetrised
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.types import Records

PARTS = [(), ("near",), ("relations",), ("tree",), naive.FULL]


def objective(case, log_new, label):
    """Σ over blocks of the weight + log_new: the part of the bound that depends on the partition."""
    return sum(naive.block_weight(case, block) + log_new for block in naive.blocks_of(label))


def some_graph(rng, n, m):
    pairs = sorted({tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(m)})
    return build_graph(*(np.array(side, np.int32) for side in zip(*pairs, strict=True)), n)


def random_labels(rng, graph):
    """A random partition within the components, labelled by records of the component."""
    label = np.arange(graph.n_records, dtype=np.int32)
    for c in range(graph.n_components):
        members = graph.comp_record[graph.comp_ptr[c] : graph.comp_ptr[c + 1]]
        label[members] = rng.choice(members, len(members))
    return label


def assert_labels_are_sound(graph, label):
    inside = [set(part.tolist()) for part in np.split(graph.comp_record, graph.comp_ptr[1:-1])]
    for block in naive.blocks_of(label):
        k = int(label[block[0]])
        assert block == [k] or any({*block, k} <= component for component in inside)


def test_in_the_exact_model_the_weights_are_the_marginals(rng):
    case = naive.make_case(rng, 9, "people")
    alpha = case.alpha_by_field
    apart = sum(exact.log_marginal(case.codes, alpha, [r]) for r in range(9))
    for _ in range(10):
        label = rng.integers(0, 4, 9)
        expected = sum(exact.log_marginal(case.codes, alpha, block) + 0.7 for block in naive.blocks_of(label)) - apart
        assert objective(case, 0.7, label) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize(
    ("kind", "n_classes", "parts"),
    [*((kind, 1, ()) for kind in (*naive.UGLY, "people")), *(("people", 2, parts) for parts in PARTS)],
)
@pytest.mark.parametrize("log_new", [-0.5, 3.0])
def test_moves_never_lower_the_bound(rng, kind, n_classes, parts, log_new):
    case = naive.make_case(rng, 24, kind, n_classes, parts)
    graph = some_graph(rng, 24, 30)
    label = random_labels(rng, graph)
    partition = Partition(built.model_of(case), log_new, graph, label, 1)
    now = objective(case, log_new, label)
    total = 0
    for name in ("reassign", "split", "merge", "split", "reassign", "merge") * 2:
        n_moves = getattr(partition, name)()
        before, now = now, objective(case, log_new, partition.label)
        assert (now - before > 1e-10) if n_moves else (now == before), name
        assert partition.n_blocks == len(set(label.tolist()))
        assert_labels_are_sound(graph, label)
        total += n_moves
    assert total > 0


@pytest.mark.parametrize("rng", [1, 2, 3, 4], indirect=True)
@pytest.mark.parametrize("log_new", [-0.5, 3.0])
def test_what_has_come_to_rest_is_left_alone_until_something_changes(rng, log_new):
    case = naive.make_case(rng, 60, "people")
    model, graph = built.model_of(case), some_graph(rng, 60, 35)
    assert graph.n_components > 3
    label = random_labels(rng, graph)
    partition, fresh = Partition(model, log_new, graph, label, 1), label.copy()
    kinds = ("reassign", "split", "merge") * 4
    for name in kinds:  # as if every pass looked at all
        anew = Partition(model, log_new, graph, fresh, 1)
        assert getattr(anew, name)() == getattr(partition, name)()
        np.testing.assert_array_equal(fresh, partition.label)
    # of those it was told of as settled only the one that was changed moves, and goes back to rest
    rest = partition.label.copy()
    assert [getattr(partition, name)() for name in kinds] == [0] * len(kinds)
    changed = rest.copy()
    members = graph.comp_record[graph.comp_ptr[-2] :]
    changed[members] = np.where(np.arange(len(members)) % 2 == 0, members[0], members[-1])
    told = Partition(model, log_new, graph, changed.copy(), 1, settled=rest)
    plain = Partition(model, log_new, graph, changed.copy(), 1)
    for name in kinds:
        assert getattr(told, name)() == getattr(plain, name)()
        np.testing.assert_array_equal(told.label, plain.label)


def test_a_settled_component_is_not_looked_at(rng):
    case = naive.make_case(rng, 30, "people")
    graph = some_graph(rng, 30, 20)
    start = random_labels(rng, graph)
    partition = Partition(built.model_of(case), 0.5, graph, start.copy(), 1, settled=start)
    assert partition.reassign() + partition.split() + partition.merge() == 0
    np.testing.assert_array_equal(partition.label, start)
    assert Partition(built.model_of(case), 0.5, graph, start.copy(), 1).reassign() > 0


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
@pytest.mark.parametrize(("n_classes", "parts"), [(1, ()), (1, ("tree",)), (2, naive.FULL)])
@pytest.mark.parametrize("log_new", [0.5, 3.0])
def test_it_stops_where_no_single_move_gains(rng, n_classes, parts, log_new):
    case = naive.make_case(rng, 20, "people", n_classes, parts)
    graph = some_graph(rng, 20, 30)
    partition = Partition(built.model_of(case), log_new, graph, random_labels(rng, graph), 1)
    for _ in range(50):
        if partition.reassign() + partition.merge() == 0:
            break
    else:
        pytest.fail("the moves do not come to an end")
    label = partition.label
    best = objective(case, log_new, label)
    tried = 0
    for x, y in zip(graph.pair_a.tolist(), graph.pair_b.tolist(), strict=True):
        for r, s in ((x, y), (y, x)):
            moved = label.copy()
            moved[r] = label[s]
            merged = np.where(label == label[r], label[s], label)
            single = label.astype(np.int64)
            single[r] = 1000
            for other in (moved, merged, single):
                assert objective(case, log_new, other) <= best + 1e-8
                tried += 1
    assert tried > 60


def plain_case(codes, n_values, alpha):
    """The paper's model with a uniform base."""
    records = Records(np.asarray(codes, np.int32), np.zeros(len(codes), np.int32), np.asarray(n_values))
    prior = make_prior(records, "uniform", alpha)
    n_fields = len(n_values)
    noise = Noise.single(prior.concentration)
    return naive.Case(records, prior, noise, {}, Relations.none(n_fields), Dependence.none(n_fields))


def test_a_split_that_single_moves_cannot_find():
    """Two pairs of twins in one block: taking one record away costs more than it brings, taking the pair away gains."""
    case = plain_case([[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1]], [40, 40, 40], 5.0)
    graph = build_graph(*built.all_pairs(4), 4)
    log_new = -0.2
    partition = Partition(built.model_of(case), log_new, graph, np.zeros(4, np.int32), 1)
    assert partition.reassign() == 0
    before = objective(case, log_new, partition.label)
    assert partition.split() == 1
    assert naive.blocks_of(partition.label) == [[0, 1], [2, 3]]
    assert objective(case, log_new, partition.label) > before
    assert partition.split() == partition.reassign() == partition.merge() == 0


def test_greedy_merges_the_strongest_edge_first():
    # 1 agrees with 0 in the rare value and with 2 in the common one; it cannot be both of them
    case = plain_case([[0, 0, 0], [0, 0, -1], [1, 0, 1]], naive.N_VALUES, 0.001)
    case = case.of(prior=case.prior.with_base(np.array([0.01, 0.33, 0.33, 0.33, 0.8, 0.1, 0.1, *[1 / 7] * 7])))
    graph = build_graph(np.array([1, 0], np.int32), np.array([2, 1], np.int32), 3)
    assert naive.blocks_of(greedy_labels(built.model_of(case), 0.1, graph, 1)) == [[0, 1], [2]]


def clear_people(rng, n_people):
    """Up to four records each of people who differ in every field; one field of a record may be missing."""
    person = np.repeat(np.arange(n_people), rng.integers(1, 5, n_people))
    codes = np.repeat(person[:, None], 3, axis=1).astype(np.int32)
    wrong = rng.random(len(person)) < 0.3
    codes[wrong, rng.integers(0, 3, wrong.sum())] = -1
    a, b = np.triu_indices(len(person), 1)
    keep = (person[a] == person[b]) | (rng.random(len(a)) < 0.02)
    return plain_case(codes, [n_people] * 3, 0.01), person, a[keep].astype(np.int32), b[keep].astype(np.int32)


def test_clear_people_are_found_whatever_the_threads_and_the_order(rng):
    case, person, a, b = clear_people(rng, 40)
    model = built.model_of(case)
    one, two = (greedy_labels(model, 3.0, build_graph(a, b, len(person)), t) for t in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert naive.blocks_of(one) == naive.blocks_of(person)
    new = rng.permutation(len(person))
    codes = np.ascontiguousarray(case.codes[np.argsort(new)])
    moved = case.of(records=Records(codes, case.records.db_of_record, case.records.n_values))
    x, y = new[a].astype(np.int32), new[b].astype(np.int32)
    graph = build_graph(np.minimum(x, y), np.maximum(x, y), len(person))
    assert naive.blocks_of(greedy_labels(built.model_of(moved), 3.0, graph, 1)[new]) == naive.blocks_of(person)


@pytest.mark.parametrize("kind", ["people", "missing", "tied"])
@pytest.mark.parametrize("n_individuals", [1, 2, 4, 5])
def test_the_symmetrised_bound_stays_below_the_exact_evidence(rng, kind, n_individuals):
    """The hard assignment's ELBO is −N log K + Σ log m; its symmetrised form is one term of the evidence."""
    n = 5
    case = naive.make_case(rng, n, kind)
    alpha = case.alpha_by_field
    evidence = exact.log_evidence(case.codes, alpha, n_individuals)
    terms = {}
    for part in exact.partitions(list(range(n))):
        if len(part) <= n_individuals:
            elbo = -n * np.log(n_individuals) + sum(exact.log_marginal(case.codes, alpha, block) for block in part)
            terms[str(part)] = symmetrised(elbo, n_individuals, len(part))
    assert max(terms.values()) <= evidence + 1e-9
    assert np.logaddexp.reduce(list(terms.values())) == pytest.approx(evidence, abs=1e-9)


def test_one_more_individual_adds_the_log_of_those_left():
    steps = [symmetrised(-3.0, 10, n) - symmetrised(-3.0, 10, n - 1) for n in range(1, 11)]
    np.testing.assert_allclose(steps, np.log(10 - np.arange(10)), rtol=0, atol=1e-9)
    assert symmetrised(-3.0, 10, 0) == -3.0
