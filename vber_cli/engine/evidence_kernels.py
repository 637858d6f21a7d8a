"""Evidence of pairs of records under the model, from codes (MODEL.md section 2, for blocks of two)."""

from __future__ import annotations

import numba as nb
import numpy as np

from vber_cli.model.evidence import match_evidence, mismatch_evidence
from vber_cli.model.prior import Prior
from vber_cli.model.types import FloatArray, IntArray, Records


@nb.njit(cache=True, nogil=True)
def _pair_kernel(a, b, codes, value_ptr, match, mismatch):  # type: ignore[no-untyped-def]
    out = np.empty(len(a), np.float64)
    for i in range(len(a)):
        total = 0.0
        for f in range(codes.shape[1]):
            v, w = codes[a[i], f], codes[b[i], f]
            if v >= 0 and w >= 0:
                total += match[value_ptr[f] + v] if v == w else mismatch[f]
        out[i] = total
    return out


def pair_evidence(records: Records, prior: Prior, a: IntArray, b: IntArray) -> FloatArray:
    """(P,) float64 nats: log m({a, b}) − log m({a}) − log m({b})."""
    return np.asarray(
        _pair_kernel(a, b, records.codes, prior.value_ptr, match_evidence(prior), mismatch_evidence(prior))
    )
