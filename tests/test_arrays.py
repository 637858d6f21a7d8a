"""The sorting routines give what numpy's give."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.arrays import among, distinct, distinct_rows, first_alike, lex_order, n_distinct, stable_order


@pytest.fixture(params=[0, 1, 2, 1000])
def codes(request: pytest.FixtureRequest) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 40, request.param)


def test_distinct_values_are_those_of_unique(codes: np.ndarray) -> None:
    np.testing.assert_array_equal(distinct(codes), np.unique(codes))
    assert n_distinct(codes) == len(np.unique(codes))


def test_stable_order_keeps_the_order_of_equals(codes: np.ndarray) -> None:
    np.testing.assert_array_equal(stable_order(codes), np.argsort(codes, kind="stable"))


def test_codes_too_large_to_share_a_number_with_their_place_are_sorted_all_the_same(codes: np.ndarray) -> None:
    large = codes << 56
    np.testing.assert_array_equal(stable_order(large), np.argsort(large, kind="stable"))


def test_the_last_codes_are_the_most_important(codes: np.ndarray) -> None:
    other = codes[::-1] % 3
    np.testing.assert_array_equal(lex_order(codes, other), np.lexsort((codes, other)))


def test_what_is_among_the_wanted(codes: np.ndarray) -> None:
    for wanted in (codes[:10] % 7, np.zeros(0, dtype=np.int64)):
        np.testing.assert_array_equal(among(codes, wanted), np.isin(codes, wanted))


@pytest.mark.parametrize("apart", [1, 10**6, -1])
def test_the_first_of_those_alike(codes: np.ndarray, apart: int) -> None:
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(first_alike(codes * apart), first[inverse])


@pytest.mark.parametrize("n_columns", [1, 3, 8, 9, 20])
@pytest.mark.parametrize("n", [0, 1, 500])
def test_distinct_rows_are_those_of_unique(rng: np.random.Generator, n: int, n_columns: int) -> None:
    kinds = rng.choice([0, 1, 3, 9, 127], (40, n_columns)).astype(np.int8)
    rows = kinds[rng.integers(0, 40, n)]
    found, which = distinct_rows(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(which, inverse.ravel())
