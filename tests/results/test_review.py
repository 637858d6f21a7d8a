"""The pairs to decide: by their value, one for each question, safe in a spreadsheet, and readable again."""

from __future__ import annotations

import csv
import io
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from vber_cli.errors import InputError
from vber_cli.io.tables import open_database, resolve_sources
from vber_cli.results.review import best_pairs, column_names, review, review_value, safe_text


def test_the_value_of_a_decision():
    individual = np.array([1, 1, 1, 2, 2, 3])
    a, b = np.array([0, 0, 3, 4]), np.array([1, 3, 5, 5])
    p = np.array([0.9, 0.4, 0.5, 0.1])
    # wrong with 0.1, and two pairs of the record that would leave; wrong with 0.4, and 3 × 2 pairs; 2 × 1 pairs
    np.testing.assert_allclose(review_value(a, b, p, individual, (1, 1)), [0.2, 2.4, 1.0, 0.2])
    np.testing.assert_allclose(review_value(a, b, p, individual, (3, 0)), [0.6, 0, 0, 0])


def test_one_pair_for_each_question():
    individual = np.array([1, 1, 2, 2, 3])
    a, b = np.array([0, 0, 1, 2, 0, 1]), np.array([2, 3, 3, 4, 1, 4])
    value = np.array([0.5, 0.7, 0.6, 0.2, 0.4, 0.0])
    assert best_pairs(a, b, value, individual, 10).tolist() == [1, 4, 3]
    assert best_pairs(a, b, value, individual, 2).tolist() == [1, 4]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@sum", "\t=1", "\r=1", "\n=1", "=", "-1+2"])
def test_formulas_are_defused(text):
    assert safe_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "anna", "-5", "+3.5", "1,000", "a=b", "'=1", "2-3"])
def test_texts_and_numbers_stay(text):
    assert safe_text(text) == text


def test_column_names():
    assert column_names(["name", "id", "database"])[5:] == [
        "name_a", "name_b", "id__a", "id__b", "database__a", "database__b", "decision",
    ]  # fmt: skip
    assert len(set(column_names(["x", "x_", "decision", "id"]))) == 14


def test_the_table(sample_result, tmp_path):
    found = review(sample_result, 20)
    data = found.csv()
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert len(rows) == 20
    assert list(rows[0])[:5] == ["id_a", "database_a", "id_b", "database_b", "probability"]
    assert list(rows[0])[-1] == "decision"
    assert {row["decision"] for row in rows} == {""}
    assert (np.diff(found.value) <= 0).all()
    assert (found.value > 0).all()
    links = pd.read_parquet(sample_result / "links.parquet").astype({"database_a": str, "database_b": str})
    listed = links.set_index(["id_a", "database_a", "id_b", "database_b"])["probability"]
    records = pd.read_parquet(sample_result / "records.parquet").astype({"database": str})
    records = records.set_index(["database", "record_id"])
    for row in rows:
        assert float(row["probability"]) == pytest.approx(
            listed[row["id_a"], row["database_a"], row["id_b"], row["database_b"]], abs=1e-6
        )
        for side in "ab":
            own = records.loc[(row[f"database_{side}"], row[f"id_{side}"])]
            for field in ("given_name", "family_name", "birth_date", "town"):
                assert row[f"{field}_{side}"] == ("" if pd.isna(own[field]) else own[field])
    path = tmp_path / "pairs.csv"
    path.write_bytes(data)
    [source] = resolve_sources([str(path)])
    table = open_database(source, delimiter=None, encoding=None, stdin=None)
    read = pa.Table.from_batches(table.batches(["id_a", "database_a", "decision"]))
    assert read.column("id_a").to_pylist() == [row["id_a"] for row in rows]


def test_fewer_pairs_than_asked_for(sample_result):
    found = review(sample_result, 10_000)
    assert 20 < len(found.table) <= found.n_links
    assert found.loss > 0


def test_results_that_cannot_be_reviewed(literal_result, tmp_path):
    with pytest.raises(InputError, match=r"has no records\.parquet"):
        review(literal_result, 5)
    with pytest.raises(InputError, match="does not exist"):
        review(tmp_path / "none", 5)


def test_results_without_links(sample_result, tmp_path):
    shutil.copytree(sample_result, tmp_path / "out")
    (tmp_path / "out" / "links.parquet").unlink()
    with pytest.raises(InputError, match=r"has no links\.parquet") as caught:
        review(tmp_path / "out", 5)
    assert "--no-moves" in caught.value.fix
