"""One round of expectation maximisation over tabulated pairs, for any mixture of classes of pairs."""

from __future__ import annotations

import math

import numpy as np

from vber_cli.model.compile_kernels import kernel

_NEGLIGIBLE = -40.0  # nats below the most probable class


@kernel
def classes_kernel(  # type: ignore[no-untyped-def]
    shown, certain, by_chance, by_tree, prior, given, log_odds, log_level, n_link, link_weight, weight, part, sums
):
    """Responsibilities of C classes for P pairs, and the weighted levels of each class's pairs.

    Classes lie next to each other in memory, so that all are added to at once.

    Parameters
    ----------
    shown
        (P, F) int32: for each field the row of `log_level` and `sums` that the pair's level is at.
    certain, by_chance, by_tree, prior
        As in `AlikePairs`.
    given
        (P,) nats, the evidence for the first class where its levels do not give it; without elements they do.
    log_odds, log_level
        (C,) and (R, C): log prior odds of each class against unrelated pairs, and the logs of its levels.
    n_link
        How many of the first classes are links, to which `prior` is added and `certain` pairs belong.
    link_weight, weight
        (P,) weights of the pairs in what is summed, for the links and for the other classes.
    part, sums
        Filled with the responsibilities (P, C); and (R, C) the weighted levels, added to.

    Returns
    -------
    float
        Σ link_weight · log(T + Σ odds LR).
    """
    n_classes, n_fields = log_level.shape[1], shown.shape[1]
    score = np.empty(n_classes, np.float64)
    likelihood = 0.0
    for i in range(len(shown)):
        for c in range(n_classes):
            score[c] = log_odds[c] - by_chance[i]
        for f in range(n_fields):
            at = shown[i, f]
            for c in range(n_classes):
                score[c] += log_level[at, c]
        if len(given) > 0:
            score[0] = log_odds[0] + given[i]
        for c in range(n_link):
            score[c] += prior[i]
        top = by_tree[i]
        for c in range(n_classes):
            top = max(top, score[c])
        total = math.exp(by_tree[i] - top)
        of_links = 0.0
        for c in range(n_classes):
            score[c] = math.exp(score[c] - top) if score[c] - top > _NEGLIGIBLE else 0.0
            total += score[c]
            if c < n_link:
                of_links += score[c]
        likelihood += link_weight[i] * (top + math.log(total))
        if certain[i]:
            total = of_links
            score[n_link:] = 0.0
        scale = 1.0 / max(total, 1e-300)
        for c in range(n_classes):
            score[c] *= scale
            part[i, c] = score[c]
        for c in range(n_classes):
            score[c] *= link_weight[i] if c < n_link else weight[i]
        for f in range(n_fields):
            at = shown[i, f]
            for c in range(n_classes):
                sums[at, c] += score[c]
    return likelihood
