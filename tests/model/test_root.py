"""Roots of monotone functions, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from vber_cli.model.root import bisect


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (lambda x: x**3 - 2.0, 0.0, 5.0),
        (lambda x: 2.0 - np.exp(x), -30.0, 30.0),
        (lambda x: x / -np.expm1(-x) - 1.7, 1e-12, 4.4),
        (lambda x: np.tanh(x - 1e-9), -1e6, 1e6),
    ],
)
def test_the_root_is_that_of_brentq(f, low, high):
    assert bisect(f, low, high) == pytest.approx(brentq(f, low, high, xtol=1e-14, rtol=1e-15), rel=1e-12, abs=1e-12)


def test_a_root_at_an_end():
    assert bisect(lambda x: x, 0.0, 1.0) == 0.0
    assert bisect(lambda x: x - 1.0, 0.0, 1.0) == 1.0


def test_a_function_without_a_root_there_is_refused():
    with pytest.raises(ValueError, match="same sign"):
        bisect(lambda x: x + 2.0, 0.0, 1.0)
