"""Special functions against scipy, integrals and sums; the random stream against published values and its equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from vber_cli.engine import special_kernels as kernels

WORD = (1 << 64) - 1
ROOT = 1.4616321449683622  # of digamma, where a relative error has no meaning


def naive_mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


@pytest.mark.parametrize("x", [1e-12, 1e-6, 0.02, 0.5, 1.0, 2.0, 3.7, 9.999999, 10.0, 10.000001, 55.5, 1e4, 1e9, 1e15])
def test_digamma_and_trigamma_meet_scipy(x):
    assert kernels.digamma(x) == pytest.approx(float(special.digamma(x)), rel=1e-14)
    assert kernels.trigamma(x) == pytest.approx(float(special.polygamma(1, x)), rel=1e-14)


def test_digamma_and_trigamma_at_many_points(rng):
    for x in np.exp(rng.uniform(-15, 15, 400)):
        assert kernels.digamma(x) == pytest.approx(float(special.digamma(x)), rel=3e-14, abs=3e-15)
        assert kernels.trigamma(x) == pytest.approx(float(special.polygamma(1, x)), rel=3e-14)
    assert abs(kernels.digamma(ROOT)) < 2e-15


def test_log_rising_by_whole_steps_is_a_sum_of_logs(rng):
    for a in [*np.exp(rng.uniform(-14, 14, 60)), 9.999, 10.0]:
        for steps in (0, 1, 2, 7, 30):
            expected = math.fsum(math.log(a + i) for i in range(steps))
            scale = math.fsum(abs(math.log(a + i)) for i in range(steps))
            assert kernels.log_rising(a, float(steps)) == pytest.approx(expected, rel=0, abs=1e-13 * (1 + scale))


@pytest.mark.parametrize("ratio", [1e-12, 0.99e-7, 1.01e-7, 1e-4, 0.1, 1.0])
def test_log_rising_is_the_integral_of_digamma(rng, ratio):
    node, weight = np.polynomial.legendre.leggauss(30)
    for a in [*np.exp(rng.uniform(-10, 20, 60)), 9.9999, 10.0]:
        c = ratio * a
        at = special.digamma(a + c * (node + 1) / 2)
        expected = c / 2 * float(weight @ at)
        # a few last bits of what is subtracted: two log-gammas below 10, the ends 1 / 12a of Stirling's series above
        rounding = 4 * np.finfo(float).eps * (1 + abs(math.lgamma(a)) + abs(math.lgamma(a + c)) if a < 10 else 1 / a)
        rounding *= ratio > 1e-7
        assert kernels.log_rising(a, c) == pytest.approx(expected, rel=2e-13, abs=rounding + 1e-13 * c)


def test_mix64_meets_its_equations(rng):
    words = [0, 1, WORD, 1 << 63, *rng.integers(0, 1 << 64, 200, dtype=np.uint64).tolist()]
    mixed = [int(kernels.mix64(np.uint64(x))) for x in words]
    assert mixed == [naive_mix(x) for x in words]
    assert len(set(mixed)) == len(set(words))


def test_the_stream_is_splitmix64():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    stream = np.array([1234567], np.uint64)
    drawn = [kernels.next_uniform(stream) for _ in published]
    assert drawn == [(word >> 11) / 2**53 for word in published]
    assert int(stream[0]) == (1234567 + 4 * 0x9E3779B97F4A7C15) & WORD


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
def test_draws_are_uniform_and_streams_do_not_resemble_each_other(rng):
    seed = int(rng.integers(1 << 40))
    one, two = (np.array([naive_mix(seed + i)], np.uint64) for i in (0, 1))
    x = np.array([kernels.next_uniform(one) for _ in range(5000)])
    y = np.array([kernels.next_uniform(two) for _ in range(5000)])
    assert x.min() >= 0.0
    assert x.max() < 1.0
    assert stats.kstest(x, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(5000)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4 / np.sqrt(5000)
