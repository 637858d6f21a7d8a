"""The prior of the field distributions, A_fv = α_f θ_f(v) (model.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vber_cli.model.types import FloatArray, LongArray, Records

DEFAULT_CONCENTRATION = 0.1
# Bounds of a learned concentration: mismatches from one in a million to all but certain.
MIN_CONCENTRATION, MAX_CONCENTRATION = 1e-6, 1e3


@dataclass(frozen=True)
class Prior:
    """Dirichlet parameters of every field, the values of all fields numbered through.

    Attributes
    ----------
    value_ptr
        (F + 1,) int64; value v of field f has index `value_ptr[f] + v` in `base`.
    base
        (ΣV_f,) float64, θ_f(v) > 0; sums to 1 within each field.
    concentration
        (F,) float64, α_f > 0.
    whole
        Where only some of the values are held: the prior of all, whose concentration is not to be asked for.
    """

    value_ptr: LongArray
    base: FloatArray
    concentration: FloatArray
    whole: Prior | None = None

    @property
    def alpha(self) -> FloatArray:
        """(ΣV_f,) float64, A_fv = α_f θ_f(v)."""
        return np.asarray(np.repeat(self.concentration, np.diff(self.value_ptr)) * self.base)

    def with_concentration(self, concentration: FloatArray) -> Prior:
        """Return the same base with other α_f, (F,)."""
        return replace(self, concentration=np.asarray(concentration, dtype=np.float64))

    def with_base(self, base: FloatArray) -> Prior:
        """Return the same concentrations with another θ, (ΣV_f,)."""
        return Prior(self.value_ptr, np.asarray(base, dtype=np.float64), self.concentration)

    def part(self, part: Records) -> Prior:
        """Return the same of the values that a part of the records holds."""
        assert part.values is not None, "not a part with values of its own"
        return Prior(value_pointers(part.n_values), self.base[part.values], self.concentration, self)

    def collisions(self) -> FloatArray:
        """(F,) float64, Σ θ² over all values: how often two draws are the same."""
        whole = self if self.whole is None else self.whole
        sizes = np.diff(whole.value_ptr)
        field = np.repeat(np.arange(len(sizes)), sizes)
        return np.asarray(np.bincount(field, weights=whole.base**2, minlength=len(sizes)), dtype=np.float64)


def value_pointers(n_values: LongArray) -> LongArray:
    """(F + 1,) int64 offsets of each field's values when all fields' values are numbered through."""
    return np.concatenate([[0], np.cumsum(n_values)]).astype(np.int64)


def uniform_base(n_values: LongArray) -> FloatArray:
    """θ_f(v) = 1 / V_f."""
    return np.asarray(np.repeat(1.0 / np.maximum(n_values, 1), n_values))


def normalise(weight: FloatArray, value_ptr: LongArray) -> FloatArray:
    """Scale non-negative weights (ΣV_f,) to sum to 1 within each field; a field without any weight becomes uniform."""
    sizes = np.diff(value_ptr)
    field = np.repeat(np.arange(len(sizes)), sizes)
    total = np.bincount(field, weights=weight, minlength=len(sizes))
    flat = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
    return np.where(total[field] > 0, weight / np.where(total > 0, total, 1.0)[field], flat)


def value_counts(records: Records, value_ptr: LongArray, weight: FloatArray | None = None) -> FloatArray:
    """(ΣV_f,) float64: records (or their weights) with each value; not to be written to."""
    if weight is None:
        return records.remembered("value counts", None, lambda: _count_values(records, value_ptr, None))
    return _count_values(records, value_ptr, weight)


def _count_values(records: Records, value_ptr: LongArray, weight: FloatArray | None) -> FloatArray:
    out = np.zeros(int(value_ptr[-1]))
    for f in range(records.n_fields):
        codes = records.codes[:, f]
        seen = codes >= 0
        out[value_ptr[f] : value_ptr[f + 1]] = np.bincount(
            codes[seen], weights=None if weight is None else weight[seen], minlength=int(records.n_values[f])
        )
    return out


def make_prior(records: Records, kind: str, concentration: float | FloatArray = DEFAULT_CONCENTRATION) -> Prior:
    """The prior before anything is learned.

    Parameters
    ----------
    records
        The encoded records.
    kind
        `uniform`: θ = 1 / V_f; `empirical`: θ = share of the records with the value.
    concentration
        α_f, one number for all fields or (F,) float64.
    """
    value_ptr = value_pointers(records.n_values)
    if kind == "uniform":
        base = uniform_base(records.n_values)
    elif kind == "empirical":
        # a value no record has (possible when codes come from elsewhere) counts as half a record: θ must be positive
        base = normalise(np.maximum(value_counts(records, value_ptr), 0.5), value_ptr)
    else:
        raise ValueError(f"unknown prior: {kind}")
    alpha = np.broadcast_to(np.asarray(concentration, dtype=np.float64), (records.n_fields,)).copy()
    return Prior(value_ptr, base, alpha)
