"""What the block model says of values that hide behind errors."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine.block_model import Evidence, block_model
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("misspelt", [0.05, 0.15])
def test_strangers_with_near_values_have_the_same_but_for_an_error(rng, misspelt):
    """Ten values, each with a misspelling of its own that nobody means: near values are always of one true value."""
    true = rng.integers(0, 10, 4000)
    wrong = rng.random(len(true)) < misspelt
    codes = (true + 10 * wrong).astype(np.int32)[:, None]
    records = Records(codes, np.zeros(len(codes), np.int32), np.array([20], np.int64))
    prior = make_prior(records, "empirical", 0.1)
    pair = np.arange(10)
    similar = SimilarValues.of(prior.value_ptr, pair, pair + 10, np.ones(10, np.int8))
    # what records of one individual are like, and how often strangers are close
    close = 2.0 * misspelt * (1.0 - misspelt)
    noise = Noise(np.full((1, 1), 1e-6), np.array([[[1.0 - close, close, 0.0]]]), np.ones(1))
    near = np.array([[0.1 * close, 0.0]])
    evidence = Evidence(prior, noise, similar, Relations.none(1), Dependence.none(1), near=near)
    hidden = block_model(records, evidence).hidden
    assert hidden[0, 1] > 0.7  # all of them, less what the errors take from the identical ones
    assert hidden[0, 0] == pytest.approx(0.1, abs=0.03)
