"""Classes of tabulated pairs: against the plain formulas, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine import built, naive
from vber_cli.engine.alike_pairs import AlikePairs
from vber_cli.model.similar import MISSING_LEVEL, N_LEVELS

N_PAIRS, N_FIELDS = 40, 3


@pytest.fixture
def pairs(rng):
    """Pairs as no data would have them: every level, gaps, priors, weights, and two that are known to be links."""
    levels = rng.choice([0, 1, 2, 3, MISSING_LEVEL], (N_PAIRS, N_FIELDS)).astype(np.int8)
    certain = np.isin(np.arange(N_PAIRS), [3, 17])
    shown = (np.minimum(levels, N_LEVELS) + 5 * np.arange(N_FIELDS)).astype(np.int32)
    return AlikePairs(
        built.model_of(naive.make_case(rng, 10, "people", 1)), np.zeros(N_PAIRS, np.int32), levels,
        rng.normal(0, 1, N_PAIRS), rng.random(N_PAIRS), certain, rng.integers(1, 9, N_PAIRS).astype(np.float64), shown,
        -rng.uniform(0, 9, N_PAIRS), rng.uniform(0, 2, N_PAIRS),
    )  # fmt: skip


@pytest.mark.parametrize(("n_link", "given", "weighted"), [(1, True, True), (2, False, False), (0, False, True)])
def test_classes_are_those_of_the_plain_formulas(rng, pairs, n_link, given, weighted):
    n_classes = 4
    odds, level = rng.random(n_classes), rng.dirichlet(np.ones(N_LEVELS), (n_classes, N_FIELDS))
    link = rng.normal(0, 3, N_PAIRS) if given else None
    weight = rng.random(N_PAIRS) if weighted else None
    found = pairs.classes(odds, level, n_link, link=link, weight=weight)
    number, shown, likelihood = np.zeros(n_classes), np.zeros((n_classes, N_FIELDS, N_LEVELS)), 0.0
    for i in range(N_PAIRS):
        term = np.empty(n_classes)
        for c in range(n_classes):
            told = [level[c, f, at] for f, at in enumerate(pairs.levels[i]) if at != MISSING_LEVEL]
            term[c] = odds[c] * np.prod(told) / np.exp(pairs.by_chance[i])
            if given and c == 0:
                term[c] = odds[c] * np.exp(link[i])
            if c < n_link:
                term[c] *= np.exp(pairs.prior[i])
        total = np.exp(pairs.by_tree[i]) + term.sum()
        likelihood += pairs.count[i] * np.log(total)
        part = term / total
        if pairs.certain[i]:
            part[:n_link] = term[:n_link] / term[:n_link].sum()
            part[n_link:] = 0.0
        np.testing.assert_allclose(found.part[i], part, rtol=1e-10, atol=1e-15)
        for c in range(n_classes):
            w = pairs.count[i] if c < n_link or weight is None else weight[i]
            number[c] += w * part[c]
            for f, at in enumerate(pairs.levels[i]):
                if at != MISSING_LEVEL:
                    shown[c, f, at] += w * part[c]
    np.testing.assert_allclose(found.number, number, rtol=1e-10)
    np.testing.assert_allclose(found.shown, shown, rtol=1e-10, atol=1e-13)
    assert found.likelihood == pytest.approx(likelihood, rel=1e-12)
