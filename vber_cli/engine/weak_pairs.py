"""Pairs that are too weak to join a component, counted at first order (model.md section 7).

Each record that has no partner may be one with another that has none, or join the block of another. A record that
joins a block is one with all its records at once: the pairs that say so are one event, weighed with the block as a
whole. Of what a record may do, one thing happens.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from vber_cli.arrays import stable_order
from vber_cli.engine import partition_kernels
from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.component_kernels import components_kernel
from vber_cli.engine.graph import Graph
from vber_cli.engine.join_weight_kernels import join_weights_kernel
from vber_cli.engine.posterior import Expectation, n_parts
from vber_cli.model.types import FloatArray, IntArray, LongArray
from vber_cli.parallel import map_ranges

_TOGETHER = 0.5  # records whose pair is more probable than this are taken for one block
_MEMBERS = 16  # of a block, that are asked; more say no more
_NOTABLE = -9.0  # log odds of a pair, below which its block is not asked
_LARGEST = 50.0  # log odds


@dataclass(frozen=True)
class Joins:
    """What weak pairs (a, b) are worth where one of the two has partners already; row 0 if a joins, row 1 if b does.

    Attributes
    ----------
    gain
        (2, W) float64: log odds that the record joins the block of the other, less those of the pair by itself.
    share
        (2, W) float64: of that event, one over how many of these pairs tell of it.
    """

    gain: FloatArray
    share: FloatArray


def find_joins(
    model: BlockModel,
    found: Expectation,
    graph: Graph,
    pairs: tuple[IntArray, IntArray],
    log_odds: FloatArray,
    log_new: float,
    threads: int,
) -> Joins:
    """Weigh the records of weak pairs with each other's blocks, as these most probably are.

    Where there are constraints nobody joins a block at first order: one of its records may be forbidden.

    Parameters
    ----------
    model, log_new
        What weighs blocks.
    found, graph
        What was found in the components, and these.
    pairs, log_odds
        (W,) each: the weak pairs, and their log odds by themselves.
    threads
        Have no influence on the result.
    """
    n, n_pairs = len(found.alone), len(log_odds)
    gain, share = np.zeros((2, n_pairs)), np.ones((2, n_pairs))
    if model.constraints.any:
        return Joins(np.full((2, n_pairs), -np.inf), share)
    together = found.pair_probability[: len(graph.pair_a)] > _TOGETHER
    root = components_kernel(graph.pair_a[together], graph.pair_b[together], n)
    size = np.bincount(root, minlength=n)
    joiner, block = np.stack(pairs), root[np.stack(pairs[::-1])]
    asked = (size[block] > 1) & (log_odds > _NOTABLE)
    if not asked.any():
        return Joins(gain, share)
    key, event, count = np.unique(
        joiner[asked].astype(np.int64) * n + block[asked], return_inverse=True, return_counts=True
    )
    odds = _joining(model, root, size, key // n, key % n, threads) - log_new
    gain[asked] = odds[event] - np.broadcast_to(log_odds, gain.shape)[asked]
    share[asked] = 1.0 / count[event]
    return Joins(gain, share)


def _joining(
    model: BlockModel, root: IntArray, size: LongArray, record: LongArray, block: LongArray, threads: int
) -> FloatArray:
    """(E,) Λ(b ∪ {record}) − Λ(b) of blocks given by their first record; `root` and `size` are (N,)."""
    blocks, of = np.unique(block, return_inverse=True)
    asked = np.zeros(len(root), dtype=bool)
    asked[blocks] = True
    order = np.flatnonzero(asked[root]).astype(np.int32)
    order = order[stable_order(root[order])]
    held = np.minimum(size[blocks], _MEMBERS)
    ptr = np.concatenate([[0], np.cumsum(held)])
    within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], held)
    members = order[np.repeat(np.searchsorted(root[order], blocks), held) + within]
    by_block = stable_order(of)
    joiner = record[by_block].astype(np.int32)
    join_ptr = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(blocks)))])
    worth, out = np.zeros(len(of)), np.empty(len(of))
    cuts = np.searchsorted(join_ptr, np.linspace(0, len(of), n_parts(len(of)) + 1).astype(np.int64))
    map_ranges(
        lambda lo, hi: join_weights_kernel(lo, hi, ptr, members, join_ptr, joiner, model, worth),
        list(itertools.pairwise(np.unique(cuts).tolist())),
        threads,
    )
    out[by_block] = worth
    return out


def add_weak_pairs(
    found: Expectation, pairs: tuple[IntArray, IntArray], log_odds: FloatArray, joins: Joins
) -> tuple[Expectation, FloatArray]:
    """The same expectation with the weak pairs, and how many links more each makes, (W,).

    Their probabilities are appended to `pair_probability`, their effect on n is added; the statistics are left to
    `count_weak_pairs`.

    Parameters
    ----------
    found
        What `expect` returned.
    pairs, log_odds, joins
        The weak pairs as in `find_joins`, and what that found.
    """
    a, b = pairs
    n = len(found.alone)
    odds = np.exp(np.minimum(log_odds, _LARGEST))
    join_odds = np.exp(np.minimum(log_odds + joins.gain, _LARGEST))
    alone = found.alone[np.stack(pairs)]
    # what speaks for each record's doing anything at all
    rates = odds * alone[::-1] + join_odds * (1.0 - alone[::-1]) * joins.share
    rate = np.bincount(a, weights=rates[0], minlength=n) + np.bincount(b, weights=rates[1], minlength=n)
    both = odds * alone[0] * alone[1] / (1.0 + rate[a] + rate[b] + odds * (1.0 - alone[0] - alone[1]))
    joined = alone * join_odds * (1.0 - alone[::-1]) / (1.0 + rate[np.stack(pairs)] + join_odds * alone[::-1])
    taken = both + joined * joins.share
    links = taken[0] + taken[1] - both
    left = found.alone - np.bincount(a, weights=taken[0], minlength=n) - np.bincount(b, weights=taken[1], minlength=n)
    more = replace(
        found,
        pair_probability=np.concatenate([found.pair_probability, np.minimum(both + joined.sum(axis=0), 1.0)]),
        alone=np.maximum(left, 0.0),
        n_mean=found.n_mean - float(links.sum()),
        n_variance=found.n_variance + float(np.sum(links * (1.0 - np.minimum(links, 1.0)))),
    )
    return more, links


def count_weak_pairs(
    model: BlockModel, found: Expectation, pairs: tuple[IntArray, IntArray], links: FloatArray, threads: int
) -> None:
    """Add the statistics of the weak pairs, each as so many links (W,)."""
    a, b = pairs
    if len(a) == 0:
        return
    order = stable_order(b)  # a record's repeats are added to by one thread only
    later = b[order]
    at = np.linspace(0, len(b) - 1, n_parts(len(b)) + 1).astype(np.int64)[1:-1]
    cuts = np.searchsorted(later, later[at], side="left")
    edges = np.unique(np.concatenate([[0], cuts, [len(b)]])).tolist()

    def part(lo: int, hi: int) -> tuple[FloatArray, FloatArray]:
        chosen = order[lo:hi]
        stats, class_weight = np.zeros(found.stats.shape), np.zeros(found.class_weight.shape)
        partition_kernels.pair_stats_kernel(
            a[chosen], b[chosen], links[chosen], model, stats, class_weight, found.repeats
        )
        return stats, class_weight

    for stats, class_weight in map_ranges(part, list(itertools.pairwise(edges)), threads):
        found.stats[:] += stats
        found.class_weight[:] += class_weight
