"""Trees of fields."""

from __future__ import annotations

import numpy as np

from vber_cli.model.dependence import Dependence, tree_parts


def parts_of(parent):
    dependence = Dependence.none(len(parent))
    dependence.parent[:] = parent
    return [np.flatnonzero(part).tolist() for part in tree_parts(dependence.edges, len(parent))]


def test_each_tree_is_a_part_and_fields_alone_are_none():
    assert parts_of([-1, 0, -1, 5, 0, -1]) == [[0, 1, 4], [3, 5]]


def test_a_chain_is_one_part_whatever_its_order():
    assert parts_of([3, 0, -1, 4, 2]) == [[0, 1, 2, 3, 4]]


def test_where_nothing_depends_there_are_no_parts():
    assert parts_of([-1, -1, -1]) == []
