"""Dates in any common spelling, read as year, month and day.

The order of day and month is a habit of whoever filled a column in, so it is resolved once per column of a database,
from the dates that can be read in one way only, and said aloud.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vber_cli.encode.folding import fold_text
from vber_cli.model.types import IntArray, LongArray

BoolArray = NDArray[np.bool_]

# Two-digit years without any four-digit year to go by: 1969 to 2068, as POSIX has it.
_POSIX_LATEST = 2068
_FIRST_YEAR, _LAST_YEAR = 1500, 2199
_TIME = re.compile(r"[t\s]+\d{1,2}:\d{2}.*$")
_TOKENS = re.compile(r"\d+|[^\W\d_]+")
_NUMERIC = re.compile(r"[\d\s./,_年月日년월일-]+")
_DAYS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
# Beginnings of month names in languages of Latin script, without accents; the longest that fits counts.
_MONTHS = {
    beginning: month
    for month, beginnings in enumerate(
        ("jan gen ene", "feb fev", "mar mae mrt", "apr avr abr", "may mai mag mei maj", "jun juin giu",
         "jul juil lug", "aug aou ago", "sep set", "oct okt ott out", "nov", "dec dez dic des"),
        start=1,
    )
    for beginning in beginnings.split()
}  # fmt: skip
# What the numbers of a date of each shape can mean; the first is taken if the data cannot tell.
_READINGS: dict[str, tuple[str, ...]] = {
    "1984-05-03": ("ymd", "ydm"),
    "03/05/1984": ("dmy", "mdy"),
    "03/05/84": ("dmy", "mdy", "ymd"),
    "19840503": ("ymd", "dmy", "mdy"),
    "840503": ("ymd", "dmy", "mdy"),
}
# dates as most are written; what they mean is said in `_split_text`, which reads them as well
_THREE_NUMBERS = r"^(?P<a>[0-9]{1,2}|[0-9]{4})[-/.](?P<b>[0-9]{1,2})[-/.](?P<c>[0-9]{1,2}|[0-9]{4})$"
_SHAPES = tuple(_READINGS)
# A date that fits only the other order of day and month is taken to be written in it, where both are in use.
_SWAPPED = {"dmy": "mdy", "mdy": "dmy"}
_IN_WORDS = {"y": "year", "m": "month", "d": "day"}


@dataclass(frozen=True)
class DateReading:
    """How the dates of one column are read.

    Attributes
    ----------
    orders
        For each shape of date that occurs, by its example: the order of its numbers, such as "dmy".
    latest_year
        Two-digit years lie in the hundred years up to this one.
    notes
        What was found and assumed; one line each.
    undecided
        The shapes whose order none of their dates tells.
    """

    orders: tuple[tuple[str, str], ...] = ()
    latest_year: int = _POSIX_LATEST
    notes: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Split:
    """(V,) texts cut into numbers: `shape` indexes `_SHAPES`, -1 is no date, -2 is read already; `parts` (V, 3)."""

    shape: IntArray
    parts: IntArray
    short_year: BoolArray


def read_dates(texts: Sequence[str], reading: DateReading) -> IntArray:
    """Read dates.

    Parameters
    ----------
    texts
        V texts.
    reading
        How to read them.

    Returns
    -------
    ndarray
        (V, 3) int32 year, month, day; 0 for a part that is not there, -1 in all three for what is no date. A part may
        be impossible (day 32), where a digit has slipped.
    """
    return _decode(_split(texts), dict(reading.orders), reading.latest_year)


def is_possible(dates: IntArray) -> BoolArray:
    """Whether each row of (V, 3) is a day, a month or a year that a calendar could hold."""
    year, month, day = dates[:, 0], dates[:, 1], dates[:, 2]
    fits = (year >= _FIRST_YEAR) & (year <= _LAST_YEAR) & (month >= 0) & (month <= 12) & (day >= 0)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = _DAYS[np.clip(month, 0, 12)] - ((month == 2) & ~leap)
    result: BoolArray = fits & (day <= longest)
    return result


def resolve_reading(
    name: str, texts: Sequence[str], counts: LongArray, latest_year: int | None = None
) -> tuple[DateReading, IntArray]:
    """Find out how a column's dates are meant.

    Parameters
    ----------
    name
        The column, for the notes; it decides nothing.
    texts
        V distinct texts.
    counts
        (V,) how often each occurs.
    latest_year
        The year that two-digit years do not pass; by default that of the column's own four-digit years.

    Returns
    -------
    tuple
        The reading, and the dates it gives, as `read_dates` does.
    """
    split = _split(texts)
    notes: list[str] = []
    if latest_year is None:
        latest_year, note = _latest_year(name, split, counts)
        notes += note
    orders: dict[str, str] = {}
    undecided: list[str] = []
    for s, shape in enumerate(_SHAPES):
        chosen = split.shape == s
        if not chosen.any():
            continue
        weight = counts[chosen]
        fitting = {
            order: is_possible(_decode(_take(split, chosen), {shape: order}, latest_year, swap=False))
            for order in _READINGS[shape]
        }
        scores = {order: int(weight[fits].sum()) for order, fits in fitting.items()}
        best = max(scores, key=lambda order: scores[order])
        orders[shape] = best
        if sum(score == scores[best] for score in scores.values()) > 1:
            undecided.append(shape)
            continue
        only = {order: int(weight[fits & ~_any_other(fitting, order)].sum()) for order, fits in fitting.items()}
        if best != _READINGS[shape][0] or not shape.startswith("1984"):
            against = sum(only.values()) - only[best]
            notes.append(
                f"{name}: dates like {shape} are read as {_order_in_words(best)}; {only[best]:,} can be nothing else"
                + (f", {against:,} would need another order" if against else "")
            )
    known = [order for shape, order in orders.items() if shape not in undecided]
    for shape in undecided:
        orders[shape] = _settle(shape, known, orders[shape])
        notes.append(
            f"{name}: dates like {shape} are read as {_order_in_words(orders[shape])}, "
            + ("as the column's other dates are" if known else "an assumption: no date of the column tells")
        )
    reading = DateReading(tuple(orders.items()), latest_year, tuple(notes), tuple(undecided))
    return reading, _decode(split, orders, latest_year)


def _any_other(fitting: dict[str, BoolArray], order: str) -> BoolArray:
    result: BoolArray = np.logical_or.reduce([fits for other, fits in fitting.items() if other != order])
    return result


def _settle(shape: str, known: Sequence[str], default: str) -> str:
    """Among equally good readings the one with day and month as in the column's other dates, else the first."""
    if not known:
        return default
    day_first = known[0].index("d") < known[0].index("m")
    fitting = [order for order in _READINGS[shape] if (order.index("d") < order.index("m")) == day_first]
    return default if default in fitting or not fitting else fitting[0]


def _order_in_words(order: str) -> str:
    return ", ".join(_IN_WORDS[letter] for letter in order)


def _latest_year(name: str, split: _Split, counts: LongArray) -> tuple[int, list[str]]:
    """The year that all but one in a thousand of the four-digit years do not pass, and a note if it matters."""
    full = _decode(split, {shape: orders[0] for shape, orders in _READINGS.items()}, _POSIX_LATEST)
    usable = is_possible(full) & ~split.short_year
    short = split.short_year.any()
    if not usable.any():
        note = f"{name}: two-digit years are read as {_POSIX_LATEST - 99} to {_POSIX_LATEST}, an assumption"
        return _POSIX_LATEST, [note] if short else []
    order = np.argsort(full[usable, 0], kind="stable")
    total = np.cumsum(counts[usable][order])
    latest = int(full[usable, 0][order][np.searchsorted(total, 0.999 * total[-1])])
    note = f"{name}: two-digit years are read as {latest - 99} to {latest}, the latest year written in full"
    return latest, [note] if short else []


def _take(split: _Split, chosen: BoolArray) -> _Split:
    return _Split(split.shape[chosen], split.parts[chosen], split.short_year[chosen])


def _split(texts: Sequence[str]) -> _Split:
    shape = np.full(len(texts), -1, dtype=np.int32)
    parts = np.full((len(texts), 3), -1, dtype=np.int32)
    short = np.zeros(len(texts), dtype=np.bool_)
    array = pa.array(texts, pa.string())
    plain = pc.extract_regex(array, _THREE_NUMBERS)
    usual = plain.is_valid().to_numpy(zero_copy_only=False)
    if usual.any():
        found_numbers = pc.drop_null(plain).flatten()
        parts[usual] = np.column_stack(
            [pc.cast(one, pa.int32()).to_numpy(zero_copy_only=False) for one in found_numbers]
        )
        first, _, last = (pc.binary_length(one).to_numpy(zero_copy_only=False) for one in found_numbers)
        both = (first == 4) & (last == 4)
        shape[usual] = np.where(both, -1, np.where(first == 4, 0, np.where(last == 4, 1, 2)))
        parts[np.flatnonzero(usual)[both]] = -1
        short[usual] = (first != 4) & (last != 4)
    # everything else is looked at one by one; without a digit of any script it is no date
    rest = pc.match_substring_regex(array, r"\pN").to_numpy(zero_copy_only=False) & ~usual
    for v in np.flatnonzero(rest).tolist():
        found = _split_text(texts[v])
        if found:
            shape[v], parts[v], short[v] = found
    return _Split(shape, parts, short)


def _split_text(text: str) -> tuple[int, tuple[int, int, int], bool] | None:
    """Shape, numbers, and whether the year has two digits; None for what is no date."""
    if len(text) > 60:
        return None
    text = _TIME.sub("", unicodedata.normalize("NFKC", text).casefold().strip())
    tokens = _TOKENS.findall(text)
    if not _NUMERIC.fullmatch(text):
        return _with_month_name(tokens)
    tokens = [token for token in tokens if token.isdecimal()]
    lengths = tuple(min(len(token), 3) if len(token) != 4 else 4 for token in tokens)
    numbers = [int(token) for token in tokens if len(token) <= 8]
    if len(numbers) != len(tokens):
        return None
    if len(tokens) == 3 and all(length in (1, 2, 4) for length in lengths) and lengths[1] != 4:
        triple = (numbers[0], numbers[1], numbers[2])
        if lengths[0] == 4:
            return (0, triple, False) if lengths[2] != 4 else None
        return (1, triple, False) if lengths[2] == 4 else (2, triple, True)
    if len(tokens) == 2 and sorted(lengths) in ([1, 4], [2, 4]):
        year, month = numbers if lengths[0] == 4 else numbers[::-1]
        return -2, (year, month, 0), False
    if len(tokens) == 1:
        return _compact(tokens[0])
    return None


def _compact(digits: str) -> tuple[int, tuple[int, int, int], bool] | None:
    if len(digits) == 8:
        return 3, (int(digits), 0, 0), False
    if len(digits) == 6:
        return 4, (int(digits), 0, 0), True
    return (-2, (int(digits), 0, 0), False) if len(digits) == 4 else None


def _with_month_name(tokens: Sequence[str]) -> tuple[int, tuple[int, int, int], bool] | None:
    """A date with its month in letters; other words ("of", "3rd") say nothing."""
    words = [(i, _month(token)) for i, token in enumerate(tokens) if not token[0].isdecimal()]
    months = [(i, month) for i, month in words if month]
    numbers = [(i, token) for i, token in enumerate(tokens) if token[0].isdecimal()]
    if len(months) != 1 or not 1 <= len(numbers) <= 2 or len(words) > 4:
        return None
    month = months[0][1]
    if any(len(token) not in (1, 2, 4) for _, token in numbers):
        return None
    values = [int(token) for _, token in numbers]
    long = [len(token) == 4 for _, token in numbers]
    if len(values) == 1:
        return (-2, (values[0], month, 0), False) if long[0] else None
    if all(long):
        return None
    year_first = long[0] or (not long[1] and values[0] > 31)
    year, day = values if year_first else values[::-1]
    return -2, (year, month, day), not any(long)


def _month(word: str) -> int:
    if word.isascii():
        return _MONTHS.get(word[:4]) or _MONTHS.get(word[:3], 0)
    folded = fold_text(word)
    return _MONTHS.get(folded[:4]) or _MONTHS.get(folded[:3], 0)


def _decode(split: _Split, orders: dict[str, str], latest_year: int, *, swap: bool = True) -> IntArray:
    """Year, month and day of every text under the given orders; see `read_dates`."""
    dates = np.full((len(split.shape), 3), -1, dtype=np.int32)
    done = split.shape == -2
    dates[done] = split.parts[done]
    for s, shape in enumerate(_SHAPES):
        chosen = split.shape == s
        if not chosen.any():
            continue
        order = orders.get(shape, _READINGS[shape][0])
        dates[chosen] = _ordered(split.parts[chosen], shape, order)
        if swap and order in _SWAPPED and s in (1, 2):
            other = _ordered(split.parts[chosen], shape, _SWAPPED[order])
            fits = is_possible(_with_century(dates[chosen], split.short_year[chosen], latest_year))
            fits_other = is_possible(_with_century(other, split.short_year[chosen], latest_year))
            dates[chosen] = np.where((~fits & fits_other)[:, None], other, dates[chosen])
    return _with_century(dates, split.short_year, latest_year)


def _with_century(dates: IntArray, short_year: BoolArray, latest_year: int) -> IntArray:
    dates = dates.copy()
    year = dates[:, 0]
    first = latest_year - 99
    dates[:, 0] = np.where(short_year & (year >= 0) & (year < 100), first + (year - first) % 100, year)
    return dates


def _ordered(parts: IntArray, shape: str, order: str) -> IntArray:
    """Columns year, month, day from the numbers of one shape in the given order."""
    if shape.isdecimal():
        long_year = len(shape) == 8
        rest = parts[:, 0].copy()
        columns = {}
        for letter in reversed(order):
            width = 10_000 if letter == "y" and long_year else 100
            columns[letter] = rest % width
            rest //= width
    else:
        columns = {letter: parts[:, i] for i, letter in enumerate(order)}
    return np.stack([columns["y"], columns["m"], columns["d"]], axis=1)
