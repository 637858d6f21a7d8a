"""What the kernels need to know to weigh blocks of records: values, noise, similarity and relations in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vber_cli.model.constraints import NO_CONSTRAINTS, Constraints
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior, value_counts
from vber_cli.model.prior_kernels import record_theta_kernel, theta_given_kernel
from vber_cli.model.relations import Relations
from vber_cli.model.similar import CLOSE, N_LEVELS, OTHER, SimilarValues
from vber_cli.model.spelling import spelt_right, suspects
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records


class BlockModel(NamedTuple):
    """The arrays behind a block's weight (model.md sections 2, 5 and 6); F fields, Q noise classes, C relations.

    Attributes
    ----------
    codes, theta
        (N, F) int32 and float64: each record's values, and θ of them over how much likelier than others they are to be
        written as they are meant (`model.spelling`; 1 where missing).
    log_theta
        Σ log θ over all values: the log probability of the records, were they all of different individuals.
    alpha, copy, share
        (Q, F), (Q, F, 3) and (Q,) float64: α; the weight of a copy at level 0 (to be divided by θ), 1 and 2 (already
        divided by how often unrelated values are so near); the classes' shares.
    unrelated
        (F, 4) float64: probability of each level between different individuals (level 0: θ, not used).
    relation_odds, relation_level
        (C,) and (C, F, 4) float64: pairs of each relation per unrelated pair; their levels.
    tree, theta_given, unrelated_given
        (E, 2) int64, (N, E) and (F, 4) float64: the fields that have a parent, and the parent, by parents; θ of each
        record's value given the parent's value (over the same as `theta`), and the levels, where the parents are
        identical.
    hidden, apart
        (F, 4) float64 each: how probably unrelated records whose values are at a level, or at 0 missing, would show the
        same value but for an error or a gap; and how many times likelier than by chance such records, where they would
        not, are identical in the field if its parent is at a level.
    database, tilt
        (N,) int32 and (D,) float64: each record's database, and the log factor of a further record of one individual in
        it (`model.presence`); an empty tilt is no tilt.
    value_ptr, near_ptr, near_value, near_level
        Values numbered through; for each its similar values, ascending, and their levels (CSR over values).
    swap_fields, swap_ptr, swap_twin, swap_back_ptr, swap_back, swap_worst
        (S, 2), twice (S + 1,) and (ΣV,), (S,): fields whose values get into each other's place (`similar.Swaps`).
    constraints
        Who must be together and who cannot.
    """

    codes: IntArray
    theta: FloatArray
    log_theta: float
    alpha: FloatArray
    copy: FloatArray
    share: FloatArray
    unrelated: FloatArray
    relation_odds: FloatArray
    relation_level: FloatArray
    tree: LongArray
    theta_given: FloatArray
    unrelated_given: FloatArray
    hidden: FloatArray
    apart: FloatArray
    database: IntArray
    tilt: FloatArray
    value_ptr: LongArray
    near_ptr: LongArray
    near_value: IntArray
    near_level: np.ndarray
    swap_fields: LongArray
    swap_ptr: LongArray
    swap_twin: IntArray
    swap_back_ptr: LongArray
    swap_back: IntArray
    swap_worst: np.ndarray
    constraints: Constraints


@dataclass(frozen=True)
class Evidence:
    """Everything that evidence depends on: θ, overall α, noise, near values, relations, tree, tilt and constraints.

    `near` (F, 2) float64 is how often values of different individuals are at levels 1 and 2, once that has been counted
    (`hyper.learn_near`); before, it follows from θ.
    """

    prior: Prior
    noise: Noise
    similar: SimilarValues
    relations: Relations
    dependence: Dependence
    tilt: FloatArray = field(default_factory=lambda: np.zeros(0))
    constraints: Constraints = NO_CONSTRAINTS
    near: FloatArray | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it is the paper's, noise classes aside: values identical or not, independent fields, no relations."""
        near = bool((self.similar.level > 0).any())
        return not near and self.dependence.n_edges == 0 and self.relations.n_classes == 0

    def unrelated(self) -> FloatArray:
        """(F, 4) float64, how often values of different individuals are at each level."""
        out = self.similar.chance_levels(self.prior)
        if self.near is not None:
            out[:, CLOSE:OTHER] = self.near
            out[:, OTHER] = np.maximum(1.0 - out[:, :OTHER].sum(axis=1), 1e-9)
        return out


def record_theta(records: Records, prior: Prior) -> FloatArray:
    """(N, F) float64: θ of each record's own value, 1 where it is missing."""
    return np.asarray(record_theta_kernel(records.codes, prior.base, prior.value_ptr))


def theta_given(records: Records, dependence: Dependence, prior: Prior, meant: FloatArray | None = None) -> FloatArray:
    """(N, E) float64: θ of each record's value given the value of the field's parent, as `model.dependence` says.

    Counts are of individuals as far as `dependence.drawn` knows how many records are one, the record itself among them;
    of all records, where these are a part. With `meant` (ΣV,) it is divided by how much likelier than others the value
    is to be written as it is meant.
    """
    out: FloatArray = np.empty((records.n_records, dependence.n_edges))
    meant = np.ones(len(prior.base)) if meant is None else meant
    for e, (f, g) in enumerate(dependence.edges.tolist()):
        both, parent = records.counts_together(f, g, dependence.drawn)
        own = slice(prior.value_ptr[f], prior.value_ptr[f + 1])
        theta_given_kernel(
            records.codes[:, f], both, parent, float(dependence.strength[f]), prior.base[own], meant[own], out[:, e]
        )
    return out


def _copies(noise: Noise, unrelated: FloatArray) -> FloatArray:
    """(Q, F, 3) μ, that of near values over the chance of meeting one."""
    copy = np.array(noise.levels)
    near = unrelated[None, :, 1:3]
    copy[:, :, 1:3] = np.where(near > 0, copy[:, :, 1:3] / np.where(near > 0, near, 1.0), 0.0)
    return copy


def hidden_by_noise(noise: Noise, unrelated: FloatArray) -> FloatArray:
    """(F, 3) `Dependence.hidden` by Bayes' rule, from how often values are the same by chance and how often copies err.

    Strangers' values are at a level for that reason or another: how often they are, `unrelated`, holds both.
    """
    copied = (noise.share[:, None, None] * noise.levels / (1.0 + noise.concentration[:, :, None])).sum(axis=0)
    erred = np.column_stack([copied[:, 1:], 1.0 - copied.sum(axis=1)])
    return np.asarray(np.minimum(unrelated[:, :1] * erred / np.maximum(unrelated[:, 1:], 1e-300), 1.0))


def _hidden(evidence: Evidence, unrelated: FloatArray) -> FloatArray:
    """`BlockModel.hidden`: as it was counted, or by the noise; a missing value is the same as often as by chance."""
    counted = evidence.dependence.hidden
    hidden = counted if len(counted) else hidden_by_noise(evidence.noise, unrelated)
    return np.column_stack([unrelated[:, 0], hidden])


def _apart(dependence: Dependence) -> FloatArray:
    """`BlockModel.apart`: as it was counted, or 1."""
    n_fields = len(dependence.parent)
    counted = dependence.apart if len(dependence.apart) else np.ones((n_fields, N_LEVELS - 1))
    return np.column_stack([np.ones(n_fields), counted])


def with_noise(model: BlockModel, noise: Noise) -> BlockModel:
    """The same model with other noise classes; what strangers' values hide stays as it is."""
    return model._replace(
        alpha=noise.concentration,
        copy=_copies(noise, model.unrelated),
        share=noise.share,
    )


def block_model(records: Records, evidence: Evidence) -> BlockModel:
    """The arrays of the full model, not to be written to; what was made last for these records is remembered."""
    return records.remembered("block model", evidence, lambda: _block_model(records, evidence))


def _block_model(records: Records, evidence: Evidence) -> BlockModel:
    unrelated = evidence.unrelated()
    prior, similar, edges = evidence.prior, evidence.similar, evidence.dependence.edges
    counts = value_counts(records, prior.value_ptr)
    log_theta = float(counts @ np.log(prior.base))
    meant: FloatArray = np.ones(len(prior.base))
    if (similar.level > 0).any():
        identical = evidence.noise.share @ evidence.noise.levels[:, :, 0]
        known = records.remembered("suspects", similar, lambda: suspects(counts, similar, prior.value_ptr))
        meant = spelt_right(known, identical)
    theta = record_theta(records, prior.with_base(prior.base / meant))
    given = theta_given(records, evidence.dependence, prior, meant)
    return BlockModel(
        records.codes,
        theta,
        log_theta,
        evidence.noise.concentration,
        _copies(evidence.noise, unrelated),
        evidence.noise.share,
        unrelated,
        evidence.relations.odds,
        evidence.relations.levels,
        edges,
        given,
        evidence.dependence.levels,
        _hidden(evidence, unrelated),
        _apart(evidence.dependence),
        records.db_of_record,
        evidence.tilt,
        prior.value_ptr,
        similar.ptr,
        similar.value,
        similar.level,
        similar.swaps.fields,
        similar.swaps.ptr,
        similar.swaps.twin,
        similar.swaps.back_ptr,
        similar.swaps.back,
        similar.swaps.worst,
        evidence.constraints,
    )


def exact_evidence(prior: Prior, n_fields: int) -> Evidence:
    """The paper's model: one noise class, identical values or nothing, no relations."""
    return Evidence(
        prior,
        Noise.single(prior.concentration),
        SimilarValues.none(prior.value_ptr),
        Relations.none(n_fields),
        Dependence.none(n_fields),
    )


def exact_model(records: Records, prior: Prior) -> BlockModel:
    """The arrays of the paper's model."""
    return block_model(records, exact_evidence(prior, records.n_fields))
