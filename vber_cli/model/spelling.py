"""Which values are written as they are meant (model.md section 5).

What is often seen is hardly ever a misspelling; what is seen once, beside a similar value that is frequent, may well
be. The frequency of a value holds both, and so does the rate at which records of one individual show the same.
Two records that show one common value would by these be the same individual's less often than they are.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import FloatArray, LongArray

_FEW = 4  # records; values seen twice and up to so often are mostly meant, and those seen more often are frequent
# Of the values that are meant no more than so many are seen once for each that is seen twice: by Zipf's law k records
# show a share of 1 / k (k + 1) of them.
_ONCE_PER_TWICE = 3.0
_MOST = 0.95  # of the values seen once, that are taken for misspellings


class Suspects(NamedTuple):
    """What counts and similar values say about misspellings, whatever the noise.

    Attributes
    ----------
    suspect
        (ΣV,) bool, values seen once, beside a frequent one.
    n_suspect, most_wrong
        (F,) float64, how many there are, and of how many misspellings counts speak at most.
    total, value_ptr
        (F,) float64 records with a value, and (F + 1,) int64 where each field's values begin.
    """

    suspect: np.ndarray
    n_suspect: FloatArray
    most_wrong: FloatArray
    total: FloatArray
    value_ptr: LongArray


def suspects(counts: FloatArray, similar: SimilarValues, value_ptr: LongArray) -> Suspects:
    """Values that may be misspelt.

    Parameters
    ----------
    counts
        (ΣV,) records that show each value.
    similar, value_ptr
        The similar values, of which those that compare as identical count as one, and where each field's values begin.
    """
    value = np.repeat(np.arange(len(counts), dtype=np.int32), np.diff(similar.ptr))
    near = similar.level > 0
    as_one = counts + np.bincount(value[~near], counts[similar.value[~near]], minlength=len(counts))
    as_one[counts == 0] = 0.0  # nobody writes it so
    frequent = np.zeros(len(counts), dtype=bool)
    frequent[value[near & (as_one > _FEW)[similar.value]]] = True
    suspect = frequent & (as_one == 1)
    n_suspect, most_wrong, total = np.zeros((3, len(value_ptr) - 1))
    for f, (lo, hi) in enumerate(itertools.pairwise(value_ptr.tolist())):
        seen, beside = as_one[lo:hi], frequent[lo:hi]
        total[f], n_suspect[f] = counts[lo:hi].sum(), suspect[lo:hi].sum()
        once, few = seen == 1, (seen > 1) & (seen <= _FEW)
        by_chance = ((few & beside).sum() + 1.0) / (few.sum() + 2.0)
        most_wrong[f] = min(
            (n_suspect[f] - by_chance * once.sum()) / max(1.0 - by_chance, 1.0 - _MOST),
            float(once.sum() - _ONCE_PER_TWICE * (seen == 2).sum()),
            _MOST * n_suspect[f],
        )
    return Suspects(suspect, n_suspect, most_wrong, total, value_ptr)


def spelt_right(found: Suspects, identical: FloatArray) -> FloatArray:
    """(ΣV,) float64, how much likelier than a record's value by chance each value is to be written as it is meant.

    Its mean over the records is 1 in every field. How many of the values seen once are misspellings is estimated three
    times, and the least counts: by how many more of them than of the values seen a few times are similar to a
    frequent one; by how many more of them there are than Zipf's law lets values be that are meant; and as often as the
    records of one individual differ.

    Parameters
    ----------
    found
        The values that may be misspelt.
    identical
        (F,) how often copies are identical, where each of the two may be misspelt.
    """
    out: FloatArray = np.ones(len(found.suspect))
    for f, (lo, hi) in enumerate(itertools.pairwise(found.value_ptr.tolist())):
        by_copies = (1.0 - np.sqrt(min(float(identical[f]), 1.0))) * found.total[f]
        wrong = min(float(found.most_wrong[f]), by_copies)
        if wrong > 0.0:
            out[lo:hi][found.suspect[lo:hi]] -= wrong / found.n_suspect[f]
            out[lo:hi] /= 1.0 - wrong / found.total[f]
    return out
