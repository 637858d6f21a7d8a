"""How the innermost kernels are compiled: those called for every record and block, which allocate nothing.

A call that hands on the block model costs more than the work itself while numba counts references to each of its
arrays, with atomic operations, on the way in and out. Functions that create no arrays need no such counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}

leaf: Callable[[Any], Any] = nb.njit(**_OPTIONS)
# The same within its caller, which need not pass the model on at all: for what is called at few places.
inlined_leaf: Callable[[Any], Any] = nb.njit(**_OPTIONS, forceinline=True)
