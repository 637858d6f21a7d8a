"""Values as they are compared: codes of folded forms, dates read by database, columns for keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vber_cli.encode.codebook import Codebook
from vber_cli.encode.comparison import compare, types_asked_for
from vber_cli.errors import UsageError
from vber_cli.model.types import Records

NAMES = ("left", "right")
FIELDS = ("surname", "born", "sex")


def compared(columns, asked=None, db=None, threads=1):
    """The comparison of columns of text (None is missing), by field."""
    values = [sorted({v for v in column if v is not None}, key=str.encode) for column in columns.values()]
    codes = np.column_stack(
        [[own.index(v) if v is not None else -1 for v in c] for own, c in zip(values, columns.values(), strict=True)]
    ).astype(np.int32)
    n = len(codes)
    book = Codebook(tuple(columns), tuple(pa.array(own, pa.string()) for own in values))
    records = Records(codes, np.zeros(n, np.int32) if db is None else np.array(db, np.int32), book.n_values)
    return compare(records, book, NAMES[: records.n_databases], asked or {}, threads)


SURNAMES = ["Müller", "MULLER", "müller ", "Miller", None, "Smith", "O'Brien", "obrien", "Smith"]


def test_texts_that_fold_together_share_a_code():
    found = compared({"surname": SURNAMES}, {"surname": "text"})
    code = found.records.codes[:, 0]
    assert found.types[0].kind == "text"
    assert code[0] == code[1] == code[2]
    assert code[5] == code[8]
    assert code[4] == -1
    assert len({code[0], code[3], code[5]}) == 3
    seen = code[code >= 0]
    assert sorted(set(seen)) == list(range(found.records.n_values[0]))
    # muller and miller are an edit apart
    ends = {int(v) for v in (code[0], code[3])}
    ptr, value = found.similar.ptr, found.similar.value
    assert any({v, int(w)} == ends for v in range(len(ptr) - 1) for w in value[ptr[v] : ptr[v + 1]])


def test_a_category_is_compared_letter_for_letter():
    found = compared({"surname": SURNAMES}, {"surname": "category"})
    code = found.records.codes[:, 0]
    distinct = sorted({v for v in SURNAMES if v is not None}, key=str.encode)
    assert found.records.n_values[0] == len(distinct)
    assert code.tolist() == [-1 if v is None else distinct.index(v) for v in SURNAMES]
    assert len(found.similar.value) == 0


def test_dates_of_two_databases_meet_whatever_the_order_of_day_and_month():
    left = ["25/03/1984", "14/11/1990", "05/04/1971", "30/12/1965", None]
    right = ["03/25/1984", "11/14/1990", "04/05/1971", "12/30/1965", "04/06/1971"]
    found = compared({"born": left + right}, {"born": "date"}, db=[0] * 5 + [1] * 5)
    code = found.records.codes[:, 0]
    assert code[:4].tolist() == code[5:9].tolist()
    assert code[4] == -1
    assert len(set(code[:4])) == 4
    assert found.records.n_values[0] == 5
    # of one database the same texts are read one way
    alone = compared({"born": ["05/04/1971", "04/05/1971", "25/03/1984"]}, {"born": "date"}).records.codes[:, 0]
    assert alone[0] != alone[1]


def test_an_order_is_told_of_a_database_only_where_it_has_one_of_its_own():
    plain = ["1984-03-25", "1990-11-14", "1971-04-05"]
    slashed, american = ["25/03/1984", "14/11/1990", "30/12/1965"], ["03/25/1984", "11/14/1990", "12/30/1965"]
    same = compared({"born": plain + slashed}, {"born": "date"}, db=[0] * 3 + [1] * 3)
    assert sum("dates like 03/05/1984" in note for note in same.notes) == 1
    other = compared({"born": slashed + american}, {"born": "date"}, db=[0] * 3 + [1] * 3)
    assert sum("month, day, year" in note for note in other.notes) == 1


def test_key_columns_and_missing_values():
    columns = {
        "surname": SURNAMES,
        "born": [
            "1984-05-03",
            "1984-05-03",
            "1990-01-02",
            None,
            "1990-01-02",
            "1971-12-01",
            "1984",
            None,
            "1984-07-30",
        ],
        "sex": ["m", "f", None, "m", "f", "m", "f", "m", "f"],
    }
    found = compared(columns, {"surname": "text", "born": "date", "sex": "category"})
    n, n_columns = found.key_codes.shape
    assert n == len(SURNAMES)
    assert n_columns == len(found.key_field) > 3
    assert found.key_codes.dtype == np.int32
    assert found.key_codes.flags.c_contiguous
    assert found.key_field[:3].tolist() == [0, 1, 2]
    assert set(found.key_field) == {0, 1, 2}
    np.testing.assert_array_equal(found.key_codes[:, :3], found.records.codes)
    for key, f in zip(found.key_codes.T, found.key_field, strict=True):
        own = found.records.codes[:, f]
        assert (key[own < 0] == -1).all()
        assert (key >= -1).all()
        for v in set(own):  # a derived code is a function of the value
            assert len(set(key[own == v])) == 1
    missing = np.array([[v is None for v in column] for column in columns.values()]).T
    np.testing.assert_array_equal(found.records.codes == -1, missing)
    assert [kind.name for kind in found.types] == list(columns)


def test_threads_have_no_influence():
    one, two = (compared({"surname": SURNAMES}, {"surname": "text"}, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one.key_codes, two.key_codes)
    np.testing.assert_array_equal(one.similar.value, two.similar.value)


def test_types_asked_for():
    assert dict(types_asked_for((), FIELDS)) == {}
    assert dict(types_asked_for(("born=date",), FIELDS)) == {"born": "date"}
    assert dict(types_asked_for(("a=b=text",), ("a=b",))) == {"a=b": "text"}
    with pytest.raises(UsageError, match="'birth'"):
        types_asked_for(("born=date", "birth=date"), FIELDS)


@pytest.mark.parametrize("texts", [("*=category", "born=date"), ("born=date", "*=category")])
def test_a_star_stands_for_the_fields_not_named(texts):
    asked = types_asked_for(texts, FIELDS)
    assert dict(asked) == {"surname": "category", "born": "date", "sex": "category"}


def test_a_field_without_a_value_twice_is_told_of():
    serial = [f"x{i}" for i in range(30)]
    surname = ["Smith", "Jones"] * 15
    found = compared({"ref": serial, "surname": surname})
    assert [note for note in found.notes if "looks like an id" in note] == [
        "field 'ref' looks like an id, for no value occurs twice: name it with --id, or leave it out with --exclude ref"
    ]
    some_missing = [None if i % 15 == 0 else value for i, value in enumerate(serial)]
    for column in ([*serial[:-1], serial[0]], some_missing, serial[:19] + [None] * 11):
        assert not any("looks like an id" in note for note in compared({"ref": column, "surname": surname}).notes)
    assert not any("looks like an id" in note for note in compared({"ref": serial[:19]}).notes)
