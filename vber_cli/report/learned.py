"""What the run learned about the fields: types, noise, dependence, relations; read from the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vber_cli.report.figure import MOST_ROWS, Table, table
from vber_cli.report.source import Result, number
from vber_cli.report.wording import LONGEST_NAME, NOTHING, count, cut, decimal, percent, things

MOST_CLASSES = 12


@dataclass(frozen=True)
class Heat:
    """A table of shares whose cells are shaded.

    Attributes
    ----------
    caption, columns
        As in `Table`; the first column names the row.
    rows
        Name, then (text, share from 0 to 1) of each cell.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def fields_table(result: Result) -> Table:
    """The fields: type, why, values, gaps, and how telling agreement in them is."""
    items = result.items("fields")
    learned = bool(result.items("noise", "classes"))
    columns = ["field", "type", "distinct values#", "missing#", "worth of an agreement#", "why this type"]
    rows = []
    for item in items:
        entropy = number(item, "collision_entropy_bits")
        row = [
            cut(str(item.get("field")), LONGEST_NAME),
            str(item.get("type")),
            count(number(item, "n_values")),
            percent(number(item, "missing")),
            decimal(entropy, 1, " bits") if entropy is not None else NOTHING,
            cut(str(item.get("type_reason"))),
        ]
        if not learned:
            row.insert(5, percent(number(item, "mismatch")))
        rows.append(row)
    if not learned:
        columns.insert(5, "mismatches assumed#")
    return table("Fields", columns, rows)


def noise_table(result: Result) -> Heat | None:
    """How often each kind of record differs from its individual, by field; None where no kinds were learned."""
    classes = result.items("noise", "classes")[:MOST_CLASSES]
    if not classes:
        return None
    heads = [f"kind {q + 1}: {percent(number(item, 'share'))} of records" for q, item in enumerate(classes)]
    rows = []
    for field in result.fields[:MOST_ROWS]:
        shares = [number(item, "mismatch", field) for item in classes]
        cells = tuple((percent(share), 0.0 if share is None else min(max(share, 0.0), 1.0)) for share in shares)
        rows.append((cut(field, LONGEST_NAME), cells))
    return Heat(
        "How often a record's value differs from its individual's, by kind of record", ("field", *heads), tuple(rows)
    )


def parents_of(result: Result) -> dict[str, tuple[str, float]]:
    """Parent of each field that has one, and the gain in bits; what would close a circle is left out."""
    parents: dict[str, tuple[str, float]] = {}
    for item in result.items("dependence"):
        field, parent, gain = str(item.get("field")), str(item.get("parent")), number(item, "gain_bits")
        if field in result.fields and parent in result.fields and not _leads_to(parents, parent, field):
            parents[field] = (parent, gain or 0.0)
    return parents


def _leads_to(parents: Mapping[str, tuple[str, float]], start: str, goal: str) -> bool:
    while start != goal and start in parents:
        start = parents[start][0]
    return start == goal


def relations_table(result: Result) -> Table | None:
    """Kinds of different individuals that are alike for a reason; None where none were found."""
    classes = result.items("relations", "classes")
    if not classes:
        return None
    rows = [(_in_words(item), _pairs(number(item, "pairs")), _clearest(item)) for item in classes]
    return table(
        "Kinds of pairs that are alike but not one individual",
        ["in words", "pairs, estimated#", "fields that are identical most often"],
        rows,
    )


def _in_words(item: Mapping[str, Any]) -> str:
    return cut(str(item.get("name")), 400)


def _pairs(pairs: float | None) -> str:
    return NOTHING if pairs is None else count(pairs) if pairs >= 1.0 or pairs == 0.0 else "<1"


def _clearest(item: Mapping[str, Any]) -> str:
    shares = item.get("identical")
    if not isinstance(shares, Mapping):
        return NOTHING
    best = sorted(((number(shares, key) or 0.0, str(key)) for key in shares), key=lambda pair: -pair[0])[:3]
    return ", ".join(f"{cut(field, LONGEST_NAME)} {percent(share)}" for share, field in best)


def relations_sentence(result: Result) -> str:
    """How the number of kinds was chosen."""
    n = sum("redrawn" not in item for item in result.items("relations", "classes"))
    margin = result.number("relations", "margin")
    other = result.number("relations", "runner_up")
    if margin is None or other is None:
        return ""
    return (
        f"The data decided on {things(n, 'kind')}; the next best choice, {count(other)}, explains them worse by "
        f"{decimal(margin, 1)} units of log likelihood after the charge for its parameters (BIC). "
        "A small margin means that the data hardly decide."
    )
