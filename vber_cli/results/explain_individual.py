"""Why an individual is one: its records, the links that hold it together, and who comes near it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from vber_cli.errors import InputError
from vber_cli.results.explain import Explainer, PairReport, RecordName, read_links
from vber_cli.results.open_result import OpenResult

_MANY_RECORDS = 200  # whose pairs are all looked at; of more records those listed in links.parquet
_N_PAIRS = 10
_N_NEAR = 3


@dataclass(frozen=True)
class Member:
    """A record of the individual: its membership, and its values as they were read."""

    record: RecordName
    probability: float
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class IndividualReport:
    """Everything about an individual.

    Attributes
    ----------
    individual, fields
        Its number; the fields' names.
    members
        Its records.
    n_pairs
        Pairs of them.
    weakest
        The least probable of these pairs, the weakest first.
    outside
        The most probable links to records of other individuals.
    """

    individual: int
    fields: tuple[str, ...]
    members: tuple[Member, ...]
    n_pairs: int
    weakest: tuple[PairReport, ...]
    outside: tuple[PairReport, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def find_individual(result: OpenResult, name: str) -> int:
    """Return the number of the individual that is called `name`, or to which the record of that name belongs.

    Raises
    ------
    InputError
        There is neither, or both.
    """
    number = int(name) if name.isascii() and name.isdigit() else -1
    is_individual = bool((result.individual == number).any())
    records = result.records_called(name)
    if is_individual and len(records) and set(result.individual[records].tolist()) != {number}:
        raise InputError(
            f"{name!r} is an individual, and the id of a record of another one",
            f"for the record write {result.name_of(int(records[0]))}; for the individual name one of its records",
        )
    return number if is_individual else int(result.individual[result.find_record(name)])


def explain_individual(directory: Path, name: str) -> IndividualReport:
    """Explain an individual, called by its number or by a record of it.

    Raises
    ------
    InputError
        The directory is no result with a model, or there is no such individual or record.
    """
    result = OpenResult(directory)
    individual = find_individual(result, name)
    members = np.flatnonzero(result.individual == individual)
    explainer = Explainer(result)
    inside = _weakest_pairs(explainer, members)
    probability = result.table("assignments", ["probability"]).column("probability").to_numpy()
    values = explainer.stored.values
    return IndividualReport(
        individual,
        explainer.stored.fields,
        tuple(
            Member(explainer.record(r), float(probability[r]), tuple(column[r].as_py() for column in values))
            for r in members.tolist()
        ),
        len(members) * (len(members) - 1) // 2,
        tuple(explainer.pairs(inside)),
        tuple(explainer.pairs(_near_pairs(result, members))),
    )


def _weakest_pairs(explainer: Explainer, members: np.ndarray) -> list[tuple[int, int]]:
    if len(members) < 2:
        return []
    if len(members) <= _MANY_RECORDS:
        a, b = np.array(list(combinations(members.tolist(), 2)), dtype=np.int64).T
    else:
        link_a, link_b, _ = read_links(explainer.result)
        both = np.isin(link_a, members) & np.isin(link_b, members)
        a, b = link_a[both], link_b[both]
    listed = explainer.probability(a, b)
    order = np.lexsort((explainer.pair_log_odds(a, b), np.nan_to_num(listed, nan=0.0)))[:_N_PAIRS]
    return list(zip(a[order].tolist(), b[order].tolist(), strict=True))


def _near_pairs(result: OpenResult, members: np.ndarray) -> list[tuple[int, int]]:
    """The most probable links that leave the individual."""
    if not result.has("links"):
        return []
    a, b, probability = read_links(result)
    leaving = np.flatnonzero(np.isin(a, members) != np.isin(b, members))
    best = leaving[np.argsort(-probability[leaving], kind="stable")][:_N_NEAR]
    inside_first = np.isin(a[best], members)
    own, other = np.where(inside_first, a[best], b[best]), np.where(inside_first, b[best], a[best])
    return list(zip(own.tolist(), other.tolist(), strict=True))
