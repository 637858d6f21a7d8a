"""A merge that starts from an earlier one begins with everything that was learned but what is about the values."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine import infer
from vber_cli.engine.learn import Settings
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records
from vber_cli.results.earlier import Earlier
from vber_cli.results.learned_file import LearnedAlone


@pytest.mark.parametrize("databases", [("a",), ("b",)])
def test_what_was_learned_is_begun_with(databases):
    alpha = np.array([0.1, 0.2])
    noise = Noise.single(alpha).with_more(np.array([[True, True]]), np.array([0.1]))
    near, relations = np.array([[0.03, 0.01], [0.0, 0.002]]), Relations(np.array([1e-3]), np.full((1, 2, 4), 0.25))
    tree = Dependence(np.array([-1, 0]), np.array([1.0, 0.3]), np.full((2, 4), 0.25), np.array([0.0, 0.5]))
    learned = LearnedAlone(
        ("name", "town"), ("text", "text"), True, alpha, noise, relations, tree, np.array([-2.0]), near,
        8.0, 3.0, tree, (7.5,),
    )  # fmt: skip
    records = Records(np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.int32), np.zeros(4, np.int32), np.array([2, 2]))
    prior, occupancy = make_prior(records, "empirical", 0.1), Occupancy(4)
    settings = Settings(occupancy, learn_concentration=True, learn_base=True, learn_relations=True, seed=0, threads=1)
    guess = infer.first_guess(records, prior, SimilarValues.none(prior.value_ptr), settings)
    start = Earlier("before", "0" * 64, ("a",), 8, learned).start(guess, records, databases, occupancy)
    assert (start.evidence.noise, start.evidence.relations, start.evidence.dependence) == (noise, relations, tree)
    assert start.evidence.near is near
    np.testing.assert_array_equal(start.evidence.prior.concentration, alpha)
    np.testing.assert_array_equal(start.evidence.prior.base, guess.evidence.prior.base)
    # how databases differ says nothing about others
    assert start.evidence.tilt.tolist() == ([-2.0] if databases == ("a",) else [])
    assert start.n == 4.0
