"""What is too large to be a table: cells, names, and what unpacks beyond all measure."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.io.reading import open_bytes, open_path, rows_of
from vber_cli.errors import InputError
from vber_cli.io import bytestream, csvread

COMPRESSIONS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte is a lot here."""
    monkeypatch.setattr(bytestream, "BOMB_BYTES", 1 << 20)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.usefixtures("small_limits")
def test_a_decompression_bomb_is_refused(tmp_path: Path, compression: str) -> None:
    bomb = COMPRESSIONS[compression](b"name,city\n" + b"anna,ulm\n" * 1_200_000)
    assert len(bomb) * bytestream.BOMB_RATIO < 10_800_000
    file = tmp_path / "bomb.csv"
    file.write_bytes(bomb)
    with pytest.raises(InputError, match=f"{len(bomb):,} bytes of {compression} data unpack to more than") as caught:
        rows_of(open_path(file))
    assert "decompress the file" in caught.value.fix


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.usefixtures("small_limits")
def test_what_is_large_but_no_bomb_is_read(compression: str) -> None:
    """Neither size nor ratio alone is suspicious."""
    lines = "".join(f"{i * 7919 % 1_000_003:x},{i}\n" for i in range(120_000))
    assert len(lines) > 1 << 20
    assert len(rows_of(open_bytes(COMPRESSIONS[compression](b"name,number\n" + lines.encode())))) == 120_000
    repeated = b"name,city\n" + b"anna,ulm\n" * 100_000
    assert len(rows_of(open_bytes(COMPRESSIONS[compression](repeated)))) == 100_000


@pytest.mark.usefixtures("small_limits")
def test_a_bomb_of_a_columnar_file_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"name": ["anna"] * 300_000})
    parquet.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="none")
    file = tmp_path / "a.parquet.gz"
    file.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    monkeypatch.setattr(bytestream.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InputError, match="unpack to more than"):
        open_path(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "a.parquet.gz"]


def test_the_real_limit_is_far_from_real_files() -> None:
    assert bytestream.BOMB_BYTES >= 1 << 30
    assert bytestream.BOMB_RATIO >= 100
    assert csvread.MAX_CELL >= 16 << 20


@pytest.mark.parametrize("layout", ["{}", '"{}"', "a, {}"])
def test_a_cell_over_the_limit_is_refused(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers: blanks after delimiters and quotes take the slow one."""
    monkeypatch.setattr(csvread, "MAX_CELL", 1000)
    header = "city, name, note" if ", " in layout else "name,note"
    end = ', "b"' if ", " in layout else ',"b"'
    fits = f"{header}\n{layout.format('x' * 1000)}{end}\n".encode()
    assert len(rows_of(open_bytes(fits))) == 1
    with pytest.raises(InputError, match=r"a value of column 'name' is larger than") as caught:
        rows_of(open_bytes(f"{header}\n{layout.format('x' * 1001)}{end}\n".encode()))
    assert "--exclude name" in caught.value.fix


def test_a_column_that_is_left_out_may_hold_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvread, "MAX_CELL", 1000)
    database = open_bytes(b"name,note\nanna," + b"x" * 5000 + b"\n")
    assert [batch.column("name").to_pylist() for batch in database.batches(["name"])] == [["anna"]]


def test_many_large_cells_are_no_large_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvread, "MAX_CELL", 1000)
    rows = "".join(f"{i:0900}\n" for i in range(50))
    assert len(rows_of(open_bytes(f"name\n{rows}".encode()))) == 50


def test_a_cell_of_ten_megabytes_is_read_whole() -> None:
    cell = "long " * (2 << 20)
    assert rows_of(open_bytes(f'name,note\nanna,"{cell}"\nbert,b\n'.encode())) == [("anna", cell), ("bert", "b")]


def test_a_first_row_that_names_no_columns_is_told_shortly() -> None:
    with pytest.raises(InputError, match="has 20,000 characters in column 2") as caught:
        open_bytes(b"name," + b"x" * 20_000 + b"\nanna,b\n")
    assert len(str(caught.value)) < 400
