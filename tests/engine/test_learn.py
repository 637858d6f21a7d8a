"""When learning has come to rest though an α still moves; whatever else there is to it is in `test_link_posterior`."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine.block_model import exact_evidence
from vber_cli.engine.learn import Hyperparameters, settled
from vber_cli.engine.local_kernels import FRESH, N_STATS
from vber_cli.engine.posterior import Expectation
from vber_cli.model.prior import Prior

N = 5000.0


def known(alpha):
    prior = Prior(np.array([0.4, 0.6]), np.array([0.1]), np.array([0, 2]))
    evidence = exact_evidence(prior.with_concentration(np.array([alpha])), 1)
    return Hyperparameters(evidence, N, 3.0)


def found(chain_n=()):
    stats = np.zeros((1, 1, N_STATS))
    stats[0, 0, FRESH] = 10_000.0
    nothing = np.zeros(0)
    chains = np.array(chain_n, dtype=float).reshape(2, -1) if len(chain_n) else np.zeros((0, 0))
    return Expectation(nothing, nothing, stats, np.ones(1), np.zeros((0, 1)), N, 1.0, np.zeros((2, 0)), chains,
                       np.zeros((0, 2)))  # fmt: skip


CHAINS = found(chain_n=[100.0, 130.0, 110.0, 120.0, 90.0, 140.0])


@pytest.mark.parametrize(
    ("alphas", "seen", "expected"),
    [
        ((0.10, 0.20, 0.21), found(), False),  # five percent of an α are worth another round
        ((0.10, 0.20, 0.19), found(), False),  # without chains nothing moves by chance
        ((0.10, 0.20, 0.19), CHAINS, True),
        ((0.10, 0.20, 0.15), CHAINS, False),  # so far back it is not chance alone
        ((0.10, 0.20, 0.21), CHAINS, False),
        ((0.10, 0.10, 0.11), CHAINS, False),  # the first round has nothing to turn back from
    ],
)
def test_an_alpha_that_moves_asks_for_another_round_unless_it_is_swung_by_chance(alphas, seen, expected):
    assert settled(tuple(known(alpha) for alpha in alphas), seen) is expected
