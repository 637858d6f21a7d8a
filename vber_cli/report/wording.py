"""Numbers and cells as a reader meets them: rounded, with separators, cut where they are long."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

LONGEST_CELL = 120
LONGEST_NAME = 60
NOTHING = "–"

_REPLACED = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}
_REPLACED |= dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)


def printable(text: str) -> str:
    """Replace what a page must not hold (control characters, half surrogates) by a visible sign.

    Line breaks and tabs are replaced, too: in a cell they are content to be seen.
    """
    return text.translate(_REPLACED)


def cut(text: str, longest: int = LONGEST_CELL) -> str:
    """Return the text, or its beginning and how long it is."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def count(value: float | None) -> str:
    """A number of things: 12,345."""
    return NOTHING if value is None else f"{value:,.0f}"


def compact(value: float) -> str:
    """A number of things in at most five characters: 12,345 up to there, then 123k, 1.2M."""
    for limit, unit, letter in ((1e5, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (float("inf"), 1e9, "G")):
        if value < limit:
            scaled = value / unit
            return f"{scaled:.1f}{letter}" if letter and scaled < 10 else f"{scaled:,.0f}{letter}"
    return f"{value:.0e}"


def percent(share: float | None) -> str:
    """A share as 97.6%; what is not quite none or all is not rounded to it."""
    if share is None:
        return NOTHING
    if 0.0 < share < 0.0005:
        return "<0.1%"
    if 0.9995 <= share < 1.0:
        return ">99.9%"
    return f"{100.0 * share:.1f}%"


def probability(value: float | None) -> str:
    """A probability with three decimals; what is not quite 0 or 1 is not rounded to it."""
    if value is None:
        return NOTHING
    if 0.0 < value < 0.0005:
        return "<0.001"
    if 0.9995 <= value < 1.0:
        return ">0.999"
    return f"{value:.3f}"


def decimal(value: float | None, places: int = 2, unit: str = "") -> str:
    """A number with separators, a fixed number of decimals, and its unit."""
    return NOTHING if value is None else f"{value:,.{places}f}{unit}".replace("-", "\N{MINUS SIGN}")


def seconds(value: float | None) -> str:
    """A duration."""
    if value is None:
        return NOTHING
    if value < 120.0:
        return f"{value:.1f} s" if value >= 0.1 else "<0.1 s"
    if value < 7200.0:
        return f"{value / 60.0:.1f} min"
    return f"{value / 3600.0:.1f} h"


def size(n_bytes: float | None) -> str:
    """An amount of memory."""
    if n_bytes is None:
        return NOTHING
    for limit, unit, name in ((1e3, 1.0, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (float("inf"), 1e9, "GB")):
        if n_bytes < limit:
            return f"{n_bytes / unit:.0f} {name}" if unit < 1e9 else f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes} B"


def interval(low: float | None, high: float | None) -> str | None:
    """A 90 % interval of counts in words; None without one."""
    return None if low is None or high is None else f"{low:,.0f} to {high:,.0f}"


def things(number: float, one: str, many: str | None = None) -> str:
    """Return ``1 record`` or ``2 records``."""
    return f"{number:,.0f} {one if round(number) == 1 else many or one + 's'}"


def join_names(names: Sequence[str], most: int = 4) -> str:
    """Return names in a sentence: a, b and c; beyond `most`, how many more there are."""
    shown = [cut(name, LONGEST_NAME) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def text_width(text: str, font_size: float) -> float:
    """Width of a text in pixels, rather too much than too little: the font is the reader's own."""
    return font_size * sum(_advance(character) for character in text)


def _advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "ijlIftr.,:;'| ":
        return 0.36
    if character in "mwMW@—":
        return 0.92
    return 0.68 if character.isupper() else 0.59


def fit(text: str, width: float, font_size: float) -> str:
    """Cut a text to a width in pixels, with an ellipsis where something is missing."""
    clean = printable(text)
    if text_width(clean, font_size) <= width:
        return clean
    room = width - text_width("…", font_size)
    kept = list(_while_it_fits(clean, room, font_size))
    return "".join(kept).rstrip() + "…"


def _while_it_fits(text: str, room: float, font_size: float) -> Iterable[str]:
    for character in text:
        room -= font_size * _advance(character)
        if room < 0:
            return
        yield character
