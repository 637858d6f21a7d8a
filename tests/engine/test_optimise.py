"""The loop of moves and sweeps: its bound never falls, and is the naive one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import exact, reference
from tests.engine import built, naive
from vber_cli.engine.graph import build_graph
from vber_cli.engine.optimise import Limits, argmax_labels, optimise
from vber_cli.engine.partition_bound import PartitionBound
from vber_cli.engine.start import start_at_random, start_from_records

STARTS = {"auto": None, "records": start_from_records, "random": start_at_random}
PARTS = [(1, ()), (1, ("tree",)), (2, naive.FULL)]


def log_labellings(n_individuals, n):
    return math.lgamma(n_individuals + 1) - math.lgamma(n_individuals - n + 1)


def naive_bound(case, n_individuals, label):
    """log p(x, partition | K) with all labellings counted: Σ weights, θ of every value, −N log K, log K! / (K − n)!."""
    blocks = naive.blocks_of(label)
    total = sum(naive.block_weight(case, block) for block in blocks) + np.log(case.plain_theta).sum()
    return total - case.n * np.log(n_individuals) + log_labellings(n_individuals, len(blocks))


def naive_elbo(case, linkage, n_individuals):
    """The ELBO of the fit's φ, with λ at its best, over dense arrays."""
    phi = np.zeros((case.n, n_individuals))
    for r in range(case.n):
        row = slice(linkage.ptr[r], linkage.ptr[r + 1])
        if linkage.blank[r]:
            phi[r] = 1 / n_individuals
            continue
        phi[r, linkage.individual[row]] = linkage.phi[row]
        if linkage.n_rest:
            phi[r, linkage.n_stored :] = linkage.rest[r] / linkage.n_rest
    alpha = case.alpha_by_field
    return reference.short_elbo(alpha, phi, reference.dense_lambda(case.codes, alpha, phi))


def run(case, n_individuals, start, rng, log_new, monkeypatch):
    """The loop; its steps, and every partition it weighed with the bound it gave."""
    n = case.n
    a, b = built.all_pairs(n)
    keep = (case.codes[a] == case.codes[b]).sum(axis=1) >= 2
    pairs = a[keep], b[keep]
    weighed, steps = [], []
    weigh = PartitionBound.of

    def watched(self, label):
        out = weigh(self, label)
        weighed.append((label.copy(), out.elbo, out.bound))
        assert out.n == len(np.unique(label))
        return out

    monkeypatch.setattr(PartitionBound, "of", watched)
    begin = None if start == "auto" else STARTS[start](case.records, n_individuals, int(rng.integers(100)))
    optimum = optimise(
        case.records, case.prior, built.model_of(case), n_individuals, log_new, build_graph(*pairs, n), pairs, begin,
        Limits(300, 1e-7, 1), steps.append,
    )  # fmt: skip
    return optimum, steps, weighed


def steady(rng, n, n_classes, parts, kind="people"):
    """A case whose α are small enough for moves to matter."""
    case = naive.make_case(rng, n, kind, n_classes, parts)
    prior = case.prior.with_concentration(rng.choice([0.01, 0.2, 0.7], 3))
    if n_classes == 1 and not parts:
        case = case.of(noise=type(case.noise).single(prior.concentration))
    return case.of(prior=prior)


@pytest.mark.parametrize("rng", [1, 2, 4], indirect=True)
@pytest.mark.parametrize("start", list(STARTS))
@pytest.mark.parametrize(("n_classes", "parts"), PARTS)
@pytest.mark.parametrize("n_individuals", [35, 60])
def test_the_bound_never_falls(rng, start, n_classes, parts, n_individuals, monkeypatch):
    case = steady(rng, 30, n_classes, parts)
    optimum, steps, weighed = run(case, n_individuals, start, rng, 2.5, monkeypatch)
    bounds = [step.bound for step in steps]
    assert len(bounds) >= 2
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1]))
    assert optimum.bound == bounds[-1]
    assert not optimum.forced
    assert optimum.fit.converged
    assert start != "auto" or {step.kind for step in steps} - {"sweep"}
    assert weighed
    for label, _, bound in weighed:
        assert bound == pytest.approx(naive_bound(case, n_individuals, label), abs=1e-8)


@pytest.mark.parametrize("rng", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("start", list(STARTS))
@pytest.mark.parametrize("kind", ["people", "missing", "tied"])
def test_in_the_exact_model_it_is_the_symmetrised_elbo(rng, start, kind, monkeypatch):
    n_individuals = 30
    case = steady(rng, 24, 1, (), kind)
    assert kind == "people" or (case.codes < 0).any()
    # a record without values is spread over all individuals, which the bound of a partition does not count
    spread = np.log(n_individuals) * (case.codes < 0).all(axis=1).sum()
    optimum, steps, weighed = run(case, n_individuals, start, rng, 2.5, monkeypatch)
    for step in steps:
        assert step.bound - step.elbo == pytest.approx(log_labellings(n_individuals, step.n) - spread, abs=1e-8)
    alpha = case.alpha_by_field
    for label, elbo, bound in weighed:
        blocks = naive.blocks_of(label)
        plain = sum(exact.log_marginal(case.codes, alpha, block) for block in blocks)
        plain -= case.n * np.log(n_individuals)
        assert elbo == pytest.approx(plain + spread, abs=1e-8)
        assert bound == pytest.approx(plain + log_labellings(n_individuals, len(blocks)), abs=1e-8)
    expected = naive_elbo(case, optimum.fit.linkage, n_individuals)
    assert optimum.fit.elbo == pytest.approx(expected, abs=1e-7)
    assert optimum.bound == pytest.approx(expected + log_labellings(n_individuals, steps[-1].n) - spread, abs=1e-7)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_the_exact_bound_stays_below_the_evidence(rng, monkeypatch):
    n_individuals = 4
    for _ in range(5):
        case = steady(rng, 5, 1, ())
        optimum, steps, _ = run(case, n_individuals, "random", rng, 0.5, monkeypatch)
        evidence = exact.log_evidence(case.codes, case.alpha_by_field, n_individuals)
        assert steps[-1].elbo <= evidence + 1e-9
        # moves end in nearly hard assignments, of which the evidence counts every labelling
        hard = naive_bound(case, n_individuals, argmax_labels(optimum.fit.linkage))
        assert hard <= evidence + 1e-9


@pytest.mark.parametrize(("n_classes", "parts"), PARTS)
def test_fewer_individuals_than_the_moves_leave_are_forced(rng, n_classes, parts, monkeypatch):
    case = steady(rng, 30, n_classes, parts)
    free, _, _ = run(case, 60, "auto", rng, 2.5, monkeypatch)
    n_free = int(argmax_labels(free.fit.linkage).max()) + 1
    few = n_free // 2
    forced, _, _ = run(case, few, "auto", rng, 2.5, monkeypatch)
    assert forced.forced
    assert int(argmax_labels(forced.fit.linkage).max()) + 1 <= few
    assert forced.fit.linkage.n_individuals == few


def test_labels_are_the_most_probable_individuals(rng):
    case = naive.make_case(rng, 12, "people")
    linkage = start_at_random(case.records, 5, 3)
    label = argmax_labels(linkage)
    for r in range(12):
        for s in range(12):
            if linkage.ptr[r + 1] > linkage.ptr[r] and linkage.ptr[s + 1] > linkage.ptr[s]:
                same = linkage.individual[linkage.ptr[r]] == linkage.individual[linkage.ptr[s]]
                assert (label[r] == label[s]) == same
