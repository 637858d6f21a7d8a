"""Learning which fields depend on each other between different individuals (model.md section 6).

Two records of one individual share every field, so duplicates look like dependence. The tree is therefore learned from
pairs of records that share a field g and are clearly different individuals by all fields but the one, f, whose
dependence on g is asked for. What is clear depends on the tree, so both are learned in turn, from independence on, one
edge a round: until it is known that street and town go together, whoever moved seems a stranger three times over, and
strangers seem to share their names. Of the noise only its overall amount is learned meanwhile: learned field by field
from links that the tree has not yet unmasked as relatives, it would excuse them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vber_cli.engine.alike_pairs import telling_fields
from vber_cli.engine.block_model import BlockModel, Evidence, block_model, hidden_by_noise
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels, tree_evidence
from vber_cli.engine.hyper import learn_near
from vber_cli.engine.noise_classes import as_noise
from vber_cli.model.dependence import Dependence, individual_shares, tree_roots
from vber_cli.model.noise import Noise
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.relations import Relations
from vber_cli.model.similar import IDENTICAL, MISSING_LEVEL, N_LEVELS, OTHER
from vber_cli.model.types import FloatArray, IntArray, LongArray, Records
from vber_cli.parallel import in_threads

_PAIRS_PER_FIELD = 30_000
_PARTNERS = 3
_ENOUGH = 30  # clear pairs, fewer say nothing about a field
_CLEAR_LOG_ODDS = float(np.log(0.02 / 0.98))  # below, a pair is clearly no link
_PRIOR_WEIGHT = 3.0
_ALSO_DIFFERS = 0.7  # of links whose parent values differ, how many differ in the field as well
_LEAST_GAIN = 0.01  # nats a pair
# Where noise is heavy links are taken for different individuals, above all among those that share what hardly any two
# strangers do. So many of the links may be; and then all fields are the same more often than by chance: a field that
# depends on another must be so so many times more than the part of the record of which it is least true. Clear pairs
# are chosen by fields that tell much, which hide most of the mistaken links therefore; those that tell little hide few.
_MISTAKEN = 0.05
_PECULIAR, _PECULIAR_UNCHOSEN = 20.0, 4.0
_MORE_ROUNDS = 3  # than there are fields
_LEAST_APART = 0.02  # times that a child is identical as often as by chance
_LEAST_NOT_HIDDEN = 1e-3  # share of the parents' near values; of fewer it is not asked how their children are
# What is assumed of links: how many values are identical at first and at most, and at least, the comparisons that the
# first is worth, and how the other values are divided among the levels.
_IDENTICAL, _LEAST_IDENTICAL = 0.82, 0.5
_ASSUMED = 50.0
_OTHERWISE = np.array([0.0, 7.0, 3.0, 8.0]) / 18.0


@dataclass(frozen=True)
class Anchor:
    """Link probabilities of the candidate pairs by evidence that counts dependent fields once.

    Attributes
    ----------
    dependence
        The tree.
    probability
        (P,) float64.
    n
        Expected number of recorded individuals.
    """

    dependence: Dependence
    probability: FloatArray
    n: float


@dataclass(frozen=True)
class _Sharing:
    """Pairs of records that share a field's value.

    Their levels, what lists say of them (+1, −1 or 0), how many other records share the value, and how much of the pair
    says something new: m records with a value differ from each other m − 1 times, in however many pairs.
    """

    b: IntArray
    levels: np.ndarray
    standing: np.ndarray
    others: FloatArray
    new: FloatArray


def learn_tree(
    records: Records,
    evidence: Evidence,
    b: IntArray,
    a: IntArray,
    levels: np.ndarray,
    possible: np.ndarray,
    occupancy: Occupancy,
    seed: int,
    threads: int = 1,
) -> Anchor:
    """Learn the tree, and the candidates' link probabilities under it, from independence on.

    Parameters
    ----------
    records, evidence
        The data, and the evidence to start from; its dependence and relations are not used.
    b, a, levels
        (P,), (P,) and (P, F): the candidate pairs a < b and their levels.
    possible
        (F, 4) bool, levels that two values of each field can be at.
    occupancy
        The prior over the number of individuals.
    seed
        Of the sampled pairs and of the noise classes' starts.
    threads
        Has no influence on the result.
    """
    n_fields = records.n_fields
    now = Evidence(
        evidence.prior,
        evidence.noise,
        evidence.similar,
        Relations.none(n_fields),
        Dependence.none(n_fields),
        constraints=evidence.constraints,
    )
    now = _with_plain_noise(now, possible, _IDENTICAL)
    model = block_model(records, now)
    together = evidence.constraints.standing(a, b) > 0
    rng = np.random.default_rng([seed, 61])
    sharing = {g: _pairs_sharing(model, records.codes[:, g], rng) for g in range(n_fields)}
    n = 0.9 * records.n_records
    probability = np.zeros(len(b))
    observed = (records.codes >= 0).mean(axis=0)
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for n_edges in range(1, n_fields + _MORE_ROUNDS + 1):
        # any two records are of one individual with probability 1/K
        log_new = float(np.log(max(occupancy.mean(n), 1.0)))
        tree = _tree(model, now, sharing, log_new, observed, n_edges, threads)
        now = replace(now, dependence=tree)
        model = block_model(records, now)
        link, doubt = pair_evidence(model, b, levels, threads)
        link += _moved(model, levels).sum(axis=1)
        probability = 1.0 / (1.0 + np.exp(np.clip(log_new + doubt - link, -500.0, 500.0)))
        probability[together] = 1.0
        drawn = individual_shares(records.n_records, (a, b), probability)
        n = float(np.clip(drawn.sum(), 0.02 * records.n_records, records.n_records - 0.5))
        now = replace(now, dependence=replace(tree, drawn=drawn))
        edges = tuple(map(tuple, tree.edges.tolist()))
        if edges in seen:
            break
        seen.add(edges)
        now = replace(now, near=learn_near(records, now.prior, now.similar, levels, probability))
        now = _with_plain_noise(now, possible, _identical_share(model, levels, probability))
        model = block_model(records, now)
    return Anchor(now.dependence, probability, n)


def _with_plain_noise(evidence: Evidence, possible: np.ndarray, identical: float) -> Evidence:
    """The evidence with one noise class that leaves so many values identical in every field."""
    noise = plain_noise(possible, identical)
    return replace(evidence, noise=noise, prior=evidence.prior.with_concentration(noise.concentration[0]))


def _identical_share(model: BlockModel, levels: np.ndarray, probability: FloatArray) -> float:
    """How many telling values links have in common, as far as pairs (P, F) are links."""
    telling = telling_fields(model.unrelated)
    if not telling.any():
        telling[:] = True
    told = levels[:, telling]
    shown, same = (float(probability @ marked.sum(axis=1)) for marked in (told < N_LEVELS, told == IDENTICAL))
    share = (same + _IDENTICAL * _ASSUMED) / (shown + _ASSUMED)
    return float(np.clip(share, _LEAST_IDENTICAL, _IDENTICAL))


def plain_noise(possible: np.ndarray, identical: float = _IDENTICAL) -> Noise:
    """One noise class with the same mismatch in every field; `possible` as in `learn_tree`."""
    level = np.where(possible, (1.0 - identical) * _OTHERWISE, 0.0)
    level[:, OTHER] += 1.0 - level.sum(axis=1) - identical
    level[:, IDENTICAL] = identical
    return as_noise(level[None], np.ones(1))


def _pairs_sharing(model: BlockModel, column: IntArray, rng: np.random.Generator) -> _Sharing:
    """Pairs of records with the same value: each with the next _PARTNERS of a random order of those that have it."""
    seen = rng.permutation(np.flatnonzero(column >= 0))
    order = seen[np.argsort(column[seen], kind="stable")]
    first, second = [], []
    for step in range(1, _PARTNERS + 1):
        same = column[order[:-step]] == column[order[step:]]
        first.append(order[:-step][same])
        second.append(order[step:][same])
    x, y = np.concatenate(first), np.concatenate(second)
    if len(x) > _PAIRS_PER_FIELD:
        chosen = rng.choice(len(x), _PAIRS_PER_FIELD, replace=False)
        x, y = x[chosen], y[chosen]
    a, b = np.minimum(x, y).astype(np.int32), np.maximum(x, y).astype(np.int32)
    others = np.bincount(column[seen])[column[a]] - 1.0
    n_drawn = sum(np.maximum(others - step, 0.0) for step in range(_PARTNERS))
    return _Sharing(b, pair_levels(model, a, b), model.constraints.listed(a, b), others, others / n_drawn)


def _field_evidence(model: BlockModel, evidence: Evidence, pairs: _Sharing) -> FloatArray:
    """(P, F) float64 nats: what each field says for a link by itself, under the overall noise and the present tree."""
    alpha = evidence.prior.concentration
    copies = (evidence.noise.share[:, None, None] * evidence.noise.levels).sum(axis=0)
    near = np.column_stack([copies[:, 1:3] / np.maximum(model.unrelated[:, 1:3], 1e-12), np.zeros(len(alpha))])
    out = np.empty(pairs.levels.shape)
    for f in range(len(alpha)):
        level = pairs.levels[:, f]
        by_level = np.full(MISSING_LEVEL + 1, 1.0)
        by_level[1:N_LEVELS] = (alpha[f] + near[f]) / (1.0 + alpha[f])
        ratio = by_level[level]
        same = np.flatnonzero(level == IDENTICAL)
        ratio[same] = (alpha[f] + copies[f, 0] / model.theta[pairs.b[same], f]) / (1.0 + alpha[f])
        out[:, f] = ratio
    return np.asarray(np.log(out) + _moved(model, pairs.levels) - tree_evidence(model, pairs.b, pairs.levels))


def _moved(model: BlockModel, levels: np.ndarray) -> FloatArray:
    """(P, F) float64 nats: what a field is worth more for a link where its parent differs, for then it may well do so.

    Whoever moved has another street and another town, which is one event and not two. Taken for two it would make those
    who moved seem different individuals, and the tree would find that different individuals share their names.
    """
    out = np.zeros(levels.shape)
    differs = model.alpha[0] / (1.0 + model.alpha[0])
    by_level = np.zeros(MISSING_LEVEL + 1)
    for f, g in model.tree:
        by_level[:OTHER] = np.log((1.0 - _ALSO_DIFFERS) / (1.0 - differs[f]))
        by_level[OTHER] = np.log(_ALSO_DIFFERS / differs[f])
        out[:, f] = np.where(levels[:, g] == OTHER, by_level[levels[:, f]], 0.0)
    return out


def _tree(
    model: BlockModel,
    evidence: Evidence,
    sharing: dict[int, _Sharing],
    log_new: float,
    observed: FloatArray,
    most: int,
    threads: int,
) -> Dependence:
    """The edges g → f of most gain that make a forest, each field with one parent at most, and no more than so many."""
    n_fields = model.codes.shape[1]
    telling, root = telling_fields(model.unrelated), tree_roots(evidence.dependence.edges, n_fields)
    edges: list[tuple[float, int, int, float, FloatArray]] = []
    drawn = evidence.dependence.drawn
    own = float(drawn.mean()) if len(drawn) else 1.0  # a record is one of several of its individual
    enough = {g: pairs for g, pairs in sharing.items() if len(pairs.b) >= _ENOUGH}
    evidences = in_threads(lambda pairs: _field_evidence(model, evidence, pairs), list(enough.values()), threads)
    for (g, pairs), weight in zip(enough.items(), evidences, strict=True):
        links = float(np.sum(1.0 / (1.0 + np.exp(np.clip(log_new - weight.sum(axis=1), -50.0, 50.0)))))
        found: dict[int, tuple[float, FloatArray, int]] = {}
        new: dict[int, float] = {}
        for f in range(n_fields):
            chance = float(model.unrelated[f, 0])
            if f == g or chance >= 0.999:
                continue
            level, n_clear, new[f] = _levels_apart(pairs, weight, f, log_new, model.unrelated[f])
            if n_clear >= max(_ENOUGH, _MISTAKEN * links):
                found[f] = chance, level, n_clear
        for f, (chance, level, n_clear) in found.items():
            same = float(level[0])
            if same <= 1.5 * chance + 0.002:
                continue
            if same - chance < _made_by_links(found, root, telling, (g, f)):
                continue
            gain = same * np.log(same / chance) + (1.0 - same) * np.log(max(1.0 - same, 1e-9) / (1.0 - chance))
            n_own = new[f] * own
            shown = gain * n_own > 0.5 * np.log(max(n_own, 1.0)) + np.log(n_fields * (n_fields - 1))
            gain *= n_clear / len(pairs.b) * observed[g]
            if shown and gain > _LEAST_GAIN:
                edges.append((gain, g, f, max((1.0 - same) / (same - chance), 1e-3), level))
    out = Dependence.none(n_fields)
    for gain, g, f, strength, level in sorted(edges, key=lambda edge: (-edge[0], edge[1], edge[2])):
        if out.n_edges == most:
            break
        if out.parent[f] < 0 and not _leads_to(out.parent, g, f):
            out.parent[f] = g
            out.strength[f], out.levels[f], out.gain[f] = strength, level, gain
    by_field = {g: (pairs, weight) for (g, pairs), weight in zip(enough.items(), evidences, strict=True)}
    assumed = hidden_by_noise(evidence.noise, model.unrelated)
    hidden, apart = _behind_others(model, out, by_field, log_new, assumed)
    return replace(out, hidden=hidden, apart=apart)


def _behind_others(
    model: BlockModel,
    tree: Dependence,
    sharing: dict[int, tuple[_Sharing, FloatArray]],
    log_new: float,
    assumed: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """`Dependence.hidden` and `apart`: what the children that strangers share say of their parents' values.

    Of near values some are the same but for an error, and some only neighbours, as two postcodes of one town are. Where
    all children are shared far oftener than by chance it is the first; what one of them is shared beyond that is the
    second. What few pairs show is drawn to what is `assumed` (F, 3) to be hidden, and to chance. `sharing` has for each
    field pairs that share it, and their evidence by field.
    """
    top, bottom = np.zeros(assumed.shape), np.zeros(assumed.shape)
    shown: dict[int, tuple[int, _NearParents]] = {}
    for f, g in tree.edges.tolist():
        if f not in sharing or g not in sharing:
            continue
        where_same, n_same = _counts_apart(*sharing[g], f, log_new)
        count, n = _counts_apart(*sharing[f], g, log_new)
        if min(n, n_same) < _ENOUGH:
            continue
        chance = max(float(model.unrelated[f, 0]), 1e-300)
        ratio = max((where_same[0] / chance + _PRIOR_WEIGHT) / (n_same + _PRIOR_WEIGHT), 1.0 + 1e-6)
        pairs = _NearParents(count[1:], n * model.unrelated[g, 1:], ratio)
        times = pairs.times(assumed[g])
        sure = (ratio - 1.0) ** 2 * (pairs.by_chance + _PRIOR_WEIGHT) / np.maximum(times, 1e-9)
        top[g] += sure * np.clip((times - 1.0) / (ratio - 1.0), 0.0, 1.0)
        bottom[g] += sure
        shown[f] = g, pairs
    hidden = np.where(bottom > 0.0, top / np.maximum(bottom, 1e-300), assumed)
    apart = np.ones(hidden.shape)
    for f, (g, pairs) in shown.items():
        not_hidden = 1.0 - hidden[g]
        rest = (pairs.times(hidden[g]) - hidden[g] * pairs.ratio) / np.maximum(not_hidden, 1e-9)
        rest = np.where(not_hidden > _LEAST_NOT_HIDDEN, np.clip(rest, _LEAST_APART, pairs.ratio), 1.0)
        # where the parents are others altogether it depends on the value, of which this is the mean
        apart[f, : OTHER - 1] = rest[: OTHER - 1]
    return hidden, apart


@dataclass(frozen=True)
class _NearParents:
    """Strangers that share a child: how many have parents at levels 1, 2 and 3 (3,), and how many would by chance.

    And how many times likelier than by chance the child is the same where the parents are.
    """

    count: FloatArray
    by_chance: FloatArray
    ratio: float

    def times(self, hidden: FloatArray) -> FloatArray:
        """(3,) how many times likelier than by chance the child is the same, little changed if few pairs show it.

        Then it is what follows from how often the parents hide (3,) the same value.
        """
        usual = 1.0 - hidden + hidden * self.ratio
        return (self.count + _PRIOR_WEIGHT * usual) / (self.by_chance + _PRIOR_WEIGHT)


def _levels_apart(
    pairs: _Sharing, weight: FloatArray, f: int, log_new: float, by_chance: FloatArray
) -> tuple[FloatArray, int, float]:
    """(4,) levels in field f of the pairs that are different individuals, from how many pairs, and how many new ones.

    They are clearly so by all fields but f, and count as far as they are so by all: those who moved, and whom but the
    name f nothing tells from strangers, would else make strangers share their names. `by_chance` (4,) is what is taken
    of few pairs.
    """
    clear, shown, apart = _apart_by_all(pairs, weight, f, log_new)
    count = np.bincount(shown, weights=apart, minlength=N_LEVELS)[:N_LEVELS]
    level = count + _PRIOR_WEIGHT * np.maximum(by_chance, 1e-6)
    return level / level.sum(), len(shown), float(pairs.new[clear].sum())


def _counts_apart(pairs: _Sharing, weight: FloatArray, f: int, log_new: float) -> tuple[FloatArray, float]:
    """(4,) the same as counts, any pair of records as likely to be among them; and how many independent ones they are.

    What many records share most pairs do, of whom no more have been drawn for each record than of rare values.
    """
    clear, shown, apart = _apart_by_all(pairs, weight, f, log_new)
    apart = apart * pairs.others[clear]
    n = float(apart.sum() ** 2 / max((apart**2).sum(), 1e-300))
    count = np.bincount(shown, weights=apart, minlength=N_LEVELS)[:N_LEVELS]
    return np.asarray(count * (n / max(apart.sum(), 1e-300))), n


def _apart_by_all(
    pairs: _Sharing, weight: FloatArray, f: int, log_new: float
) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """(P,) the pairs that are clearly different individuals by all other fields, (C,) their levels in f.

    And (C,) how far they are so by all fields.
    """
    total = weight.sum(axis=1) - log_new
    clear = (total - weight[:, f] < _CLEAR_LOG_ODDS) & (pairs.standing == 0) | (pairs.standing < 0)
    clear &= pairs.levels[:, f] < N_LEVELS
    apart = np.where(pairs.standing[clear] < 0, 1.0, 1.0 / (1.0 + np.exp(np.clip(total[clear], -50.0, 50.0))))
    return clear, pairs.levels[clear, f], apart


def _made_by_links(
    found: dict[int, tuple[float, FloatArray, int]], root: LongArray, telling: np.ndarray, edge: tuple[int, int]
) -> float:
    """How much more than by chance a field may be the same for no other reason than links among the pairs.

    That is seen elsewhere in the record, in the part of which it is least true. Parts are the trees so far; that of the
    edge itself does not count, nor does a field that tells much and is the same far more often than those that tell
    little say of links: it depends on the edge's fields too, and is not in their tree yet. Fields that tell little are
    asked themselves where no part is left. `found` has for each field its chance, its (4,) levels and how many pairs
    show these. Without another part it is 0.
    """
    unchosen = np.inf
    elsewhere: list[tuple[int, float, int]] = []
    for h, (chance, level, n_clear) in found.items():
        if h in edge or root[h] in root[list(edge)]:
            continue
        excess = max(float(level[0]) - chance, 0.0)
        if telling[h]:
            elsewhere.append((h, excess, n_clear))
        else:
            unsure = float(np.sqrt(chance * (1.0 - chance) / n_clear))
            unchosen = min(unchosen, _PECULIAR_UNCHOSEN * (excess + unsure) / (1.0 - chance))
    parts: dict[int, float] = {}
    for h, excess, n_clear in elsewhere:
        if excess < unchosen:
            parts[root[h]] = max(parts.get(root[h], 0.0), excess + 0.5 / n_clear)
    if parts:
        return _PECULIAR * min(parts.values())
    return unchosen if elsewhere else 0.0


def _leads_to(parent: LongArray, g: int, f: int) -> bool:
    """Whether f is g or one of its ancestors."""
    while g >= 0:
        if g == f:
            return True
        g = int(parent[g])
    return False
