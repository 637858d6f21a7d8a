"""Types judged by values, dates in any spelling, and the forms in which values are compared."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vber_cli.encode.dates import DateReading, _split, _split_text, is_possible, read_dates, resolve_reading
from vber_cli.encode.types import FieldType, canonical, infer_type

MAY_3 = (1984, 5, 3)
DATES = st.dates(dt.date(1930, 1, 1), dt.date(2020, 12, 31))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def inferred(values: list[str], counts: list[int] | None = None, kind: str | None = None) -> FieldType:
    return infer_type("some field", pa.array(values, pa.string()), np.array(counts or [1] * len(values)), kind)


def resolved(texts: list[str], counts: list[int] | None = None) -> tuple[DateReading, list[list[int]]]:
    reading, dates = resolve_reading("born", texts, np.array(counts or [1] * len(texts)))
    assert np.array_equal(dates, read_dates(texts, reading))
    return reading, dates.tolist()


@pytest.mark.parametrize(
    "text",
    [
        *"""1984-05-03 1984/05/03 1984.5.3 19840503 1984-05-03T07:30:00Z 3May1984 1984年5月3日""".split(),
        "3 May 1984",
        "May 3, 1984",
        "3rd of May 1984",
        "3. Mai 1984",
        "3 de mayo de 1984",
        "3 mai 1984",
        "03-MAY-1984",
        "1984-05-03 00:00",
        "03/05/1984",
        "3.5.1984",
        "3 5 1984",
        "１９８４-05-03",
        "3 mei 1984",
        "1984 May 3",
    ],
)
def test_spellings_of_a_date(text: str) -> None:
    assert read_dates([text], DateReading()).tolist() == [list(MAY_3)]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("1984", (1984, 0, 0)),
        ("1984-05", (1984, 5, 0)),
        ("05/1984", (1984, 5, 0)),
        ("May 1984", (1984, 5, 0)),
        ("août 1984", (1984, 8, 0)),
        ("1984-00-00", (1984, 0, 0)),
        ("1984-05-00", (1984, 5, 0)),
    ],
)
def test_partial_dates(text: str, date: tuple[int, int, int]) -> None:
    assert read_dates([text], DateReading()).tolist() == [list(date)]


@pytest.mark.parametrize("text", ["", "May", "12", "12345", "1-2-3-4", "hello 1984", "a" * 99, "1e5", "1/2"])
def test_no_dates(text: str) -> None:
    assert read_dates([text], DateReading()).tolist() == [[-1, -1, -1]]


def test_day_and_month_order_comes_from_the_column() -> None:
    reading, dates = resolved(["23/04/1984", "03/05/1984"])
    assert dates == [[1984, 4, 23], [1984, 5, 3]]
    assert "day, month, year; 1 can be nothing else" in reading.notes[0]
    reading, dates = resolved(["04/23/1984", "03/05/1984"])
    assert dates == [[1984, 4, 23], [1984, 3, 5]]
    assert "month, day, year" in reading.notes[0]


def test_the_majority_decides_and_the_rest_is_read_as_it_must() -> None:
    reading, dates = resolved(["23/04/1984", "04/24/1984", "03/05/1984"], [9, 1, 5])
    assert dates == [[1984, 4, 23], [1984, 4, 24], [1984, 5, 3]]
    assert "1 would need another order" in reading.notes[0]


def test_an_undecided_order_follows_the_columns_other_dates_or_is_called_an_assumption() -> None:
    reading, _ = resolved(["04/23/1984", "03/05/84"])
    assert dict(reading.orders)["03/05/84"] == "mdy"
    assert "as the column's other dates are" in reading.notes[-1]
    reading, dates = resolved(["03/05/1984"])
    assert dates == [[*MAY_3]]
    assert "an assumption" in reading.notes[0]


def test_compact_dates_have_an_order_too() -> None:
    assert resolved(["03051984", "23041984"])[1] == [[1984, 5, 3], [1984, 4, 23]]
    assert resolved(["840503", "840423"])[1] == [[1984, 5, 3], [1984, 4, 23]]


def test_two_digit_years_end_with_the_latest_year_in_full() -> None:
    reading, dates = resolved(["23/04/2003", "03/05/84", "03/05/02", "03/05/04"])
    assert [date[0] for date in dates] == [2003, 1984, 2002, 1904]
    assert any("1904 to 2003" in note for note in reading.notes)
    assert [date[0] for date in resolved(["23/04/68", "23/04/69"])[1]] == [2068, 1969]


def test_a_slipped_digit_leaves_the_parts() -> None:
    assert resolved(["1984-05-03", "1984-05-32", "19841503"])[1][1:] == [[1984, 5, 32], [1984, 15, 3]]
    assert is_possible(np.array([[1984, 2, 29], [1983, 2, 29], [1984, 0, 3], [1984, 0, 0]])).tolist() == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("spelling", ["%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d", "%d.%m.%y", "%Y%m%d", "%d%m%Y", "%d %b %Y"])
@settings(max_examples=15, deadline=None)
@given(dates=st.lists(DATES, min_size=1, max_size=8))
def test_a_column_of_one_spelling_comes_back(spelling: str, dates: list[dt.date]) -> None:
    telling = [dt.date(1984, 4, 30), dt.date(1984, 1, 31), dt.date(2001, 12, 13)]
    texts = [date.strftime(spelling) for date in [*telling * 9, *dates]]
    field_type = inferred(texts, kind="date")
    forms = canonical(pa.array(texts), field_type).to_pylist()[len(telling) * 9 :]
    expected = [date.isoformat() for date in dates]
    if "%y" in spelling:
        forms, expected = [form[2:] for form in forms], [form[2:] for form in expected]
    assert forms == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(ANY_TEXT, max_size=8, unique=True))
def test_any_values_have_a_type_and_forms(values: list[str]) -> None:
    for kind in (None, "category", "text", "number", "date", "longtext"):
        field_type = inferred(values, kind=kind)
        assert field_type.reason
        assert len(canonical(pa.array(values, pa.string()), field_type)) == len(values)


NAMES = [f"{a}{b}{c}" for a in ("an", "be", "cor") for b in "dklmnrst" for c in ("a", "ie", "o", "us", "ena")]


@pytest.mark.parametrize(
    ("values", "counts", "kind"),
    [
        ([], None, "category"),
        (["m", "f"], [40, 60], "category"),
        (["north", "south", "east", "west"], [20, 20, 20, 20], "category"),
        (list("abcdefgh"), None, "category"),
        (["north", "south", "nroth", "soth", "sout", "norh"], [90, 90, 1, 1, 1, 1], "text"),
        (NAMES, None, "text"),
        ([f"{name} street {i}" for i, name in enumerate(NAMES)], None, "text"),
        ([f"the {name} and the {name}s by the sea, volume {i}" for i, name in enumerate(NAMES)], None, "longtext"),
        ([f"19{i:02d}-0{i % 9 + 1}-1{i % 10}" for i in range(99)], None, "date"),
        ([f"1{i % 10}/0{i % 9 + 1}/{i:02d}" for i in range(99)], None, "date"),
        ([f"19{i:02d}" for i in range(99)], None, "number"),
        ([str(i * i) for i in range(99)], None, "number"),
        ([f"{i / 7:.3f}" for i in range(99)], None, "number"),
        (["1", "2", "3"], [9, 9, 9], "category"),
        ([f"{i * 911 % 100000:05d}" for i in range(99)], None, "text"),
        ([f"{i * 91177 + 10**6}" for i in range(99)], None, "text"),
        ([f"{i},{i * 7 % 900 + 100}" for i in range(1, 99)], None, "text"),
    ],
)
def test_types(values: list[str], counts: list[int] | None, kind: str) -> None:
    assert inferred(values, counts).kind == kind


def test_the_name_decides_nothing() -> None:
    values, counts = pa.array(NAMES), np.ones(len(NAMES), np.int64)
    assert infer_type("birth_date", values, counts).reason == infer_type("x", values, counts).reason


def test_a_named_type_is_taken() -> None:
    assert inferred(["a", "b"], kind="longtext") == FieldType("some field", "longtext", "as told")
    assert inferred(["23/04/1984"], kind="date").dates is not None
    with pytest.raises(ValueError, match="colour"):
        inferred(["a"], kind="colour")


def test_forms_of_numbers_are_plain_and_thousands_are_left_alone() -> None:
    values = ["007", "7", "7.0", "+7", "-0", "0", ".50", "0.5", "1,234", "1234", "1.234,5", "12 k", "-3"]
    forms = canonical(pa.array(values), FieldType("f", "number", "")).to_pylist()
    assert forms == ["7", "7", "7", "7", "0", "0", "0.5", "0.5", "1,234", "1234", "1.234,5", "12 k", "-3"]


@given(st.lists(st.from_regex(r"[0-9²/. -]{0,6}[-/.][0-9a-z]{0,4}[-/.]?[0-9]{0,4}", fullmatch=True), max_size=8))
@example(["1984-05-03", "3/5/84", "03.05.1984", "1984.5.1984", "123-1-1984", "a/b/c", "", "٣/٥/١٩٨٤", "²/3/1984"])
def test_the_usual_dates_are_read_together_as_each_by_itself(texts: list[str]) -> None:
    split = _split(texts)
    for v, text in enumerate(texts):
        shape, parts, short = _split_text(text) or (-1, (-1, -1, -1), False)
        assert (split.shape[v], tuple(split.parts[v]), split.short_year[v]) == (shape, parts, short)


def test_a_database_may_read_dates_its_own_way() -> None:
    values = pa.array(["03/05/1984", None, "unknown date"])
    field_type = inferred(["23/05/1984"], kind="date")
    assert canonical(values, field_type).to_pylist() == ["1984-05-03", None, "unknown date"]
    american = DateReading((("03/05/1984", "mdy"),))
    assert canonical(values, field_type, american).to_pylist() == ["1984-03-05", None, "unknown date"]
