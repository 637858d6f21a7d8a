"""Results appear complete or not at all, and nothing else is ever destroyed."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from vber_cli.errors import OutputError
from vber_cli.io import schema, siblings
from vber_cli.io.write import ResultDirectory

TRACE = pa.table(
    {
        "step": pa.array([0, 1], pa.int32()),
        "kind": pa.array(["sweep", "sweep"]).dictionary_encode(),
        "bound": [-2.0, -1.0],
        "elbo": [-2.0, -1.0],
        "max_change": [0.5, 0.1],
        "n": [3.0, 3.0],
        "seconds": [0.1, 0.2],
    }
)


def make(path: Path, *, force: bool = False, seed: str = "0") -> None:
    with ResultDirectory(path, force=force) as result:
        writer = result.writer("trace", schema.TRACE, {"seed": seed})
        writer.write(TRACE)
        writer.write(TRACE.to_batches()[0])
        result.write_json("summary.json", {"seed": seed, "name": "Zoë"})
        result.commit()


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_a_result_opens_everywhere(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    make(out, seed="7")
    assert sorted(os.listdir(out)) == ["summary.json", "trace.parquet"]
    assert os.listdir(out.parent) == ["out"]
    table = parquet.read_table(out / "trace.parquet")
    assert table.schema.equals(schema.TRACE)
    assert schema.read_metadata(table.schema) == {"result_version": "1", "seed": "7"}
    assert len(pd.read_parquet(out / "trace.parquet")) == 4
    assert duckdb.sql(f"select count(*) from '{out / 'trace.parquet'}' where kind = 'sweep'").fetchall() == [(4,)]
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert summary["name"] == "Zoë"
    assert summary["result"]["files"] == ["summary.json", "trace.parquet"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o777 & ~umask


def test_an_older_result_needs_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(out)
    before = contents(out)
    with pytest.raises(OutputError, match="exists already") as caught:
        ResultDirectory(out, force=False)
    assert "--force" in caught.value.fix
    assert contents(out) == before
    make(out, force=True, seed="1")
    assert json.loads((out / "summary.json").read_text())["seed"] == "1"
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_directory_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    make(tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").exists()
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_result_is_never_replaced(tmp_path: Path, force: bool) -> None:
    cases = {
        "file": lambda p: p.write_text("x"),
        "foreign": lambda p: (p.mkdir(), (p / "thesis.txt").write_text("x")),
        "summary": lambda p: (p.mkdir(), (p / "summary.json").write_text("no json")),
        "list": lambda p: (p.mkdir(), (p / "summary.json").write_text("[]")),
        "mixed": lambda p: (make(p), (p / "notes.txt").write_text("x")),
        "folder": lambda p: (make(p), (p / "report.html").mkdir()),
        "dangling": lambda p: p.symlink_to(tmp_path / "file"),
    }
    for name, prepare in cases.items():
        prepare(tmp_path / name)
        before = contents(tmp_path)
        with pytest.raises(OutputError):
            ResultDirectory(tmp_path / name, force=force)
        assert contents(tmp_path) == before


def test_the_working_directory_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    for path in (".", tmp_path / "out", "..", "/"):
        with pytest.raises(OutputError):
            ResultDirectory(path, force=True)
    with pytest.raises(OutputError, match="has no name"):
        ResultDirectory("", force=True)


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    make(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    make(tmp_path / "link", force=True, seed="2")
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "real" / "summary.json").read_text())["seed"] == "2"


def test_a_parent_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="not a directory"):
        ResultDirectory(tmp_path / "file" / "out", force=False)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(OutputError, match="cannot be written to"):
        ResultDirectory(tmp_path / "out", force=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_an_error_leaves_the_old_result(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "out"
    make(out)
    before = contents(tmp_path)

    def fail_late() -> None:
        with ResultDirectory(out, force=True) as result:
            result.writer("trace", schema.TRACE, {}).write(TRACE)
            result.write_json("summary.json", {})
            raise error

    with pytest.raises(error):
        fail_late()
    assert contents(tmp_path) == before
    with pytest.raises(error), ResultDirectory(tmp_path / "a" / "b", force=True):
        raise error
    assert os.listdir(tmp_path) == ["out"]


def test_without_commit_nothing_appears(tmp_path: Path) -> None:
    with ResultDirectory(tmp_path / "out", force=False) as result:
        result.write_json("summary.json", {})
    assert os.listdir(tmp_path) == []
    with pytest.raises(RuntimeError):
        result.write_json("summary.json", {})


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["os.rename", "os.fsync", "pathlib.Path.write_bytes"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    out = tmp_path / "out"
    make(out)
    before = contents(tmp_path)
    monkeypatch.setattr(where, full)
    with pytest.raises(OutputError, match="No space left"):
        make(out, force=True, seed="3")
    monkeypatch.undo()
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("told", ["at the next table", "at the end", "of tables made meanwhile"])
def test_a_full_disk_while_tables_are_written(tmp_path: Path, told: str) -> None:
    closed = []

    class Full:
        def write_table(self, _: pa.Table) -> None:
            full()

        def close(self) -> None:
            closed.append(True)
            full()

    def write_table() -> None:
        with ResultDirectory(tmp_path / "out", force=False) as result:
            writer = result.writer("trace", schema.TRACE, {})
            writer._writer.close()
            writer._writer = Full()
            if told == "of tables made meanwhile":
                writer.write_all(iter([TRACE, TRACE]))
            else:
                writer.write(TRACE)
            if told == "at the next table":
                writer.write(TRACE)
                raise AssertionError("the next table was written")
            result.commit()

    with pytest.raises(OutputError, match="No space left"):
        write_table()
    assert os.listdir(tmp_path) == []
    assert closed  # no file is left open


def test_tables_made_while_they_are_written_are_those_given(tmp_path: Path) -> None:
    with ResultDirectory(tmp_path / "out", force=False) as result:
        result.writer("trace", schema.TRACE, {}).write_all(TRACE for _ in range(3))
        result.commit()
    assert parquet.read_table(tmp_path / "out" / "trace.parquet").num_rows == 3 * TRACE.num_rows


def test_no_more_tables_are_made_once_the_run_has_failed(tmp_path: Path) -> None:
    made = []

    def tables() -> Iterator[pa.Table]:
        while len(made) < 10_000:
            made.append(True)
            yield TRACE

    def write_and_fail() -> None:
        with ResultDirectory(tmp_path / "out", force=False) as result:
            result.writer("trace", schema.TRACE, {}).write_all(tables())
            raise KeyError

    with pytest.raises(KeyError):
        write_and_fail()
    assert len(made) < 10_000
    assert os.listdir(tmp_path) == []


def test_the_second_rename_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    make(out)
    before = contents(tmp_path)
    rename = os.rename
    calls = []

    def second_fails(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            full()
        rename(source, target)

    monkeypatch.setattr("os.rename", second_fails)
    with pytest.raises(OutputError):
        make(out, force=True, seed="3")
    assert contents(tmp_path) == before


def test_the_place_is_checked_again_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def commit_late() -> None:
        with ResultDirectory(out, force=False) as result:
            out.mkdir()
            (out / "thesis.txt").write_text("x")
            result.commit()

    with pytest.raises(OutputError, match="exists already"):
        commit_late()
    assert contents(tmp_path) == {"out/thesis.txt": b"x"}


def test_foreign_files_survive_the_removal_of_an_old_result(tmp_path: Path) -> None:
    make(tmp_path / "out")
    (tmp_path / "out" / "thesis.txt").write_text("x")
    with pytest.raises(OSError, match="not empty"):
        siblings.remove_result(tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_field_columns_never_collide() -> None:
    fields = ["name", "confidence", "name_probability", "confidence_"]
    columns = schema.individual_columns(fields)
    assert columns[0] == ("name", "name_probability_")
    assert columns[1][0] == "confidence_"
    assert columns[2][0] == "name_probability"
    names = schema.individuals_schema(fields).names
    assert len(names) == len(set(names)) == 4 + 2 * 4
    assert schema.links_schema(["a"]).names[-1] == "level_a"


def test_identifiers_have_no_dictionary_and_names_have_one(tmp_path: Path) -> None:
    table = pa.table({"individual": pa.array([5, 5, 7], pa.int64()), "value": ["a", "a", "b"]})
    with ResultDirectory(tmp_path / "out", force=False) as result:
        result.writer("some", table.schema, {}).write(table)
        result.commit()
    columns = parquet.ParquetFile(tmp_path / "out" / "some.parquet").metadata.row_group(0)
    assert [columns.column(i).has_dictionary_page for i in range(2)] == [False, True]
