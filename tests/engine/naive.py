"""Twins of the kernels over blocks and partitions: plain loops over the equations; imports nothing from the engine.

A block's weight is its marginal beside its records on their own (docs/model.md section 2), built by the chain rule over
its records in ascending order. Given m earlier records of the block, of which n show field f and k_0, k_1, k_2 are
identical, close or near in it, the record's factor is

    Σ_q share_q Π_f [α_qf + k_0 μ_qf0 / θ_f(x) + k_1 μ_qf1 / u_f1 + k_2 μ_qf2 / u_f2] / (α_qf + n),

where θ and u are those given the parent's value if the record shares that with an earlier one. Off its logarithm goes
the mean over the earlier records of log(1 + Σ_c odds_c LR_c), with LR_c of the relation against unrelated records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.special import logsumexp

from tests import exact
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import Prior, make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import SimilarValues
from vber_cli.model.types import Records

N_VALUES = (4, 3, 7)
UGLY = ("random", "missing", "constant", "tied", "blank")
DEPTH = 32
# (field, value, value) and their level; the second field has none, and in the third two spellings compare as identical
NEAR = {(0, 0, 1): 1, (0, 1, 3): 2, (2, 0, 1): 1, (2, 2, 3): 2, (2, 0, 6): 2, (2, 4, 5): 0, (2, 3, 5): 1}
FULL = ("near", "relations", "tree")


@dataclass(frozen=True)
class Case:
    """Records and everything that weighs their blocks; `near` says which values are similar, once a pair."""

    records: Records
    prior: Prior
    noise: Noise
    near: dict
    relations: Relations
    dependence: Dependence

    @property
    def codes(self):
        return self.records.codes

    @property
    def n(self):
        return self.records.n_records

    @property
    def similar(self):
        ends = [(self.prior.value_ptr[f] + v, self.prior.value_ptr[f] + w) for f, v, w in self.near]
        a, b = np.array(ends, np.int64).reshape(-1, 2).T
        return SimilarValues.of(self.prior.value_ptr, a, b, np.array(list(self.near.values()), np.int8))

    @cached_property
    def unrelated(self):
        """(F, 4) how often two values drawn from θ are at each level."""
        out = np.zeros((self.records.n_fields, 4))
        for f in range(len(out)):
            base = self.prior.base[self.prior.value_ptr[f] : self.prior.value_ptr[f + 1]]
            for v, p in enumerate(base):
                for w, q in enumerate(base):
                    out[f, level_of(self, f, v, w)] += p * q
            out[f, 3] = max(out[f, 3], 1e-9)
        return out

    @cached_property
    def right(self):
        """How much likelier than others each record's own value is to be written as it is meant; 1 where missing."""
        out = np.ones(self.codes.shape)
        for f, column in enumerate(self.codes.T.tolist()):
            shown = Counter(v for v in column if v >= 0)
            # spellings that compare as identical count as one
            seen = {v: sum(n for w, n in shown.items() if level_of(self, f, v, w) == 0) for v in shown}
            beside = {v for v in seen for w in seen if v != w and level_of(self, f, v, w) in {1, 2} and seen[w] > 4}
            once, few = [v for v in seen if seen[v] == 1], [v for v in seen if 2 <= seen[v] <= 4]
            suspect = beside & set(once)
            if not suspect:
                continue
            p = (len(beside & set(few)) + 1) / (len(few) + 2)
            same = sum(s * levels[f, 0] for s, levels in zip(self.noise.share, self.noise.levels, strict=True))
            wrong = min(
                (len(suspect) - p * len(once)) / max(1 - p, 0.05),
                len(once) - 3 * sum(n == 2 for n in seen.values()),
                (1 - min(same, 1.0) ** 0.5) * sum(shown.values()),
                0.95 * len(suspect),
            )
            if wrong > 0:
                for r, v in enumerate(column):
                    if v >= 0:
                        out[r, f] = (1 - (v in suspect) * wrong / len(suspect)) / (1 - wrong / sum(shown.values()))
        return out

    @property
    def theta(self):
        """θ of every record's own value over how likely it is to be right, 1 where it is missing."""
        return self.plain_theta / self.right

    @cached_property
    def plain_theta(self):
        """θ of every record's own value, 1 where it is missing."""
        out = np.ones(self.codes.shape)
        for r in range(self.n):
            for f in range(self.records.n_fields):
                if self.codes[r, f] >= 0:
                    out[r, f] = self.prior.base[self.prior.value_ptr[f] + self.codes[r, f]]
        return out

    @cached_property
    def theta_given(self):
        """The same given the value of the field's parent: (n_uv + κ θ) / (n_u + κ), n counting individuals."""
        out = self.plain_theta.copy()
        for r in range(self.n):
            for f, g in enumerate(self.dependence.parent):
                v, u = self.codes[r, f], self.codes[r, g]
                if g < 0 or v < 0 or u < 0:
                    continue
                n_u = n_uv = 0
                for s in range(self.n):
                    if self.codes[s, g] == u and self.codes[s, f] >= 0:
                        share = self.dependence.drawn[s] if len(self.dependence.drawn) else 1.0
                        n_u += share
                        n_uv += share * (self.codes[s, f] == v)
                kappa = self.dependence.strength[f]
                out[r, f] = (n_uv + kappa * self.plain_theta[r, f]) / (n_u + kappa)
        return out / self.right

    @cached_property
    def hidden(self):
        """(F, 4) how probably unrelated records at a level (0: missing) would show the same, but for an error."""
        out = np.zeros((self.records.n_fields, 4))
        for g in range(len(out)):
            out[g, 0] = chance = self.unrelated[g, 0]
            copied = self.noise.levels[:, g] / (1.0 + self.noise.concentration[:, g, None])
            for at in (1, 2, 3):
                erred = 1.0 - copied.sum(axis=1) if at == 3 else copied[:, at]
                both = chance * float(self.noise.share @ erred)
                out[g, at] = min(both / max(self.unrelated[g, at], 1e-300), 1.0)
                if len(self.dependence.hidden):
                    out[g, at] = self.dependence.hidden[g, at - 1]
        return out

    @cached_property
    def levels(self):
        """(N, N, F) levels of all pairs."""
        out = np.zeros((self.n, self.n, self.records.n_fields), int)
        for f, column in enumerate(self.codes.T.tolist()):
            for i, v in enumerate(column):
                for j, w in enumerate(column):
                    out[i, j, f] = level_of(self, f, v, w)
        return out

    @property
    def alpha_by_field(self):
        """A_f = α_f θ_f, a list over fields."""
        ptr = self.prior.value_ptr
        return [self.prior.concentration[f] * self.prior.base[ptr[f] : ptr[f + 1]] for f in range(len(ptr) - 1)]

    def of(self, **changes):
        """The same with some parts replaced; noise changes nothing that is looked up once."""
        out = replace(self, **changes)
        if set(changes) == {"noise"}:
            assert len(self.levels) == len(self.theta_given) == len(self.right)
            assert len(self.hidden) == self.records.n_fields
            assert len(self.unrelated) == self.records.n_fields
            out.__dict__.update(self.__dict__ | changes)
        return out


TREES = ([-1, 0, 1], [2, 0, -1], [-1, 0, 0])


def make_codes(rng, n, kind):
    """(n, 3) codes that kernels find hard: mostly missing, all alike, copies of two records, records without values."""
    codes = np.stack([rng.integers(0, v, n) for v in N_VALUES], axis=1)
    if kind == "missing":
        codes[rng.random(codes.shape) < 0.5] = -1
    elif kind == "constant":
        codes[:] = codes[0]
    elif kind == "tied":
        codes = codes[rng.integers(0, min(n, 2), n)]
        codes[0, 0] = -1
    elif kind == "blank":
        codes[rng.random(n) < 0.4] = -1
    elif kind == "people":
        people = codes[rng.integers(0, max(n // 3, 1), n)]
        codes = np.where(rng.random(codes.shape) < 0.15, codes, people)
        codes[rng.random(codes.shape) < 0.1] = -1
    return np.ascontiguousarray(codes, dtype=np.int32)


def make_records(rng, n, kind):
    return Records(make_codes(rng, n, kind), np.zeros(n, np.int32), np.array(N_VALUES, np.int64))


def make_case(rng, n, kind, n_classes=1, parts=()):
    """Records, a prior with a random base, noise classes, and of near values, relations and a tree what is asked for.

    With one class and no parts it is the paper's model.
    """
    records = make_records(rng, n, kind)
    base = np.maximum(np.concatenate([rng.dirichlet(np.ones(v)) for v in N_VALUES]), 1e-4)
    for f, lo in enumerate((0, 4, 7)):
        base[lo : lo + N_VALUES[f]] /= base[lo : lo + N_VALUES[f]].sum()
    prior = make_prior(records, "uniform", rng.choice([0.01, 0.2, 1.0, 5.0], 3)).with_base(base)
    noise = Noise.single(prior.concentration)
    if n_classes > 1 or "near" in parts:
        concentration = rng.choice([0.01, 0.1, 0.7, 4.0], (n_classes, 3))
        levels = np.tile([1.0, 0.0, 0.0], (n_classes, 3, 1))
        if "near" in parts:
            levels = rng.dirichlet([6.0, 2.0, 1.0], (n_classes, 3))
        noise = Noise(concentration, levels, rng.dirichlet(np.full(n_classes, 3.0)))
    relations, dependence = Relations.none(3), Dependence.none(3)
    if "relations" in parts:
        relations = Relations(rng.uniform(0.02, 0.5, 2), rng.dirichlet(np.ones(4), (2, 3)))
    if "tree" in parts:
        dependence = Dependence(
            np.array(TREES[rng.integers(len(TREES))], np.int64),
            rng.uniform(0.2, 3.0, 3),
            rng.dirichlet(np.full(4, 3.0), 3),
            np.zeros(3),
            rng.uniform(0.2, 1.0, n) if rng.random() < 0.5 else np.zeros(0),
        )
        counted = rng.spawn(1)[0]
        if counted.random() < 0.7:
            dependence = replace(dependence, hidden=counted.random((3, 3)), apart=counted.uniform(0.1, 5.0, (3, 3)))
    return Case(records, prior, noise, NEAR if "near" in parts else {}, relations, dependence)


def level_of(case, f, v, w):
    """0 identical, 1 close, 2 near, 3 other, 9 missing on either side."""
    if v < 0 or w < 0:
        return 9
    if v == w:
        return 0
    return case.near.get((f, v, w), case.near.get((f, w, v), 3))


def log_ratio(case, level, r, f, at):
    """How much likelier than chance a level of record r's value is for relatives, whose levels of it are `level`."""
    if at > 3:
        return 0.0
    return np.log(level[f, at] / (case.theta[r, f] if at == 0 else case.unrelated[f, at]))


def tree_ratio(case, r, levels):
    """T: what the tree multiplies the probability of a pair's levels by, r being the later record."""
    tree, ratio = case.dependence, 1.0
    for g in range(case.records.n_fields):
        same = other = 1.0  # of the children's levels if the parents are the same, and if they are not
        for f in np.flatnonzero(tree.parent == g):
            at = levels[f]
            if at > 3:
                continue
            if at == 0:
                value = case.theta_given[r, f] if levels[g] == 0 else tree.levels[f, 0]
                same *= value / case.theta[r, f]
                if len(tree.apart) and 0 < levels[g] < 4:
                    other *= tree.apart[f, levels[g] - 1]
            else:
                same *= tree.levels[f, at] / case.unrelated[f, at]
        share = 1.0 if levels[g] == 0 else case.hidden[g, levels[g] if levels[g] < 4 else 0]
        ratio *= share * same + (1.0 - share) * other
    return ratio


def doubt_of(case, r, levels):
    """log(T + Σ_c odds_c LR_c) of a pair at these levels, r being the later record."""
    logs = [np.log(tree_ratio(case, r, levels))]
    for odds, level in zip(case.relations.odds, case.relations.levels, strict=True):
        logs.append(np.log(odds) + sum(log_ratio(case, level, r, f, at) for f, at in enumerate(levels)))
    return logsumexp(logs)


def doubt_in(case, r, earlier):
    """The same beside a block: the mean over its records, of which each shows what it lacks as the others do."""
    logs = [np.log(np.mean([tree_ratio(case, r, case.levels[r, s]) for s in earlier]))]
    for odds, level in zip(case.relations.odds, case.relations.levels, strict=True):
        for s in earlier:
            total = np.log(odds / len(earlier))
            for f in range(case.records.n_fields):
                shown = [at for at in case.levels[r, earlier, f].tolist() if at < 4]
                if case.levels[r, s, f] < 4:
                    total += log_ratio(case, level, r, f, case.levels[r, s, f])
                elif shown:
                    total += np.log(np.mean([np.exp(log_ratio(case, level, r, f, at)) for at in shown]))
            logs.append(total)
    return logsumexp(logs)


def parts_of(case, q, r, f, earlier):
    """(α, what copies at levels 0, 1 and 2 add to it, n) of a record's field beside earlier records."""
    at = [case.levels[r, s, f] for s in earlier]
    mu = case.noise.levels[q, f]
    copies = [at.count(0) * mu[0] / case.theta[r, f], 0.0, 0.0]
    for level in (1, 2):
        if at.count(level):
            copies[level] = at.count(level) * mu[level] / case.unrelated[f, level]
    return case.noise.concentration[q, f], copies, sum(level < 4 for level in at)


def class_scores(case, r, earlier):
    """(Q,) log of each noise class's part in the record's factor."""
    out = np.log(case.noise.share)
    for q in range(case.noise.n_classes):
        for f in range(case.records.n_fields):
            alpha, copies, n = parts_of(case, q, r, f, earlier)
            out[q] += np.log((alpha + sum(copies)) / (alpha + n)) if n else 0.0
    return out


def predictive(case, r, earlier):
    """log p(x_r | earlier) − log p(x_r), less the doubt."""
    if not len(earlier):
        return 0.0
    return np.logaddexp.reduce(class_scores(case, r, earlier)) - doubt_in(case, r, list(earlier))


def block_weight(case, block):
    order = sorted(block)
    return sum(predictive(case, r, order[:i]) for i, r in enumerate(order))


def block_statistics(case, block, weight=1.0):
    """Events of a block: (Q, F, 4 + DEPTH) fresh, copies at three levels, shown; (Q,) records; (N, F) copied values."""
    noise = case.noise
    stats = np.zeros((noise.n_classes, case.records.n_fields, 4 + DEPTH))
    class_weight, repeats = np.zeros(noise.n_classes), np.zeros(case.codes.shape)
    order = sorted(block)
    for i, r in enumerate(order[1:], start=1):
        scores = class_scores(case, r, order[:i])
        for q, part in enumerate(weight * np.exp(scores - np.logaddexp.reduce(scores))):
            class_weight[q] += part
            for f in range(case.records.n_fields):
                alpha, copies, n = parts_of(case, q, r, f, order[:i])
                if n == 0:
                    continue
                total = alpha + sum(copies)
                stats[q, f, 0] += part * alpha / total
                for level in range(3):
                    stats[q, f, 1 + level] += part * copies[level] / total
                stats[q, f, 4 + min(n, DEPTH - 1)] += part
                repeats[r, f] += part * sum(copies) / total
    return stats, class_weight, repeats


def partition_statistics(case, label):
    parts = [block_statistics(case, block) for block in blocks_of(label)]
    return [sum(part) for part in zip(*parts, strict=True)]


@cache
def labellings(n):
    """(Bell(n), n): every partition of 0..n-1, each record labelled with the first record of its block."""
    out = []
    for part in exact.partitions(list(range(n))):
        label = np.zeros(n, np.int64)
        for block in part:
            label[block] = min(block)
        out.append(label)
    return np.array(out)


@dataclass(frozen=True)
class Posterior:
    """Every partition of a few records with its probability."""

    labels: np.ndarray
    probability: np.ndarray

    @cached_property
    def pair(self):
        """(N, N) probability of being together, 0 on the diagonal."""
        together = np.einsum("p,pij->ij", self.probability, self.labels[:, :, None] == self.labels[:, None, :])
        return together - np.diag(np.diag(together))

    @property
    def n_blocks(self):
        return (self.labels == np.arange(self.labels.shape[1])).sum(axis=1)

    @cached_property
    def n(self):
        """(N + 1,) distribution of the number of blocks."""
        return np.bincount(self.n_blocks, weights=self.probability, minlength=self.labels.shape[1] + 1)

    @property
    def moments(self):
        return moments(self.n)

    @cached_property
    def alone(self):
        together = (self.labels[:, :, None] == self.labels[:, None, :]).sum(axis=2)
        return self.probability @ (together == 1)


@dataclass(frozen=True)
class Sums:
    """The same sums without the list of partitions, for more records."""

    pair: np.ndarray
    alone: np.ndarray
    n: np.ndarray


def moments(n):
    """Mean and variance of a distribution over 0..N."""
    at = np.arange(len(n))
    return n @ at, n @ (at - n @ at) ** 2


def subset_weights(case, members):
    """(2^m,) the weight of every subset of some records as a block."""
    out = np.zeros(1 << len(members))
    for mask in range(1, len(out)):
        inside = [r for i, r in enumerate(members) if mask >> i & 1]
        out[mask] = out[mask ^ 1 << (mask.bit_length() - 1)] + predictive(case, inside[-1], inside[:-1])
    return out


def posterior(case, log_h, members=None):
    """The posterior over partitions with weight h(n) Π of the blocks' weights; `log_h` (N + 1,)."""
    members = range(case.n) if members is None else sorted(members)
    n = len(members)
    labels = labellings(n)
    by_mask = subset_weights(case, members)
    masks = ((labels[:, None, :] == np.arange(n)[None, :, None]) << np.arange(n)).sum(axis=2)
    log_weight = by_mask[masks].sum(axis=1) + np.asarray(log_h)[(masks > 0).sum(axis=1)]
    return Posterior(labels, np.exp(log_weight - logsumexp(log_weight)))


def sums(case, log_new):
    """Pairs, records alone and n, each partition weighted exp(log_new n): block by block, the first record's first."""
    m = case.n
    full = (1 << m) - 1
    weight = np.exp(subset_weights(case, range(m)) + log_new)
    by_n = np.zeros((full + 1, m + 1))
    by_n[0, 0] = 1.0
    for s in range(1, full + 1):
        low = s & -s
        rest = t = s ^ low
        while True:
            by_n[s, 1:] += weight[t | low] * by_n[rest ^ t, :-1]
            if t == 0:
                break
            t = (t - 1) & rest
    total = by_n.sum(axis=1)
    pair, alone = np.zeros((m, m)), np.zeros(m)
    for s in range(1, full + 1):
        p = weight[s] * total[full ^ s] / total[full]
        inside = [i for i in range(m) if s >> i & 1]
        if len(inside) == 1:
            alone[inside[0]] = p
        pair[np.ix_(inside, inside)] += p
    return Sums(pair - np.diag(np.diag(pair)), alone, by_n[full] / total[full])


def four_errors(variance, n):
    """How far the mean of n draws in [0, 1] may stray: four standard errors, and Bernstein's term for rare events."""
    return 4 * np.sqrt(variance / n) + 16 / (3 * n)


def blocks_of(label):
    """The blocks of a labelling, as sorted lists of records."""
    groups = {}
    for r, k in enumerate(np.asarray(label).tolist()):
        groups.setdefault(k, []).append(r)
    return sorted(groups.values())


def connected(n, a, b):
    """Components with two or more records, each a sorted list, by breadth-first search."""
    near = {r: set() for r in range(n)}
    for x, y in zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True):
        near[x].add(y)
        near[y].add(x)
    seen, out = set(), []
    for r in range(n):
        if r in seen:
            continue
        group, queue = {r}, [r]
        while queue:
            fresh = near[queue.pop()] - group
            group |= fresh
            queue.extend(fresh)
        seen |= group
        if len(group) > 1:
            out.append(sorted(group))
    return out
