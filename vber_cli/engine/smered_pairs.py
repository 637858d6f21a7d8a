"""Which pairs of records SMERED's linkage moves look at, and how often (smered.md, section 3).

Of the N²/2 pairs nearly all are hopeless. What the moves draw from is fixed before the first one and does not depend on
the chain, so that it cancels in the acceptance ratio, whatever it is; it decides on speed alone.
"""

from __future__ import annotations

import itertools

import numpy as np

from vber_cli.engine.smered_kernels import Data, Pairs, State
from vber_cli.engine.smered_pair_kernels import candidates_kernel
from vber_cli.model.types import FloatArray, IntArray

_SHARE = (0.8, 0.15)  # of the moves, for candidate pairs and for pairs of a group; the rest take any two records
_GROUP_SIZE = 4.0  # records that a key set's group should have on average
_MAX_KEYS = 24
_MAX_KEY_FIELDS = 4
_MOST_TELLING = 12  # fields that key sets are made of
_LARGEST_GROUP = 200
_FAINT = 1e-3  # candidates have at least these prior odds times likelihood ratio


def make_pairs(data: Data, state: State, n_individuals: float) -> Pairs:
    """Choose key sets, group the records by them, and list the candidate pairs.

    Parameters
    ----------
    data
        The values.
    state
        A chain whose tables hold generous θ and β̃: a pair is a candidate if under them it is not too improbable.
    n_individuals
        K.
    """
    n = data.value.shape[0]
    keys = choose_keys(key_entropy(data.value), n)
    group = np.zeros((len(keys), n), dtype=np.int32)
    group_record = np.zeros((len(keys), n), dtype=np.int32)
    group_ptr = np.full((len(keys), n + 1), n, dtype=np.int32)
    for s, key in enumerate(keys):
        _, group[s] = np.unique(data.value[:, key], axis=0, return_inverse=True)
        group_record[s] = np.argsort(group[s], kind="stable")
        counts = np.bincount(group[s], minlength=n)
        group_ptr[s, 0] = 0
        group_ptr[s, 1:] = np.cumsum(counts)
    width = int(group.max(initial=0)) + 2
    group_ptr = np.ascontiguousarray(group_ptr[:, :width])
    least = np.log(n_individuals) + np.log(_FAINT)
    a, b = candidates_kernel(group, group_ptr, group_record, _LARGEST_GROUP, least, data, state)
    share = np.array([_SHARE[0] if len(a) else 0.0, _SHARE[1] if len(keys) else 0.0])
    return Pairs(a, b, group, group_ptr, group_record, share)


def key_entropy(value: IntArray) -> FloatArray:
    """(F,) float64: −log of the probability that two records agree in a field, two gaps included, in nats."""
    n = len(value)
    agree = [float(np.sum((np.unique(column, return_counts=True)[1] / n) ** 2)) for column in value.T]
    return np.asarray(-np.log(np.array(agree)))


def choose_keys(entropy: FloatArray, n_records: int) -> list[list[int]]:
    """Minimal sets of fields on which about `_GROUP_SIZE` records agree by chance, using all fields about equally.

    If all fields together tell less, they are the only key.
    """
    fields = [int(f) for f in np.argsort(-entropy, kind="stable")[:_MOST_TELLING] if entropy[f] > 0]
    wanted = np.log(max(n_records / _GROUP_SIZE, 1.0))
    found: list[tuple[int, ...]] = []
    for size in range(1, min(_MAX_KEY_FIELDS, len(fields)) + 1):
        for key in itertools.combinations(fields, size):
            if entropy[list(key)].sum() >= wanted and not any(set(less) <= set(key) for less in found):
                found.append(key)
    if not found:
        return [sorted(fields)] if fields else []
    used = np.zeros(len(entropy))
    chosen: list[list[int]] = []
    while found and len(chosen) < _MAX_KEYS:
        best = min(found, key=lambda key: (used[list(key)].max(), used[list(key)].sum(), key))
        found.remove(best)
        used[list(best)] += 1
        chosen.append(sorted(best))
    return chosen
