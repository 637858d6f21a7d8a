"""Numbers of individuals from the names of their records."""

from __future__ import annotations

import numpy as np

from vber_cli.model.compile_kernels import kernel

_BITS = 53  # exact as a double, so that no spreadsheet or JSON reader rounds them


@kernel
def text_hash_kernel(data, offset, salt):  # type: ignore[no-untyped-def]
    """A 53-bit hash of each text: FNV-1a over its bytes, from the salt on, finished as in SplitMix64."""
    out = np.empty(len(offset) - 1, np.int64)
    for i in range(len(out)):
        h = np.uint64(salt) ^ np.uint64(0xCBF29CE484222325)
        for j in range(offset[i], offset[i + 1]):
            h = (h ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        h ^= h >> np.uint64(30)
        h *= np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(27)
        h *= np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
        out[i] = np.int64(h >> np.uint64(64 - _BITS))
    return out
