"""Which fields' values get into each other's place: given name and surname, two names of a street."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.types import FieldType
from vber_cli.model.similar import CLOSE, Swaps
from vber_cli.model.types import FloatArray

# Fields looked at, those with the most values: two thousand have two million pairs, and kernels ask about each pair.
_MOST = 24


def find_swaps(
    forms: Sequence[pa.StringArray], shares: Sequence[FloatArray], types: Sequence[FieldType], chance: FloatArray
) -> Swaps:
    """Return the pairs of text fields that may have changed places.

    Two records that show the same two values the other way round count as close in both fields. That is no more than
    it is worth as long as chance brings such records together more rarely than records that are close in both.

    Parameters
    ----------
    forms, shares
        For each field its distinct comparison forms, and the (V_f,) share of each.
    types
        (F,) the fields' types.
    chance
        (F, 4) float64, how often chance makes each level.
    """
    found = []
    text = [f for f, kind in enumerate(types) if kind.kind == "text"]
    richest = sorted(text, key=lambda f: (-len(forms[f]), f))[:_MOST]
    for f, g in itertools.combinations(sorted(richest), 2):
        twin = pc.index_in(forms[f], value_set=forms[g]).fill_null(-1).to_numpy().astype(np.int32)
        both = twin >= 0
        alike = float((shares[f][both] * shares[g][twin[both]]).sum())
        if 0.0 < alike**2 <= chance[f, CLOSE] * chance[g, CLOSE]:
            found.append((f, g, twin))
    return Swaps.of(found)
