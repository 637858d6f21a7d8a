"""The evidence of pairs of records, field by field (model.md, section "Explaining a pair").

Noise classes couple the fields: the evidence is log Z with Z = Σ_q share_q e^{S_q}, S_q = Σ_f log r_qf, where r_qf is
what field f multiplies the odds with if class q holds. Turning all evidence up evenly, from nothing to the whole,
gives each class the weight

    w_q = ∫₀¹ share_q e^{t S_q} / Σ_p share_p e^{t S_p} dt,

and field f contributes Σ_q w_q log r_qf. The contributions sum to log Z − log Σ_q share_q = log Z, whatever the order
of the fields; with one class they are log r_f; a missing field contributes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels, relation_evidence, tree_evidence
from vber_cli.model.similar import MISSING_LEVEL
from vber_cli.model.similar_kernels import swapped_fields
from vber_cli.model.types import FloatArray, IntArray, LongArray

_PANELS, _POINTS = 256, 8


@dataclass(frozen=True)
class PairExplanation:
    """Evidence of P pairs, in nats.

    Attributes
    ----------
    levels
        (P, F) int8, as `pair_levels` gives them.
    swapped
        (P, F) int64, the field that a field's values have changed places with, or −1.
    by_field
        (P, F) float64; their sum is the evidence by noise and tree: log Z less log T (model.md section 6).
    independent
        (P, F) float64: the same with the dependence between fields left out.
    doubt
        (P,) float64, what the possibility of a relation takes off beside.
    relation
        (P,) int64, the relation that is most probable for each pair, −1 without relations.
    """

    levels: np.ndarray
    swapped: LongArray
    by_field: FloatArray
    independent: FloatArray
    doubt: FloatArray
    relation: LongArray

    @property
    def total(self) -> FloatArray:
        """(P,) float64, the evidence with the doubt taken off; the log odds are this less `log_new`."""
        return np.asarray(self.by_field.sum(axis=1) - self.doubt)


def explain_pairs(model: BlockModel, a: IntArray, b: IntArray) -> PairExplanation:
    """Split the evidence of pairs by field.

    Parameters
    ----------
    model
        The block model.
    a, b
        (P,) int32 records, a before b in the engine's order.
    """
    levels = pair_levels(model, a, b)
    link, doubt = pair_evidence(model, b, levels)
    independent = _by_field(model, b, levels)
    # what numerical integration leaves open is spread over the fields
    independent += (link - independent.sum(axis=1))[:, None] * _share(independent)
    given = tree_evidence(model, b, levels)
    relation = np.full(len(b), -1, dtype=np.int64)
    if len(model.relation_odds):
        log_odds = relation_evidence(model, b, levels, model.relation_level) + np.log(model.relation_odds)
        relation = np.argmax(log_odds, axis=1)
    return PairExplanation(
        levels, _swapped(model, a, b, levels), independent - given, independent, doubt - given.sum(axis=1), relation
    )


def _swapped(model: BlockModel, a: IntArray, b: IntArray, levels: np.ndarray) -> LongArray:
    """(P, F) int64: the field whose value the other record shows here, and this one's there; −1 where none."""
    out = np.full(levels.shape, -1, dtype=np.int64)
    swapped_fields(a, b, levels, model, out)
    return out


def _by_field(model: BlockModel, b: IntArray, levels: np.ndarray) -> FloatArray:
    """(P, F) float64: Σ_q w_q log r_qf."""
    log_ratio = np.stack([_class_evidence(model, q, b, levels) for q in range(len(model.share))])
    weight = class_weights(np.log(model.share), log_ratio.sum(axis=2))
    return np.asarray(np.einsum("qp,qpf->pf", weight, log_ratio))


def _share(by_field: FloatArray) -> FloatArray:
    size = np.abs(by_field)
    total = size.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(size, total, out=np.zeros_like(size), where=total > 0))


def _class_evidence(model: BlockModel, q: int, b: IntArray, levels: np.ndarray) -> FloatArray:
    """(P, F) float64: log r_qf, by showing the fields one after the other."""
    alone = model._replace(
        alpha=model.alpha[q : q + 1],
        copy=model.copy[q : q + 1],
        share=np.ones(1),
        relation_odds=model.relation_odds[:0],
        relation_level=model.relation_level[:0],
        tree=model.tree[:0],
    )
    out = np.zeros(levels.shape)
    shown = np.full_like(levels, MISSING_LEVEL)
    before = np.zeros(len(b))
    for f in range(levels.shape[1]):
        shown[:, f] = levels[:, f]
        now, _ = pair_evidence(alone, b, shown)
        out[:, f] = np.where(levels[:, f] == MISSING_LEVEL, 0.0, now - before)
        before = now
    return out


def class_weights(log_share: FloatArray, total: FloatArray) -> FloatArray:
    """(Q, P) float64: the weights w_q, which sum to 1 for each pair.

    Parameters
    ----------
    log_share
        (Q,) log of the classes' shares.
    total
        (Q, P) nats, S_q.
    """
    if len(log_share) == 1:
        return np.ones_like(total)
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    starts = np.arange(_PANELS) / _PANELS
    out = np.zeros_like(total)
    for node, weight in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
        for t in (starts + node / _PANELS).tolist():
            score = log_share[:, None] + t * total
            score -= score.max(axis=0)
            share = np.exp(score)
            out += weight / _PANELS * share / share.sum(axis=0)
    return out
