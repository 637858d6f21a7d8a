"""Numbers and cells in words."""

import pytest

from vber_cli.report import wording


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0.0%"), (1e-9, "<0.1%"), (0.0005, "0.1%"), (0.976, "97.6%"), (0.9996, ">99.9%"), (1.0, "100.0%"),
     (None, "–")],
)  # fmt: skip
def test_a_share_is_not_rounded_to_none_or_all(share, words):
    assert wording.percent(share) == words


@pytest.mark.parametrize(("value", "words"), [(0.0, "0.000"), (1e-5, "<0.001"), (0.5, "0.500"), (1 - 1e-9, ">0.999")])
def test_probability(value, words):
    assert wording.probability(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (99_999, "99,999"), (123_456, "123k"), (1_234_567, "1.2M"), (23_456_789, "23M")]
)
def test_compact(value, words):
    assert wording.compact(value) == words


@pytest.mark.parametrize(("value", "words"), [(12, "12 B"), (629e6, "629 MB"), (2.5e9, "2.5 GB"), (None, "–")])
def test_size(value, words):
    assert wording.size(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0.01, "<0.1 s"), (12.34, "12.3 s"), (300.0, "5.0 min"), (9000.0, "2.5 h")]
)
def test_seconds(value, words):
    assert wording.seconds(value) == words


def test_names_in_a_sentence():
    assert wording.join_names([]) == ""
    assert wording.join_names(["a"]) == "a"
    assert wording.join_names(["a", "b"]) == "a and b"
    assert wording.join_names(list("abcdefg"), 3) == "a, b, c and 4 more"


def test_what_is_cut_says_so():
    assert wording.cut("x" * 120) == "x" * 120
    assert wording.cut("x" * 1234) == "x" * 120 + "… (1,234 characters)"


@pytest.mark.parametrize(
    "text", ["short", "a rather long name of a field", "漢字" * 20, "e\u0301" * 60, "WWWWWWWWWWWW", ""]
)
def test_a_fitted_text_fits(text):
    shown = wording.fit(text, 80.0, 13.0)
    assert wording.text_width(shown, 13.0) <= 80.0
    assert shown == text or shown.endswith("…")


def test_control_characters_become_signs():
    assert wording.printable("a\x00b\x1b[31m\x7f\x9b\ud800é") == "a␀b␛[31m␡\ufffd\ufffdé"
