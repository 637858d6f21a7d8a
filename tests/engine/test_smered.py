"""SMERED's sampler against enumeration, against the joint distribution, and against plain recomputation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from tests.called import from_python
from tests.exact import smered_posterior
from vber_cli.engine import smered_kernels as kernels
from vber_cli.engine.smered import Sampler, Settings, start_partition
from vber_cli.engine.smered_move_kernels import moves_kernel
from vber_cli.engine.smered_sweep_kernels import iterate_kernel, set_tables, weigh_blocks
from vber_cli.model.types import Records

block_weight = from_python(kernels.block_weight)

N_BATCHES = 40


def records_of(codes, n_values):
    codes = np.asarray(codes, np.int32)
    return Records(np.ascontiguousarray(codes), np.zeros(len(codes), np.int32), np.asarray(n_values, np.int64))


def settings(n_individuals, iterations, *, burn_in=0, thin=1, n_moves=5, beta=(1.0, 5.0), theta=1.0, seed=0):
    return Settings(n_individuals, iterations, burn_in, thin, n_moves, beta, theta, seed)


def random_codes(rng, n_records, n_values, missing=0.2, copies=0.6):
    """Records of which many copy an earlier one with errors, with gaps."""
    codes = np.column_stack([rng.integers(v, size=n_records) for v in n_values]).astype(np.int32)
    for r in range(1, n_records):
        if rng.random() < copies:
            source = codes[rng.integers(r)]
            keep = rng.random(len(n_values)) < 0.8
            codes[r, keep] = source[keep]
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def batch_error(x):
    """Standard error of the mean of correlated draws (T, ...), by batch means."""
    usable = len(x) // N_BATCHES * N_BATCHES
    means = x[:usable].reshape(N_BATCHES, -1, *x.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)


CASES = {
    "K is N": {"n": 6, "values": (3, 4), "k": 6, "beta": (1.0, 4.0), "theta": 1.0, "missing": 0.0},
    "few individuals": {"n": 5, "values": (3, 2, 4), "k": 3, "beta": (2.0, 5.0), "theta": 0.5, "missing": 0.2},
    "many individuals, hardly any noise": {
        "n": 6,
        "values": (4, 4, 5),
        "k": 40,
        "beta": (0.5, 20.0),
        "theta": 2.0,
        "missing": 0.3,
    },
    "a constant field, much noise": {
        "n": 5,
        "values": (1, 6),
        "k": 5,
        "beta": (3.0, 1.0),
        "theta": 0.3,
        "missing": 0.1,
    },
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_pair_probabilities_are_those_of_enumeration(name, seed):
    case = CASES[name]
    codes = random_codes(np.random.default_rng([seed, 17]), case["n"], case["values"], case["missing"])
    exact_pair, exact_n = smered_posterior(codes, case["values"], case["beta"], case["theta"], case["k"])
    chosen = settings(case["k"], 60_000, burn_in=200, beta=case["beta"], theta=case["theta"], seed=seed)
    sampler = Sampler(records_of(codes, case["values"]), chosen)
    chain = sampler.start(seed)
    sampler.advance(chain, chosen.iterations)
    i, j = np.triu_indices(case["n"], 1)
    together = chain.draws[:, i] == chain.draws[:, j]
    error = np.maximum(batch_error(together.astype(float)), 1e-4)
    assert (np.abs(together.mean(axis=0) - exact_pair[i, j]) < 4 * error).all()
    n_is = chain.trace[200:, 0][:, None] == np.arange(case["n"] + 1)
    assert (np.abs(n_is.mean(axis=0) - exact_n) < 4 * np.maximum(batch_error(n_is.astype(float)), 1e-4)).all()


def draw_prior(rng, n_records, n_values, k, beta, theta):
    """A partition, θ and β̃ from the prior."""
    label = rng.integers(k, size=n_records)
    thetas = [rng.dirichlet(np.full(v, theta)) for v in n_values]
    return np.unique(label, return_inverse=True)[1], thetas, rng.beta(*beta, size=len(n_values))


def draw_codes(rng, label, thetas, betas, mask):
    """Values given the partition, θ and β̃; those under the mask are missing."""
    codes = np.full(mask.shape, -1, np.int32)
    for f, theta in enumerate(thetas):
        truth = rng.choice(len(theta), p=theta, size=label.max() + 1)[label]
        other = rng.choice(len(theta), p=theta, size=len(label))
        codes[:, f] = np.where(rng.random(len(label)) < betas[f], other, truth)
    codes[mask] = -1
    return codes


def functions_compared(codes, label, thetas, betas):
    agree = sum((codes[:, None, f] == codes[None, :, f]) & (codes[:, None, f] >= 0) for f in range(codes.shape[1]))
    n = label.max() + 1
    pairs = np.sum(np.bincount(label) ** 2)
    values = [n, pairs, agree.sum(), *betas, *(t[0] for t in thetas), *(t[0] ** 2 for t in thetas), betas[0] * n]
    return np.array([*values, agree.sum() * n], float)


@pytest.mark.parametrize(("seed", "k"), [(1, 4), (2, 30)])
def test_the_joint_distribution(seed, k):
    """Geweke's test: draws of parameters and data in turn must look like draws from the prior."""
    n_records, n_values, beta, theta = 6, (3, 2), (1.5, 4.0), 0.8
    rng = np.random.default_rng([seed, 5])
    mask = rng.random((n_records, 2)) < 0.15
    direct = []
    for _ in range(8_000):
        label, thetas, betas = draw_prior(rng, n_records, n_values, k, beta, theta)
        direct.append(functions_compared(draw_codes(rng, label, thetas, betas, mask), label, thetas, betas))
    label, thetas, betas = draw_prior(rng, n_records, n_values, k, beta, theta)
    codes = draw_codes(rng, label, thetas, betas, mask)
    n_iterations = 8_000
    chosen = settings(k, n_iterations, beta=beta, theta=theta, seed=seed, n_moves=8)
    sampler = Sampler(records_of(codes, n_values), chosen)
    chain, offset, successive = sampler.start(0), np.array([0, 3]), []
    for step in range(n_iterations):
        sampler.advance(chain, step + 1)
        label = np.unique(chain.draws[step], return_inverse=True)[1]
        thetas = np.split(np.exp(chain.state.log_theta), offset[1:])
        betas = np.exp(chain.state.log_beta)
        codes = draw_codes(rng, label, [t / t.sum() for t in thetas], betas, mask)
        successive.append(functions_compared(codes, label, thetas, betas))
        value = np.where(codes >= 0, codes + offset, -1)
        sampler.data.value[:] = value
        sampler.data.n_observed[:] = np.bincount(value[value >= 0], minlength=5)
        weigh_blocks(sampler.data, chain.state, sampler._work())
    direct, successive = np.array(direct), np.array(successive)
    error = np.hypot(direct.std(axis=0) / np.sqrt(len(direct)), batch_error(successive))
    z = (successive.mean(axis=0) - direct.mean(axis=0)) / error
    assert (np.abs(z) < 4).all(), z


def naive_weight(codes, members, thetas, betas):
    """Λ of a block, by summing over every true value."""
    total = 0.0
    for f, theta in enumerate(thetas):
        x = [codes[r, f] for r in members if codes[r, f] >= 0]
        terms = [
            np.log(t) + sum(np.log((1 - betas[f]) * (v == y) + betas[f] * theta[v]) for v in x)
            for y, t in enumerate(theta)
        ]
        total += logsumexp(terms) - sum(np.log(theta[v]) for v in x)
    return total


def prepared(rng, n_records, n_values, k, betas=None, **more):
    """A chain over random records at random θ and β̃, in a random partition."""
    codes = random_codes(rng, n_records, n_values)
    sampler = Sampler(records_of(codes, n_values), settings(k, 50, **more))
    chain = sampler.start(0)
    thetas = [rng.dirichlet(np.full(v, 0.7)) for v in n_values]
    betas = rng.beta(2, 8, size=len(n_values)) if betas is None else betas
    chain.state.log_theta[:] = np.log(np.concatenate(thetas))
    chain.state.log_beta[:] = np.log(betas)
    set_tables(sampler.data, chain.state, np.log1p(-betas))
    weigh_blocks(sampler.data, chain.state, sampler._work())
    return codes, sampler, chain, thetas, betas


@pytest.mark.parametrize("m", [1, 2, 3, 9, 60])
@pytest.mark.parametrize("plain", [True, False])
def test_the_weight_of_a_block_is_its_sum_over_true_values(rng, m, plain):
    codes, sampler, chain, thetas, betas = prepared(rng, 60, (4, 7, 1, 12), 60)
    if not plain:
        chain.state.plain[0] = 0
    members = rng.permutation(60)[:m].astype(np.int32)
    found = block_weight(members, sampler.data, chain.state, sampler._work())
    assert found == pytest.approx(naive_weight(codes, members, thetas, betas), abs=1e-9)


def test_blocks_too_large_for_plain_doubles(rng):
    betas = np.full(2, 1e-9)
    codes, sampler, chain, thetas, _ = prepared(rng, 300, (3, 40), 300, betas=betas)
    assert chain.state.plain[0] < 300
    members = np.arange(300, dtype=np.int32)
    found = block_weight(members, sampler.data, chain.state, sampler._work())
    assert np.isfinite(found)
    assert found == pytest.approx(naive_weight(codes, members, thetas, betas), rel=1e-9)


def check_state(sampler, state):
    """Everything a chain keeps up to date while it moves equals what the partition alone says."""
    n = len(state.block_of)
    blocks = {}
    for r, block in enumerate(state.block_of.tolist()):
        blocks.setdefault(block, []).append(r)
    assert len(blocks) == state.counter[kernels.N_OCCUPIED]
    assert sorted(np.flatnonzero(state.n_in_block).tolist()) == sorted(blocks)
    free = state.free[: len(state.head) - len(blocks)].tolist()
    assert sorted([*free, *blocks]) == list(range(len(state.head)))
    multi = state.multi[: state.counter[kernels.N_MULTI]].tolist()
    assert sorted(multi) == sorted(b for b, members in blocks.items() if len(members) > 1)
    assert [state.multi_place[b] for b in multi] == list(range(len(multi)))
    work, total = sampler._work(), 0.0
    for block, members in blocks.items():
        chained, record = [], state.head[block]
        while record >= 0:
            chained.append(int(record))
            record = state.next_record[record]
        assert sorted(chained) == members
        assert state.n_in_block[block] == len(members)
        weight = block_weight(np.array(members, np.int32), sampler.data, state, work)
        assert state.weight[block] == pytest.approx(weight, abs=1e-8)
        total += weight
    assert state.total[0] == pytest.approx(total, abs=1e-7 * n)


@pytest.mark.parametrize(("n_records", "k"), [(40, 40), (40, 7), (25, 1000), (30, 1)])
def test_what_is_kept_up_to_date_is_what_the_partition_says(rng, n_records, k):
    _, sampler, chain, _, _ = prepared(rng, n_records, (3, 4, 2), k)
    for _ in range(60):
        moves_kernel(50, float(k), sampler.data, sampler.pairs, chain.state, sampler._work())
        check_state(sampler, chain.state)
    assert chain.state.counter[kernels.N_OCCUPIED] <= k
    made = chain.state.counter[[kernels.MERGED, kernels.SPLIT, kernels.SHIFTED]]
    assert (made > 0).all() if k > 1 else (made == 0).all()
    sampler.advance(chain, 3)
    check_state(sampler, chain.state)


def test_the_log_joint_is_that_of_the_model(rng):
    beta, theta, k = (1.5, 6.0), 0.6, 50
    codes, sampler, chain, _, _ = prepared(rng, 30, (4, 3, 6), k, beta=beta, theta=theta)
    sampler.advance(chain, 4)
    betas = np.exp(chain.state.log_beta)
    thetas = np.split(np.exp(chain.state.log_theta), sampler.data.value_ptr[1:-1])
    label = np.unique(chain.state.block_of, return_inverse=True)[1]
    n = label.max() + 1
    expected = gammaln(k + 1) - gammaln(k - n + 1) - 30 * np.log(k)
    for block in range(n):
        expected += naive_weight(codes, np.flatnonzero(label == block), thetas, betas)
    for f, t in enumerate(thetas):
        expected += sum(np.log(t[v]) for v in codes[:, f] if v >= 0)
        expected += gammaln(len(t) * theta) - len(t) * gammaln(theta) + (theta - 1) * np.log(t).sum()
        expected += gammaln(sum(beta)) - gammaln(beta[0]) - gammaln(beta[1])
        expected += (beta[0] - 1) * np.log(betas[f]) + (beta[1] - 1) * np.log1p(-betas[f])
    assert chain.trace[3, 0] == n
    assert chain.trace[3, 1] == pytest.approx(expected, rel=1e-10)
    assert chain.trace[3, 2:] == pytest.approx(betas)


def test_a_restored_chain_goes_on_as_if_nothing_had_happened(rng):
    codes = random_codes(rng, 60, (5, 6, 4))
    chosen = settings(60, 40, burn_in=5, thin=3, n_moves=60)
    sampler = Sampler(records_of(codes, (5, 6, 4)), chosen)
    whole = sampler.start(1)
    sampler.advance(whole, 40)
    first = sampler.start(1)
    for until in (1, 2, 13, 22):
        sampler.advance(first, until)
    again = Sampler(records_of(codes, (5, 6, 4)), chosen)
    second = again.restored(first.arrays())
    again.advance(second, 40)
    assert second.n_draws == whole.n_draws == chosen.n_draws == 11
    np.testing.assert_array_equal(second.trace, whole.trace)
    np.testing.assert_array_equal(second.draws, whole.draws)
    for name, array in whole.state._asdict().items():
        np.testing.assert_array_equal(getattr(second.state, name), array)


def test_seeds_and_chains_differ(rng):
    sampler = Sampler(records_of(random_codes(rng, 40, (5, 6, 4)), (5, 6, 4)), settings(40, 10))
    chains = [sampler.start(c) for c in (0, 2)]
    other = Sampler(records_of(random_codes(rng, 40, (5, 6, 4)), (5, 6, 4)), settings(40, 10, seed=1)).start(0)
    streams = {int(chain.state.stream[0]) for chain in (*chains, other)}
    assert len(streams) == 3


@pytest.mark.parametrize("shape", [(1, 2), (4, 1)])
def test_one_record_or_nothing_but_gaps(shape):
    codes = np.full(shape, -1, np.int32)
    sampler = Sampler(records_of(codes, [0] * shape[1]), settings(4, 20))
    chain = sampler.start(0)
    sampler.advance(chain, 20)
    assert chain.trace[:, 0].max() <= shape[0]
    assert np.isfinite(chain.trace).all()


@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 3), (5, 5), (6, 6), (100, 6)])
def test_starts_need_no_more_individuals_than_there_are(k, n):
    value = np.array([[0, 3], [1, 4], [0, 3], [2, 3], [1, 5], [0, 4], [0, 3]], np.int32)
    label = start_partition(value, k, together=False)
    if k >= 7:
        assert label.tolist() == list(range(7))
        return
    assert label.max() + 1 <= min(k, n)
    assert set(label) == set(range(label.max() + 1))
    together = start_partition(value, k, together=True)
    assert together[0] == together[2] == together[6]


def test_iterations_do_not_depend_on_how_they_are_cut(rng):
    """The kernel itself, called one iteration at a time."""
    sampler = Sampler(records_of(random_codes(rng, 30, (4, 4)), (4, 4)), settings(30, 8))
    whole, cut = sampler.start(0), sampler.start(0)
    sampler.advance(whole, 8)
    for until in range(1, 9):
        iterate_kernel(
            until, 5, 0, 1, 30.0, np.array([1.0, 5.0, 1.0]), sampler.data, sampler.pairs, cut.state, sampler._work(),
            cut.trace, cut.draws,
        )  # fmt: skip
    np.testing.assert_array_equal(whole.trace, cut.trace)
