"""Components, their pairs and neighbours, against a search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.engine import naive
from vber_cli.engine.graph import build_graph
from vber_cli.engine.partition_kernels import MAX_EXACT


def random_edges(rng, n, m):
    pairs = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(m)}
    shuffled = rng.permutation(sorted(pairs)) if pairs else np.empty((0, 2))
    return tuple(shuffled.T.astype(np.int32))


def parts(ptr, values):
    return [np.asarray(values)[lo:hi].tolist() for lo, hi in itertools.pairwise(ptr)]


@pytest.mark.parametrize(
    ("n", "m"), [(1, 0), (5, 0), (2, 1), (30, 8), (30, 20), (60, 45), (60, 59), (12, 66), (200, 110)]
)
def test_components_pairs_and_neighbours(rng, n, m):
    for _ in range(5):
        a, b = random_edges(rng, n, m) if n > 1 else (np.empty(0, np.int32), np.empty(0, np.int32))
        graph = build_graph(a, b, n)
        groups = sorted(naive.connected(n, a, b), key=lambda group: (len(group), group))
        assert parts(graph.comp_ptr, graph.comp_record) == groups
        assert graph.n_components == len(groups)
        assert graph.n_small == sum(len(group) <= MAX_EXACT for group in groups)
        assert graph.n_alone == n - sum(map(len, groups))
        assert graph.n_records == n
        edges = list(zip(a.tolist(), b.tolist(), strict=True))
        pairs = list(zip(parts(graph.pair_ptr, graph.pair_a), parts(graph.pair_ptr, graph.pair_b), strict=True))
        assert len(pairs) == len(groups)
        for c, (group, (first, second)) in enumerate(zip(groups, pairs, strict=True)):
            found = list(zip(first, second, strict=True))
            if c < graph.n_small:
                assert found == list(itertools.combinations(group, 2))
            else:
                assert found == [edge for edge in edges if edge[0] in group]
        near = parts(graph.nbr_ptr, graph.nbr)
        large = {r for group in groups[graph.n_small :] for r in group}
        for r in range(n):
            expected = [x + y - r for x, y in edges if r in (x, y)] if r in large else []
            assert sorted(near[r]) == sorted(expected)
        for array in (graph.comp_record, graph.pair_a, graph.pair_b, graph.nbr):
            assert array.dtype == np.int32
        for array in (graph.comp_ptr, graph.pair_ptr, graph.nbr_ptr):
            assert array.dtype == np.int64


def test_a_chain_of_one_more_than_can_be_summed_is_large():
    for size in (MAX_EXACT, MAX_EXACT + 1):
        a = np.arange(size - 1, dtype=np.int32)
        graph = build_graph(a, a + 1, size)
        assert graph.n_small == (size == MAX_EXACT)
        assert len(graph.pair_a) == (size * (size - 1) // 2 if size == MAX_EXACT else size - 1)


def test_records_can_be_renumbered(rng):
    n = 80
    a, b = random_edges(rng, n, 60)
    rename = rng.permutation(n).astype(np.int32)
    x, y = rename[a], rename[b]
    one, two = build_graph(a, b, n), build_graph(np.minimum(x, y), np.maximum(x, y), n)
    renamed = sorted(sorted(rename[group].tolist()) for group in parts(one.comp_ptr, one.comp_record))
    assert renamed == sorted(parts(two.comp_ptr, two.comp_record))
    pairs = {tuple(sorted(pair)) for pair in zip(rename[one.pair_a].tolist(), rename[one.pair_b].tolist(), strict=True)}
    assert pairs == set(zip(two.pair_a.tolist(), two.pair_b.tolist(), strict=True))
