"""What a person should look at: pairs of records by expected loss, and the individuals that are least sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vber_cli.report.bars import LEVEL_NAMES
from vber_cli.report.facts import Decisions, Members
from vber_cli.report.source import MISSING_LEVEL, Key, Links, Records, Result, read_values
from vber_cli.report.wording import LONGEST_NAME, cut, probability, things

MOST_PAIRS = 30
MOST_INDIVIDUALS = 15
MOST_MEMBERS = 8
MOST_FIELDS = 20
LEAST_LOSS = 0.01
SURE = 0.99

Values = dict[Key, list[str | None]]


@dataclass(frozen=True)
class Compared:
    """One field of two records: the values, None where there is none, and how they compare."""

    field: str
    a: str | None
    b: str | None
    level: int
    words: str


@dataclass(frozen=True)
class DoubtfulPair:
    """Two records of which it is doubtful whether they are one individual."""

    a: str
    b: str
    database_a: str
    database_b: str
    probability: str
    loss: str
    together: bool
    fields: tuple[Compared, ...]


@dataclass(frozen=True)
class Member:
    """A record of an individual: where it is from, how sure its place is, and the second best one in words."""

    database: str
    record_id: str
    probability: str
    runner_up: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class HardIndividual:
    """An individual that is not sure, with its first records."""

    individual: str
    confidence: str
    size: str
    members: tuple[Member, ...]
    left_out: int


@dataclass(frozen=True)
class Review:
    """Everything to look at.

    Attributes
    ----------
    fields
        Those whose values are shown, for there may be thousands.
    n_fields
        All of them.
    with_values
        Whether the result holds the records' values.
    """

    fields: tuple[str, ...]
    n_fields: int
    with_values: bool
    pairs: tuple[DoubtfulPair, ...]
    individuals: tuple[HardIndividual, ...]


def make_review(
    result: Result, members: Members, hard: Sequence[tuple[int, float]], decided: Decisions | None
) -> Review:
    """Collect what is to be looked at, with the records' values where the result holds them.

    Parameters
    ----------
    hard
        Position among the members, and confidence, of each individual to show.
    decided
        What the assignment makes of the links; None without links.

    Raises
    ------
    InputError
        If records.parquet cannot be read.
    """
    links = result.links
    doubtful = [] if decided is None else decided.most_doubtful(MOST_PAIRS, LEAST_LOSS).tolist()
    of_hard = [members.record[members.ptr[i] : members.ptr[i + 1]].tolist() for i, _ in hard]
    records = [record for block in of_hard for record in block[:MOST_MEMBERS]]
    if links is not None:
        records += [int(end[i]) for i in doubtful for end in (links.a, links.b)]
    values = read_values(result, {_key(result.records, record) for record in records})
    pairs = []
    if links is not None and decided is not None:
        pairs = [_pair(result, links, decided, i, values) for i in doubtful]
    individuals = [
        _individual(result, int(members.individual[i]), confidence, block, values)
        for (i, confidence), block in zip(hard, of_hard, strict=True)
    ]
    shown = tuple(cut(field, LONGEST_NAME) for field in result.fields[:MOST_FIELDS])
    return Review(shown, len(result.fields), values is not None, tuple(pairs), tuple(individuals))


def _key(records: Records, record: int) -> Key:
    return int(records.database[record]), int(records.row[record])


def _cells(result: Result, values: Values | None, record: int) -> tuple[str | None, ...]:
    """The first values of a record, cut; all None where the result does not hold them."""
    found = (values or {}).get(_key(result.records, record), [None] * len(result.fields))
    return tuple(None if cell is None else cut(cell) for cell in found[:MOST_FIELDS])


def _name(result: Result, record: int) -> tuple[str, str]:
    records = result.records
    return (
        cut(result.databases[int(records.database[record])], LONGEST_NAME),
        cut(str(records.record_id[record].as_py()), LONGEST_NAME),
    )


def _pair(result: Result, links: Links, decided: Decisions, i: int, values: Values | None) -> DoubtfulPair:
    a, b = int(links.a[i]), int(links.b[i])
    (database_a, id_a), (database_b, id_b) = _name(result, a), _name(result, b)
    return DoubtfulPair(
        a=id_a,
        b=id_b,
        database_a=database_a,
        database_b=database_b,
        probability=probability(float(links.probability[i])),
        loss=probability(float(decided.loss[i])),
        together=bool(decided.together[i]),
        fields=tuple(_compared(result, a, b, links.levels[i].tolist(), values)),
    )


def _compared(result: Result, a: int, b: int, levels: Sequence[int], values: Values | None) -> Iterable[Compared]:
    cells = zip(_cells(result, values, a), _cells(result, values, b), strict=True)
    for field, (cell_a, cell_b), level in zip(result.fields, cells, levels, strict=False):
        words = "missing" if level == MISSING_LEVEL else LEVEL_NAMES[level]
        yield Compared(cut(field, LONGEST_NAME), cell_a, cell_b, level, words)


def _individual(
    result: Result, individual: int, confidence: float, block: Sequence[int], values: Values | None
) -> HardIndividual:
    records, members = result.records, []
    for record in block[:MOST_MEMBERS]:
        database, record_id = _name(result, record)
        second = float(records.runner_up_probability[record])
        other = int(records.runner_up[record])
        where = f"individual {other}" if other >= 0 else "an individual of its own"
        runner_up = "" if math.isnan(second) else f"{where}, {probability(second)}"
        own = probability(float(records.probability[record]))
        members.append(Member(database, record_id, own, runner_up, _cells(result, values, record)))
    left_out = max(len(block) - MOST_MEMBERS, 0)
    size = things(len(block), "record")
    return HardIndividual(str(individual), probability(confidence), size, tuple(members), left_out)
