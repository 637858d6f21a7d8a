"""Pictures of structure: which databases share individuals, and which field depends on which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vber_cli.report.figure import Figure, table
from vber_cli.report.marks import SMALL, WIDTH, Bar, Chart, Dot, Line, Scale, Text
from vber_cli.report.wording import LONGEST_NAME, NOTHING, compact, count, cut, decimal, join_names, text_width, things

Overlap = Sequence[tuple[tuple[int, ...], int]]

MOST_SETS = 12
MOST_DATABASES = 16
MOST_BRANCHES = 40
_LABELS = 168.0
_ROW = 26.0


def overlap_figure(names: Sequence[str], overlap: Overlap) -> Figure:
    """Which databases share individuals: a column for each combination, a row for each database.

    Parameters
    ----------
    names
        (D,) databases.
    overlap
        Databases and individuals of each combination, the most frequent first.
    """
    in_database = [sum(number for members, number in overlap if d in set(members)) for d in range(len(names))]
    sets, rows = _shown_sets(overlap)
    short = [cut(name, LONGEST_NAME) for name in names]
    words = "; ".join(f"{count(number)} in {_set_words(short, members)}" for members, number in sets)
    chart = Chart("overlap", "Individuals by the databases they are in", words + ".", 0.0)
    _draw_overlap(chart, names, in_database, sets, rows)
    total = sum(number for _, number in overlap)
    shared = sum(number for members, number in overlap if len(members) > 1)
    left = len(overlap) - len(sets)
    more = f" {things(left, 'rarer combination')} {'is' if left == 1 else 'are'} in the table only." if left else ""
    return Figure(
        "Which databases share individuals",
        chart,
        f"{count(shared)} of {things(total, 'individual')} are in more than one database; each column counts those "
        f"that are in exactly the databases with a filled dot.{more}",
        "Small overlaps are the least certain figures of a merge: a handful of wrong links changes them most.",
        table(
            "Individuals by the databases they are in",
            ["databases", "individuals#"],
            [(join_names([names[d] for d in members], 12), count(number)) for members, number in overlap],
        ),
    )


def _set_words(names: Sequence[str], members: Sequence[int]) -> str:
    chosen = join_names([names[d] for d in members])
    return f"{chosen} only" if len(members) == 1 else chosen


def _shown_sets(overlap: Overlap) -> tuple[list[tuple[tuple[int, ...], int]], list[int]]:
    """Choose the combinations that fit into the picture, and the databases they are made of."""
    sets: list[tuple[tuple[int, ...], int]] = []
    rows: set[int] = set()
    for members, number in overlap:
        if len(sets) < MOST_SETS and len(rows | set(members)) <= MOST_DATABASES:
            sets.append((members, number))
            rows |= set(members)
    return sets, sorted(rows)


def _draw_overlap(
    chart: Chart,
    names: Sequence[str],
    in_database: Sequence[int],
    sets: Sequence[tuple[tuple[int, ...], int]],
    rows: Sequence[int],
) -> None:
    step = min((WIDTH - _LABELS) / max(len(sets), 1), 56.0)
    labels = [compact(number) for _, number in sets]
    widest = max((text_width(label, SMALL) for label in labels), default=0.0)
    turned = widest > step - 3.0
    base, top = 150.0, (widest if turned else SMALL) + 14.0
    most = max((number for _, number in sets), default=1)
    radius = min(7.0, step * 0.32)
    for i, d in enumerate(rows):
        y = base + 20.0 + _ROW * i
        if i % 2 == 0:
            chart.add(Bar(0.0, y - _ROW / 2.0, WIDTH, _ROW, "stripe"))
        size = compact(in_database[d])
        chart.add(Text(_LABELS - 12.0, y + 4.5, size, "end", "small"))
        chart.label(4.0, y + 4.5, names[d], _LABELS - 26.0 - text_width(size, SMALL))
    chart.add(Text(_LABELS - 12.0, base + 1.0, "individuals", "end", "tick"))
    for i, ((members, number), label) in enumerate(zip(sets, labels, strict=True)):
        x = _LABELS + step * (i + 0.5)
        height = max((base - top) * number / most, 1.5)
        chart.add(Bar(x - step * 0.36, base - height, step * 0.72, height, "c1"))
        if turned:
            chart.add(Text(x + 4.0, base - height - 6.0, label, "start", "small", turned=True))
        else:
            chart.add(Text(x, base - height - 6.0, label, "middle", "small"))
        places = [base + 20.0 + _ROW * rows.index(d) for d in members]
        chart.add(Line(x, min(places), x, max(places), "link"))
        for j, d in enumerate(rows):
            chart.add(Dot(x, base + 20.0 + _ROW * j, radius, "c0" if d in members else "off"))
    chart.add(Line(_LABELS, base, _LABELS + step * len(sets), base))
    chart.height = base + 12.0 + _ROW * len(rows)


def dependence_figure(fields: Sequence[str], parents: Mapping[str, tuple[str, float]]) -> Figure:
    """The tree of fields: below each the ones that it tells something about.

    Parameters
    ----------
    fields
        Names, in their order.
    parents
        Of each field that has one: the parent, and the gain in bits of knowing it.
    """
    order = _walk(fields, parents)
    shown = order[:MOST_BRANCHES]
    most = max((gain for _, gain in parents.values()), default=1.0) or 1.0
    words = "; ".join(
        f"{cut(field, LONGEST_NAME)} depends on {cut(parent, LONGEST_NAME)}, {decimal(gain)} bits"
        for field, (parent, gain) in parents.items()
    )
    chart = Chart("tree", "Which field depends on which", f"{words}.", 8.0 + _ROW * len(shown))
    bar_left, bar_right = WIDTH - 150.0, WIDTH - 58.0
    scale = Scale(0.0, most, 0.0, bar_right - bar_left)
    step = min(22.0, 150.0 / max((depth for _, depth in shown), default=1)) if any(d for _, d in shown) else 22.0
    place = {field: i for i, (field, _) in enumerate(shown)}
    for i, (field, depth) in enumerate(shown):
        y = 16.0 + _ROW * i
        x = 2.0 + step * depth
        chart.label(x + 6.0, y + 4.5, field, bar_left - 14.0 - x, style="" if depth else "strong")
        if depth:
            parent, gain = parents[field]
            elbow = x - step + 9.0
            chart.add(Line(elbow, 16.0 + _ROW * place[parent] + 9.0, elbow, y), Line(elbow, y, x + 3.0, y))
            chart.add(Bar(bar_left, y - 5.0, max(scale(gain), 1.5), 10.0, "c1"))
            chart.add(Text(WIDTH, y + 4.5, f"{decimal(gain)} bits", "end", "small"))
    rest = f" The chart shows the first {MOST_BRANCHES} of {len(order):,} fields." if len(order) > MOST_BRANCHES else ""
    return Figure(
        "Which field depends on which",
        chart,
        "Two different individuals who share the upper field share the one below it more often than chance; the bar "
        f"says by how much, and the merge counts such agreement once, not twice.{rest}",
        "The tree shows the strongest parent of each field only, and no cause: it may as well be read upwards.",
        table(
            "Dependence between fields",
            ["field", "depends on", "gain in bits#"],
            [
                (
                    cut(field, LONGEST_NAME),
                    cut(parents[field][0], LONGEST_NAME) if field in parents else NOTHING,
                    decimal(parents[field][1]) if field in parents else NOTHING,
                )
                for field, _ in order
            ],
        ),
    )


def _walk(fields: Sequence[str], parents: Mapping[str, tuple[str, float]]) -> list[tuple[str, int]]:
    """Fields in the order of the tree, each with its depth; those that stand alone come last."""
    children: dict[str, list[str]] = {field: [] for field in fields}
    for field, (parent, _) in parents.items():
        children[parent].append(field)
    roots = [field for field in fields if field not in parents]
    roots.sort(key=lambda field: not children[field])
    order: list[tuple[str, int]] = []
    waiting = [(field, 0) for field in reversed(roots)]
    while waiting:
        field, depth = waiting.pop()
        order.append((field, depth))
        waiting.extend((child, depth + 1) for child in reversed(children[field]))
    return order
