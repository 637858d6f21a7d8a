"""What the user has decided about who may be who: read, resolved to records, checked, and told (model.md section 9)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vber_cli.config import MergeOptions, nearest
from vber_cli.encode.codebook import Encoded
from vber_cli.encode.identify import RecordFinder
from vber_cli.errors import InputError, UsageError
from vber_cli.io.decided import NO, YES, DecidedPairs, read_decided
from vber_cli.model.constraints import (
    Constraints,
    ContradictionError,
    TooFewIndividualsError,
    fewest_individuals,
    make_constraints,
)
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.types import IntArray, LongArray, Records

_FILES = (("must_link", YES, "together"), ("cannot_link", NO, "apart"))


@dataclass
class Decisions:
    """The rules about databases and the decided pairs; pairs are known by record once `resolve` has run.

    Attributes
    ----------
    names
        (D,) of the databases.
    sole, within_only
        As in `model.constraints`.
    files
        For must_link and cannot_link what was read; a file of --decisions stands under both.
    filled_in
        Paths of the files of --decisions.
    pairs
        By option, (P,) and (P,) records in the order of the inputs.
    """

    names: tuple[str, ...]
    sole: np.ndarray
    within_only: bool
    files: dict[str, list[DecidedPairs]]
    filled_in: tuple[str, ...] = ()
    pairs: dict[str, tuple[IntArray, IntArray]] = field(default_factory=dict)

    @property
    def digests(self) -> tuple[str, ...]:
        """Which files were read, and for what."""
        return tuple(f"{option}:{file.digest}" for option, files in self.files.items() for file in files)

    def keys(self) -> tuple[list[tuple[IntArray, IntArray]], tuple[str, ...] | None]:
        """What tells records of the same content apart: the decided pairs, and the databases' names; if anything."""
        pairs = list(self.pairs.values())
        decided = self.within_only or bool(self.sole.any()) or any(len(a) for a, _ in pairs)
        return (pairs, self.names) if decided else ([], None)

    def notes(self) -> list[str]:
        """What to tell once the pairs are resolved."""
        out = []
        for yes, no in zip(*(self._filled_in(option) for option, _, _ in _FILES), strict=True):
            decided = f"{_pairs(len(yes.ids))} decided as together, {len(no.ids):,} as apart, {yes.n_open:,} left open"
            out.append(f"{yes.path}: {decided}")
        for option, _, word in _FILES:
            for file in self.files[option]:
                if file.path in self.filled_in:
                    continue
                aside = f"; {file.n_other:,} other rows are left aside" if file.n_other else ""
                out.append(f"{file.path}: {_pairs(len(file.ids))} decided as {word}{aside}")
        return out

    def _filled_in(self, option: str) -> list[DecidedPairs]:
        return [file for file in self.files[option] if file.path in self.filled_in]


def _pairs(n: int) -> str:
    return f"{n:,} pair{'s' if n != 1 else ''}"


def read_decisions(options: MergeOptions, names: Sequence[str]) -> Decisions:
    """The rules of the options, and the files they name.

    Parameters
    ----------
    options
        Checked options.
    names
        (D,) of the databases.

    Raises
    ------
    UsageError
        An option names no database, or leaves nothing to be linked, or stands beside --no-moves.
    InputError
        A file cannot be read.
    """
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("no_duplicates", "link", "dedupe", "must_link", "cannot_link", "decisions")
        if getattr(options, name)
    ]
    if given and not options.moves:
        raise UsageError(
            f"{given[0]} and --no-moves contradict each other: the literal algorithm knows no constraints",
            f"leave out --no-moves or {given[0]}",
        )
    for name in options.no_duplicates:
        if name not in names:
            close = nearest(name, names)
            raise UsageError(
                f"--no-duplicates: there is no database {name!r}",
                (f"did you mean {close}? " if close else "") + f"databases: {', '.join(names)}",
            )
    if options.link and len(names) < 2:
        raise UsageError(
            "--link needs two databases, and there is one", "name another, or leave out --link to find duplicates"
        )
    sole = np.array([options.link or name in options.no_duplicates for name in names], dtype=np.bool_)
    files = {
        option: [
            *(read_decided(path, wanted) for path in getattr(options, option) if path not in options.decisions),
            *(read_decided(path, wanted, filled_in=True) for path in options.decisions),
        ]
        for option, wanted, _ in _FILES
    }
    return Decisions(tuple(names), sole, options.dedupe and len(names) > 1, files, options.decisions)


def resolve(decisions: Decisions, encoded: Encoded) -> None:
    """Find the records of the decided pairs.

    Raises
    ------
    InputError
        An id means no record, or several.
    """
    if not any(decisions.files.values()):
        nobody = np.empty(0, np.int32)
        decisions.pairs = dict.fromkeys(decisions.files, (nobody, nobody))
        return
    finder = RecordFinder(decisions.names, encoded.records.db_of_record, encoded.record_id)
    for option, files in decisions.files.items():
        decisions.files[option] = [_with_first(file, finder) for file in files]
        found = [
            (finder.find(ids[0], owners[0], where), finder.find(ids[1], owners[1], where))
            for file in decisions.files[option]
            for row, ids, owners in zip(file.row, file.ids, file.databases, strict=True)
            for where in (f"{file.path}, row {row}",)
        ]
        ends = np.array(found, np.int32).reshape(-1, 2)
        decisions.pairs[option] = ends[:, 0].copy(), ends[:, 1].copy()


def _with_first(file: DecidedPairs, finder: RecordFinder) -> DecidedPairs:
    """The file with its first line as a pair, if that was taken for the names of columns and is none."""
    if file.header is None or not all(finder.knows(name) for name in file.header):
        return file
    return replace(
        file,
        row=(1, *(row + 1 for row in file.row)),
        ids=(file.header, *file.ids),
        databases=((None, None), *file.databases),
        header=None,
    )


def constraints_in_order(
    decisions: Decisions, records: Records, order: LongArray, encoded: Encoded, n_individuals: int | None
) -> Constraints:
    """The constraints on the records in the engine's order, checked.

    Parameters
    ----------
    decisions
        Resolved.
    records, order
        The records as read, and (N,) the place in the input of each in the engine's order.
    encoded
        For the records' names.
    n_individuals
        K if it is fixed.

    Raises
    ------
    InputError
        They contradict each other, or a fixed K.
    """
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    must, cannot = ((place[a], place[b]) for a, b in (decisions.pairs["must_link"], decisions.pairs["cannot_link"]))
    try:
        made = make_constraints(
            records.db_of_record[order], must, cannot, decisions.sole, within_only=decisions.within_only
        )
    except ContradictionError as found:
        raise _told(found, decisions.names, records.db_of_record, order, encoded) from None
    least = fewest_individuals(made)
    if n_individuals is not None and n_individuals < least:
        raise InputError(
            f"--K {n_individuals:,} is fewer than the {least:,} individuals that the databases hold by the rules about "
            "them",
            "raise --K, or leave out --no-duplicates, --link or --dedupe",
        )
    return made


def too_few(error: TooFewIndividualsError) -> InputError:
    """What to tell where records did not fit into K individuals."""
    return InputError(
        f"--K {error.n_individuals:,}: no way was found to place all records in so few individuals and keep "
        "the decided pairs apart",
        "raise --K, or take pairs out of --cannot-link",
    )


def occupancy_of(constraints: Constraints, n_records: int, n_individuals: int | None) -> Occupancy:
    """The prior over the number of individuals under the rules about databases."""
    if not constraints.any:
        return Occupancy(n_records, n_individuals)
    size = np.bincount(constraints.database, minlength=len(constraints.sole))
    share = size[size > 0] / max(n_records, 1)
    dispersion = -float(np.sum(share * np.log(share))) if constraints.within_only else 0.0
    sole = () if constraints.within_only else tuple(size[constraints.sole & (size > 0)].tolist())
    return Occupancy(n_records, n_individuals, sole=sole, dispersion=dispersion)


def summary_of(decisions: Decisions, constraints: Constraints) -> dict[str, Any]:
    """What `summary.json` says of the constraints."""
    out: dict[str, Any] = {
        "databases_without_duplicates": [
            name for name, sole in zip(decisions.names, decisions.sole, strict=True) if sole
        ],
        "within_databases_only": decisions.within_only,
    }
    for option, files in decisions.files.items():
        out[option] = {
            "pairs": len(decisions.pairs[option][0]),
            "files": [
                {
                    "name": os.path.basename(file.path),
                    "sha256": file.digest,
                    "pairs": len(file.ids),
                    "left_aside": file.n_other,
                }
                for file in files
            ],
        }
    grouped = constraints.grouped if constraints.any else np.zeros(0, dtype=bool)
    out["must_link"]["records"] = int(grouped.sum())
    out["must_link"]["groups"] = len(np.unique(constraints.lead[grouped])) if constraints.any else 0
    return out


def _told(
    found: ContradictionError, names: Sequence[str], db_of_record: IntArray, order: LongArray, encoded: Encoded
) -> InputError:
    a, b = int(order[found.a]), int(order[found.b])
    owners = names[db_of_record[a]], names[db_of_record[b]]
    one, other = (f"{owner}:{encoded.record_id[r].as_py()}" for owner, r in zip(owners, (a, b), strict=True))
    if a == b:
        return InputError(f"--cannot-link holds {one} apart from itself", "take that row out")
    so = f"{one} and {other} must be one individual, directly or through others (--must-link), "
    if found.reason == "listed":
        return InputError(so + "and cannot be (--cannot-link)", "take pairs out of one of the files")
    if found.reason == "within":
        why = f"but both are of {owners[0]}, which has no duplicates (--no-duplicates or --link)"
        return InputError(so + why, "take pairs out of --must-link, or allow duplicates there")
    return InputError(
        so + "but they are of different databases (--dedupe)", "take pairs out of --must-link, or leave out --dedupe"
    )
