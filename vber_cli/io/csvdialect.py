"""How a delimited text is written: encoding, delimiter, quotes, header; found from its first part."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from vber_cli.errors import InputError, UsageError

# The csv module refuses cells over 128 KiB unless told otherwise.
csv.field_size_limit(2**31 - 1)

_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " ", "blank": " "}
_DELIMITERS = ("\t", "|", ";", ",")
_SAMPLE_ROWS = 1000
_LONGEST_NAME = 10_000
_HEADER_WORDS = re.compile(
    r"(^|[^a-z])(id|ids|no|nr|nom|name|names|first|last|given|family|middle|sur|surname|forename|lname|fname|sex|gender"
    r"|age|dob|date|birth|born|day|month|year|city|town|state|country|county|region|province|street|address|addr|zip"
    r"|postcode|postal|code|phone|tel|email|mail|title|type|kind|value|note|notes|key|record|rec|number|num|suburb)"
    r"($|[^a-z])"
)
_DATUM = re.compile(r"[+-]?\d[\d.,\s]*([eE][+-]?\d+)?%?|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
# Encodings whose texts a frequency test tells apart reliably; the Latin ones it confuses with each other.
_NON_LATIN = frozenset(
    "cp1251 koi8_r koi8_u mac_cyrillic iso8859_5 cp1253 iso8859_7 cp1255 iso8859_8 cp1256 iso8859_6 cp874 tis_620 "
    "shift_jis shift_jis_2004 shift_jisx0213 cp932 euc_jp gb2312 gbk gb18030 hz big5 big5hkscs cp950 euc_kr cp949 "
    "johab".split()
)


@dataclass(frozen=True)
class Dialect:
    """How a text is cut into rows and cells.

    Attributes
    ----------
    delimiter, quote
        One character each.
    escape
        Whether a backslash escapes a quote inside quotes.
    skip_blanks
        Whether blanks after a delimiter belong to the delimiter ("a, b, c").
    header
        Whether the first row holds the column names.
    names
        Column names, stripped; column1, column2, ... where there is no header.
    skip_lines, skip_bytes
        Number of physical lines, and of bytes in UTF-8, before the first data row.
    """

    delimiter: str
    quote: str
    escape: bool
    skip_blanks: bool
    header: bool
    names: tuple[str, ...]
    skip_lines: int
    skip_bytes: int


def parse_delimiter(text: str) -> str:
    r"""Read the value of --delimiter: one character, or tab (also \t), comma, semicolon, pipe, space.

    Raises
    ------
    UsageError
        It is not a single character, or one that cannot separate values.
    """
    delimiter = _DELIMITER_NAMES.get(text.lower(), text)
    if len(delimiter) != 1 or delimiter in "\"\r\n\\'" or delimiter.isalnum():
        raise UsageError(
            f"--delimiter {text!r} is not a character that can separate values.",
            "Give one character, or tab, comma, semicolon, pipe or space.",
        )
    return delimiter


def parse_encoding(text: str) -> str:
    """Read the value of --encoding: a name that Python knows as a text encoding.

    Raises
    ------
    UsageError
        There is no such text encoding.
    """
    try:
        info = codecs.lookup(text)
        # A codec that does not turn text into bytes (rot13, zip, hex) fails here.
        if info.name != "undefined" and isinstance("a".encode(text), bytes):
            return "utf-8" if info.name == "ascii" else info.name
    except (LookupError, UnicodeError, ValueError, TypeError):
        pass
    raise UsageError(
        f"--encoding {text!r} is not a known text encoding.", "Use for example utf-8, cp1252, latin-1 or utf-16."
    )


def detect_encoding(head: bytes, *, complete: bool) -> tuple[str, bool]:
    """Find the encoding of a text from its first bytes.

    Parameters
    ----------
    head
        The first bytes, decompressed.
    complete
        Whether they are all there is.

    Returns
    -------
    tuple
        The codec's name, and whether it is a guess (neither a byte order mark nor valid UTF-8 settles it).
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name, False
    start = head[:4096]
    half = len(start) // 2
    if half and start[1::2].count(0) > 0.4 * half and start[0::2].count(0) < 0.05 * half:
        return "utf-16-le", True
    if half and start[0::2].count(0) > 0.4 * half and start[1::2].count(0) < 0.05 * half:
        return "utf-16-be", True
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(head, complete)
    except UnicodeDecodeError:
        return _legacy_encoding(head), True
    return "utf-8", False


def _legacy_encoding(head: bytes) -> str:
    """Guess an 8-bit or East Asian encoding; cp1252 unless the text is clearly in another script."""
    from charset_normalizer import from_bytes

    lines = [line for line in head.splitlines() if not line.isascii()]
    best = from_bytes(b"\n".join(lines)[: 1 << 16]).best()
    if best is not None and best.encoding in _NON_LATIN and best.coherence > 0 and best.chaos < 0.1:
        try:
            codecs.getincrementaldecoder(best.encoding)("strict").decode(head)
            return "cp932" if best.encoding == "shift_jis" else best.encoding
        except UnicodeError:
            pass
    # Bytes that cp1252 leaves undefined mean Latin-1, which accepts everything.
    return "latin-1" if any(byte in head for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)) else "cp1252"


def detect_dialect(label: str, text: str, *, complete: bool, delimiter: str | None, prefer_tab: bool) -> Dialect:
    """Find a text's dialect from its first part.

    Parameters
    ----------
    label
        What messages call the file.
    text
        The first part of the text.
    complete
        Whether that is all of it; otherwise its last row is ignored.
    delimiter
        The delimiter where the user named it.
    prefer_tab
        Whether the file's name says that tabs separate its values.

    Raises
    ------
    InputError
        There is no row at all, a row has a different number of values than the first, or two columns have one name.
    """
    whole = text
    # spreadsheets write this line; what no one separates values by declares nothing
    declared = re.match(r"""\s*sep=(\t|[^\w\x00-\x1f\x7f"'\\])\r?\n""", text)
    n_skipped = 0
    if declared:
        n_skipped = text[: declared.end()].count("\n")
        text = text[declared.end() :]
        delimiter = delimiter or declared[1]
    quote = _quote_of(text)
    escape = _escapes(text, quote, delimiter or "")
    candidates = (delimiter,) if delimiter else _DELIMITERS
    best: tuple[float, int, int] = (-1.0, 0, 0)
    chosen, rows = (delimiter or ("\t" if prefer_tab else ",")), []
    for order, candidate in enumerate(candidates):
        blanks = _blanks_follow(text, candidate)
        parsed = read_rows(text, candidate, quote, escape, blanks, complete)
        width = len(parsed[0][2]) if parsed else 0
        if not parsed or (width == 1 and candidate != chosen):
            continue
        share = sum(len(row) == width for *_, row in parsed) / len(parsed)
        score = (share if width > 1 else 0.0, width, -order)
        if score > best:
            best, chosen, rows = score, candidate, parsed
    if not rows:
        if complete:
            raise InputError(f"{label}: holds no rows, only blank lines.", "Leave the file out, or check its export.")
        raise InputError(
            f"{label}: the first row does not end within {len(text) >> 20} MiB.",
            f"Check whether a quote ({quote}) in it is never closed.",
        )
    skip_blanks = _blanks_follow(text, chosen)
    start, end, first = rows[0]
    if end > start and len(rows) == 1:
        _refuse_open_header(label, text, chosen, quote, start + n_skipped)
    cells = [row for *_, row in rows]
    header = _has_header(cells)
    names = _column_names(label, first) if header else tuple(f"column{i + 1}" for i in range(len(first)))
    for line, _, row in rows[1:]:
        if len(row) != len(first):
            shown = chosen.join(row)
            raise ragged(label, line + n_skipped, len(row), len(first), chosen, header=header, text=shown)
    skip_lines = n_skipped + (end if header else start - 1)
    skip_bytes = sum(len(line.encode()) for line in islice(io.StringIO(whole, newline=""), skip_lines))
    return Dialect(chosen, quote, escape, skip_blanks, header, names, skip_lines, skip_bytes)


def _refuse_open_header(label: str, text: str, delimiter: str, quote: str, line: int) -> None:
    """Refuse a text that is one single row because its first line opens a quote and nothing closes it."""
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quote, strict=True):
            pass
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise open_quote(label, line, quote) from error


def open_quote(label: str, line: int, quote: str) -> InputError:
    """Tell that a quote is opened and never closed."""
    return InputError(
        f"{label}, line {line}: a quote ({quote}) is opened here and never closed.",
        "Close the quote, or double it if it belongs to the value.",
    )


def read_rows(
    text: str, delimiter: str, quote: str, escape: bool, skip_blanks: bool, complete: bool
) -> list[tuple[int, int, list[str]]]:
    """Cut the first rows of a text; blank lines are left out.

    Returns
    -------
    list
        For each row the numbers of its first and last physical lines (1-based) and its cells.
    """
    if sys.version_info < (3, 11):
        # The csv module of old takes no NUL; Arrow, which reads the data, does.
        text = text.replace("\0", " ")
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quotechar=quote,
        escapechar="\\" if escape else None,
        skipinitialspace=skip_blanks,
    )
    parsed = []
    start = 1
    try:
        for row in islice(reader, _SAMPLE_ROWS):
            parsed.append((start, reader.line_num, row))
            start = reader.line_num + 1
    except csv.Error:
        return []
    if not complete and len(parsed) < _SAMPLE_ROWS:
        parsed = parsed[:-1]
    return [(first, last, row) for first, last, row in parsed if row]


def ragged(
    label: str, line: int, n_values: int, n_expected: int, delimiter: str, *, header: bool, text: str
) -> InputError:
    """Tell that a row has a different number of values than there are columns."""
    reference = "the header" if header else "the first row"
    name = {"\t": "a tab", ",": "a comma", ";": "a semicolon", " ": "a blank"}.get(delimiter, repr(delimiter))
    values = "value" if n_values == 1 else "values"
    return InputError(
        f"{label}, line {line}: {n_values} {values} where {reference} has {n_expected}.",
        f"Correct this line (a value that holds the delimiter or a line end needs quotes), "
        f"or name the delimiter with --delimiter if it is not {name}.",
        value=text,
    )


def _quote_of(text: str) -> str:
    """Double quotes, unless there are none and whole values stand in single ones."""
    if '"' in text:
        return '"'
    start = text[:65536].replace("''", "")
    at_edge = len(re.findall(r"^'|(?<=[,;|\t])'|'(?=[,;|\t\r\n])|'\Z", start, re.MULTILINE))
    # an apostrophe put before a formula begins a value, and ends none
    ends = len(re.findall(r"'(?=[,;|\t\r\n])|'\Z", start))
    return "'" if at_edge >= 4 and at_edge >= 0.9 * start.count("'") and ends >= 0.4 * at_edge else '"'


def _escapes(text: str, quote: str, delimiter: str) -> bool:
    r"""Whether quotes inside quotes are written \" (and never "")."""
    edges = re.escape(f",;|\t\r\n{delimiter}")
    inside = re.search(rf"\\{quote}(?![{edges}]|$)", text)
    doubled = re.search(rf"[^{edges}]{quote}{quote}[^{edges}]", text)
    return inside is not None and doubled is None


def _blanks_follow(text: str, delimiter: str) -> bool:
    """Whether a blank follows the delimiters, in the first line without exception."""
    if delimiter.isspace():
        return False
    lines = [line for line in text[:65536].splitlines()[:50] if line.strip()]
    if not lines or delimiter not in lines[0]:
        return False
    n_all = n_blank = 0
    for i, line in enumerate(lines):
        following = re.findall(re.escape(delimiter) + r"(.?)", line.rstrip("\r\n"))
        n_all += len(following)
        n_blank += sum(char in {" ", "", delimiter} for char in following)
        if i == 0 and not all(char == " " for char in following):
            return False
    return n_blank >= 0.9 * n_all


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: it does unless it clearly looks like the rows below it.

    A file without header shows numbers or dates in its first row above more of the same, or a value that comes
    again further down in its column. A usual header word anywhere in the row settles it the other way.
    """
    first = [cell.strip() for cell in rows[0]]
    if any(_HEADER_WORDS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cell).lower()) for cell in first):
        return True
    data = [row for row in rows[1:] if len(row) == len(first)]
    if not data:
        return not any(_DATUM.fullmatch(cell) for cell in first)
    n_data_like = n_again = 0
    for i, cell in enumerate(first):
        below = [value for row in data if (value := row[i].strip())]
        if not cell or not below:
            continue
        alike = sum(_DATUM.fullmatch(value) is not None for value in below) / len(below)
        n_data_like += _DATUM.fullmatch(cell) is not None and alike > 0.8
        n_again += cell in below
    if first in ([value.strip() for value in row] for row in data) and not n_data_like:
        return len(first) > 1 or len({row[0] for row in data}) * 2 > len(data)
    return n_data_like == 0 and n_again == 0


def _column_names(label: str, first: Sequence[str]) -> tuple[str, ...]:
    for i, cell in enumerate(first):
        if len(cell) > _LONGEST_NAME:
            raise InputError(
                f"{label}: the first row should name the columns, and has {len(cell):,} characters in column {i + 1}.",
                "Check whether a quote in it is never closed, and whether the file has a header line.",
            )
    names = [cell.strip() or f"column{i + 1}" for i, cell in enumerate(first)]
    check_names(label, names)
    return tuple(names)


def check_names(label: str, names: Sequence[str]) -> None:
    """Refuse a table that has one column name twice."""
    position: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in position:
            raise InputError(
                f"{label}: two columns are called {name!r} (columns {position[name] + 1} and {i + 1}).",
                "Rename one of them in the file.",
            )
        position[name] = i
