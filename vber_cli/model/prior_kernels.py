"""θ of the values that records show."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel


@kernel
def record_theta_kernel(codes, base, value_ptr):  # type: ignore[no-untyped-def]
    """(N, F) float64: θ of each record's own value, 1 where it is missing."""
    out = np.ones(codes.shape, np.float64)
    for r in range(codes.shape[0]):
        for f in range(codes.shape[1]):
            if codes[r, f] >= 0:
                out[r, f] = base[value_ptr[f] + codes[r, f]]
    return out
