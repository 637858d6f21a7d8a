"""What the command line names: paths, names, patterns, directories, pipes."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.io.reading import open_path, rows_of
from vber_cli.errors import InputError, UsageError
from vber_cli.io import bytestream
from vber_cli.io.tables import Source, open_database, resolve_sources


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def touch(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("name,city\nx,y\n")


@pytest.mark.usefixtures("here")
def test_names_come_from_files() -> None:
    touch("clinic.csv", "b/police.2020.csv.gz", "b/clinic.tsv", "noext", ".csv", "c/clinic_2.csv")
    sources = resolve_sources(
        ["clinic.csv", "b/police.2020.csv.gz", "b/clinic.tsv", "noext", ".csv", "c/clinic_2.csv", "-", "x=noext"]
    )
    names = [source.name for source in sources]
    assert names == ["clinic", "police.2020", "clinic_2", "noext", ".csv", "clinic_2_2", "stdin", "x"]
    assert sources[1].paths == ("b/police.2020.csv.gz",)
    assert sources[6].paths == ("-",)


@pytest.mark.usefixtures("here")
def test_given_names_win() -> None:
    touch("a.csv", "b=c.csv", "d/a=b.csv")
    assert [source.name for source in resolve_sources(["a.csv", "a=a.csv", "b=c.csv", "d/a=b.csv"])] == [
        "a_2",
        "a",
        "b=c",
        "a=b",
    ]
    assert resolve_sources(["in=-"]) == [Source("in", ("-",))]
    for wrong in (["a=a.csv", "a=a.csv"], ["-", "x=-"], ["=a.csv"], ["x="], [""]):
        with pytest.raises(UsageError):
            resolve_sources(wrong)


@pytest.mark.usefixtures("here")
def test_a_missing_file_names_the_nearest() -> None:
    touch("d/clinic.csv")
    with pytest.raises(InputError, match=r"d/clinc\.csv: no such file") as caught:
        resolve_sources(["d/clinc.csv"])
    assert caught.value.fix == "Did you mean d/clinic.csv?"
    with pytest.raises(InputError, match="no such file"):
        resolve_sources(["nowhere/x.csv"])
    with pytest.raises(InputError, match="no file matches"):
        resolve_sources(["*.parquet"])


def test_directories_and_patterns(here: Path) -> None:
    touch("people/part-1.csv", "people/part-0.csv", "people/_SUCCESS", "people/.part.crc", "people/README.md")
    parts = ("people/part-0.csv", "people/part-1.csv")
    assert resolve_sources(["people"]) == [Source("people", parts)]
    assert resolve_sources(["people/"]) == [Source("people", parts)]
    assert resolve_sources(["people/part-*.csv"]) == [Source("people", parts)]
    touch("ngo-1.csv", "ngo-2.csv")
    assert resolve_sources(["ngo-*.csv"]) == [Source("ngo", ("ngo-1.csv", "ngo-2.csv"))]
    assert resolve_sources(["p=people"]) == [Source("p", parts)]
    touch("mixed/a.csv", "mixed/b.parquet", "folders/in/a.csv")
    (here / "empty").mkdir()
    for path, what in (("mixed", "both"), ("empty", "holds no"), ("folders", "only folders")):
        with pytest.raises(InputError, match=what):
            resolve_sources([path])


def test_parts_are_one_database(tmp_path: Path) -> None:
    paths = [tmp_path / f"part-{i}.parquet" for i in range(2)]
    parquet.write_table(pa.table({"a": ["1"], "b": ["x"]}), paths[0])
    parquet.write_table(pa.table({"b": ["y", "z"], "a": [2, 3]}), paths[1])
    database = open_path(paths)
    assert rows_of(database) == [("1", "x"), ("2", "y"), ("3", "z")]
    assert database.format["files"] == 2
    lines = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    assert database.digest() == hashlib.sha256(lines.encode()).hexdigest()


def test_parts_that_disagree_are_refused(tmp_path: Path) -> None:
    for i, columns in enumerate(({"a": ["1"], "b": ["x"]}, {"a": ["1"]}, {"a": ["1"], "b": ["x"], "c": ["x"]})):
        parquet.write_table(pa.table(columns), tmp_path / f"part-{i}.parquet")
    with pytest.raises(InputError, match=r"part-1\.parquet: lacks 'b', unlike .*part-0\.parquet"):
        open_path([tmp_path / "part-0.parquet", tmp_path / "part-1.parquet"])
    with pytest.raises(InputError, match=r"part-2\.parquet: has 'c' besides"):
        open_path([tmp_path / "part-0.parquet", tmp_path / "part-2.parquet"])


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_text, args=("name,city\nx,y\n",))
    thread.start()
    database = open_path(path)
    thread.join()
    assert rows_of(database) == [("x", "y")]
    assert rows_of(database) == [("x", "y")]


def test_a_large_pipe_goes_to_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytestream, "SPOOL_LIMIT", 1000)
    monkeypatch.setattr(bytestream, "CHUNK", 256)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = b"name,city\n" + b"x,y\n" * 2000
    (tmp_path / "in").write_bytes(data)
    with open(tmp_path / "in", "rb") as stdin:
        database = open_database(Source("s", ("-",)), delimiter=None, encoding=None, stdin=stdin)
    assert len(rows_of(database)) == 2000
    assert database.digest() == hashlib.sha256(data).hexdigest()
    assert len(list(tmp_path.iterdir())) == 2
    del database
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Standard input is closed"):
        open_database(Source("s", ("-",)), delimiter=None, encoding=None, stdin=None)
    with pytest.raises(InputError, match="is a directory"):
        open_path(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        open_path(tmp_path / "none.csv")
    path = tmp_path / "a.csv"
    path.write_text("name,city\nx,y\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match=r"a\.csv: permission denied"):
        open_path(path)


def test_tabs_by_name(tmp_path: Path) -> None:
    path = tmp_path / "names.tsv"
    path.write_text("name\nSmith, John\n")
    assert rows_of(open_path(path)) == [("Smith, John",)]
