"""θ of the values that records show, by themselves and given the value of another field."""

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


@kernel
def theta_given_kernel(value, both, parent, strength, base, meant, out):  # type: ignore[no-untyped-def]
    """Fill in (N,) θ of each record's value given another's: as often as both are seen, drawn towards θ.

    `value` (N,) are codes of one field, whose values have θ `base` and are `meant` so much likelier than others.
    `both` and `parent` count records with both values, and with the other; without that, θ it is.
    """
    for r in range(len(value)):
        v = value[r]
        theta = base[v] if v >= 0 else 1.0
        if parent[r] > 0:
            theta = (both[r] + strength * theta) / (parent[r] + strength)
        out[r] = theta / meant[v] if v >= 0 else theta
