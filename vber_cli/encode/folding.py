"""The comparison form of a text: what is left of it when case, accents, punctuation and spacing do not count.

Only comparisons see the form; what is written out is what was read.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

# Written between the letters of one word, or left out: they join, where other punctuation parts.
_APOSTROPHES = frozenset("'`´‘’‛ʼʹʻ′＇")
_MARKED_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
_WITH_MARK = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")
_OTHER_BASES = {
    "LATIN SMALL LETTER AE": "ae",
    "LATIN SMALL LIGATURE OE": "oe",
    "LATIN SMALL LETTER DOTLESS I": "i",
    "LATIN SMALL LETTER DOTLESS J": "j",
}
# Vowel points of Hebrew and Arabic, which writers may leave out.
_OPTIONAL_POINTS = range(10, 36)
_ASCII_APOSTROPHES = "['`]"
_ASCII_BLANKS = r"[\x09-\x0d\x1c-\x20]+"
_ASCII_SPACING = r"""[!"#%&()*,\-./:;?@\[\\\]_{}\x00-\x20\x7f]+"""


def fold(values: pa.StringArray) -> pa.StringArray:
    """Return the comparison forms of `values`; a null stays null.

    Unicode NFKC, case folded; marks above and below Latin, Greek and Cyrillic letters and optional vowel points are
    dropped (not those of other scripts, where they are letters of their own); apostrophes vanish, other punctuation
    and any spacing become one blank. A text of punctuation alone keeps it.
    """
    values = values.cast(pa.string())
    lower = pc.ascii_lower(values)
    plain = pc.replace_substring_regex(lower, _ASCII_APOSTROPHES, "")
    plain = pc.ascii_trim(pc.replace_substring_regex(plain, _ASCII_SPACING, " "), " ")
    bare = pc.ascii_trim(pc.replace_substring_regex(lower, _ASCII_BLANKS, " "), " ")
    plain = pc.if_else(pc.equal(plain, ""), bare, plain)
    rare = pc.invert(pc.fill_null(pc.string_is_ascii(values), True))
    if pc.any(rare).as_py():
        folded = pa.array([fold_text(text) for text in values.filter(rare).to_pylist()], pa.string())
        plain = pc.replace_with_mask(plain, rare, folded)
    return plain


def fold_text(text: str) -> str:
    """Return the comparison form of one text."""
    # Folding case can undo the normal form and the other way round; two rounds settle all but a few rare letters.
    for _ in range(4):
        folded = _fold_once(text)
        if folded == text:
            break
        text = folded
    return text


def _fold_once(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    kept: list[str] = []
    base = ""
    for char in unicodedata.normalize("NFD", text):
        if unicodedata.combining(char):
            kept.append("" if _is_dropped(char, base) else char)
        else:
            base = char
            kept.append(_letter(char))
    folded = " ".join(unicodedata.normalize("NFKC", "".join(kept)).split())
    return folded or " ".join(text.split())


def _is_dropped(mark: str, base: str) -> bool:
    """Whether a combining mark is decoration rather than a letter."""
    return unicodedata.combining(mark) in _OPTIONAL_POINTS or _takes_marks(base)


@lru_cache(maxsize=4096)
def _takes_marks(base: str) -> bool:
    return bool(base) and unicodedata.name(base, "").startswith(_MARKED_SCRIPTS)


@lru_cache(maxsize=65536)
def _letter(char: str) -> str:
    """What becomes of one character that is no combining mark."""
    if char in _APOSTROPHES:
        return ""
    category = unicodedata.category(char)
    if category[0] in "PZ" or category == "Cc":
        return " "
    if category == "Cf":
        return ""
    name = unicodedata.name(char, "")
    marked = _WITH_MARK.match(name)
    return marked[1].lower() if marked else _OTHER_BASES.get(name, char)
