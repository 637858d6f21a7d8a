"""Coarser codes of a field's values, that records with different spellings of one thing may still share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.encode.similarity import date_parts
from vber_cli.encode.types import FieldType, canonical
from vber_cli.model.types import MISSING, IntArray

_BEGINNING, _SOUND = 4, 6
# Soundex's classes, for the first letter too; letters of other scripts stand for themselves. Capitals, because
# comparison forms have none.
_CLASSES = (("[hw]+", ""), ("[bfpv]+", "B"), ("[cgjkqsxz]+", "C"), ("[dt]+", "D"), ("l+", "L"), ("[mn]+", "M"),
            ("r+", "R"), ("^[aeiouy]", "A"), ("[aeiouy ]+", ""))  # fmt: skip


def derived_keys(
    values: pa.StringArray, field_type: FieldType, *, forms: pa.StringArray | None = None
) -> dict[str, IntArray]:
    """Return derived codes of distinct values, for finding candidates.

    Parameters
    ----------
    values
        V distinct values without nulls.
    field_type
        Their type.
    forms
        (V,) their comparison forms, if known.

    Returns
    -------
    dict
        For each key its name and (V,) int32 codes, -1 where the value has none. `form`, the comparison form, if some
        values share one; text: `sound` (Soundex's classes), `beginning`, `words` (in order of the alphabet) if there
        are several; long text: `beginning`, `words` and `rarest word` of those in two values or more; date: `year` and
        `day and month`, whichever comes first; number: `leading digits`, all but the last.
    """
    forms = canonical(values, field_type) if forms is None else forms
    keys = {"form": forms}
    compact = pc.replace_substring(forms, " ", "")
    if field_type.kind in ("text", "longtext"):
        keys["beginning"] = pc.utf8_slice_codeunits(compact, 0, _BEGINNING)
        keys["words"] = _sorted_words(forms)
    if field_type.kind == "text":
        keys["sound"] = sound(forms)
    elif field_type.kind == "longtext":
        keys["rarest word"] = _rarest_word(forms)
    elif field_type.kind == "date":
        keys |= _date_keys(forms)
    elif field_type.kind == "number":
        keys["leading digits"] = pc.replace_substring_regex(compact, ".$", "")
    codes = {name: _codes(key) for name, key in keys.items()}
    # A key that tells apart as much as the form itself adds nothing to it, nor does the form to the value.
    n_forms = int(codes["form"].max(initial=-1)) + 1
    return {
        name: code
        for name, code in codes.items()
        if code.max(initial=-1) + 1 < (len(values) if name == "form" else n_forms) and code.max(initial=-1) >= 0
    }


def sound(forms: pa.StringArray) -> pa.StringArray:
    """Return what is left of comparison forms when only classes of consonants and a leading vowel count."""
    for pattern, replacement in _CLASSES:
        forms = pc.replace_substring_regex(forms, pattern, replacement)
    return pc.utf8_slice_codeunits(forms, 0, _SOUND)


def _codes(keys: pa.StringArray) -> IntArray:
    encoded = keys.dictionary_encode()
    empty = pc.fill_null(pc.equal(keys, ""), True).to_numpy(zero_copy_only=False)
    codes = pc.fill_null(encoded.indices, MISSING).to_numpy(zero_copy_only=False).astype(np.int32)
    used, codes = np.unique(np.where(empty, MISSING, codes), return_inverse=True)
    return (codes + (0 if MISSING not in used else MISSING)).astype(np.int32)


def _sorted_words(forms: pa.StringArray) -> pa.StringArray:
    several = pc.match_substring(forms, " ")
    if not pc.any(several).as_py():
        return forms
    ordered = [" ".join(sorted(text.split(" "))) for text in forms.filter(several).to_pylist()]
    return pc.replace_with_mask(forms, several, pa.array(ordered, pa.string()))


def _rarest_word(forms: pa.StringArray) -> pa.StringArray:
    """Return the word that the fewest other values have, but some; the first of the alphabet if there are several."""
    sets = [set(text.split(" ")) for text in forms.to_pylist()]
    frequency = Counter(word for words in sets for word in words)
    return pa.array(
        [min((w for w in words if frequency[w] > 1), key=lambda w: (frequency[w], w), default="") for words in sets],
        pa.string(),
    )


def _date_keys(forms: pa.StringArray) -> dict[str, pa.StringArray]:
    parts = date_parts(forms)
    year, month, day = parts[:, 0], parts[:, 1], parts[:, 2]
    together = np.minimum(month, day) * 100 + np.maximum(month, day)
    return {
        "year": pa.array(year, mask=year <= 0).cast(pa.string()),
        "day and month": pa.array(together, mask=day <= 0).cast(pa.string()),
    }
