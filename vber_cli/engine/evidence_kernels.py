"""Levels and evidence of pairs of records (model.md sections 2, 5 and 6, for blocks of two)."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.engine.block_model import BlockModel
from vber_cli.engine.local_kernels import PATTERNS, empty_memory, log_related, related_ratio, tree_ratio
from vber_cli.model.compile_kernels import kernel
from vber_cli.model.similar_kernels import record_levels
from vber_cli.model.types import FloatArray, IntArray
from vber_cli.parallel import map_ranges, ranges

_PER_PART = 1 << 15  # pairs


@kernel
def _levels_kernel(lo, hi, a, b, model, out):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        record_levels(a[i], b[i], model, out[i])


@kernel
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


@kernel
def _evidence_kernel(lo, hi, b, levels, model, link, doubt):  # type: ignore[no-untyped-def]
    n_classes, n_fields = model.alpha.shape
    factor = _factors(model)
    score = np.empty(n_classes, np.float64)
    product = np.empty(n_classes, np.float64)
    memory = empty_memory(PATTERNS)
    for i in range(lo, hi):
        scaled = False
        for q in range(n_classes):
            score[q] = 0.0
            product[q] = model.share[q]
        for f in range(n_fields):
            level = levels[i, f]
            if level > 3:
                continue
            rarity = 1.0 / model.theta[b[i], f] if level == 0 else 0.0
            for q in range(n_classes):
                if level == 0:
                    product[q] *= factor[q, f, 0] * rarity + factor[q, f, 3]
                else:
                    product[q] *= factor[q, f, level]
                if product[q] > 1e200 or product[q] < 1e-200:
                    score[q] += math.log(product[q])
                    product[q] = 1.0
                    scaled = True
        total = 0.0
        top = -np.inf
        for q in range(n_classes):
            total += product[q]
            if scaled:
                score[q] += math.log(product[q])
                top = max(top, score[q])
        if scaled:
            total = 0.0
            for q in range(n_classes):
                total += math.exp(score[q] - top)
            link[i] = top + math.log(total)
        else:
            link[i] = math.log(total)
        if len(model.relation_odds) > 0 or len(model.tree) > 0:
            theta, given = model.theta[b[i]], model.theta_given[b[i]]
            total = tree_ratio(
                levels[i], theta, given, model.tree, model.hidden, model.apart, model.unrelated, model.unrelated_given
            )
            if len(model.relation_odds) > 0:
                by_levels = log_related(levels[i], model.relation_odds, model.relation_level, model.unrelated, memory)
                total += related_ratio(by_levels, theta, levels[i])
            doubt[i] = math.log(total)


def pair_levels(model: BlockModel, a: IntArray, b: IntArray, threads: int = 1) -> np.ndarray:
    """(P, F) int8 levels of pairs: 0 identical, 1 close, 2 near, 3 other, 9 missing on either side."""
    out = np.empty((len(a), model.codes.shape[1]), np.int8)
    map_ranges(lambda lo, hi: _levels_kernel(lo, hi, a, b, model, out), ranges(len(a), _PER_PART), threads)
    return out


def pair_evidence(
    model: BlockModel, b: IntArray, levels: np.ndarray, threads: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Evidence of pairs in nats.

    Parameters
    ----------
    model
        The block model.
    b
        (P,) the later record of each pair, whose θ counts where the values are identical.
    levels
        (P, F) from `pair_levels`.
    threads
        Has no influence on the result.

    Returns
    -------
    tuple
        (P,) log m({a, b}) − log m({a}) − log m({b}) by noise alone, and (P,) the doubt to be taken off it.
    """
    link, doubt = np.empty(len(b)), np.zeros(len(b))
    map_ranges(
        lambda lo, hi: _evidence_kernel(lo, hi, b, levels, model, link, doubt), ranges(len(b), _PER_PART), threads
    )
    return link, doubt


@kernel
def _tree_kernel(b, levels, model, out):  # type: ignore[no-untyped-def]
    begin = 0
    while begin < len(model.tree):
        end = begin + 1
        while end < len(model.tree) and model.tree[end, 1] == model.tree[begin, 1]:
            end += 1
        shown = np.empty(levels.shape[1], np.int8)
        for i in range(len(b)):
            # the children of one parent, shown one after the other
            shown[:] = 9
            shown[model.tree[begin, 1]] = levels[i, model.tree[begin, 1]]
            before = 0.0
            for e in range(begin, end):
                f = model.tree[e, 0]
                shown[f] = levels[i, f]
                ratio = tree_ratio(
                    shown, model.theta[b[i]], model.theta_given[b[i], begin:end], model.tree[begin:end], model.hidden,
                    model.apart, model.unrelated, model.unrelated_given,
                )  # fmt: skip
                out[i, f] = math.log(ratio) - before
                before = math.log(ratio)
        begin = end


def tree_evidence(model: BlockModel, b: IntArray, levels: np.ndarray) -> FloatArray:
    """(P, F) float64 nats: how much likelier the tree makes each field's level between different individuals."""
    out = np.zeros(levels.shape)
    _tree_kernel(b, levels, model, out)
    return out


@kernel
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
