"""Candidate pairs, what they are worth, and which of them join components (model.md section 7)."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.graph import Graph, build_graph, thin, with_inner
from vber_cli.model.constraints import unit_maximum
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.types import FloatArray, IntArray

# Pairs below these odds do not join components: they are too weak to change what happens around them, and are counted
# on their own, at first order.
EDGE_LOG_ODDS = -3.0
# Pairs below these odds hold a link in a thousand at most: where there are many pairs they are left out. Elsewhere only
# the faintest are that together make up no more than such a share of all links.
FAINT_LOG_ODDS = -7.0
_FAINT_SHARE = 1e-4
_MANY_PAIRS = 500_000
# Pairs so many nats below the best of both their records are weak beside these, in databases where the log factor of a
# further record is below _RARE.
_RIVAL = 20.0
_RARE = -3.0
CERTAIN_LOG_ODDS = 500.0  # of pairs that must be links; those that cannot be are no candidates


@dataclass(frozen=True)
class _Worth:
    """Evidence of pairs by a model, which is known by its θ and α and not kept for this."""

    evidence: FloatArray
    theta: weakref.ref[FloatArray]
    alpha: weakref.ref[FloatArray]

    def is_by(self, model: BlockModel) -> bool:
        return self.theta() is model.theta and self.alpha() is model.alpha


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of records a < b and their levels, (P,), (P,) and (P, F) int8; what they are worth is remembered."""

    a: IntArray
    b: IntArray
    levels: np.ndarray
    _memory: list[_Worth] = field(default_factory=list, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.a)

    def take(self, keep: np.ndarray) -> CandidatePairs:
        """Return some of the pairs."""
        return CandidatePairs(self.a[keep], self.b[keep], self.levels[keep])

    def evidence(self, model: BlockModel, threads: int = 1) -> FloatArray:
        """(P,) float64 nats that a pair is a link by itself, not to be written to; remembered for the last model."""
        if not self._memory or not self._memory[0].is_by(model):
            link, doubt = pair_evidence(model, self.b, self.levels, threads)
            evidence = link - doubt + tilt_of(model, self.a, self.b)
            self._memory[:] = [_Worth(evidence, weakref.ref(model.theta), weakref.ref(model.alpha))]
        return self._memory[0].evidence


@dataclass(frozen=True)
class PairGraph:
    """Candidate pairs split into those that join components and those too weak for it.

    Attributes
    ----------
    graph
        Components along the strong pairs.
    weak, weak_log_odds
        The other pairs and their log odds of being a link by themselves.
    """

    graph: Graph
    weak: CandidatePairs
    weak_log_odds: FloatArray

    def ends(self) -> tuple[IntArray, IntArray]:
        """(a, b) of all pairs: those of the components, their inner pairs, the weak ones."""
        graph, weak = self.graph, self.weak
        first = np.concatenate([graph.pair_a, graph.inner_a, weak.a])
        return first, np.concatenate([graph.pair_b, graph.inner_b, weak.b])


def with_levels(model: BlockModel, pairs: tuple[IntArray, IntArray], threads: int = 1) -> CandidatePairs:
    """The pairs with their levels."""
    return CandidatePairs(pairs[0], pairs[1], pair_levels(model, *pairs, threads=threads))


def log_odds_of(model: BlockModel, pairs: CandidatePairs, log_new: float, threads: int = 1) -> FloatArray:
    """(P,) float64: log odds of each pair being a link by itself; of two units, those of their likeliest pair."""
    log_odds = pairs.evidence(model, threads) - log_new
    if not model.constraints.any:
        return log_odds
    together = model.constraints.standing(pairs.a, pairs.b) > 0
    return unit_maximum(model.constraints, pairs.a, pairs.b, np.where(together, CERTAIN_LOG_ODDS, log_odds))


def tilt_of(model: BlockModel, a: IntArray, b: IntArray) -> FloatArray:
    """(P,) float64: what it adds to a pair's evidence that both records are, or are not, of one database."""
    if len(model.tilt) == 0:
        return np.zeros(len(a))
    return np.where(model.database[a] == model.database[b], model.tilt[model.database[a]], 0.0)


def split_pairs(
    model: BlockModel, pairs: CandidatePairs, log_new: float, threads: int = 1, log_odds: FloatArray | None = None
) -> PairGraph:
    """Build the components of the pairs that are strong enough; `log_odds` (P,) are theirs where they are known."""
    if log_odds is None:
        log_odds = log_odds_of(model, pairs, log_new, threads)
    n_records = len(model.codes)
    strong = (log_odds > EDGE_LOG_ODDS) & ~_rivalled(model, pairs, log_odds)
    if model.constraints.any:
        # at first order a pair is a link if neither record has a partner: nothing that fits records of larger units
        grouped = model.constraints.grouped
        strong |= (grouped[pairs.a] | grouped[pairs.b]) & (log_odds > FAINT_LOG_ODDS)
    needed = log_odds[strong] >= CERTAIN_LOG_ODDS
    strong[strong] = thin(pairs.a[strong], pairs.b[strong], log_odds[strong], n_records, needed)
    graph = build_graph(pairs.a[strong], pairs.b[strong], n_records)
    # within a component every pair is looked at, the weak ones too
    of = graph.component_of()
    weak = ~strong & ((of[pairs.a] < 0) | (of[pairs.a] != of[pairs.b]))
    graph = with_inner(graph, pairs.a, pairs.b)
    return PairGraph(graph, pairs.take(weak), log_odds[weak])


def _rivalled(model: BlockModel, pairs: CandidatePairs, log_odds: FloatArray) -> np.ndarray:
    """(P,) bool: pairs both of whose records have a far better partner in the other's database.

    Where databases have next to no duplicates of their own such a pair would join two of them twice, and is no link.
    """
    if len(model.tilt) == 0:
        return np.zeros(len(pairs), dtype=bool)
    n, database = len(model.codes), model.database
    best, where = np.full(n, -np.inf), np.full(n, -1, dtype=np.int32)
    for one in (pairs.a, pairs.b):
        np.maximum.at(best, one, log_odds)
    for one, other in ((pairs.a, pairs.b), (pairs.b, pairs.a)):
        top = log_odds == best[one]
        where[one[top]] = database[other[top]]
    in_a, in_b = database[pairs.a], database[pairs.b]
    clash = (
        (where[pairs.a] == in_b) & (where[pairs.b] == in_a) & (model.tilt[in_a] < _RARE) & (model.tilt[in_b] < _RARE)
    )
    return np.asarray(clash & (log_odds < np.minimum(best[pairs.a], best[pairs.b]) - _RIVAL))


def without_faint(
    pairs: CandidatePairs, log_odds: FloatArray, occupancy: Occupancy
) -> tuple[CandidatePairs, FloatArray]:
    """Pairs above FAINT_LOG_ODDS and their log odds; of few pairs, with K free, nearly all that hold links.

    Where the fields say little, the faint pairs hold a good part of the links, and most of those whose values differ:
    noise learned without them would be too little, and so keep them faint. A fixed K below what the data show would
    turn them into links, and learn the noise that makes them some.
    """
    if len(pairs) > _MANY_PAIRS or occupancy.n_individuals is not None:
        keep = log_odds > FAINT_LOG_ODDS
        return pairs.take(keep), log_odds[keep]
    order = np.argsort(log_odds, kind="stable")
    below = np.cumsum(expit(log_odds[order]))
    keep = np.ones(len(pairs), dtype=bool)
    keep[order[: np.searchsorted(below, _FAINT_SHARE * below[-1:].sum(), side="right")]] = False
    return pairs.take(keep), log_odds[keep]


def split_without_faint(
    model: BlockModel, pairs: CandidatePairs, log_new: float, occupancy: Occupancy, threads: int
) -> PairGraph:
    """`split_pairs` of the pairs that `without_faint` leaves."""
    near, log_odds = without_faint(pairs, log_odds_of(model, pairs, log_new, threads), occupancy)
    return split_pairs(model, near, log_new, threads, log_odds)
