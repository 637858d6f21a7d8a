"""Levels between distinct values: the indexes find what comparing all pairs finds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein, JaroWinkler

from tests.called import from_python
from vber_cli.encode import similarity as module
from vber_cli.encode import similarity_kernels as kernels
from vber_cli.encode.derived import derived_keys
from vber_cli.encode.similarity import Similar, find_similar
from vber_cli.encode.types import FieldType, infer_type
from vber_cli.encode.words import overlapping_pairs, word_pairs

DISTANCE, JARO_WINKLER = from_python(kernels.distance_kernel), from_python(kernels.jaro_winkler_kernel)
SYLLABLES = "an be cor dan e fi go hal i jo ka li mer no o pe ri sa tu wen".split()
# Few letters, so that near texts are common.
SHORT = st.text("abc", min_size=1, max_size=5)
LONGER = st.text("ab", min_size=5, max_size=9)


def typed(kind: str) -> FieldType:
    return FieldType("field", kind, "")


def similar(values: list[str], kind: str, threads: int = 1, counts: list[int] | None = None) -> Similar:
    return find_similar(pa.array(values, pa.string()), np.array(counts or [1] * len(values)), typed(kind), threads)


def level(kind: str, one: str, other: str) -> int:
    found = similar([one, other], kind).level_of(np.array([0, 1], np.int32), np.array([1, 0], np.int32))
    assert found[0] == found[1]
    return int(found[0])


def names(rng: np.random.Generator, n: int, alphabet: str = "abcdefghijklmnopqrstuvwxyz é") -> list[str]:
    """Made-up names and misspellings of them."""
    found: dict[str, None] = {}
    while len(found) < n:
        name = "".join(rng.choice(SYLLABLES, rng.integers(2, 5)))
        for _ in range(rng.integers(0, 3)):
            i = int(rng.integers(0, len(name)))
            name = name[:i] + alphabet[rng.integers(0, len(alphabet))] + name[i + int(rng.integers(0, 2)) :]
        if name == name.strip() and "  " not in name and "é" not in name:
            found[name] = None
    return sorted(found)


def naive_text_level(s: str, t: str) -> int:
    """The rules for edits and Jaro-Winkler, pair by pair."""
    distance = DamerauLevenshtein.distance(s, t)
    if distance == 1 and min(len(s), len(t)) >= 2 and max(len(s), len(t)) >= 3:
        return 1
    if distance == 2 and min(len(s), len(t)) >= 6:
        return 2
    if min(len(s), len(t)) >= 3 and s[:2] == t[:2] and JaroWinkler.similarity(s, t) >= 0.88:
        return 2
    return 3


def check_against_all_pairs(values: list[str], threads: int) -> None:
    """Edits and Jaro-Winkler as all pairs have them; the word rules may only add level 2."""
    found = similar(values, "text", threads)
    pairs = np.array(list(combinations(range(len(values)), 2)), np.int32)
    by_words = {(min(a, b), max(a, b)) for a, b, _ in zip(*word_pairs(values, 10_000), strict=True)}
    for (a, b), got in zip(pairs.tolist(), found.level_of(pairs[:, 0], pairs[:, 1]).tolist(), strict=True):
        expected = naive_text_level(values[a], values[b])
        assert got == (2 if expected == 3 and (a, b) in by_words else expected), (values[a], values[b])


def packed(*texts: str) -> tuple[np.ndarray, np.ndarray]:
    chars = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    return chars, np.cumsum([0, *map(len, texts)])


@settings(max_examples=150, deadline=None)
@given(SHORT | st.just(""), SHORT | st.just(""))
def test_distance_kernel_equals_its_twin(s: str, t: str) -> None:
    chars, ptr = packed(s, t)
    got = DISTANCE(chars, ptr[0], ptr[1], ptr[1], ptr[2])
    assert got == min(3, DamerauLevenshtein.distance(s, t))
    got = JARO_WINKLER(chars, ptr[0], ptr[1], ptr[1], ptr[2])
    assert got == pytest.approx(JaroWinkler.similarity(s, t), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.text("abcd", min_size=6, max_size=64), st.text("abcd", min_size=6, max_size=64))
def test_long_texts_too(s: str, t: str) -> None:
    chars, ptr = packed(s, t)
    got = JARO_WINKLER(chars, ptr[0], ptr[1], ptr[1], ptr[2])
    assert got == pytest.approx(JaroWinkler.similarity(s, t), abs=1e-12)
    assert DISTANCE(chars, ptr[0], ptr[1], ptr[1], ptr[2]) == min(3, DamerauLevenshtein.distance(s, t))


@settings(max_examples=25, deadline=None)
@given(st.lists(SHORT | LONGER, min_size=2, max_size=30, unique=True))
def test_crowded_texts_equal_all_pairs(values: list[str]) -> None:
    check_against_all_pairs(sorted(values), 1)


@pytest.mark.parametrize("rng", [1, 2], indirect=True)
def test_names_equal_all_pairs(rng: np.random.Generator) -> None:
    check_against_all_pairs(names(rng, 400), 2)


def test_threads_and_parts_change_nothing(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    values = names(rng, 2000)
    one = similar(values, "text", 1)
    monkeypatch.setattr(module, "_KEYS_AT_ONCE", 500)
    two = similar(values, "text", 3)
    for field in ("form", "a", "b", "level"):
        assert np.array_equal(getattr(one, field), getattr(two, field)), field
    assert (np.diff(one.a.astype(np.int64) * len(values) + one.b) > 0).all()
    assert (one.a < one.b).all()


def test_the_order_of_values_changes_nothing(rng: np.random.Generator) -> None:
    values = names(rng, 400)
    shuffled = rng.permutation(len(values))
    pairs = similar(values, "text")
    other = similar([values[i] for i in shuffled], "text")
    assert {frozenset((values[a], values[b])) for a, b in zip(pairs.a, pairs.b, strict=True)} == {
        frozenset((values[shuffled[a]], values[shuffled[b]])) for a, b in zip(other.a, other.b, strict=True)
    }


def test_where_very_many_are_alike_the_frequent_ones_keep_their_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CAP", 5)
    values = [f"customer number {i:03d}" for i in range(300)]
    found = similar(values, "text", counts=[1000, *range(1, 300)])
    frequent = found.level_of(np.zeros(299, np.int32), np.arange(1, 300, dtype=np.int32))
    assert (frequent < 3).all()
    assert len(found.a) < 0.3 * 300 * 299 / 2
    monkeypatch.setattr(module, "_GROUP", 50)
    assert len(similar(values, "text").a) > 300


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Jon", "John", 1),
        ("José", "JOSE", 0),
        ("smith", "smiht", 1),
        ("a", "b", 3),
        ("j", "john", 2),
        ("J.", "John", 2),
        ("robert", "bob", 2),
        ("Bob Miller", "Robert Miller", 2),
        ("john smith", "smith, john", 2),
        ("j smith", "john smith", 2),
        ("john p smith", "john smith", 2),
        ("garcia", "garcia marquez", 2),
        ("christina", "kristina", 2),
        ("martin", "marta", 2),
        ("anna", "peter", 3),
        ("smith", "jones", 3),
        ("Мария", "Марья", 1),
        ("李小龍", "李小龙", 1),
    ],
)
def test_levels_of_texts(one: str, other: str, expected: int) -> None:
    assert level("text", one, other) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("1984-05-03", "3 May 1984", 0),
        ("1984-05-03", "1984-05-04", 1),
        ("1984-05-03", "1948-05-03", 1),
        ("1984-05-03", "1984-03-05", 1),
        ("1984-05-03", "1984-05-27", 2),
        ("1984-05-03", "1971-05-03", 2),
        ("1984-01-01", "1984-05-23", 2),
        ("1984", "1984-05-23", 2),
        ("1984-05", "1984-05-23", 2),
        ("1984-06", "1984-05-23", 3),
        ("1984", "1985-05-23", 3),
        ("1984-05-23", "1971-06-11", 3),
        ("1984-05-32", "1984-05-31", 1),
        ("not known", "1984-05-31", 3),
    ],
)
def test_levels_of_dates(one: str, other: str, expected: int) -> None:
    assert level("date", one, other) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("7", "7.0", 0),
        ("1234", "1243", 1),
        ("15", "5", 1),
        ("7", "9", 2),
        ("1", "9", 3),
        ("100000", "100432", 2),
        ("100000", "150001", 3),
        ("-50", "50", 1),
        ("0.511", "0.532", 3),
        ("1984", "1987", 1),
        ("1989", "1991", 2),
        ("1989", "1997", 3),
        ("1,234", "1234", 1),
        ("9" * 400, "1", 3),
    ],
)
def test_levels_of_numbers(one: str, other: str, expected: int) -> None:
    assert level("number", one, other) == expected


@pytest.mark.parametrize("kind", ["number", "date"])
def test_typed_fields_equal_all_pairs(kind: str, rng: np.random.Generator) -> None:
    whole = sorted({int(x) for x in rng.integers(0, 3000, 150)})
    values = [str(x) for x in whole]
    if kind == "date":
        values = sorted({f"19{x % 30 + 50:02d}-{x % 12 + 1:02d}-{x % 28 + 1:02d}" for x in whole})
    found = similar(values, kind)
    for a, b in combinations(range(len(values)), 2):
        got = int(found.level_of(np.array([a], np.int32), np.array([b], np.int32))[0])
        assert got == naive_typed_level(kind, values[a], values[b]), (values[a], values[b])


def naive_typed_level(kind: str, s: str, t: str) -> int:
    if DamerauLevenshtein.distance(s.replace("-", ""), t.replace("-", "")) == 1 and max(len(s), len(t)) > 1:
        return 1
    if kind == "number":
        return 2 if abs(int(s) - int(t)) <= max(2, 0.005 * max(int(s), int(t))) else 3
    p, q = s.split("-"), t.split("-")
    if p == [q[0], q[2], q[1]]:
        return 1
    placeholder = p[0] == q[0] and ("01-01" in (s[5:], t[5:]))
    return 2 if placeholder or sum(x == y for x, y in zip(p, q, strict=True)) == 2 else 3


def test_long_texts_by_their_words(rng: np.random.Generator) -> None:
    vocabulary = names(rng, 60)
    values = sorted({" ".join(rng.choice(vocabulary, rng.integers(1, 9))) for _ in range(120)})
    found = {(int(b), int(a)): int(x) for a, b, x in zip(*overlapping_pairs(values, 10_000, 2), strict=True)}
    for a, b in combinations(range(len(values)), 2):
        s, t = set(values[a].split(" ")), set(values[b].split(" "))
        share = len(s & t) / len(s | t)
        expected = 1 if share >= 0.8 else 2 if share >= 0.5 else None
        assert found.get((a, b)) == expected, (values[a], values[b])
    assert level("longtext", "the old house by the sea", "old house by the sea") == 1


def test_a_category_has_no_near_values() -> None:
    found = similar(["Male", "male", "mail", "female"], "category")
    assert found.level_of(np.array([0, 0, -1], np.int32), np.array([1, 2, 0], np.int32)).tolist() == [0, 3, 9]
    assert len(found.a) == 0


def test_lookup_has_the_shape_of_its_codes() -> None:
    found = similar(["anna", "anne", "ANNA", "zoe"], "text")
    codes = np.array([-1, 0, 1, 2, 3], np.int32)
    grid = found.level_of(codes[:, None], codes[None, :])
    assert grid.tolist() == [
        [9, 9, 9, 9, 9],
        [9, 0, 1, 0, 3],
        [9, 1, 0, 1, 3],
        [9, 0, 1, 0, 3],
        [9, 3, 3, 3, 0],
    ]
    assert found.form.tolist() == [0, 1, 0, 3]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8, unique=True))
@settings(deadline=None, max_examples=30)
def test_any_values_have_levels_and_keys(values: list[str]) -> None:
    array = pa.array(values, pa.string())
    for kind in ("category", "text", "number", "date", "longtext"):
        found = similar(values, kind)
        assert np.isin(found.level, [1, 2]).all()
        for codes in derived_keys(array, typed(kind)).values():
            assert codes.dtype == np.int32
            assert codes.shape == (len(values),)
            assert codes.min() >= -1


def test_very_long_texts_do_no_harm() -> None:
    values = ["x" * 100_000, "x" * 99_999, "y " * 5000, "anna"]
    for kind in ("text", "longtext", "number", "date"):
        assert similar(values, kind).level_of(np.array([0], np.int32), np.array([3], np.int32)) == 3


def test_no_values() -> None:
    for kind in ("category", "text", "number", "date", "longtext"):
        found = similar([], kind)
        assert len(found.a) == len(found.form) == 0
        assert found.level_of(np.array([-1], np.int32), np.array([-1], np.int32)).tolist() == [9]
        assert derived_keys(pa.array([], pa.string()), typed(kind)) == {}


def test_derived_keys() -> None:
    texts = pa.array(["Smith", "smith", "smyth", "schmid", "Jones"])
    keys = derived_keys(texts, typed("text"))
    assert sorted(keys) == ["beginning", "form", "sound"] or sorted(keys) == ["form", "sound"]
    assert keys["sound"][0] == keys["sound"][2] == keys["sound"][3] != keys["sound"][4]
    assert keys["form"][0] == keys["form"][1] != keys["form"][2]
    dates = pa.array(["1984-05-03", "1984-03-05", "1984", "1971-05-03", "unknown"])
    keys = derived_keys(dates, infer_type("f", dates, np.ones(5, np.int64), "date"))
    assert keys["year"].tolist()[:3] == [keys["year"][0]] * 3
    assert keys["year"][4] == -1
    assert keys["day and month"][0] == keys["day and month"][1] == keys["day and month"][3]
    assert keys["day and month"][2] == -1
    keys = derived_keys(pa.array(["123", "125", "9"]), typed("number"))
    assert keys["leading digits"][0] == keys["leading digits"][1]
    assert keys["leading digits"][2] == -1
    longer = pa.array(["the old house", "a house of old", "house"])
    assert "rarest word" in derived_keys(longer, typed("longtext"))
