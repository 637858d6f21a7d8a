"""Which fields' values get into each other's place: given name and surname, two names of a street."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.types import FieldType
from vber_cli.model.prior import Prior
from vber_cli.model.similar import CLOSE, NEAR, SimilarValues, Swaps

# Fields looked at, those with the most values: two thousand have two million pairs, and kernels ask about each pair.
_MOST = 24


def find_swaps(
    forms: Sequence[pa.StringArray], types: Sequence[FieldType], similar: SimilarValues, prior: Prior
) -> Swaps:
    """Return the pairs of text fields that may have changed places.

    Two records that show the same two values the other way round count as close in both fields, and as near in both
    where one of the values is only similar. That is no more than it is worth as long as chance brings such records
    together more rarely than records that are close, or near, in both.

    Parameters
    ----------
    forms, types
        For each field its distinct comparison forms, and its type.
    similar
        The similar values of each field.
    prior
        θ is the share of each value.
    """
    chance, theta, begin = similar.chance_levels(prior), prior.base, prior.value_ptr
    near = similar.near_mass(theta)
    found = []
    text = [f for f, kind in enumerate(types) if kind.kind == "text"]
    richest = sorted(text, key=lambda f: (-len(forms[f]), f))[:_MOST]
    for f, g in itertools.combinations(sorted(richest), 2):
        twin = pc.index_in(forms[f], value_set=forms[g]).fill_null(-1).to_numpy().astype(np.int32)
        v = np.flatnonzero(twin >= 0)
        here, there = begin[f] + v, begin[g] + twin[v]
        same = float((theta[here] * theta[there]).sum())
        alike = same + float((theta[here] * near[there] + theta[there] * near[here]).sum())
        close, similar_too = (chance[f, level] * chance[g, level] for level in (CLOSE, NEAR))
        if 0.0 < same**2 <= close:
            found.append((f, g, twin, len(forms[g]), NEAR if 2.0 * same * alike <= similar_too else CLOSE))
    return Swaps.of(found)
