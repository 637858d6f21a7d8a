"""Levels and evidence of pairs of records (model.md sections 2, 5 and 6, for blocks of two)."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.local_kernels import doubt_of
from vber_cli.model.similar_kernels import record_levels
from vber_cli.model.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
def _levels_kernel(a, b, model, out):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        record_levels(a[i], b[i], model, out[i])


@nb.njit(cache=True, nogil=True)
def _factors(model):  # type: ignore[no-untyped-def]
    """Per class, field and level: the factor of a pair; of identical values the parts before and after 1 / θ."""
    n_classes, n_fields = model.alpha.shape
    factor = np.empty((n_classes, n_fields, 4), np.float64)
    for q in range(n_classes):
        for f in range(n_fields):
            alpha = model.alpha[q, f]
            factor[q, f, 0] = model.copy[q, f, 0] / (alpha + 1.0)
            factor[q, f, 1] = (alpha + model.copy[q, f, 1]) / (alpha + 1.0)
            factor[q, f, 2] = (alpha + model.copy[q, f, 2]) / (alpha + 1.0)
            factor[q, f, 3] = alpha / (alpha + 1.0)
    return factor


@nb.njit(cache=True, nogil=True)
def _evidence_kernel(lo, hi, b, levels, model, link, doubt):  # type: ignore[no-untyped-def]
    n_classes, n_fields = model.alpha.shape
    factor = _factors(model)
    score = np.empty(n_classes, np.float64)
    product = np.empty(n_classes, np.float64)
    for i in range(lo, hi):
        score[:] = 0.0
        product[:] = model.share
        scaled = False
        for f in range(n_fields):
            level = levels[i, f]
            if level > 3:
                continue
            given = model.parent[f] >= 0 and levels[i, model.parent[f]] == 0
            times, rest = 0.0, True  # the factor is the level's times this, and that of a draw anew where it is left
            if level == 0:
                times = 1.0 / (model.theta_given[b[i], f] if given else model.theta[b[i], f])
            elif given and level < 3:
                times = model.unrelated[f, level] / model.unrelated_given[f, level]
            else:
                rest = False
            for q in range(n_classes):
                if not rest:
                    product[q] *= factor[q, f, level]
                elif level == 0:
                    product[q] *= factor[q, f, 0] * times + factor[q, f, 3]
                else:
                    product[q] *= (factor[q, f, level] - factor[q, f, 3]) * times + factor[q, f, 3]
                if product[q] > 1e200 or product[q] < 1e-200:
                    score[q] += math.log(product[q])
                    product[q] = 1.0
                    scaled = True
        if scaled:
            for q in range(n_classes):
                score[q] += math.log(product[q])
            top = score.max()
            link[i] = top + math.log(np.exp(score - top).sum())
        else:
            link[i] = math.log(product.sum())
        if len(model.relation_odds) > 0:
            doubt[i] = doubt_of(
                model.theta[b[i]], levels[i], model.relation_odds, model.relation_level, model.unrelated
            )  # fmt: skip


def pair_levels(model: BlockModel, a: IntArray, b: IntArray) -> np.ndarray:
    """(P, F) int8 levels of pairs: 0 identical, 1 close, 2 near, 3 other, 9 missing on either side."""
    out = np.empty((len(a), model.codes.shape[1]), np.int8)
    _levels_kernel(a, b, model, out)
    return out


def pair_evidence(model: BlockModel, b: IntArray, levels: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Evidence of pairs in nats.

    Parameters
    ----------
    model
        The block model.
    b
        (P,) the later record of each pair, whose θ counts where the values are identical.
    levels
        (P, F) from `pair_levels`.

    Returns
    -------
    tuple
        (P,) log m({a, b}) − log m({a}) − log m({b}) by noise alone, and (P,) the doubt to be taken off it.
    """
    link, doubt = np.empty(len(b)), np.zeros(len(b))
    _evidence_kernel(0, len(b), b, levels, model, link, doubt)
    return link, doubt


@nb.njit(cache=True, nogil=True)
def _relation_kernel(b, levels, log_level, model, out):  # type: ignore[no-untyped-def]
    for i in range(len(b)):
        reference = 0.0
        product = 1.0
        for f in range(levels.shape[1]):
            level = levels[i, f]
            if level == 0:
                product *= model.theta[b[i], f]
            elif level < 4:
                product *= model.unrelated[f, level]
            if product < 1e-200:
                reference += math.log(product)
                product = 1.0
        reference += math.log(product)
        for c in range(len(log_level)):
            total = -reference
            for f in range(levels.shape[1]):
                if levels[i, f] < 4:
                    total += log_level[c, f, levels[i, f]]
            out[i, c] = total


def relation_evidence(model: BlockModel, b: IntArray, levels: np.ndarray, level: FloatArray) -> FloatArray:
    """(P, C) float64 nats: log LR_c of pairs, relation c with level probabilities (C, F, 4) against unrelated."""
    out = np.empty((len(b), len(level)), np.float64)
    _relation_kernel(b, levels, np.log(np.maximum(level, 1e-300)), model, out)
    return out
