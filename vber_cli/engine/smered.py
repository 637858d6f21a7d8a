"""SMERED, the Markov chain Monte Carlo of Steorts, Hall and Fienberg, as in the appendix A of the paper (smered.md).

    x_rf = y_{z_r f} if z̃_rf = 0, else ~ Cat(θ_f);  z̃_rf ~ Bernoulli(β̃_f);  y_kf ~ Cat(θ_f);
    θ_f ~ Dirichlet(μ);  β̃_f ~ Beta(a, b);  z_r uniform on 1..K.

A chain's state is the partition of the records with θ and β̃. y and z̃ are summed out of the linkage moves, and drawn
before θ and β̃ are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.engine import smered_kernels as kernels
from vber_cli.engine.smered_pairs import make_pairs
from vber_cli.engine.smered_sweep_kernels import iterate_kernel, set_tables, weigh_blocks
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records

_GENEROUS = 0.1  # β̃ under which candidate pairs are judged


@dataclass(frozen=True)
class Settings:
    """What the chains of a run share.

    Attributes
    ----------
    n_individuals
        K ≥ 1.
    iterations, burn_in, thin
        Iterations in all; the first `burn_in` are left out of the draws, of which every `thin`-th is kept.
    n_moves
        Linkage moves in each iteration.
    beta_prior, theta_prior
        (a, b) of β̃_f, and μ_fv, all > 0.
    seed
        Of all chains.
    """

    n_individuals: int
    iterations: int
    burn_in: int
    thin: int
    n_moves: int
    beta_prior: tuple[float, float]
    theta_prior: float
    seed: int

    @property
    def n_draws(self) -> int:
        """Draws that a chain keeps."""
        return max(self.iterations - self.burn_in, 0) // self.thin


@dataclass(frozen=True)
class Chain:
    """A chain and what it has recorded.

    Attributes
    ----------
    state
        Where it is.
    trace
        (iterations, 2 + F) float64: n, log joint and β̃ after each iteration.
    draws
        (T, N) int32: for each record the first record of its block, in each kept draw.
    """

    state: kernels.State
    trace: FloatArray
    draws: IntArray

    @property
    def iteration(self) -> int:
        """Iterations made so far."""
        return int(self.state.counter[kernels.ITERATION])

    @property
    def n_draws(self) -> int:
        """Draws kept so far."""
        return int(self.state.counter[kernels.N_DRAWS])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of everything that `restored` needs."""
        out = {name: array.copy() for name, array in self.state._asdict().items()}
        return {**out, "trace": self.trace[: self.iteration].copy(), "draws": self.draws[: self.n_draws].copy()}


class Sampler:
    """The data of a run, and the chains over them.

    Parameters
    ----------
    records
        The records, compared letter for letter.
    settings
        What the chains share.
    """

    def __init__(self, records: Records, settings: Settings) -> None:
        self.settings = settings
        offset = np.concatenate([[0], np.cumsum(records.n_values)]).astype(np.int64)
        value = np.where(records.codes >= 0, records.codes + offset[:-1], -1).astype(np.int32)
        observed = np.bincount(value[value >= 0], minlength=int(offset[-1])).astype(np.int64)
        self.data = kernels.Data(np.ascontiguousarray(value), offset, observed)
        self._prior = np.array([*settings.beta_prior, settings.theta_prior])
        generous = self._new_state(0)
        self._set_parameters(generous, _GENEROUS)
        self.pairs = make_pairs(self.data, generous, float(settings.n_individuals))

    @property
    def n_records(self) -> int:
        """N."""
        return len(self.data.value)

    def start(self, chain: int) -> Chain:
        """Begin a chain: even ones with every record by itself, odd ones with equal records together.

        With fewer individuals than that takes, similar records are put together. θ starts at the frequencies, β̃ at its
        prior mean.
        """
        state = self._new_state(chain)
        a, b = self.settings.beta_prior
        self._set_parameters(state, a / (a + b))
        label = start_partition(self.data.value, self.settings.n_individuals, together=chain % 2 == 1)
        fill_state(state, label)
        weigh_blocks(self.data, state, self._work())
        return Chain(state, *self._records_of_chain())

    def restored(self, arrays: dict[str, np.ndarray]) -> Chain:
        """Return the chain whose `arrays` these are."""
        state = kernels.State(**{name: arrays[name].copy() for name in kernels.State._fields})
        chain = Chain(state, *self._records_of_chain())
        chain.trace[: chain.iteration] = arrays["trace"]
        chain.draws[: chain.n_draws] = arrays["draws"]
        return chain

    def advance(self, chain: Chain, until: int) -> None:
        """Run a chain until it has made `until` iterations; the interpreter's lock is free meanwhile."""
        s = self.settings
        n_moves = s.n_moves if self.n_records > 1 else 0
        iterate_kernel(
            min(until, s.iterations), n_moves, s.burn_in, s.thin, float(s.n_individuals), self._prior, self.data,
            self.pairs, chain.state, self._work(), chain.trace, chain.draws,
        )  # fmt: skip

    def _records_of_chain(self) -> tuple[FloatArray, IntArray]:
        trace = np.zeros((self.settings.iterations, 2 + self.data.value.shape[1]))
        return trace, np.zeros((self.settings.n_draws, self.n_records), dtype=np.int32)

    def _work(self) -> kernels.Work:
        n, n_fields, n_values = *self.data.value.shape, len(self.data.n_observed)
        return kernels.Work(
            np.zeros((2, n_values)), np.zeros((2, n_fields)), np.zeros(n, np.int32), np.zeros(n, np.int32),
            np.zeros(n, np.int8), np.zeros(n), np.zeros(n_values, np.int32),
        )  # fmt: skip

    def _new_state(self, chain: int) -> kernels.State:
        n, n_fields, n_values = *self.data.value.shape, len(self.data.n_observed)
        n_blocks = min(n, self.settings.n_individuals)
        stream = np.random.SeedSequence([self.settings.seed, chain]).generate_state(1, np.uint64)
        return kernels.State(
            block_of=np.zeros(n, np.int32),
            next_record=np.zeros(n, np.int32),
            head=np.zeros(n_blocks, np.int32),
            n_in_block=np.zeros(n_blocks, np.int32),
            weight=np.zeros(n_blocks),
            free=np.zeros(n_blocks, np.int32),
            multi=np.zeros(n_blocks, np.int32),
            multi_place=np.zeros(n_blocks, np.int32),
            counter=np.zeros(kernels.N_COUNTERS, np.int64),
            total=np.zeros(1),
            stream=stream,
            log_theta=np.zeros(n_values),
            log_rho=np.zeros(n_values),
            pair_same=np.zeros(n_values),
            log_beta=np.zeros(n_fields),
            log_w=np.zeros(n_fields),
            pair_differ=np.zeros(n_fields),
            rho=np.zeros(n_values),
            beta=np.zeros(n_fields),
            w=np.zeros(n_fields),
            plain=np.zeros(1, np.int64),
        )

    def _set_parameters(self, state: kernels.State, beta: float) -> None:
        """θ at its posterior mean if every value counted once, and one β̃ for all fields."""
        for f in range(self.data.value.shape[1]):
            own = slice(self.data.value_ptr[f], self.data.value_ptr[f + 1])
            count = self.data.n_observed[own] + self.settings.theta_prior
            state.log_theta[own] = np.log(count / max(count.sum(), 1e-300))
        state.log_beta[:] = np.log(beta)
        set_tables(self.data, state, np.full(len(state.log_beta), np.log1p(-beta)))


def start_partition(value: IntArray, n_individuals: int, *, together: bool) -> LongArray:
    """(N,) int64 labels 0..n−1, n ≤ K, of a partition to start from: all apart, or equal records together.

    If that makes more than K blocks, neighbours in the order of the values are joined, as evenly as possible.
    """
    n = len(value)
    _, same = np.unique(value, axis=0, return_inverse=True)
    same = same.ravel()
    if not together and n <= n_individuals:
        return np.arange(n, dtype=np.int64)
    n_groups = int(same.max(initial=-1)) + 1
    if n_groups <= n_individuals:
        return np.asarray(same, dtype=np.int64)
    return np.asarray(same * n_individuals // n_groups, dtype=np.int64)


def fill_state(state: kernels.State, label: LongArray) -> None:
    """Make the blocks of a new state those of a partition with labels 0..n−1; weights are left at 0."""
    n_blocks, n = len(state.head), int(label.max(initial=-1)) + 1
    order = np.argsort(label, kind="stable").astype(np.int32)
    size = np.bincount(label, minlength=n)
    start = np.cumsum(size) - size
    state.block_of[:] = label
    last = np.zeros(len(label), dtype=bool)
    last[start[1:] - 1] = True
    last[-1:] = True
    state.next_record[order] = np.where(last, -1, np.roll(order, -1))
    state.head[:n] = order[start]
    state.n_in_block[:n] = size
    state.free[: n_blocks - n] = np.arange(n_blocks - 1, n - 1, -1)
    multi = np.flatnonzero(size > 1)
    state.multi[: len(multi)] = multi
    state.multi_place[multi] = np.arange(len(multi))
    state.counter[kernels.N_OCCUPIED] = n
    state.counter[kernels.N_MULTI] = len(multi)
