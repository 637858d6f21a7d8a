"""Files of decided pairs, as people and programs write them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from vber_cli.errors import InputError
from vber_cli.io.decided import NO, YES, read_decided


def written(folder, text, name="pairs.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("id_a,id_b\n1, 2 \n3,4\n", "p.csv"),
        ("left\tnote\tright\n1\tx\t2\n3\t\t4\n", "p.tsv"),
        ("ID B;ID A\n2;1\n4;3\n", "p.csv"),
        ("one,other,why\n1,2,z\n3,4,\n", "p.csv"),
    ],
)
def test_two_columns_of_ids(tmp_path, text, name):
    found = read_decided(written(tmp_path, text, name), YES)
    assert found.ids == (("1", "2"), ("3", "4"))
    assert found.databases == ((None, None),) * 2
    assert (found.row, found.n_other) == ((1, 2), 0)
    assert found.header == (("one", "other") if "one" in text else None)


REVIEW = (
    "decision,id_a,database_a,id_b,database_b,probability\n"
    "yes,1,x,2,y,0.5\nno,3,x,4,,0.4\n,5,x,6,y,0.3\nY,7,x,8,y,0.2\nFALSE,9,,8,y,\n"
)


def test_a_reviewed_file_counts_as_it_was_decided(tmp_path):
    path = written(tmp_path, REVIEW)
    yes, no = read_decided(path, YES), read_decided(path, NO)
    assert (yes.ids, yes.row, yes.n_other) == ((("1", "2"), ("7", "8")), (1, 4), 3)
    assert (no.ids, no.row, no.n_other) == ((("3", "4"), ("9", "8")), (2, 5), 3)
    assert no.databases == (("x", None), (None, "y"))
    assert yes.digest == no.digest
    assert yes.header is None
    assert yes.n_open == no.n_open == 1
    assert read_decided(path, YES, filled_in=True) == yes


def test_a_filled_in_file_has_decisions(tmp_path):
    path = written(tmp_path, "id_a,id_b\n1,2\n")
    assert read_decided(path, YES).n_open == 0
    with pytest.raises(InputError, match="has no column decision") as error:
        read_decided(path, YES, filled_in=True)
    assert "--must-link" in error.value.fix


def test_parquet_and_no_rows(tmp_path):
    path = tmp_path / "p.parquet"
    parquet.write_table(pa.table({"id_a": ["1", "2"], "id_b": [3, 4]}), path)
    assert read_decided(str(path), YES).ids == (("1", "3"), ("2", "4"))
    assert read_decided(written(tmp_path, "id_a,id_b\n"), YES).ids == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id_a\n1\n", "has one column"),
        ("id_a,id_b\n1,2\n3,\n", "row 2: a pair needs two ids"),
        ("id_a,id_b,decision\n1,2,yes\n3,4,perhaps\n", "row 2: the decision is neither"),
    ],
)
def test_what_cannot_be_a_pair_is_refused(tmp_path, text, says):
    with pytest.raises(InputError) as error:
        read_decided(written(tmp_path, text), YES)
    assert says in error.value.what
