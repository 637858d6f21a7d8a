"""Which values are written as they are meant (model.md section 5).

What is often seen is hardly ever a misspelling; what is seen once, beside a similar value that is frequent, may well
be. The frequency of a value holds both, and so does the rate at which records of one individual show the same.
Two records that show one common value would by these be the same individual's less often than they are.
"""

from __future__ import annotations

import itertools

import numpy as np

from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import FloatArray, LongArray

_FEW = 4  # records; values seen twice and up to so often are mostly meant, and those seen more often are frequent
# Of the values that are meant no more than so many are seen once for each that is seen twice: by Zipf's law k records
# show a share of 1 / k (k + 1) of them.
_ONCE_PER_TWICE = 3.0
_MOST = 0.95  # of the values seen once, that are taken for misspellings


def spelt_right(counts: FloatArray, identical: FloatArray, similar: SimilarValues, value_ptr: LongArray) -> FloatArray:
    """(ΣV,) float64, how much likelier than a record's value by chance each value is to be written as it is meant.

    Its mean over the records is 1 in every field. How many of the values seen once are misspellings is estimated three
    times, and the least counts: by how many more of them than of the values seen a few times are similar to a
    frequent one; by how many more of them there are than Zipf's law lets values be that are meant; and as often as the
    records of one individual differ.

    Parameters
    ----------
    counts
        (ΣV,) records that show each value.
    identical
        (F,) how often copies are identical, where each of the two may be misspelt.
    similar, value_ptr
        The similar values, of which those that compare as identical count as one, and where each field's values begin.
    """
    out: FloatArray = np.ones(len(counts))
    value = np.repeat(np.arange(len(counts)), np.diff(similar.ptr))
    near = similar.level > 0
    as_one = counts + np.bincount(value[~near], counts[similar.value[~near]], minlength=len(counts))
    as_one[counts == 0] = 0.0  # nobody writes it so
    neighbour = np.zeros(len(counts))
    np.maximum.at(neighbour, value[near], as_one[similar.value[near]])
    for f, (lo, hi) in enumerate(itertools.pairwise(value_ptr.tolist())):
        seen, beside, total = as_one[lo:hi], neighbour[lo:hi] > _FEW, float(counts[lo:hi].sum())
        once, few = seen == 1, (seen > 1) & (seen <= _FEW)
        suspect = once & beside
        if not suspect.any():
            continue
        by_chance = ((few & beside).sum() + 1.0) / (few.sum() + 2.0)
        wrong = min(
            (suspect.sum() - by_chance * once.sum()) / max(1.0 - by_chance, 1.0 - _MOST),
            float(once.sum() - _ONCE_PER_TWICE * (seen == 2).sum()),
            (1.0 - np.sqrt(min(float(identical[f]), 1.0))) * total,
            _MOST * float(suspect.sum()),
        )
        if wrong > 0.0:
            out[lo:hi][suspect] -= wrong / suspect.sum()
            out[lo:hi] /= 1.0 - wrong / total
    return out
