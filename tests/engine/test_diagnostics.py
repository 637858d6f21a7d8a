"""R̂ and effective sample size on chains whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.engine.diagnostics import effective_sample_size, split_r_hat


def autoregressive(rng, chains, n, phi):
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(size=chains) / np.sqrt(1 - phi**2)
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + rng.normal(size=chains)
    return x


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
def test_the_effective_size_of_an_autoregression(rng, phi):
    found = effective_sample_size(autoregressive(rng, 4, 20_000, phi))
    assert found == pytest.approx(80_000 * (1 - phi) / (1 + phi), rel=0.15)


def test_chains_that_agree_and_chains_that_do_not(rng):
    good = autoregressive(rng, 4, 2000, 0.3)
    assert split_r_hat(good) == pytest.approx(1.0, abs=0.01)
    apart = good + np.array([0, 0, 0, 5.0])[:, None]
    # within 1/(1 − 0.09), between 25/4 over the four chains
    assert split_r_hat(apart) == pytest.approx(np.sqrt(1 + 25 * 2 / 7 * 3 / 4 * 0.91), rel=0.12)
    assert effective_sample_size(apart) < 50
    drifting = good + np.linspace(0, 5, 2000)
    # halves: means ±1.25, within 1/(1 − 0.09) + 2.5² / 12
    assert split_r_hat(drifting) == pytest.approx(np.sqrt(1 + 1.25**2 * 8 / 7 / (1.1 + 2.5**2 / 12)), rel=0.05)


def test_constants_and_too_few_draws():
    assert split_r_hat(np.full((2, 50), 3.0)) == 1.0
    assert effective_sample_size(np.full((2, 50), 3.0)) == 100
    assert split_r_hat(np.arange(14.0).reshape(2, 7)) is None
    assert effective_sample_size(np.arange(14.0).reshape(2, 7)) is None
    stuck = np.repeat([[1.0], [2.0]], 50, axis=1)
    assert split_r_hat(stuck) is None
    assert effective_sample_size(stuck) <= 10
