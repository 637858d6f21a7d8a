"""Latent classes of related but different pairs, and how many of them the data speak for (model.md section 6).

All candidate pairs together are modelled as a Poisson process over level vectors: unrelated pairs, which are the
reference, links, and C classes of relations. A structure's worth is its composite likelihood

    CL = Σ_pairs log(T + odds_M LR_M + Σ_c odds_c LR_c) − N_M − Σ_c N_c,    BIC = CL − ½ log(pairs) · parameters

Explaining agreement by identity or by relation is nearly a tie for one pair of fields, and the two could swap places.
Two anchors keep them apart: the start is the link posterior under the dependence tree, which sees that what is shared
at one address is shared by many; and a relation is of different individuals: in some telling field at least it must
differ almost for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vber_cli.arrays import distinct_rows
from vber_cli.engine.alike_pairs import AlikePairs, Classes, alike_pairs, nats_shared, telling_fields
from vber_cli.engine.block_model import BlockModel, with_noise
from vber_cli.engine.evidence_kernels import pair_evidence
from vber_cli.engine.noise_classes import as_noise, few_classes, with_changed_parts
from vber_cli.engine.redrawn import with_redrawn
from vber_cli.model.dependence import connected_parts, tree_parts
from vber_cli.model.noise import Noise
from vber_cli.model.relations import Relations
from vber_cli.model.similar import MISSING_LEVEL, N_LEVELS, OTHER
from vber_cli.model.types import FloatArray, IntArray
from vber_cli.parallel import in_threads

RELATION_COUNTS = (0, 1, 2, 4, 8, 12)
_STARTS = 2  # and one from the best structure of fewer classes
_STILL = 0.5  # nats of likelihood that a round must gain for another
_EM_ROUNDS = 12
_PRIOR_WEIGHT = 2.0
_DIFFERENT = 0.9  # of a relation's pairs differ in its most different telling field, at least
_SURE = 0.95  # links that noise is begun with: begun with less certain ones it would excuse relatives
_MOST_LOST = 0.6  # of the anchor's sure links, that a structure may call relations
_MORE_LOST = 0.08  # of them, that it may call relations beyond what the best with fewer classes does
_LINKED = 0.5  # members of a class that the anchor calls links
# Numbers of classes in turn without a better BIC, after which no more are tried; but so many classes are tried in any
# case. Where links have swallowed several kinds of relatives one class or two may free none of them.
_PATIENCE, _TRIED_ALWAYS = 2, 4
_TELLS_SOMETHING = 1.5  # nats: more than sex does, whose wrong values are right half of the time
_MOST_ALIKE = 0.1  # strangers per record, that are alike in what a class of links is not wrong in
_CLEAR = 0.02  # a pair less probable than this is clearly no link
# Pairs of what anchors relations are trained on, refit by refit: clear others, all but sure links, and all, for where
# twins are, the anchor calls them sure links. And the probability above which noise is learned from pairs: at first it
# stays as it is. Learned from sure links to the end it would be too little, and keep the others out.
_TRAINED_BELOW = (_CLEAR, _SURE, np.inf, np.inf)
_NOISE_ABOVE = (1.0, _SURE, 0.1, 0.01)
# The anchored start: three qualities of link, by share and by mismatch in every field.
_ANCHOR_SHARE = np.array([0.55, 0.3, 0.15])
_ANCHOR_MISMATCH = np.array([0.03, 0.12, 0.35])


@dataclass(frozen=True)
class Structure:
    """Relations and noise fitted to candidate pairs, with the BIC of every structure tried (larger is better)."""

    relations: Relations
    noise: Noise
    bic: dict[int, float]


@dataclass(frozen=True)
class _Fit:
    """One structure: its BIC, the share of the anchor's sure links that it calls none, if a class doubles links."""

    relations: Relations
    noise: Noise
    bic: float
    lost: float
    doubles: bool


def anchored_noise(possible: np.ndarray) -> Noise:
    """Three classes of links with the same mismatch in all fields, where starts are anchored."""
    near = possible[:, 1:3]
    p = np.zeros((len(_ANCHOR_SHARE), len(possible), N_LEVELS))
    for q, mismatch in enumerate(_ANCHOR_MISMATCH):
        p[q, :, 1:3] = near * mismatch * np.array([0.4, 0.2])
        p[q, :, 3] = mismatch * (1.0 - 0.6 * near.any(axis=1))
        p[q, :, 0] = 1.0 - p[q, :, 1:].sum(axis=1)
    return as_noise(p, _ANCHOR_SHARE)


def without_relations(model: BlockModel, noise: Noise) -> BlockModel:
    """The block model with other noise classes, no relations and no tree."""
    return with_noise(model, noise)._replace(
        relation_odds=np.zeros(0), relation_level=np.zeros((0, model.codes.shape[1], N_LEVELS)), tree=model.tree[:0]
    )


def choose_structure(
    model: BlockModel,
    b: IntArray,
    levels: np.ndarray,
    prior: FloatArray,
    anchor: FloatArray,
    possible: np.ndarray,
    n_pairs: float,
    parts: Sequence[np.ndarray],
    seed: int,
    certain: np.ndarray | None = None,
    threads: int = 1,
) -> Structure:
    """Fit structures with 0, 1, 2, … classes of relations from anchored starts, and keep the one with the best BIC.

    Parameters
    ----------
    model
        Of its arrays θ and the chance levels count.
    b, levels
        (P,) and (P, F): the later record and the levels of every candidate pair.
    prior
        (P,) nats: how much more links there are among pairs of the same databases than among all pairs.
    anchor
        (P,) link probabilities to start from, by evidence that counts dependent fields once.
    possible
        (F, 4) bool, levels that two values of the field can be at.
    n_pairs
        Number of all pairs of records.
    parts
        (F,) bool each, from `parts_that_links_change`.
    seed
        Of samples and starts.
    certain
        (P,) bool, pairs that are known to be links.
    threads
        Has no influence on the result.
    """
    certain = np.zeros(len(b), dtype=bool) if certain is None else certain
    rng = np.random.default_rng([seed, 6])
    pairs = alike_pairs(model, b, levels, prior, anchor, certain)
    best: _Fit | None = None
    bic: dict[int, float] = {}
    since = 0
    for n_classes in RELATION_COUNTS:
        if n_classes > 0 and len(b) < 200 * n_classes:
            break
        starts = [_first_levels(pairs, n_classes, rng) for _ in range(_STARTS if n_classes > 1 else 1)]
        known = best.relations.levels if best is not None else np.zeros((0, *starts[0].shape[1:]))
        if 0 < len(known) < n_classes:
            starts.append(np.concatenate([known, _first_levels(pairs, n_classes - len(known), rng)]))
        fits = in_threads(lambda start: _fit(pairs, start, possible, n_pairs, parts, seed), starts, threads)
        # where many sure links are lost, identity and relation have swapped places
        most = (
            min(_MOST_LOST, best.lost + _MORE_LOST) if n_classes > 1 and best is not None and len(known) else _MOST_LOST
        )
        fits = [fit for fit in fits if n_classes == 0 or (fit.lost <= most and not fit.doubles)]
        found = max(fits, key=lambda fit: fit.bic, default=None)
        if found is not None:
            bic[n_classes] = found.bic
        if best is None or (found is not None and found.bic > best.bic):
            best, since = found, 0
        else:
            since += 1
        if since >= _PATIENCE and n_classes >= _TRIED_ALWAYS:
            break
    if best is None:
        raise ValueError("no structure was tried")
    relations, noise = with_redrawn(pairs, best.relations, best.noise, n_pairs, _n_parameters(possible))
    return Structure(relations, noise, bic)


def _fit(
    pairs: AlikePairs, level: FloatArray, possible: np.ndarray, n_pairs: float, parts: Sequence[np.ndarray], seed: int
) -> _Fit:
    """Relations from the anchor's others under anchored noise, then noise from the links; from given levels."""
    count, n_classes = pairs.count, len(level)
    noise = anchored_noise(possible)
    link, _ = pair_evidence(without_relations(pairs.model, noise), pairs.b, pairs.levels)
    links = np.ones((1, *possible.shape))  # what the first class's levels say comes from the noise classes
    n_links = max(float(count @ pairs.anchor), 1.0)
    n_related = np.full(n_classes, (0.5 * float(count @ (pairs.anchor < _CLEAR)) + 1.0) / max(n_classes, 1))

    def classes(weight: FloatArray) -> Classes:
        """The pairs' classes by what is known at the time."""
        odds = np.append(n_links, n_related) / n_pairs
        return pairs.classes(odds, np.concatenate([links, level]), 1, link=link, weight=weight)

    for refit in range(len(_TRAINED_BELOW)):
        trained = count * (pairs.anchor < _TRAINED_BELOW[refit])
        before = -np.inf
        for _ in range(_EM_ROUNDS):
            found = classes(trained)
            likelihood = found.likelihood - n_links - n_related.sum()
            if likelihood < before + _STILL:
                break
            before = likelihood
            n_links = max(float(found.number[0]), 1.0)
            level = _levels(pairs, found.shown[1:])
            n_related = np.maximum(found.number[1:], 1e-3)
        if refit > 0:
            noise = _noise_of(pairs, found.part[:, 0], possible, parts, seed, _NOISE_ABOVE[refit])
        link, _ = pair_evidence(without_relations(pairs.model, noise), pairs.b, pairs.levels)
    found = classes(count)
    p, related = found.part[:, 0], found.part[:, 1:]
    likelihood = found.likelihood - n_links - n_related.sum()
    parameters = (n_classes + noise.n_classes) * _n_parameters(possible)
    bic = float(likelihood - 0.5 * np.log(max(count.sum(), 2.0)) * parameters)
    sure = pairs.anchor > _SURE
    lost = float(np.average(p[sure] < 0.5, weights=count[sure])) if sure.any() else 0.0
    doubles = _doubles_links(pairs, level, noise, related)
    return _Fit(Relations(n_related / n_pairs, level), noise, bic, lost, doubles)


def _doubles_links(pairs: AlikePairs, level: FloatArray, noise: Noise, related: FloatArray) -> bool:
    """Whether a class (C, F, 4) holds what the anchor calls links, and is like links but for one field or one part.

    That is the noise of the field under another name: who has a wrong given name, and the right sex. Or it is those who
    have moved, where a part of several telling fields has changed as a whole.
    """
    by_chance = pairs.model.unrelated[:, 0]
    correct = noise.levels[:, :, 0] / (1.0 + noise.concentration)
    likely = noise.share @ correct + (1.0 - noise.share @ correct) * by_chance
    like_links = level[:, :, 0] > (likely + by_chance) / 2.0
    members = related * pairs.count[:, None]
    linked = pairs.anchor @ members / np.maximum(members.sum(axis=0), 1e-300)
    telling = telling_fields(pairs.model.unrelated)
    whole = [part for part in parts_that_change(pairs.model) if (part & telling).sum() > 1]
    may_differ = np.array([*np.eye(len(by_chance), dtype=bool), *whole])
    within = (like_links[:, None, :] | may_differ).all(axis=2).any(axis=1)
    return bool((within & (linked > _LINKED)).any())


def parts_that_change(model: BlockModel) -> list[np.ndarray]:
    """The trees of fields, (F,) bool each, that records may change as a whole.

    Those with only one telling field beside what tells next to nothing are left out: nobody can say of a given name and
    sex whether they have changed or are a twin's.
    """
    return [part for part in tree_parts(model.tree, len(model.unrelated)) if _shows_change(model, part)]


def _shows_change(model: BlockModel, part: np.ndarray) -> bool:
    """Whether all of a part's fields (F,) drawn anew look like more than a wrong value in one of them."""
    telling = telling_fields(model.unrelated)
    tells = nats_shared(model.unrelated)
    return bool((part & telling).sum() != 1 or (part & ~telling & (tells > _TELLS_SOMETHING)).any())


def parts_that_links_change(model: BlockModel, n_records: int) -> list[np.ndarray]:
    """The connected parts of two fields or more of the trees, (F,) bool each, that a link may draw anew.

    A value that is drawn anew takes with it what depends on it; which of two fields depends on the other, the tree does
    not say for certain, so a link may change any part. Parts are left out as in `parts_that_change`, and parts whose
    rest too many strangers share among `n_records` records, which are all of which the model's may be a part: such a
    class would be made of these.
    """
    parts = connected_parts(model.tree, len(model.unrelated))
    return [part for part in parts if _shows_change(model, part) and _alike_in(model, ~part, n_records) <= _MOST_ALIKE]


def without_strangers(
    noise: Noise, model: BlockModel, n_records: int, relations: Relations, pairs_per_record: float
) -> Noise:
    """The noise without classes that strangers or relatives would make, unless all are such.

    A class that is wrong for the most part in some fields is left out where too many of them share the others, by
    the measure of `parts_that_links_change`. Whether it holds links nobody could say: it would be made of these.

    Parameters
    ----------
    noise, model
        As they are.
    n_records
        All records, of which the model's may be a part: among them there are the more strangers.
    relations, pairs_per_record
        Relatives, by pairs of the model's records.
    """
    wrong = noise.concentration > 1.0
    kept = [not one.any() or _alike_in(model, ~one, n_records) <= _MOST_ALIKE for one in wrong]
    own = relations.own
    for one, part in enumerate(wrong):
        alike = relations.levels[own][:, ~part, 0].prod(axis=1)
        kept[one] &= not part.any() or bool(relations.odds[own] @ alike * pairs_per_record <= _MOST_ALIKE)
    return noise.only(np.array(kept)) if any(kept) else noise


def _alike_in(model: BlockModel, fields: np.ndarray, n_records: int) -> float:
    """How many pairs of strangers show the same values in all these fields (F,), per record of so many."""
    same = model.unrelated[:, 0].copy()
    for f, parent in model.tree.tolist():
        if fields[parent]:
            same[f] = model.unrelated_given[f, 0]
    return float(0.5 * n_records * np.prod(same[fields]))


def _n_parameters(possible: np.ndarray) -> int:
    """Of one class: its number, and its levels in every field."""
    return int(possible.sum() - len(possible)) + 1


def _noise_of(
    pairs: AlikePairs, p: FloatArray, possible: np.ndarray, parts: Sequence[np.ndarray], seed: int, above: float
) -> Noise:
    """Noise classes of the links above a probability, or the anchored ones where there are none.

    With those of parts that have changed.
    """
    link = p > above
    if not link.any():
        return anchored_noise(possible)
    noise = few_classes(pairs.levels[link], p[link] * pairs.count[link], possible, seed)
    return with_changed_parts(noise, parts)


def _levels(pairs: AlikePairs, shown: FloatArray) -> FloatArray:
    """(C, F, 4) level probabilities from how many pairs are at each level."""
    unrelated = pairs.model.unrelated
    out = shown + _PRIOR_WEIGHT * np.maximum(unrelated, 1e-6)
    return _kept_different(out / out.sum(axis=2, keepdims=True), unrelated)


def _kept_different(level: FloatArray, unrelated: FloatArray) -> FloatArray:
    """The same level probabilities, every class made to differ in its most different telling field."""
    telling = telling_fields(unrelated)
    if not telling.any():
        telling = unrelated[:, 0] <= unrelated[:, 0].min()
    out: FloatArray = level.copy()
    for c in range(len(out)):
        f = int(np.argmax(np.where(telling, out[c, :, OTHER], -1.0)))
        if out[c, f, OTHER] < _DIFFERENT:
            out[c, f, :OTHER] *= (1.0 - _DIFFERENT) / max(out[c, f, :OTHER].sum(), 1e-300)
            out[c, f, OTHER] = _DIFFERENT
    return out


def _first_levels(pairs: AlikePairs, n_classes: int, rng: np.random.Generator) -> FloatArray:
    """(C, F, 4) from a k-means of the agreement of the pairs that are clearly no links by the anchor."""
    if n_classes == 0:
        return np.zeros((0, pairs.levels.shape[1], N_LEVELS))
    clear = pairs.anchor < _CLEAR
    if not clear.any():
        clear[np.argsort(pairs.anchor, kind="stable")[: max(len(clear) // 2, 1)]] = True
    patterns, pattern = distinct_rows(pairs.levels[clear])
    count = np.bincount(pattern, weights=pairs.count[clear])
    points = np.select(
        [patterns == 0, patterns == 1, patterns == 2, patterns == MISSING_LEVEL], [1.0, 0.6, 0.4, 0.5], 0.0
    )
    share = count / count.sum()
    centre = points[rng.choice(len(points), n_classes, replace=len(points) < n_classes, p=share)]
    near = np.zeros(len(points), dtype=np.int64)
    for _ in range(12):
        near = ((points**2).sum(axis=1)[:, None] - 2 * points @ centre.T + (centre**2).sum(axis=1)).argmin(axis=1)
        for c in range(n_classes):
            mine = near == c
            centre[c] = (
                np.average(points[mine], axis=0, weights=count[mine])
                if mine.any()
                else points[rng.choice(len(points), p=share)]
            )
    members = np.where(near[:, None] == np.arange(n_classes), count[:, None], 0.0)
    return _levels(pairs, np.stack([members.T @ (patterns == level) for level in range(N_LEVELS)], axis=2))


def refit_relations(
    model: BlockModel,
    b: IntArray,
    levels: np.ndarray,
    probability: FloatArray,
    relations: Relations,
    n_pairs: float,
) -> Relations:
    """Relations fitted anew to the pairs that are clearly no links by the full link posterior; redrawn ones stay.

    Parameters
    ----------
    model, b, levels
        As in `choose_structure`.
    probability
        (P,) link probability of the candidate pairs.
    relations
        Where to start.
    n_pairs
        Number of all pairs of records.
    """
    if not relations.own.any():
        return relations
    clear = np.flatnonzero(probability < _CLEAR)
    nobody = np.zeros(len(clear), dtype=bool)
    pairs = alike_pairs(model, b[clear], levels[clear], np.zeros(len(clear)), probability[clear], nobody)
    level, odds, own = relations.levels.copy(), relations.odds.copy(), relations.own
    for _ in range(_EM_ROUNDS):
        found = pairs.classes(odds, level, 0)
        level[own] = _levels(pairs, found.shown[own])
        odds[own] = np.maximum(found.number[own], 1e-3) / n_pairs
    return replace(relations, odds=odds, levels=level)
