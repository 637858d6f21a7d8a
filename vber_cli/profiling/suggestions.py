"""Which columns probably are the same field under different names (for --map)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vber_cli.encode.fields import name_key
from vber_cli.profiling.overlap import ColumnSample, Likeness, likeness, swapped
from vber_cli.profiling.profile import MapSuggestion, Suggestions, SwappedColumns


@dataclass(frozen=True)
class Candidate:
    """A column that is a field, or could be one.

    Attributes
    ----------
    sample
        Its values.
    field
        The field it is read as, if any.
    settled
        Whether an option says so, which is then not questioned.
    """

    sample: ColumnSample
    field: str | None
    settled: bool = False

    @property
    def name(self) -> str:
        """What it would be called as a field."""
        return self.field if self.field is not None else self.sample.column


class _Groups:
    """Columns that mean the same; at most one of each database in a group."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates
        self.of = list(range(len(candidates)))
        self.why: dict[int, tuple[int, Likeness]] = {}

    def members(self, group: int) -> list[int]:
        return [i for i, own in enumerate(self.of) if own == group]

    def join(self, i: int, j: int) -> bool:
        """Join the groups of two columns unless that would put two columns of a database, or two fields, together."""
        first, second = self.members(self.of[i]), self.members(self.of[j])
        both = [self._candidates[m] for m in (*first, *second)]
        databases = [one.sample.database for one in both]
        fields = {one.field for one in both if one.settled}
        if self.of[i] == self.of[j] or len(set(databases)) < len(databases) or len(fields) > 1:
            return False
        for m in second:
            self.of[m] = self.of[i]
        return True


def suggest(candidates: Sequence[Candidate], names: Sequence[str]) -> tuple[Suggestions, list[SwappedColumns]]:
    """Suggest options that bring columns of the same meaning together.

    Columns that already are one field, or share a name, stay together, unless two fields hold each other's values.
    Then the most alike columns of different databases are joined, best first.

    Parameters
    ----------
    candidates
        Columns of all databases, in the order of databases and columns.
    names
        (D,) the databases' names.

    Returns
    -------
    tuple
        The suggestions, and the columns that seem swapped.
    """
    swaps = _swaps(candidates)
    strange = {i for pair in swaps for i in pair}
    groups = _Groups(candidates)
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(candidates)), 2)
        if candidates[i].sample.database != candidates[j].sample.database
    ]
    for i, j in pairs:
        if not {i, j} & strange and _share_a_name(candidates[i], candidates[j]):
            groups.join(i, j)
    alike = [
        (found, i, j)
        for i, j in pairs
        if groups.of[i] != groups.of[j] and (found := likeness(candidates[i].sample, candidates[j].sample)) is not None
    ]
    for found, i, j in sorted(alike, key=lambda one: (-one[0].rank, one[1], one[2])):
        if groups.join(i, j):
            groups.why.setdefault(j, (i, found))
            groups.why.setdefault(i, (j, found))
    strangers = [
        SwappedColumns(
            names[candidates[i].sample.database],
            (candidates[i].sample.column, candidates[j].sample.column),
            (candidates[i].name, candidates[j].name),
        )
        for i, j in swaps
    ]
    return Suggestions(_maps(candidates, groups, names)), strangers


def _share_a_name(a: Candidate, b: Candidate) -> bool:
    if a.field is not None and b.field is not None:
        return a.field == b.field
    return name_key(a.name) == name_key(b.name)


def _swaps(candidates: Sequence[Candidate]) -> list[tuple[int, int]]:
    """Pairs of columns of a later database whose fields hold each other's values, judged by the first database."""
    fields: dict[str, dict[int, int]] = {}
    for i, one in enumerate(candidates):
        if one.field is not None and not one.settled:
            fields.setdefault(one.field, {})[one.sample.database] = i
    found = []
    for f, g in itertools.combinations(fields, 2):
        both = sorted(fields[f].keys() & fields[g].keys())
        for d in both[1:]:
            first = (candidates[fields[f][both[0]]].sample, candidates[fields[g][both[0]]].sample)
            other = (candidates[fields[f][d]].sample, candidates[fields[g][d]].sample)
            if swapped(first, other):
                found.append((fields[f][d], fields[g][d]))
    return found


def _field_of(candidates: Sequence[Candidate], members: Sequence[int]) -> str:
    """What a group is called: as an option says, else as most of its databases call it, the first of them on a tie."""
    settled = [candidates[m].name for m in members if candidates[m].settled]
    if settled:
        return settled[0]
    counts = Counter(candidates[m].name for m in members)
    return max(counts, key=lambda name: counts[name])  # of equals the first met


def _maps(candidates: Sequence[Candidate], groups: _Groups, names: Sequence[str]) -> tuple[MapSuggestion, ...]:
    found = []
    for i, one in enumerate(candidates):
        field = _field_of(candidates, groups.members(groups.of[i]))
        if i not in groups.why or name_key(one.name) == name_key(field):
            continue
        j, alike = groups.why[i]
        other = candidates[j].sample
        found.append(
            MapSuggestion(
                names[one.sample.database],
                one.sample.column,
                field,
                f"{names[other.database]}:{other.column}",
                alike.values,
                alike.names,
            )
        )
    return tuple(found)
