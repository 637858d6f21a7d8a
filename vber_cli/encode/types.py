"""What kind of thing a field holds, judged by its values alone, and the form in which its values are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.dates import BoolArray, DateReading, is_possible, read_dates, resolve_reading
from vber_cli.encode.folding import fold
from vber_cli.model.types import LongArray

KINDS = ("category", "text", "number", "date", "longtext")

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
# Shares of the records that settle a type; the rest may be slips.
_DATES, _NUMBERS, _SAME_WIDTH = 0.8, 0.9, 0.85
_FEW_NUMBERS, _FEW_VALUES, _REPEATS = 10, 64, 10
_COMMON, _SETTLED = 3, 0.6
_LONG_WORDS, _LONG_CHARACTERS = 4.5, 32.0
_SAMPLE = 50_000


@dataclass(frozen=True)
class FieldType:
    """The type of a field.

    Attributes
    ----------
    name
        The field.
    kind
        One of `KINDS`.
    reason
        Why, in words.
    notes
        What was found or assumed on the way; one line each.
    dates
        How dates are read, for kind date.
    """

    name: str
    kind: str
    reason: str
    notes: tuple[str, ...] = ()
    dates: DateReading | None = None


def infer_type(name: str, values: pa.StringArray, counts: LongArray, kind: str | None = None) -> FieldType:
    """Judge a field's type by its values.

    Parameters
    ----------
    name
        The field; it appears in the notes and decides nothing.
    values
        V distinct values.
    counts
        (V,) how many records have each.
    kind
        The type the user named, if any: it is taken, and only what belongs to it is found out.

    Returns
    -------
    FieldType
        Its `dates` hold for all values alike; for databases with habits of their own see `dates.resolve_reading` and
        `canonical`.
    """
    counts = np.asarray(counts, dtype=np.int64)
    if kind is not None and kind not in KINDS:
        raise ValueError(kind)
    if kind not in (None, "date"):
        return FieldType(name, str(kind), "as told")
    # Beyond so many values every k-th one speaks for the rest, for the kind but not for the dates.
    step = -(-len(values) // _SAMPLE) or 1
    texts = values.take(pa.array(np.arange(0, len(values), step))).to_pylist()
    weight = counts[::step]
    if kind is None:
        found = _first_that_fits(name, texts, weight, len(values), int(counts.sum()))
        if found.kind != "date":
            return found
    else:
        found = FieldType(name, "date", "as told")
    reading, _ = resolve_reading(name, values.to_pylist(), counts)
    return replace(found, notes=(*found.notes, *reading.notes), dates=reading)


def canonical(values: pa.StringArray, field_type: FieldType, dates: DateReading | None = None) -> pa.StringArray:
    """Return the forms in which values are compared: values of the same form are the same value.

    Parameters
    ----------
    values
        V values.
    field_type
        Their type.
    dates
        How to read dates instead of `field_type.dates`: a database may have its own order of day and month.

    Returns
    -------
    StringArray
        (V,) Dates as 1984-05-03, 1984-05 or 1984; plain numbers without needless zeros (a number with thousands
        separators is left alone and compared as text); anything else folded. Null stays null.
    """
    folded = fold(values)
    if field_type.kind == "date":
        return _date_forms(values, folded, dates or field_type.dates or DateReading())
    if field_type.kind == "number":
        texts = values.to_pylist()
        forms = [_number_form(text, plain) for text, plain in zip(texts, folded.to_pylist(), strict=True)]
        return pa.array(forms, pa.string())
    return folded


def _first_that_fits(name: str, texts: Sequence[str], weight: LongArray, n_values: int, n_records: int) -> FieldType:
    counted = f"{n_values:,} distinct values in {n_records:,} records"
    if not texts:
        return FieldType(name, "category", "no values")
    share, full = _date_share(name, texts, weight)
    if share >= _DATES and full >= 0.5 * share:
        return FieldType(name, "date", f"{_percent(share)} of the records hold a date")
    numeric = np.array([bool(_NUMBER.fullmatch(text.strip())) for text in texts])
    share = float(weight[numeric].sum() / max(weight.sum(), 1))
    if share >= _NUMBERS:
        return _numeric_type(name, [text.strip() for text in texts], numeric, weight, share, counted)
    # Many values that hardly occur are misspellings of the others, and worth comparing.
    settled = float(np.mean(weight >= _COMMON)) >= _SETTLED
    if n_values <= 2 or (n_values <= _FEW_VALUES and n_records >= _REPEATS * n_values and settled):
        return FieldType(name, "category", f"only {counted}")
    forms = fold(pa.array(texts, pa.string()))
    length = float(pc.mean(pc.utf8_length(forms)).as_py())
    if length <= 1:
        return FieldType(name, "category", "single characters")
    words = float(pc.mean(pc.add(pc.count_substring(forms, " "), 1)).as_py())
    size = f"{counted}, on average {words:.1f} words and {length:.0f} characters long"
    return FieldType(name, "longtext" if words >= _LONG_WORDS or length >= _LONG_CHARACTERS else "text", size)


def _date_share(name: str, texts: Sequence[str], weight: LongArray) -> tuple[float, float]:
    """Shares of the records that hold a date of any completeness, and one with a day."""
    _, dates = resolve_reading(name, texts, weight)
    possible = is_possible(dates)
    total = max(int(weight.sum()), 1)
    return float(weight[possible].sum() / total), float(weight[possible & (dates[:, 2] > 0)].sum() / total)


def _numeric_type(
    name: str,
    texts: Sequence[str],
    numeric: BoolArray,
    weight: LongArray,
    share: float,
    counted: str,
) -> FieldType:
    """Quantities are numbers; digits that name something are a category or text."""
    if len(texts) <= _FEW_NUMBERS:
        return FieldType(name, "category", f"numbers, but only {counted}")
    digits = np.array([text.isdecimal() for text in texts]) & numeric
    width = np.array([len(text) for text in texts])
    total = max(int(weight[digits].sum()), 1)
    zeros = digits & (width > 1) & np.array([text.startswith("0") for text in texts])
    commonest = int(np.bincount(np.minimum(width[digits], 99), weight[digits]).argmax()) if digits.any() else 0
    same = float(weight[digits & (width == commonest)].sum() / total)
    mostly_digits = weight[digits].sum() >= _NUMBERS * weight.sum()
    if mostly_digits and weight[zeros].sum() > 0.01 * total and commonest >= 3:
        return FieldType(name, "text", "digits with leading zeros: a code rather than a quantity")
    if mostly_digits and same >= _SAME_WIDTH and (commonest >= 5 or (commonest == 4 and not are_years(texts, weight))):
        return FieldType(name, "text", f"{_percent(same)} have {commonest} digits: a code rather than a quantity")
    return FieldType(name, "number", f"{_percent(share)} of the records hold a plain number")


def are_years(texts: Sequence[str], weight: LongArray) -> bool:
    """Whether nearly all of the records hold a number that looks like a year."""
    fits = np.array([len(text) == 4 and text.isdecimal() and 1500 <= int(text) <= 2199 for text in texts], np.bool_)
    return bool(weight[fits].sum() >= _SAME_WIDTH * max(int(weight.sum()), 1))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number_form(text: str | None, folded: str | None) -> str | None:
    if text is None or folded is None:
        return None
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        # Left alone: a comma or a point may part thousands or decimals, which is not ours to guess.
        return " ".join(text.casefold().split())
    sign = "-" if text.startswith("-") else ""
    whole, _, decimals = text.lstrip("+-").partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    plain = f"{whole}.{decimals}" if decimals else whole
    return plain if plain == "0" else sign + plain


def _date_forms(values: pa.StringArray, folded: pa.StringArray, reading: DateReading) -> pa.StringArray:
    texts = values.to_pylist()
    dates = read_dates(["" if text is None else text for text in texts], reading)
    forms = []
    for text, plain, (year, month, day) in zip(texts, folded.to_pylist(), dates.tolist(), strict=True):
        if text is None or year < 0:
            forms.append(plain)
        elif day:
            forms.append(f"{year:04d}-{month:02d}-{day:02d}")
        else:
            forms.append(f"{year:04d}-{month:02d}" if month else f"{year:04d}")
    return pa.array(forms, pa.string())
