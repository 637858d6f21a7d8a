"""What the links leave open about the noise: draws of the noise classes from their posterior (model.md section 4).

Whether a faint pair is a link depends on the noise, and the noise on which faint pairs are links. A sampler that draws
one given the other therefore moves slowly, and needs many steps. They are taken on a small stand-in for the data: the
candidate pairs tabulated by the pattern of their levels and by their log odds, each pair a link or not by itself. Under
the noise that was learned each has the probability that it has among all records: with it goes what it shares, who
else its records may belong to, and which other pairs hold them together. Another noise moves that by what it makes of
the pair's own pattern. Blocks of m records have m(m−1)/2 pairs but only m−1 records that were copied, so the counts of
links are scaled down to these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from vber_cli.arrays import distinct_rows
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.hyper import CLASS_WEIGHT, COPY_LEVELS, class_prior, field_prior, share_prior
from vber_cli.model.dependence import tree_roots
from vber_cli.model.noise import Noise
from vber_cli.model.prior import MAX_CONCENTRATION, MIN_CONCENTRATION
from vber_cli.model.similar import N_LEVELS, OTHER
from vber_cli.model.types import FloatArray, LongArray

_BURN_IN = 60
_THIN = 12
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

    def draws(*, anchored: bool) -> list[HyperDraw]:
        noise, out = start, []
        for step in range((0 if anchored else _BURN_IN) + _THIN * n_draws):
            if anchored and step % _THIN == 0:
                noise = start
            found, by_class = _draw_links(table, chance, noise, rng)
            noise = _draw_noise(table, chance, root, noise, np.asarray(by_class * scale), rng)
            if step % _THIN == _THIN - 1:
                out.append(HyperDraw(noise, float(np.clip(n_records - scale * found, 1.0, n_records))))
        return out[-n_draws:]

    out = [] if anchored else draws(anchored=False)
    if out and abs(np.mean([d.n for d in out]) - n_start) <= _FARTHEST_N * (n_records - n_start):
        return out
    return _centred(draws(anchored=True), start, n_start)


def _centred(draws: list[HyperDraw], noise: Noise, n: float) -> list[HyperDraw]:
    """The draws moved so that their middle is the noise and the n given, each about as far from it as before."""
    middle = [np.mean([part[i] for part in map(_parts, (d.noise for d in draws))], axis=0) for i in range(3)]
    n_middle = float(np.mean([d.n for d in draws]))
    out = []
    for d in draws:
        wrong, levels, share = (
            np.clip(at + value - mid, at / _FARTHEST, 1.0)
            for at, value, mid in zip(_parts(noise), _parts(d.noise), middle, strict=True)
        )
        alpha = np.clip(wrong / np.maximum(1.0 - wrong, 1e-12), MIN_CONCENTRATION, MAX_CONCENTRATION)
        moved = Noise(alpha, levels / levels.sum(axis=2, keepdims=True), share / share.sum())
        if noise.changes.any():
            moved = moved.drawing(noise.anew)
        out.append(HyperDraw(moved, n + d.n - n_middle))
    return out


def _parts(noise: Noise) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mismatch rates, copy levels and class shares: the probabilities that noise consists of."""
    return noise.concentration / (1.0 + noise.concentration), noise.levels, noise.share


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
    return _Table(indicator, pattern_of, cell - _log_patterns(indicator, chance, start)[1][pattern_of], count)


def _log_patterns(indicator: FloatArray, chance: FloatArray, noise: Noise) -> tuple[FloatArray, FloatArray]:
    """(U, Q) log share_q Π_f of each pattern's levels, without the rarity of what is identical; and (U,) their sum."""
    alpha = noise.concentration
    factor = np.empty((*alpha.shape, N_LEVELS))
    factor[:, :, 0] = noise.levels[:, :, 0] + alpha * chance[:, 0]
    near = chance[:, 1:OTHER]
    factor[:, :, 1:OTHER] = alpha[:, :, None] + np.where(
        near > 0, noise.levels[:, :, 1:] / np.where(near > 0, near, 1.0), 0.0
    )
    factor[:, :, OTHER] = alpha
    factor /= (1.0 + alpha)[:, :, None]
    flat = indicator.reshape(len(indicator), -1)
    log_factor = np.log(np.maximum(factor, 1e-300)).reshape(len(noise.share), -1)
    by_class = np.asarray(flat @ log_factor.T + np.log(noise.share))
    top = by_class.max(axis=1)
    return by_class, np.asarray(top + np.log(np.exp(by_class - top[:, None]).sum(axis=1)))


def _draw_links(table: _Table, chance: FloatArray, noise: Noise, rng: np.random.Generator) -> tuple[int, LongArray]:
    """Links drawn in every cell: their number, and (U, Q) by pattern and class."""
    log_class, log_pattern = _log_patterns(table.indicator, chance, noise)
    drawn = rng.binomial(table.count, expit(log_pattern[table.pattern] + table.rest))
    by_pattern = np.bincount(table.pattern, weights=drawn, minlength=len(log_class)).astype(np.int64)
    share = np.exp(log_class - log_pattern[:, None])
    by_class = rng.multinomial(by_pattern, share / share.sum(axis=1, keepdims=True))
    return int(drawn.sum()), by_class


def _draw_noise(
    table: _Table, chance: FloatArray, root: LongArray, noise: Noise, by_class: FloatArray, rng: np.random.Generator
) -> Noise:
    """The noise classes given how many links of each pattern they explain, (U, Q); `root` as in `class_prior`."""
    shown = np.einsum("uq,ufl->qfl", by_class, table.indicator)
    # a value drawn anew may come out identical or near by chance
    by_chance = noise.concentration[:, :, None] * chance[:, :OTHER]
    fresh = shown[:, :, :OTHER] * by_chance / np.maximum(by_chance + noise.levels, 1e-300)
    wrong = shown[:, :, OTHER] + fresh.sum(axis=2)
    total = shown.sum(axis=2)
    copies = shown[:, :, :OTHER] - fresh
    possible = np.column_stack([np.ones(len(chance), bool), chance[:, 1:OTHER] > 0])
    changes = noise.changes
    own = _draw_classes(wrong[~changes], total[~changes], copies[~changes], possible, root, rng)
    if not changes.any():
        return Noise(*own, rng.dirichlet(by_class.sum(axis=0) + 1.0))
    # in what they do not draw anew these classes are as all links are
    kept = ~noise.anew
    wrong, total, copies = (
        (wrong * kept).sum(axis=0),
        (total * kept).sum(axis=0),
        (copies * kept[:, :, None]).sum(axis=0),
    )
    usual = _draw_classes(wrong[None], total[None], copies[None], possible, root, rng)
    alpha, levels = (np.repeat(part, len(changes), axis=0) for part in usual)
    alpha[~changes], levels[~changes] = own
    share = rng.dirichlet(by_class.sum(axis=0) + share_prior(changes, wrong, total))
    return Noise(alpha, levels, share).drawing(noise.anew)


def _draw_classes(
    wrong: FloatArray,
    total: FloatArray,
    copies: FloatArray,
    possible: np.ndarray,
    root: LongArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """α (Q, F) and μ (Q, F, 3) of classes given their mismatches, comparisons (Q, F) and copies by level (Q, F, 3)."""
    single = len(wrong) == 1
    prior = field_prior(wrong[0], total[0], rng)[:, None] if single else class_prior(wrong, total, root, rng)
    share = rng.beta(np.maximum(prior[0] + wrong, 1e-9), np.maximum(prior[1] + total - wrong, 1e-9))
    alpha = np.clip(share / np.maximum(1.0 - share, 1e-12), MIN_CONCENTRATION, MAX_CONCENTRATION)
    overall = copies.sum(axis=0) + COPY_LEVELS * possible
    pull = COPY_LEVELS * possible if single else CLASS_WEIGHT * overall / overall.sum(axis=1, keepdims=True)
    gamma = rng.standard_gamma(np.maximum(copies + pull, 0.0))
    return alpha, gamma / np.maximum(gamma.sum(axis=2, keepdims=True), 1e-300)
