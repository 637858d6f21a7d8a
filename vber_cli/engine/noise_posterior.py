"""What the links leave open about the noise: draws of the noise classes from their posterior (model.md section 4).

Whether a faint pair is a link depends on the noise, and the noise on which faint pairs are links. A sampler that draws
one given the other therefore moves slowly, and needs many steps. They are taken on a small stand-in for the data: the
candidate pairs tabulated by the pattern of their levels and by their log odds, each pair a link or not by itself. Under
the noise that was learned each has the probability that it has among all records: with it goes what it shares, who
else its records may belong to, and which other pairs hold them together. Another noise moves that by what it makes of
the pair's own pattern. Blocks of m records have m(m−1)/2 pairs but only m−1 records that were copied, so the counts of
links are scaled down to these. Many chains step side by side, each array with an axis over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from vber_cli.arrays import distinct_rows
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.hyper import CLASS_WEIGHT, COPY_LEVELS, class_prior, field_prior, share_prior
from vber_cli.model.dependence import tree_roots
from vber_cli.model.noise import ANEW, Noise
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION
from vber_cli.model.similar import N_LEVELS, OTHER
from vber_cli.model.types import FloatArray, LongArray

_BURN_IN = 60
_THIN = 12
_CHAINS = 20  # side by side, where draws are not anchored
_MOST_AT_ONCE = 2_000_000  # of chains times patterns times classes, or times cells
_BIN = 0.5  # nats
_FARTHEST = 10.0  # a probability is not moved to less than such a part of what was learned
_FARTHEST_N = 0.25  # of the records saved, how far draws may lead from what was learned before they are anchored


@dataclass(frozen=True)
class _Table:
    """Candidate pairs by pattern of levels and by what else speaks for them.

    Attributes
    ----------
    indicator
        (U, F, 4) float64, the patterns; nothing set where a value is missing.
    pattern, rest, count
        (C,) cells: their pattern, the mean log odds of being a link beside what the pattern says, and number of pairs.
    """

    indicator: FloatArray
    pattern: LongArray
    rest: FloatArray
    count: LongArray


@dataclass(frozen=True)
class HyperDraw:
    """One draw: the noise classes, and the number n of recorded individuals that came with it."""

    noise: Noise
    n: float


@dataclass(frozen=True)
class _Chains:
    """The noise of D chains: `Noise.concentration` (D, Q, F), `levels` (D, Q, F, 3) and `share` (D, Q)."""

    concentration: FloatArray
    levels: FloatArray
    share: FloatArray

    @classmethod
    def at(cls, noise: Noise, n_chains: int) -> _Chains:
        """All at the same noise."""
        parts = noise.concentration, noise.levels, noise.share
        return cls(*(np.repeat(part[None], n_chains, axis=0) for part in parts))


def draw_noises(
    model: BlockModel,
    levels: np.ndarray,
    log_odds: FloatArray,
    start: Noise,
    n_start: float,
    n_draws: int,
    rng: np.random.Generator,
    *,
    anchored: bool,
) -> list[HyperDraw]:
    """Draws of the noise, far enough apart to be nearly independent.

    Pairs by themselves would draw the noise to where it excuses relatives, and among many records of few individuals to
    ever more links. There it is anchored: every draw starts anew from what was learned, and all are moved back so that
    this stays their middle. They say how uncertain the noise is, and not where it lies.

    Parameters
    ----------
    model
        For the frequency of levels between different individuals.
    levels, log_odds
        (P, F) and (P,): the levels of each candidate pair, and the log odds that it is a link, as they were found with
        the noise that was learned. The weight of one more individual in them stays: drawn along, K would turn each link
        too many into odds for more of them.
    start, n_start
        The noise classes and the number of individuals that were learned.
    n_draws
        How many.
    rng
        The source of chance.
    anchored
        Whether fields depend on each other, or there are relatives.
    """
    if len(log_odds) == 0:
        return [HyperDraw(start, n_start)] * n_draws  # nothing speaks of noise
    chance = _chance(model)
    root = tree_roots(model.tree, len(chance))
    table = _tabulate(levels, log_odds, chance, start)
    n_records = len(model.codes)
    links = float(expit(log_odds).sum())
    scale = min((n_records - n_start) / max(links, 1e-9), 1.0)

    def steps(chains: _Chains, n_steps: int) -> tuple[_Chains, FloatArray]:
        """Go so many steps; return where that led and the n that came with it, (D,)."""
        found = np.zeros(len(chains.share))
        for _ in range(n_steps):
            found, by_class = _draw_links(table, chance, chains, rng)
            chains = _draw_noise(table, chance, root, chains, start.anew, by_class * scale, rng)
        return chains, np.clip(n_records - scale * found, 1.0, n_records)

    size = max(len(table.indicator) * start.n_classes, len(table.count), 1)
    at_once = max(_MOST_AT_ONCE // size, 1)
    if not anchored:
        n_chains = min(n_draws, _CHAINS, at_once)
        chains, _ = steps(_Chains.at(start, n_chains), _BURN_IN)
        made = []
        for _ in range(-(-n_draws // n_chains)):
            made.append(steps(chains, _THIN))
            chains = made[-1][0]
        free, n = _joined(made, n_draws)
        if abs(n.mean() - n_start) <= _FARTHEST_N * (n_records - n_start):
            return _draws_of(free, n, start)
    sizes = [min(at_once, n_draws - done) for done in range(0, n_draws, at_once)]
    return _centred(*_joined([steps(_Chains.at(start, size), _THIN) for size in sizes], n_draws), start, n_start)


def _joined(made: list[tuple[_Chains, FloatArray]], n_draws: int) -> tuple[_Chains, FloatArray]:
    """The first so many of the chains, one after the other, and the n (D,) of each."""
    chains = [one for one, _ in made]
    return _Chains(
        np.concatenate([one.concentration for one in chains])[:n_draws],
        np.concatenate([one.levels for one in chains])[:n_draws],
        np.concatenate([one.share for one in chains])[:n_draws],
    ), np.concatenate([n for _, n in made])[:n_draws]


def _draws_of(chains: _Chains, n: FloatArray, start: Noise) -> list[HyperDraw]:
    """Each of D chains and its n (D,) as a draw, of classes that draw anew what those of `start` do."""
    draws = zip(chains.concentration, chains.levels, chains.share, n, strict=True)
    return [HyperDraw(Noise(alpha, levels, share, start.anew), float(n_now)) for alpha, levels, share, n_now in draws]


def _centred(chains: _Chains, n: FloatArray, noise: Noise, n_start: float) -> list[HyperDraw]:
    """The draws moved so that their middle is the noise and the n given, each about as far from it as before."""

    def moved(drawn: FloatArray, at: FloatArray) -> FloatArray:
        return np.asarray(np.clip(at + drawn - drawn.mean(axis=0), at / _FARTHEST, 1.0))

    # the probabilities that noise consists of: mismatch rates, copy levels and the classes' shares
    wrong = moved(*(alpha / (1.0 + alpha) for alpha in (chains.concentration, noise.concentration)))
    levels, share = moved(chains.levels, noise.levels), moved(chains.share, noise.share)
    alpha = np.clip(wrong / np.maximum(1.0 - wrong, 1e-12), MIN_CONCENTRATION, MAX_CONCENTRATION)
    if noise.changes.any():
        alpha = np.where(noise.anew, ANEW, alpha)
    levels, share = levels / levels.sum(axis=3, keepdims=True), share / share.sum(axis=1, keepdims=True)
    return _draws_of(_Chains(alpha, levels, share), n_start + n - n.mean(), noise)


def _chance(model: BlockModel) -> FloatArray:
    """(F, 4) probability of each level between different individuals, that of identical values included."""
    chance: FloatArray = model.unrelated.copy()
    chance[:, 0] = np.maximum(chance[:, 0], 1e-12)
    return chance


def _tabulate(levels: np.ndarray, log_odds: FloatArray, chance: FloatArray, start: Noise) -> _Table:
    patterns, pattern = distinct_rows(levels)
    indicator = np.stack([patterns == level for level in range(N_LEVELS)], axis=2).astype(np.float64)
    at = np.round(log_odds / _BIN).astype(np.int64)
    at -= at.min()
    cells, of_pair, count = np.unique(pattern * (int(at.max()) + 1) + at, return_inverse=True, return_counts=True)
    pattern_of = cells // (int(at.max()) + 1)
    # in the middle of a cell as many links as its pairs make
    share = np.bincount(of_pair.ravel(), weights=expit(log_odds), minlength=len(count)) / count
    cell = logit(np.clip(share, 1e-300, 1.0 - 1e-16))
    by_itself = _log_patterns(indicator, chance, start.concentration, start.levels, start.share)[1]
    return _Table(indicator, pattern_of, cell - by_itself[pattern_of], count)


def _log_patterns(
    indicator: FloatArray, chance: FloatArray, concentration: FloatArray, levels: FloatArray, share: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(..., Q, U) log share_q Π_f of each pattern's levels, without the rarity of what is identical; and (..., U) sums.

    Concentrations (..., Q, F), copy levels (..., Q, F, 3) and shares (..., Q) may be those of many chains.
    """
    factor = np.empty((*concentration.shape, N_LEVELS))
    factor[..., 0] = levels[..., 0] + concentration * chance[:, 0]
    near = chance[:, 1:OTHER]
    copied = np.divide(levels[..., 1:], near, out=np.zeros(levels[..., 1:].shape), where=near > 0)
    factor[..., 1:OTHER] = concentration[..., None] + copied
    factor[..., OTHER] = concentration
    factor /= (1.0 + concentration)[..., None]
    flat = indicator.reshape(len(indicator), -1)
    log_factor = np.log(np.maximum(factor, 1e-300)).reshape(*share.shape, -1)
    by_class = log_factor @ flat.T + np.log(share)[..., None]
    top = by_class.max(axis=-2)
    return by_class, np.asarray(top + np.log(np.exp(by_class - top[..., None, :]).sum(axis=-2)))


def _draw_links(
    table: _Table, chance: FloatArray, chains: _Chains, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Links drawn in every cell by each of D chains: their number (D,), and (D, U, Q) by pattern and class."""
    log_class, log_pattern = _log_patterns(table.indicator, chance, chains.concentration, chains.levels, chains.share)
    drawn = rng.binomial(table.count, expit(log_pattern[:, table.pattern] + table.rest))
    by_pattern = np.add.reduceat(drawn, np.flatnonzero(np.diff(table.pattern, prepend=-1)), axis=1)
    if log_class.shape[1] == 1:
        return drawn.sum(axis=1).astype(np.float64), by_pattern[:, :, None].astype(np.float64)
    share = np.moveaxis(np.exp(log_class - log_pattern[:, None, :]), 1, 2)
    by_class = rng.multinomial(by_pattern, share / share.sum(axis=2, keepdims=True))
    return drawn.sum(axis=1).astype(np.float64), by_class.astype(np.float64)


def _draw_noise(
    table: _Table,
    chance: FloatArray,
    root: LongArray,
    chains: _Chains,
    anew: np.ndarray,
    by_class: FloatArray,
    rng: np.random.Generator,
) -> _Chains:
    """The noise classes given how many links of each pattern they explain, (D, U, Q).

    `root` is as in `class_prior`, `anew` as in `Noise`.
    """
    n_chains, n_classes = chains.share.shape
    flat = table.indicator.reshape(len(table.indicator), -1)
    shown = (np.moveaxis(by_class, 1, 2) @ flat).reshape(n_chains, n_classes, len(chance), N_LEVELS)
    # a value drawn anew may come out identical or near by chance
    by_chance = chains.concentration[..., None] * chance[:, :OTHER]
    fresh = shown[..., :OTHER] * by_chance / np.maximum(by_chance + chains.levels, 1e-300)
    wrong = shown[..., OTHER] + fresh.sum(axis=3)
    total = shown.sum(axis=3)
    copies = shown[..., :OTHER] - fresh
    possible = np.column_stack([np.ones(len(chance), bool), chance[:, 1:OTHER] > 0])
    links = by_class.sum(axis=1)
    if not anew.any():
        return _Chains(*_draw_classes(wrong, total, copies, possible, root, rng), _dirichlet(links + 1.0, rng))
    changes = np.asarray(anew.any(axis=1))
    own = _draw_classes(wrong[:, ~changes], total[:, ~changes], copies[:, ~changes], possible, root, rng)
    # in what they do not draw anew these classes are as all links are
    wrong, total, copies = (
        (part * kept).sum(axis=1) for part, kept in ((wrong, ~anew), (total, ~anew), (copies, ~anew[:, :, None]))
    )
    usual = _draw_classes(wrong[:, None], total[:, None], copies[:, None], possible, root, rng)
    alpha, levels = (np.repeat(part, n_classes, axis=1) for part in usual)
    alpha[:, ~changes], levels[:, ~changes] = own
    share = _dirichlet(links + share_prior(changes, wrong, total), rng)
    return _Chains(np.where(anew, ANEW, alpha), levels, share)


def _dirichlet(counts: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(D, Q) one draw for each row of counts."""
    gamma = np.maximum(rng.standard_gamma(counts), 1e-300)
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))


def _draw_classes(
    wrong: FloatArray,
    total: FloatArray,
    copies: FloatArray,
    possible: np.ndarray,
    root: LongArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """α (D, Q, F) and μ (D, Q, F, 3) of each chain's classes given what they show.

    That is mismatches, comparisons (D, Q, F), and copies by level (D, Q, F, 3).
    """
    single = wrong.shape[1] == 1
    prior = field_prior(wrong[:, 0], total[:, 0], rng)[:, :, None] if single else class_prior(wrong, total, root, rng)
    share = rng.beta(np.maximum(prior[0] + wrong, 1e-9), np.maximum(prior[1] + total - wrong, 1e-9))
    alpha = np.clip(share / np.maximum(1.0 - share, 1e-12), MIN_CONCENTRATION, MAX_CONCENTRATION)
    pull = COPY_LEVELS * possible
    if not single:
        overall = copies.sum(axis=1) + pull
        pull = (CLASS_WEIGHT * overall / overall.sum(axis=2, keepdims=True))[:, None]
    gamma = rng.standard_gamma(np.maximum(copies + pull, 0.0))
    return alpha, gamma / np.maximum(gamma.sum(axis=3, keepdims=True), 1e-300)
