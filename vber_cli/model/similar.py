"""Which distinct values are near each other, and how often chance brings near ones together (model.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vber_cli.arrays import distinct
from vber_cli.model.prior import Prior, value_pointers
from vber_cli.model.similar_kernels import both_ways_kernel, near_mass_kernel
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records

IDENTICAL, CLOSE, NEAR, OTHER, MISSING_LEVEL = 0, 1, 2, 3, 9
N_LEVELS = 4


@dataclass(frozen=True)
class Swaps:
    """Pairs of fields whose values get into each other's place, as given name and surname do.

    Attributes
    ----------
    fields
        (S, 2) int64, f < g.
    ptr, twin
        (S + 1,) int64; for each pair of fields the (V_f,) int32 codes in g of the values of f, −1 where g has it not.
    back_ptr, back
        (S + 1,) int64; for each pair of fields the (V_g,) int32 codes in f of the values of g, −1 where f has it not.
    worst
        (S,) int8, the least alike that records may be whose values changed places: close, if both values have to be the
        same, or near, if one of them may be similar.
    """

    fields: LongArray
    ptr: LongArray
    twin: IntArray
    back_ptr: LongArray
    back: IntArray
    worst: np.ndarray

    @classmethod
    def none(cls) -> Swaps:
        """Return no such fields."""
        return cls.of([])

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int, IntArray, int, int]]) -> Swaps:
        """Collect (f, g, twin, V_g, worst) of all pairs of fields."""
        fields = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2)
        twin_ptr, twin = _joined([pair[2] for pair in pairs])
        back_ptr, back = _joined([_inverse(pair[2], pair[3]) for pair in pairs])
        return cls(fields, twin_ptr, twin, back_ptr, back, np.array([pair[4] for pair in pairs], dtype=np.int8))

    def twins_of(self, values: LongArray, value_ptr: LongArray) -> LongArray:
        """The given values of all fields numbered through, and their twins in other fields, ascending."""
        found = [values]
        for i, (f, g) in enumerate(self.fields.tolist()):
            here, there = value_ptr[f], value_ptr[g]
            for one, other, twin in (
                (here, there, self.twin[self.ptr[i] : self.ptr[i + 1]]),
                (there, here, self.back[self.back_ptr[i] : self.back_ptr[i + 1]]),
            ):
                lo, hi = np.searchsorted(values, [one, one + len(twin)])
                twins = twin[values[lo:hi] - one]
                found.append(other + twins[twins >= 0].astype(np.int64))
        return distinct(np.concatenate(found))

    def part(self, part: Records) -> Swaps:
        """Return the same of the values that a part of the records holds."""
        assert part.whole is not None, "not a part of any records"
        held = np.split(np.asarray(part.values), value_pointers(part.n_values)[1:-1])
        begin = value_pointers(part.whole.n_values)
        pairs = []
        for i, (f, g) in enumerate(self.fields.tolist()):
            place = np.full(int(part.whole.n_values[g]), -1, dtype=np.int32)
            place[held[g] - begin[g]] = np.arange(len(held[g]), dtype=np.int32)
            twin = self.twin[self.ptr[i] : self.ptr[i + 1]][held[f] - begin[f]]
            twin = np.where(twin >= 0, place[np.maximum(twin, 0)], -1).astype(np.int32)
            pairs.append((f, g, twin, len(held[g]), int(self.worst[i])))
        return Swaps.of(pairs)


def _inverse(twin: IntArray, n_values: int) -> IntArray:
    """(V_g,) int32: where each value of g is among those of f; −1 where nowhere."""
    back = np.full(n_values, -1, dtype=np.int32)
    here = np.flatnonzero(twin >= 0)
    back[twin[here]] = here
    return back


def _joined(parts: Sequence[IntArray]) -> tuple[LongArray, IntArray]:
    """Arrays one after the other, as int32, and where each begins."""
    ptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return ptr, np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)


@dataclass(frozen=True)
class SimilarValues:
    """Similar values, both ways, as CSR over the values of all fields numbered through.

    Attributes
    ----------
    ptr, value, level
        (ΣV + 1,) int64; (S,) int32, ascending for each value and always of the same field; (S,) int8: 0 for spellings
        that compare as identical, 1 close, 2 near.
    swaps
        Fields whose values get into each other's place. Two records that show the same two values the other way round
        are at level 1 in both fields: it takes one slip, like the others that are close. Where only one of the two
        is the same and the other similar, both fields are at level 2, if the fields' `worst` is.
    whole
        Where only some of the values are held: the similar values of all, by which chance goes.
    """

    ptr: LongArray
    value: IntArray
    level: np.ndarray
    swaps: Swaps = field(default_factory=Swaps.none)
    whole: SimilarValues | None = field(default=None, repr=False)
    _chances: list[tuple[FloatArray, FloatArray]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def none(cls, value_ptr: LongArray) -> SimilarValues:
        """Return no similar values at all: identical or different."""
        return cls(np.zeros(int(value_ptr[-1]) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))

    @classmethod
    def of(
        cls, value_ptr: LongArray, a: LongArray, b: LongArray, level: np.ndarray, swaps: Swaps | None = None
    ) -> SimilarValues:
        """Collect pairs (a, b) of values numbered through, each given once."""
        low, high = np.minimum(a, b).astype(np.int32), np.maximum(a, b).astype(np.int32)
        key = low.astype(np.int64) << 32 | high
        if not (key[1:] > key[:-1]).all():
            order = np.argsort(key)
            low, high, level = low[order], high[order], level[order]
        found = Swaps.none() if swaps is None else swaps
        ptr, other, of_other = both_ways_kernel(low, high, level.astype(np.int8), int(value_ptr[-1]))
        return cls(ptr, other, of_other, found)

    def with_swaps(self, swaps: Swaps) -> SimilarValues:
        """Return the same similar values, and fields that may change places."""
        return SimilarValues(self.ptr, self.value, self.level, swaps)

    def part(self, part: Records) -> SimilarValues:
        """Return those among the values that a part of the records holds."""
        values = part.values
        assert values is not None, "not a part of any records"
        place = np.full(len(self.ptr) - 1, -1, dtype=np.int32)
        place[values] = np.arange(len(values), dtype=np.int32)
        size = np.diff(self.ptr)[values]
        entry = np.repeat(self.ptr[values] - (np.cumsum(size) - size), size) + np.arange(size.sum())
        other = place[self.value[entry]]
        kept = other >= 0
        owner = np.repeat(np.arange(len(values)), size)[kept]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(values)))]).astype(np.int64)
        return SimilarValues(ptr, other[kept], self.level[entry][kept], self.swaps.part(part), self)

    def near_mass(self, theta: FloatArray) -> FloatArray:
        """(ΣV,) float64: Σ θ(w) over the values w similar to each value."""
        owner = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        return np.asarray(np.bincount(owner, weights=theta[self.value], minlength=len(self.ptr) - 1), np.float64)

    def chance_levels(self, prior: Prior) -> FloatArray:
        """(F, 4) float64: probability of each level between values drawn independently from θ.

        What was found last is remembered: θ changes far less often than the noise.
        """
        if self.whole is not None and prior.whole is not None:
            return self.whole.chance_levels(prior.whole)
        for base, known in self._chances:
            if base is prior.base:
                return np.array(known)
        found = self._chance_levels(prior)
        self._chances[:] = [(prior.base, found)]
        return np.array(found)

    def near_pairs(self, value_ptr: LongArray, counts: FloatArray) -> FloatArray:
        """(F, 2) float64: pairs of records whose values are at levels 1 and 2; `counts` (ΣV,) are records by value."""
        return np.asarray(near_mass_kernel(value_ptr, self.ptr, self.value, self.level, counts)[:, CLOSE:OTHER] / 2.0)

    def _chance_levels(self, prior: Prior) -> FloatArray:
        n_fields = len(prior.value_ptr) - 1
        out = np.zeros((n_fields, N_LEVELS))
        out[:, :OTHER] = near_mass_kernel(prior.value_ptr, self.ptr, self.value, self.level, prior.base)
        # whoever shows a value not seen here is as often near another as those who show one that is
        field = np.repeat(np.arange(n_fields), np.diff(prior.value_ptr))
        seen = np.bincount(field, weights=prior.base, minlength=n_fields)
        out[:, CLOSE : NEAR + 1] /= np.maximum(np.minimum(seen, 1.0), 1e-300)[:, None] ** 2
        out[:, OTHER] = np.maximum(1.0 - out[:, :OTHER].sum(axis=1), 1e-9)
        return out
