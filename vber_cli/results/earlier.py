"""What an earlier result has learned, as the place from which another run begins (`--start-from`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vber_cli.engine.learn import Hyperparameters
from vber_cli.errors import InputError
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.types import Records
from vber_cli.results.learned_file import MODEL, LearnedAlone, read_learned
from vber_cli.results.open_result import OpenResult


@dataclass(frozen=True)
class Earlier:
    """An earlier result.

    Attributes
    ----------
    path
        Its directory.
    digest
        SHA-256 of its model.json.
    databases
        (D,) names, in the order of its inputs.
    n_records
        N there.
    learned
        Everything but θ and similar values, which are those of the databases at hand.
    """

    path: str
    digest: str
    databases: tuple[str, ...]
    n_records: int
    learned: LearnedAlone

    def check_fields(self, fields: Sequence[str], types: Sequence[str]) -> None:
        """See that it is about the same fields, compared by the same types.

        Raises
        ------
        InputError
            It is not.
        """
        if self.learned.fields != tuple(fields):
            raise InputError(
                f"--start-from {self.path}: its fields are {', '.join(self.learned.fields)}, here they are "
                f"{', '.join(fields)}",
                "name the same fields in the same order with --fields, or leave out --start-from",
            )
        for field, before, now in zip(fields, self.learned.types, types, strict=True):
            if before != now:
                raise InputError(
                    f"--start-from {self.path}: {field} is of type {before} there, and of type {now} here",
                    f"add --type {field}={before}, or leave out --start-from",
                )

    def start(
        self, guess: Hyperparameters, records: Records, databases: Sequence[str], occupancy: Occupancy
    ) -> Hyperparameters:
        """The first guess with what was learned earlier in its place.

        Parameters
        ----------
        guess
            From `infer.first_guess`: θ and similar values are kept.
        records, databases
            The records at hand, and the names of their databases.
        occupancy
            The prior over the number of individuals, K fixed or not.
        """
        before = self.learned
        ratio = records.n_records / max(self.n_records, 1)
        n = min(before.n * ratio, float(records.n_records))
        same = tuple(databases) == self.databases
        evidence = replace(
            guess.evidence,
            prior=guess.evidence.prior.with_concentration(before.concentration),
            noise=before.noise,
            relations=before.relations,
            dependence=before.dependence,
            tilt=before.tilt if same else np.zeros(0),
            near=before.near,
        )
        fixed = occupancy.n_individuals is not None
        return replace(
            guess,
            evidence=evidence,
            n=n,
            log_new=occupancy.log_new(n) if fixed else before.log_new + float(np.log(ratio)),
            tree=before.tree,
            present=before.present if same else None,
        )


def read_earlier(path: str) -> Earlier:
    """Read what a result has learned.

    Raises
    ------
    InputError
        The directory is no result, or one without a model to begin with.
    """
    result = OpenResult(Path(path))
    learned = read_learned(result)
    if not learned.linked:
        raise InputError(
            f"--start-from {path}: the literal updates (--no-moves) learned nothing",
            "name a result that was made without --no-moves",
        )
    digest = hashlib.sha256((result.path / MODEL).read_bytes()).hexdigest()
    return Earlier(path, digest, tuple(result.databases), result.n_records, learned)
