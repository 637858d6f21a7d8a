"""Comparison forms: what does not count vanishes, what counts stays."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vber_cli.encode.folding import fold, fold_text

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("José", "jose"),
        ("JOSE\u0301", "jose"),
        ("O'Brien", "obrien"),
        ("O’Brien", "obrien"),
        ("Smith-Jones", "smith jones"),
        ("  St.   Louis\t", "st louis"),
        ("Straße", "strasse"),
        ("Lindø", "lindo"),
        ("Łódź", "lodz"),
        ("Æble", "aeble"),
        ("ﬁn", "fin"),
        ("Ａｎｎａ", "anna"),
        ("a\u200bb", "ab"),
        ("a\xa0b", "a b"),
        ("Ёлкин", "елкин"),
        ("ΆΝΝΑ", "αννα"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("---", "---"),
        ("?!", "?!"),
        ("", ""),
        ("100 €", "100 €"),
        ("🙂", "🙂"),
        ("a\0b", "a b"),
    ],
)
def test_forms(text: str, form: str) -> None:
    assert fold_text(text) == unicodedata.normalize("NFKC", form)
    assert fold(pa.array([text, None])).to_pylist() == [unicodedata.normalize("NFKC", form), None]


@pytest.mark.parametrize(("one", "other"), [("か", "が"), ("कि", "कु"), ("ab", "abc"), ("दिल", "दिल्")])
def test_letters_of_their_own_stay(one: str, other: str) -> None:
    assert fold_text(one) != fold_text(other)


@settings(deadline=None)
@given(st.lists(ANY_TEXT, max_size=6))
def test_arrays_are_folded_text_by_text(texts: list[str]) -> None:
    assert fold(pa.array(texts, pa.string())).to_pylist() == [fold_text(text) for text in texts]


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=12))
def test_plain_text_has_one_meaning(text: str) -> None:
    assert fold(pa.array([text])).to_pylist() == [fold_text(text)]


@settings(deadline=None)
@given(ANY_TEXT)
def test_a_form_is_its_own_form(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)


@settings(deadline=None)
@given(ANY_TEXT)
def test_case_spacing_and_normal_form_do_not_count(text: str) -> None:
    form = fold_text(text)
    assert fold_text(f"  {text}\t") == form
    assert fold_text(unicodedata.normalize("NFD", text)) == form
