"""Relations that agree as the records of one individual do, in all fields but one and what depends on it: twins.

Who shares all but a given name is a twin, or one person by another name. Of a field that nothing depends on nobody can
say which. Where sex goes with the given name it can be said: a wrong name comes with the right sex, and a twin's is
drawn anew. Such a relation has one parameter, its number: what it agrees in, it agrees in as links of each noise class
do. It is fitted together with the links' levels and all numbers, from the best structure without, and from that without
the relations that agree as links do but for the field: they are the same twins with the wrong names among them. The
levels of the other relations stay.

Of a field that nothing goes with, a birth date, links say it that have changed something else as a whole. An error has
no reason to be rarer in the records of who has moved. Where it is, those who differ in the field and share the rest,
address and all, are relatives who share it too: a father and a son of one name. So where such a relation is tried links
that have changed something are made to be wrong in the field as the others are together, with it and without.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vber_cli.engine.alike_pairs import AlikePairs, telling_fields
from vber_cli.engine.noise_classes import as_noise
from vber_cli.model.noise import Noise
from vber_cli.model.relations import Relations
from vber_cli.model.similar import N_LEVELS, OTHER
from vber_cli.model.types import FloatArray, LongArray

_ROUNDS = 100
_STILL = 0.03  # nats of likelihood that a round must gain for another
_LEAST = 0.05  # of pairs that f is drawn anew in, how many are taken to differ in what depends on it
_COMPARISONS = 20.0  # that the weak prior of each noise class is worth, in the levels of all classes together
_CHANGED = 1.0  # α above which a class is mostly wrong in a field
_ALIKE = 2  # telling fields that relatives share


@dataclass(frozen=True)
class _State:
    """Levels of links (Q, F, 4) by noise class and of relations (C, F, 4); the (D,) fields that others have drawn anew.

    And the numbers of links (Q,), relations (C,) and redrawn relations (D,). In `tied` fields the classes of links that
    have changed something are as the `settled` classes (Q,), which have not, are together; relations that have drawn
    such a field anew are like the settled ones.
    """

    link: FloatArray
    own: FloatArray
    redrawn: tuple[int, ...]
    n_link: FloatArray
    n_own: FloatArray
    n_anew: FloatArray
    settled: np.ndarray
    tied: tuple[int, ...] = ()


def with_redrawn(
    pairs: AlikePairs, relations: Relations, noise: Noise, n_pairs: float, n_parameters: int
) -> tuple[Relations, Noise]:
    """The structure with such relations where BIC speaks for them, and else as it is.

    Parameters
    ----------
    pairs
        All candidate pairs, those alike counted together.
    relations, noise
        The best structure without.
    n_pairs
        Number of all pairs of records.
    n_parameters
        Of a relation that is not redrawn.
    """
    unrelated = pairs.model.unrelated
    candidates, lone = _candidates(pairs, relations, noise), _lone_candidates(pairs, noise)
    if not candidates and not lone:
        return relations, noise
    alpha = noise.concentration[:, :, None]
    link = alpha * unrelated / (1.0 + alpha)
    link[:, :, :OTHER] += noise.levels / (1.0 + alpha)
    n_links = max(float(pairs.count @ pairs.anchor), 1.0)
    start = _State(
        link, relations.levels, (), noise.share * n_links, np.maximum(relations.odds * n_pairs, 1e-3), np.zeros(0),
        np.asarray((noise.concentration <= _CHANGED).all(axis=1)),
    )  # fmt: skip
    n_moved = int((~start.settled & ~noise.changes).sum())

    def fitted(state: _State) -> tuple[_State, float]:
        found, likelihood = _fit(pairs, state, n_pairs)
        parameters = len(found.redrawn) + n_parameters * len(found.own)
        parameters -= n_moved * sum(1 + int((unrelated[f, 1:OTHER] > 0).sum()) for f in found.tied)
        return found, likelihood - 0.5 * float(np.log(max(pairs.count.sum(), 2.0))) * parameters

    best, best_bic = fitted(start)
    for f in candidates:
        base = best
        for state in (base, _without_doubles(pairs, base, f)):
            if state is None:
                continue
            begun = _begin(pairs, state, f, n_pairs)
            # from the same start without them the links may do as well
            without = replace(begun, redrawn=state.redrawn, n_anew=state.n_anew)
            for found, bic in (fitted(without), fitted(begun)):
                if bic > best_bic:
                    best, best_bic = found, bic
    for f in lone:
        begun = _begin_lone(pairs, replace(best, tied=(*best.tied, f)), f, n_pairs)
        bic_without = fitted(replace(begun, redrawn=best.redrawn, n_anew=best.n_anew))[1]
        found, bic = fitted(begun)
        if bic > max(best_bic, bic_without):
            best, best_bic = found, bic
    if not best.redrawn:
        return relations, noise
    share = best.n_link / best.n_link.sum()
    levels = np.concatenate([best.own, _anew(pairs, best)])
    odds = np.concatenate([best.n_own, _numbers_anew(best)]) / n_pairs
    kinds = np.concatenate([np.full(len(best.own), -1), np.repeat(np.array(best.redrawn), len(share))])
    some = odds > 0.0
    return Relations(odds[some], levels[some], kinds[some].astype(np.int64)), as_noise(best.link, share, noise.anew)


def _without_doubles(pairs: AlikePairs, state: _State, f: int) -> _State | None:
    """The state with the relations among the links that agree as these do but for f and what depends on it, if any."""
    kept = telling_fields(pairs.model.unrelated)
    kept[with_dependents(pairs.model.tree, f)] = False
    double = (state.own[:, f, OTHER] > 0.5) & (state.own[:, kept, 0] > 0.5).all(axis=1)
    if not double.any():
        return None
    more = 1.0 + state.n_own[double].sum() / state.n_link.sum()
    return replace(state, own=state.own[~double], n_own=state.n_own[~double], n_link=state.n_link * more)


def _candidates(pairs: AlikePairs, relations: Relations, noise: Noise) -> list[int]:
    """Fields that may be all that relatives differ in.

    Others depend on them; two telling fields that do not go with them are shared by relatives who differ in them, or
    depend on each other; and they are not what records of one individual change as a whole, as the address of those who
    move.
    """
    telling = telling_fields(pairs.model.unrelated)
    changed = noise.concentration > _CHANGED
    edges = pairs.model.tree
    out = []
    for f in np.unique(edges[:, 1]).tolist():
        anew = with_dependents(edges, f)
        shared = telling.copy()
        shared[anew] = False
        whole = bool((changed[:, anew].sum(axis=1) > 1).any())
        together = bool(shared[edges].all(axis=1).any())
        alike = (relations.levels[:, shared, 0] > 0.5).sum(axis=1)
        relatives = bool(((relations.levels[:, f, OTHER] > 0.5) & (alike >= _ALIKE)).any())
        if telling[f] and not whole and (together or relatives):
            out.append(f)
    return out


def _lone_candidates(pairs: AlikePairs, noise: Noise) -> list[int]:
    """Telling fields that nothing goes with, where some links have changed telling fields that go together."""
    telling = telling_fields(pairs.model.unrelated)
    changed = noise.concentration > _CHANGED
    edges = pairs.model.tree[telling[pairs.model.tree].all(axis=1)]
    moved = bool((changed[:, edges[:, 0]] & changed[:, edges[:, 1]]).any())
    if not moved or changed.any(axis=1).all():
        return []
    alone = telling & ~changed.any(axis=0)
    alone[pairs.model.tree.ravel()] = False
    return [int(f) for f in np.flatnonzero(alone)]


def with_dependents(edges: LongArray, f: int) -> list[int]:
    """The field and all that depends on it, directly or not; `edges` as in `Dependence.edges`."""
    found = [f]
    for g in found:
        found += edges[edges[:, 1] == g, 0].tolist()
    return found


def _anew(pairs: AlikePairs, state: _State) -> FloatArray:
    """(D · Q, F, 4) levels of pairs that agree as links of each noise class do, but for what is drawn anew."""
    q = len(state.link)
    out = np.tile(state.link, (len(state.redrawn), 1, 1)) if state.redrawn else state.link[:0].copy()
    for d, f in enumerate(state.redrawn):
        fields = with_dependents(pairs.model.tree, f)
        out[d * q : (d + 1) * q, fields] = pairs.model.unrelated[fields]
    return out


def _begin(pairs: AlikePairs, state: _State, f: int, n_pairs: float) -> _State:
    """Where a relation that f is drawn anew in begins: with all that seem links and differ in f and what depends on it.

    They show how many there are, with those who differ in f alone, and what the links' levels there are without them.
    """
    links = _links(pairs, state, n_pairs)
    children = [g for g in with_dependents(pairs.model.tree, f) if g != f]
    apart = (pairs.levels[:, f] == OTHER) & (pairs.levels[:, children] == OTHER).any(axis=1)
    anew = [f, *children]
    together = np.where(apart, 0.0, links.sum(axis=1))
    shown = np.stack([together @ (pairs.levels == level) for level in range(N_LEVELS)], axis=1)
    link = state.link.copy()
    link[:, anew] = _link_levels(pairs, shown[None], replace(state, redrawn=()))[0][anew]
    differ = 1.0 - float(np.prod(1.0 - pairs.model.unrelated[children, OTHER]))
    n_redrawn = float(links[apart].sum()) / max(differ, _LEAST)
    n_anew = np.append(state.n_anew, max(n_redrawn, 1.0))
    return replace(state, link=link, redrawn=(*state.redrawn, f), n_anew=n_anew)


def _begin_lone(pairs: AlikePairs, state: _State, f: int, n_pairs: float) -> _State:
    """Where a relation begins that has only f drawn anew: with all settled links that differ in it.

    Links are wrong in f as those are that have changed something.
    """
    settled = state.settled
    differ = _links(pairs, state, n_pairs)[pairs.levels[:, f] == OTHER]
    link = state.link.copy()
    moved, usual = (np.average(link[of, f], axis=0, weights=state.n_link[of]) for of in (~settled, settled))
    link[settled, f] *= moved / np.maximum(usual, 1e-12)
    link[settled, f] /= link[settled, f].sum(axis=1, keepdims=True)
    link[~settled, f] = moved
    n_anew = np.append(state.n_anew, max(float(differ[:, settled].sum()), 1.0))
    return replace(state, link=link, redrawn=(*state.redrawn, f), n_anew=n_anew)


def _links(pairs: AlikePairs, state: _State, n_pairs: float) -> FloatArray:
    """(P, Q) how many of the pairs that each stands for are links, by noise class."""
    q = len(state.link)
    levels, number = _classes(pairs, state)
    return np.asarray(pairs.classes(number / n_pairs, levels, q).part[:, :q] * pairs.count[:, None])


def _numbers_anew(state: _State) -> FloatArray:
    """(D · Q,) numbers of the redrawn relations, by the class of links that they agree as."""
    like = np.where(np.isin(state.redrawn, state.tied)[:, None], state.n_link * state.settled, state.n_link)
    return np.asarray((state.n_anew[:, None] * like / like.sum(axis=1, keepdims=True)).ravel())


def _classes(pairs: AlikePairs, state: _State) -> tuple[FloatArray, FloatArray]:
    """(Q + C + D · Q, F, 4) levels of all classes, the links first, and their numbers."""
    levels = np.concatenate([state.link, state.own, _anew(pairs, state)])
    return levels, np.concatenate([state.n_link, state.n_own, _numbers_anew(state)])


def _fit(pairs: AlikePairs, state: _State, n_pairs: float) -> tuple[_State, float]:
    """Everything but the relations' own levels fitted to convergence, and the composite likelihood."""
    q, c, d = len(state.link), len(state.own), len(state.redrawn)
    before = -np.inf
    for _ in range(_ROUNDS):
        levels, number = _classes(pairs, state)
        classes = pairs.classes(number / n_pairs, levels, q)
        likelihood = classes.likelihood - float(number.sum())
        if likelihood < before + _STILL:
            break
        before = likelihood
        total = np.maximum(classes.number, 1e-3)
        link = _link_levels(pairs, classes.shown[np.r_[:q, q + c : len(total)]], state)
        n_anew = total[q + c :].reshape(d, q).sum(axis=1)
        state = replace(state, link=link, n_link=total[:q], n_own=total[q : q + c], n_anew=n_anew)
    return state, before


def _link_levels(pairs: AlikePairs, shown: FloatArray, state: _State) -> FloatArray:
    """(Q, F, 4) levels of links from the levels (Q + D · Q, F, 4) shown by them, and by those that are like them."""
    n_fields = pairs.levels.shape[1]
    settled = state.settled
    counts, *beside = np.split(shown, 1 + len(state.redrawn))
    for f, like in zip(state.redrawn, beside, strict=True):
        kept = np.setdiff1d(np.arange(n_fields), with_dependents(pairs.model.tree, f))
        counts[:, kept] += like[:, kept]
    for f in state.tied:
        # a link that has changed something is in this field as one of some settled class
        like = state.n_link[settled, None] * state.link[settled, f]
        counts[settled, f] += counts[~settled, f].sum(axis=0) * like / np.maximum(like.sum(axis=0), 1e-300)
    overall = counts.sum(axis=0) + 1e-6
    counts += _COMPARISONS * overall / overall.sum(axis=1, keepdims=True)
    out: FloatArray = counts / counts.sum(axis=2, keepdims=True)
    for f in state.tied:
        out[~settled, f] = np.average(out[settled, f], axis=0, weights=state.n_link[settled])
    return out
