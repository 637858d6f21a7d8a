"""A sound result passes every check; each kind of damage is found by one."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from pyarrow import parquet

from vber_cli.errors import InputError
from vber_cli.results.check import check_result, to_dict


@pytest.fixture
def copy(sample_result, tmp_path):
    shutil.copytree(sample_result, tmp_path / "out")
    return tmp_path / "out"


def status(directory):
    return {item.name: item.status for item in check_result(directory)}


def wrong(directory):
    found = {item.name: item.detail for item in check_result(directory) if item.status == "wrong"}
    assert all(found.values())
    return found


def change(directory, name, column, edit):
    """Edit one column of a table as a numpy array."""
    path = directory / f"{name}.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index(column)
    values = edit(table.column(column).to_numpy().copy())
    array = pa.array(values, type=table.schema.field(column).type)
    parquet.write_table(table.set_column(place, table.schema.field(column), array), path)


def test_a_sound_result(sample_result):
    found = check_result(sample_result)
    assert {item.status for item in found} == {"ok"}
    plain = to_dict(sample_result, found)
    assert json.loads(json.dumps(plain))["ok"] is True
    assert len(plain["checks"]) == len(found) == 11


def test_a_sound_result_of_the_literal_updates(literal_result):
    found = status(literal_result)
    skipped = {name for name, value in found.items() if value == "skipped"}
    assert skipped == {"values of the records", "lambda = A + sum of phi", "links", "evidence"}
    assert "wrong" not in found.values()


def add(amount, at=5):
    def edit(values):
        values[at] += amount
        return values

    return edit


@pytest.mark.parametrize(
    ("name", "column", "edit", "check"),
    [
        ("phi", "phi", add(-0.01), "phi sums to 1"),
        ("phi", "phi", add(0.5), "phi sums to 1"),
        ("phi", "probability", add(1.5), "phi sums to 1"),
        ("lambda", "lam", add(0.01), "lambda = A + sum of phi"),
        ("lambda", "probability", add(0.01), "lambda = A + sum of phi"),
        ("links", "log_odds", add(0.01), "links"),
        ("links", "probability", add(2.0), "links"),
        ("links", "pair_log_odds", add(1e-4), "evidence"),
        ("links", "row_b", add(100_000), "links"),
        ("values", "theta", add(1e-3), "evidence"),
        ("assignments", "row", add(1), "records"),
        ("individuals", "n_records", add(1), "individuals"),
        ("individuals", "individual", add(1), "individuals"),
        ("records", "row", add(1), "values of the records"),
        ("trace", "bound", add(-1e3, 3), "bound"),
        ("trace", "bound", add(1.0, -1), "bound"),
    ],
)
def test_a_number_that_was_changed(copy, name, column, edit, check):
    change(copy, name, column, edit)
    assert check in wrong(copy)


def test_a_file_that_is_missing(copy):
    (copy / "trace.parquet").unlink()
    assert wrong(copy) == {"files": "trace.parquet is missing"}


def test_a_file_that_is_cut(copy):
    path = copy / "phi.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert {"files", "phi sums to 1"} <= set(wrong(copy))


def test_a_record_that_is_missing(copy):
    path = copy / "assignments.parquet"
    parquet.write_table(parquet.read_table(path).slice(1), path)
    assert "541 records read" in wrong(copy)["records"]


def test_a_table_of_another_run(copy, literal_result):
    shutil.copy(literal_result / "phi.parquet", copy)
    assert "phi.parquet and assignments.parquet differ in their config_digest" in wrong(copy)["one run"]


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("config_digest", "0" * 64, "config_digest"),
        ("inputs", [], "digests of their inputs"),
    ],
)
def test_a_summary_of_another_run(copy, key, value, what):
    path = copy / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert what in wrong(copy)["one run"]


def test_a_column_of_another_type(copy):
    path = copy / "trace.parquet"
    table = parquet.read_table(path)
    place = table.column_names.index("step")
    parquet.write_table(table.set_column(place, "step", table.column("step").cast(pa.int64())), path)
    assert wrong(copy)["schemas"] == "trace.parquet: column step is int64, not int32"
    parquet.write_table(table.drop_columns(["bound"]), path)
    assert wrong(copy)["schemas"] == "trace.parquet has no column bound"


def test_a_pair_twice_and_a_record_with_itself(copy):
    path = copy / "links.parquet"
    table = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    assert wrong(copy)["links"] == "links.parquet lists a pair twice"
    itself = table.slice(0, 1)
    for name in ("database", "row", "id"):
        place = table.column_names.index(f"{name}_b")
        itself = itself.set_column(place, table.schema.field(f"{name}_b"), itself.column(f"{name}_a"))
    parquet.write_table(pa.concat_tables([table.slice(1), itself]), path)
    assert wrong(copy)["links"] == "links.parquet links a record to itself"


def test_what_is_no_result(tmp_path, copy):
    with pytest.raises(InputError, match="is no result directory"):
        check_result(tmp_path)
    (copy / "summary.json").write_text("[")
    with pytest.raises(InputError, match=r"summary\.json does not exist or cannot be read"):
        check_result(copy)


def test_phi_may_lack_what_was_left_out(copy):
    change(copy, "phi", "phi", add(-1e-4))
    path = copy / "summary.json"
    summary = json.loads(path.read_text())
    assert "phi sums to 1" in wrong(copy)
    summary["phi"]["left_out_mass"] = 2e-4
    path.write_text(json.dumps(summary))
    assert wrong(copy) == {}
