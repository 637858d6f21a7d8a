"""Delimited text: dialects, encodings, compressions, and every row kept as it is written."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import hashlib
import io
import lzma
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.io.reading import open_bytes, open_path, rows_of
from vber_cli.errors import InputError, UsageError
from vber_cli.io import csvread
from vber_cli.io.bytestream import as_file, utf8_blocks
from vber_cli.io.csvdialect import detect_encoding, parse_delimiter, parse_encoding

NAMES = ("name", "city", "postcode")
ROWS = [
    ("Zoë", "Köln", "01234"),
    ('He said "no"', "a, b; c", "00"),
    ("two\nlines", "three\r\nof\nthem", " 1.50"),
    ("", "", "007"),
    ("Ευγενία", "القاهرة", "🙂"),
    ("tab\there", "'single'", "1e5"),
]
WESTERN = [row for row in ROWS if all(ord(char) < 256 for cell in row for char in cell)]

COMPRESSIONS = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def text_of(rows: list[tuple[str, ...]], delimiter: str = ",", names: tuple[str, ...] = NAMES, end: str = "\n") -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_delimiters_and_compressions_are_found(compression: str, delimiter: str) -> None:
    data = COMPRESSIONS[compression](text_of(ROWS, delimiter).encode())
    database = open_bytes(data)
    assert database.columns == NAMES
    assert database.format["delimiter"] == delimiter
    assert rows_of(database) == ROWS
    assert rows_of(database) == ROWS, "a second pass gives the same rows"
    assert database.digest() == hashlib.sha256(data).hexdigest()
    assert database.n_bytes == len(data)
    assert database.announcements == ()


@pytest.mark.parametrize(
    ("encoding", "rows"),
    [
        ("utf-8", ROWS),
        ("utf-8-sig", ROWS),
        ("utf-16", ROWS),
        ("utf-32", ROWS),
        ("utf-16-le", WESTERN),
        ("utf-16-be", WESTERN),
        ("latin-1", WESTERN),
        ("cp1252", WESTERN),
    ],
)
def test_encodings_are_found(tmp_path: Path, encoding: str, rows: list[tuple[str, ...]]) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(text_of(rows).encode(encoding))
    database = open_path(path)
    assert database.columns == NAMES
    assert rows_of(database) == rows
    settled = encoding.startswith("utf-8") or encoding in {"utf-16", "utf-32"}
    assert settled == (database.announcements == ())


def test_utf16_with_either_byte_order_mark() -> None:
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        assert rows_of(open_bytes(mark + text_of(ROWS).encode(name))) == ROWS


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("имя,город\n" + "Иван,Москва\nПётр,Казань\n" * 30, "cp1251"),
        ("名前,市\n" + "山田,東京\n鈴木,大阪\n" * 30, "shift_jis"),
        ("name,city\nJosé,Zürich\n", "cp1252"),
        ("name,price\nPeña,5€\n", "cp1252"),
    ],
)
def test_other_scripts_are_guessed_and_announced(text: str, encoding: str) -> None:
    database = open_bytes(text.encode(encoding))
    assert rows_of(database)[0] == tuple(text.splitlines()[1].split(","))
    assert "--encoding" in database.announcements[0]


def test_the_user_names_the_encoding() -> None:
    text = "name,city\nŁukasz,Kraków\n"
    assert rows_of(open_bytes(text.encode("cp1250"), encoding="cp1250")) == [("Łukasz", "Kraków")]
    assert rows_of(open_bytes(text.encode("utf-16-le"), encoding="UTF-16LE")) == [("Łukasz", "Kraków")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str) -> None:
    assert rows_of(open_bytes(text_of(ROWS, end=end).encode())) == ROWS
    without_last = text_of(ROWS, end=end).encode().removesuffix(end.encode())
    assert rows_of(open_bytes(without_last)) == ROWS


def test_blanks_after_delimiters_belong_to_the_delimiter() -> None:
    database = open_bytes(b"rec_id, given name, city\nr1, anna, \nr2,  bo, new  york \n")
    assert database.columns == ("rec_id", "given name", "city")
    assert rows_of(database) == [("r1", "anna", ""), ("r2", "bo", "new  york ")]
    quoted = open_bytes(b'id, name, city\n1, "x, y", z\n2, "say ""hi"", ", w\n')
    assert rows_of(quoted) == [("1", "x, y", "z"), ("2", 'say "hi", ', "w")]
    assert rows_of(open_bytes(b"name,city\nx, y\n")) == [("x", " y")], "not where only the values have them"


def test_single_quotes_and_backslashes() -> None:
    single = open_bytes(b"'name','city'\n'x, y','z'\n'o''neil','w'\n")
    assert single.columns == ("name", "city")
    assert rows_of(single) == [("x, y", "z"), ("o'neil", "w")]
    assert rows_of(open_bytes(b"name,city\no'neil,x\nd'arc,'t veld\n")) == [("o'neil", "x"), ("d'arc", "'t veld")]
    formulas = open_bytes(b"id,'=1+1,city\n'=b10,'@two,'-->\n'=b11,'+three,x\n")
    assert formulas.columns == ("id", "'=1+1", "city")
    assert rows_of(formulas) == [("'=b10", "'@two", "'-->"), ("'=b11", "'+three", "x")]
    assert rows_of(open_bytes(b'name,city\n"say \\"hi, you\\" now",x\n')) == [('say "hi, you" now', "x")]
    assert rows_of(open_bytes(b"name,path\nx,C:\\temp\n")) == [("x", "C:\\temp")]
    assert rows_of(open_bytes(b'name,size\npipe,5" wide\nnail,3"\n')) == [("pipe", '5" wide'), ("nail", '3"')]


@pytest.mark.parametrize(
    "text",
    [
        "1,anna,1980-01-01\n2,bo,1991-02-03\n3,cy,1970-12-31\n",
        "anna,smith,f\nbo,jones,m\ncy,jones,f\n",
        "anna,01234\nbo,04321\n",
    ],
)
def test_a_missing_header_is_noticed(text: str) -> None:
    database = open_bytes(text.encode())
    rows = [tuple(line.split(",")) for line in text.splitlines()]
    assert database.columns == tuple(f"column{i + 1}" for i in range(len(rows[0])))
    assert rows_of(database) == rows
    assert "column1" in database.announcements[0]


@pytest.mark.parametrize(
    "text",
    [
        "id,2019,2020\n7,1,2\n8,3,4\n",
        "name,city\nanna,berlin\n",
        "a,b\n1,2\n3,4\n",
        "fname_c1,sex\nname,m\nsex,f\n",
        "x,y\nx,y\nx,y\n",
        "BirthYear,k\n1980,1980\n",
    ],
)
def test_a_header_is_kept(text: str) -> None:
    database = open_bytes(text.encode())
    assert database.columns == tuple(text.splitlines()[0].split(","))
    assert len(rows_of(database)) == text.count("\n") - 1


def test_header_names_are_stripped_and_filled() -> None:
    database = open_bytes(b' name ,,"a\nb",\nx,1,2,3\n')
    assert database.columns == ("name", "column2", "a\nb", "column4")
    assert rows_of(database) == [("x", "1", "2", "3")]


def test_blank_lines_are_no_rows_in_a_file_of_several_columns() -> None:
    database = open_bytes(b"\n\nname,city\n\nx,y\n\n\n,\nz,w\n\n")
    assert rows_of(database) == [("x", "y"), ("", ""), ("z", "w")]


def test_blank_lines_are_missing_values_in_a_file_of_one_column() -> None:
    assert rows_of(open_bytes(b'name\nx\n\ny\n""\n')) == [("x",), ("",), ("y",), ("",)]
    assert rows_of(open_bytes(b"name\r\nx\r\n\r\n\r\n")) == [("x",), ("",), ("",)]


def test_a_spreadsheets_sep_line() -> None:
    assert rows_of(open_bytes(b"sep=;\r\nname;city\r\nx,1;y\r\n")) == [("x,1", "y")]


def test_nul_bytes_are_kept() -> None:
    assert rows_of(open_bytes(b"name,city\nx\x00y,z\nlonger text follows,here\n"))[0] == ("x\x00y", "z")


def test_the_user_names_the_delimiter() -> None:
    assert rows_of(open_bytes(b"name:city\nx,1:y\n", delimiter=":")) == [("x,1", "y")]
    assert rows_of(open_bytes("name§city\nx§y\n".encode(), delimiter="§")) == [("x", "y")]
    assert rows_of(open_bytes(b"name city\nx y\n", delimiter="space")) == [("x", "y")]


@pytest.mark.parametrize("data", [b"name,city\n", b"name,city", b"\r\n\r\nname,city\r\n\r\n"])
def test_header_without_rows(data: bytes) -> None:
    database = open_bytes(data)
    assert database.columns == ("name", "city")
    assert rows_of(database) == []


def test_a_header_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvread, "CHUNK", 64)
    monkeypatch.setattr(csvread, "_BLOCK_PER_COLUMN", 1)
    names = ("n" * 100, "two\nlines")
    assert rows_of(open_bytes(text_of([("x", "y")], names=names, end="\r\n").encode())) == [("x", "y")]


@pytest.mark.parametrize("size", range(20, 36))
def test_line_ends_at_the_edge_of_a_block(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(csvread, "CHUNK", size)
    monkeypatch.setattr(csvread, "_BLOCK_PER_COLUMN", 1)
    rows = [("a", "b\r\nc"), ("d", "e\r"), ("\r\n", "\n"), ("f", "g")] * 3
    assert rows_of(open_bytes(text_of(rows, names=("name", "city"), end="\r\n").encode())) == rows
    one = [("a\r\nb",), ("",), ("c",)] * 5
    assert rows_of(open_bytes(text_of(one, names=("name",), end="\r\n").encode())) == one


def test_columns_in_any_order_or_none() -> None:
    database = open_bytes(text_of(ROWS).encode())
    (batch,) = database.batches(("postcode", "name"))
    assert batch.schema.names == ["postcode", "name"]
    assert all(pa.types.is_dictionary(column.type) for column in batch.columns)
    assert sum(batch.num_rows for batch in database.batches(())) == len(ROWS)


def test_cells_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvread, "CHUNK", 1 << 12)
    monkeypatch.setattr(csvread, "_BLOCK_PER_COLUMN", 1)
    rows = [("a", "b", "c")] * 3000 + [("x" * 100_000, "y", "z")] + [("d", "e", 'f"\n')] * 3000
    assert rows_of(open_bytes(text_of(rows).encode())) == rows


def test_many_columns() -> None:
    names = tuple(f"c{i}" for i in range(10_000))
    rows = [tuple(str(i + j) for i in range(10_000)) for j in range(2)]
    database = open_bytes(text_of(rows, names=names).encode())
    assert database.columns == names
    (batch,) = database.batches(("c9999", "c3"))
    assert batch.to_pylist() == [{"c9999": "9999", "c3": "3"}, {"c9999": "10000", "c3": "4"}]


CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8),
    compression=st.sampled_from(sorted(COMPRESSIONS)),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    delimiter=st.sampled_from([",", "\t", ";", "|"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_text_comes_back(
    rows: list[tuple[str, str]], compression: str, encoding: str, delimiter: str, end: str
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([("name", "city"), *rows])
    data = COMPRESSIONS[compression](out.getvalue().encode(encoding))
    # Text of nothing but control characters is rightly taken for binary unless the delimiter and so on are plain.
    if sum(char < " " and char not in "\t\r\n" for char in out.getvalue()) * 50 > len(out.getvalue()):
        return
    assert rows_of(open_bytes(data, delimiter=delimiter)) == rows


def error_of(data: bytes, **options: str) -> InputError:
    with pytest.raises(InputError) as caught:
        rows_of(open_bytes(data, **options))
    assert "\n" not in caught.value.what
    assert caught.value.fix
    return caught.value


def test_a_ragged_row_names_its_line() -> None:
    error = error_of(b'name,city\n"two\nlines",x\n\ny,z\nonly one\n')
    assert error.what.startswith("standard input, line 6: 1 value where the header has 2.")
    assert "--delimiter" in error.fix


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_ragged_row_far_down_names_its_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "big.csv"
    body = f'"two{end}lines",x{end}{end}y,z{end}' * 60_000
    path.write_text(f"name,city{end}{body}a,b,c{end}y,z{end}", newline="")
    with pytest.raises(InputError) as caught:
        rows_of(open_path(path))
    assert caught.value.what == f"{path}, line 240002: 3 values where the header has 2."
    assert caught.value.value == "a,b,c"


def test_a_bad_byte_far_down_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    filler = b"name,city\n" + b"someone with a name,somewhere\n" * 300_000
    path.write_bytes(filler + "Zoë,x\n".encode("latin-1") + b"y,z\n")
    with pytest.raises(InputError) as caught:
        rows_of(open_path(path))
    assert caught.value.what == f"{path}, line 300002: byte 0xEB is not valid utf-8."
    assert "--encoding" in caught.value.fix
    assert len(rows_of(open_path(path, encoding="latin-1"))) == 300_002


def test_a_wrong_encoding_is_refused() -> None:
    assert "line 2: byte 0xEB is not valid utf-8" in error_of("a,b\nZoë,y\n".encode("latin-1"), encoding="utf-8").what
    assert "middle of a character" in error_of(codecs.BOM_UTF16_LE + "a,b\n1,2\n".encode("utf-16-le")[:-1]).what


def test_an_open_quote_is_refused() -> None:
    error = error_of(b'name,city\nx,y\nz,"open\nx,y\nx,y\n')
    assert "line 3: a quote" in error.what
    assert "line 2: a quote" in error_of(b'\n"name,city\nx,y\n').what
    error = error_of(b'name, city\nx, y\nz, "open\nx, y\n')
    assert "line 3" in error.what
    assert rows_of(open_bytes(b'name,city\nx,"closed\n"\n')) == [("x", "closed\n")]
    assert rows_of(open_bytes(b'name,city\nx,"5"" and\n""\n"\n')) == [("x", '5" and\n"\n')]


def test_an_open_quote_in_a_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csvread, "CHUNK", 1 << 12)
    monkeypatch.setattr(csvread, "_BLOCK_PER_COLUMN", 1)
    data = b"name,city\n" + b"x,y\n" * 2000 + b'z,"open\n' + b"x,y\n" * 5000
    assert "line 2002: a quote" in error_of(data).what


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "hold no bytes"),
        (b"\n \n\n", "only blanks"),
        (codecs.BOM_UTF8, "only blanks"),
        (b"name,city,name \nx,y,z\n", "two columns are called 'name' (columns 1 and 3)"),
        (bytes(range(256)) * 20, "binary"),
        (b"\x00" * 100, "binary"),
        (b"PK\x03\x04\x14\x00", "Excel"),
        (b"%PDF-1.4\n", "PDF"),
        (b"SQLite format 3\x00", "SQLite"),
        (b'[{"name": 1}]', "JSON"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (gzip.compress(gzip.compress(b"a,b\n1,2\n", mtime=0), mtime=0), "compressed twice"),
        (gzip.compress(b"name,city\n" + b"x,y\n" * 1000, mtime=0)[:-20], "gzip data end too early"),
        (gzip.compress(b"name,city\nx,y\n", mtime=0)[:12] + b"garbage!" * 4, "gzip data are damaged"),
        (bz2.compress(b"name,city\n" + b"x,y\n" * 1000)[:-20], "bzip2 data end too early"),
        (pa.compress(b"name,city\n" + b"x,y\n" * 100, codec="zstd", asbytes=True)[:-5], "zstd data end too early"),
        (b"PAR1 not really", "not readable as parquet"),
        (b"ARROW1\0\0 not really", "not readable as arrow"),
        (b"\xff\xff\xff\xff\x08\0\0\0 not", "not readable as arrow-stream"),
    ],
)
def test_what_is_no_table_is_refused(data: bytes, what: str) -> None:
    assert what in error_of(data).what


def test_gzip_members_one_after_the_other() -> None:
    assert rows_of(open_bytes(gzip.compress(b"name,city\nx,y\n", mtime=0) + gzip.compress(b"z,w\n", mtime=0))) == [
        ("x", "y"),
        ("z", "w"),
    ]


@pytest.mark.parametrize(("text", "parsed"), [("tab", "\t"), ("\\t", "\t"), (";", ";"), ("Comma", ","), ("\t", "\t")])
def test_delimiter_option(text: str, parsed: str) -> None:
    assert parse_delimiter(text) == parsed


@pytest.mark.parametrize("text", ["", "ab", '"', "\n", "x", "::"])
def test_wrong_delimiter_option(text: str) -> None:
    with pytest.raises(UsageError, match="--delimiter"):
        parse_delimiter(text)


@pytest.mark.parametrize("text", ["", "utf-9", "rot13", "zip", "hex", "undefined", "a\0b"])
def test_wrong_encoding_option(text: str) -> None:
    with pytest.raises(UsageError, match="--encoding"):
        parse_encoding(text)


def test_encoding_of_a_cut_sample() -> None:
    data = ("name\n" + "é" * 10).encode()
    assert detect_encoding(data[:-1], complete=False) == ("utf-8", False)
    assert detect_encoding(data[:-1], complete=True)[0] != "utf-8"


def test_the_checked_pass_counts_lines_across_blocks() -> None:
    database = open_bytes(b"name,city\r\nx,y\r\n")
    content = database._stored[0]
    assert as_file(utf8_blocks(content, None, "utf-8", check=True)).read() == b"name,city\r\nx,y\r\n"


def test_a_backslash_before_a_named_delimiter_is_no_escape() -> None:
    assert rows_of(open_bytes(b'"path"~"x"\n"C:\\"~"y"\n', delimiter="~")) == [("C:\\", "y")]
