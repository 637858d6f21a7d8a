"""Constraints on a few records as plain sets, and which partitions keep to them; imports nothing from the engine."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from tests.engine import naive
from vber_cli.model.constraints import ContradictionError, make_constraints


@dataclass(frozen=True)
class Rules:
    """What was said: pairs that must and cannot be together, a database of every record, rules about these."""

    must: tuple
    cannot: tuple
    database: np.ndarray
    sole: np.ndarray
    within_only: bool

    def allow(self, label):
        """Whether a partition keeps to all of it; no closure is needed to say so."""
        if any(label[a] != label[b] for a, b in self.must) or any(label[a] == label[b] for a, b in self.cannot):
            return False
        for a, b in itertools.combinations(range(len(label)), 2):
            if label[a] == label[b]:
                same = self.database[a] == self.database[b]
                if self.sole[self.database[a]] if same else self.within_only:
                    return False
        return True

    def made(self):
        must, cannot = (np.array(pairs, np.int32).reshape(-1, 2).T for pairs in (self.must, self.cannot))
        return make_constraints(
            self.database, (must[0], must[1]), (cannot[0], cannot[1]), self.sole, within_only=self.within_only
        )


def random_pairs(rng, n, m):
    return tuple(tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(m)) if n > 1 else ()


def random_rules(rng, n, kind):
    """Rules of a kind that do not contradict each other: must, cannot, sole, within, or all of these."""
    for _ in range(1000):
        everything = kind == "all"
        rules = Rules(
            random_pairs(rng, n, max(n // 4, 1)) if everything or kind == "must" else (),
            random_pairs(rng, n, max(n // 3, 1)) if everything or kind == "cannot" else (),
            rng.integers(0, 3, n).astype(np.int32),
            np.array([True, rng.random() < 0.5, False]) if everything or kind == "sole" else np.zeros(3, bool),
            kind == "within",
        )
        try:
            made = rules.made()
        except ContradictionError:
            continue
        if made.any:
            return rules
    raise AssertionError("no rules without a contradiction were found")


def posterior(case, rules, log_h):
    """`naive.posterior` with every partition that breaks a rule left out."""
    every = naive.posterior(case, log_h)
    allowed = np.array([rules.allow(label) for label in every.labels])
    p = np.where(allowed, every.probability, 0.0)
    return replace(every, probability=p / p.sum())
