"""Exact sums over all assignments, or all partitions, of a handful of records; imports nothing from the engine."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import gammaln, logsumexp


def log_marginal(codes, alpha, members):
    """log m(block) = Σ_f log B(A_f + c) − log B(A_f) of the records in `members`."""
    total = 0.0
    for f, a in enumerate(alpha):
        count = np.zeros(len(a))
        for r in members:
            if codes[r, f] >= 0:
                count[codes[r, f]] += 1
        total += gammaln(a + count).sum() - gammaln((a + count).sum()) - gammaln(a).sum() + gammaln(a.sum())
    return total


def partitions(items):
    """All set partitions of a list."""
    if not items:
        yield []
        return
    head, *tail = items
    for part in partitions(tail):
        yield [[head], *part]
        for i, block in enumerate(part):
            yield [*part[:i], [head, *block], *part[i + 1 :]]


def log_evidence(codes, alpha, n_individuals):
    """log p(x) by summing over all K^N assignments."""
    terms = []
    for z in itertools.product(range(n_individuals), repeat=len(codes)):
        blocks = [[r for r in range(len(codes)) if z[r] == k] for k in set(z)]
        terms.append(sum(log_marginal(codes, alpha, b) for b in blocks))
    return logsumexp(terms) - len(codes) * np.log(n_individuals)


def _summed(parts, logs, n_records):
    """Pair probabilities (N, N) and the distribution of n (index 0..N) of partitions with these log weights."""
    weight = np.exp(logs - logsumexp(logs))
    pair, n = np.zeros((n_records, n_records)), np.zeros(n_records + 1)
    for w, part in zip(weight, parts, strict=True):
        n[len(part)] += w
        for block in part:
            for i, j in itertools.permutations(block, 2):
                pair[i, j] += w
    return pair, n


def partition_posterior(codes, alpha, log_h):
    """Pair probabilities (N, N) and the distribution of n (index 0..N) under weight h(n) Π m(block)."""
    n_records = len(codes)
    parts = list(partitions(list(range(n_records))))
    logs = np.array([log_h[len(p)] + sum(log_marginal(codes, alpha, b) for b in p) for p in parts])
    return _summed(parts, logs, n_records)


def smered_field_evidence(column, part, n_values, beta_prior, mu):
    """log p(values of one field | partition) in SMERED: the sum over z̃, with y, θ and β̃ integrated out."""
    a, b = beta_prior
    seen = [r for r in range(len(column)) if column[r] >= 0]
    block_of = {r: k for k, block in enumerate(part) for r in block}
    terms = []
    for distorted in itertools.product([False, True], repeat=len(seen)):
        draws, truth, possible = [], {}, True
        for r, bad in zip(seen, distorted, strict=True):
            if bad:
                draws.append(column[r])
            else:  # y of the block is pinned; a y that nothing pins integrates to 1
                possible &= truth.setdefault(block_of[r], column[r]) == column[r]
        if not possible:
            continue
        count = np.bincount([*draws, *truth.values()], minlength=n_values)
        n_bad = sum(distorted)
        log_p = gammaln(n_values * mu) - gammaln(n_values * mu + count.sum())
        log_p += (gammaln(mu + count) - gammaln(mu)).sum()
        log_p += gammaln(a + n_bad) + gammaln(b + len(seen) - n_bad) - gammaln(a + b + len(seen))
        terms.append(log_p - gammaln(a) - gammaln(b) + gammaln(a + b))
    return logsumexp(terms)


def smered_posterior(codes, n_values, beta_prior, mu, n_individuals):
    """Pair probabilities (N, N) and the distribution of n (index 0..N) under SMERED, by summing over partitions."""
    n_records, n_fields = codes.shape
    parts = [p for p in partitions(list(range(n_records))) if len(p) <= n_individuals]
    logs = np.array(
        [
            gammaln(n_individuals + 1)
            - gammaln(n_individuals - len(part) + 1)
            + sum(smered_field_evidence(codes[:, f], part, n_values[f], beta_prior, mu) for f in range(n_fields))
            for part in parts
        ]
    )
    return _summed(parts, logs, n_records)
