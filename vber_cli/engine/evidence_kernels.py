"""Evidence of pairs of records under the model, from codes (model.md section 2, for blocks of two)."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, Records


@nb.njit(cache=True, nogil=True)
def _pair_kernel(a, b, codes, value_ptr, match, mismatch, log_share):  # type: ignore[no-untyped-def]
    n_classes = len(log_share)
    out = np.empty(len(a), np.float64)
    score = np.empty(n_classes, np.float64)
    for i in range(len(a)):
        score[:] = log_share
        for f in range(codes.shape[1]):
            v, w = codes[a[i], f], codes[b[i], f]
            if v >= 0 and w >= 0:
                for q in range(n_classes):
                    score[q] += match[q, value_ptr[f] + v] if v == w else mismatch[q, f]
        top = score.max()
        total = 0.0
        for q in range(n_classes):
            total += math.exp(score[q] - top)
        out[i] = top + math.log(total)
    return out


def pair_evidence(records: Records, prior: Prior, noise: Noise, a: IntArray, b: IntArray) -> FloatArray:
    """(P,) float64 nats: log m({a, b}) − log m({a}) − log m({b}) under the noise classes and the prior's θ."""
    sizes = np.diff(prior.value_ptr)
    alpha = np.repeat(noise.concentration, sizes, axis=1)
    match = np.log(alpha * prior.base + 1.0) - np.log((alpha + 1.0) * prior.base)
    mismatch = np.log(noise.concentration) - np.log1p(noise.concentration)
    log_share = np.log(noise.share)
    return np.asarray(_pair_kernel(a, b, records.codes, prior.value_ptr, match, mismatch, log_share))
