"""Delimited text to Arrow batches: every value is text, exactly as written."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.io.bytestream import CHUNK, Content, as_file, utf8_blocks
from vber_cli.io.csvdialect import Dialect, open_quote, ragged

if TYPE_CHECKING:
    from _csv import Reader

    from pyarrow.csv import ConvertOptions, ParseOptions

_MAX_BLOCK = 1 << 30
# What is larger is no value to compare, but a quote that was never closed, or a trap.
MAX_CELL = 16 << 20
_BLOCK_PER_COLUMN = 1 << 10
_SLOW_ROWS = 20_000
TEXT = pa.dictionary(pa.int32(), pa.string())


class _WholeLineEnds:
    """A file for Arrow's parser whose blocks never part a CR from its LF.

    The parser takes an LF at a block's start for the rest of a line end, even inside quotes. It also drops a byte order
    mark at the start of what it is given; one that stands there belongs to the first value, and is put there twice.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._held = codecs.BOM_UTF8 if file.peek(3).startswith(codecs.BOM_UTF8) else b""

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readable(self) -> bool:
        return True

    def read(self, size: int, /) -> bytes:
        data = self._held + self._file.read(size - len(self._held))
        self._held = b""
        if len(data) > 1 and data.endswith(b"\r"):
            self._held = b"\r"
            return data[:-1]
        return data

    def close(self) -> None:
        self._file.close()


class CsvTable:
    """One delimited file.

    Parameters
    ----------
    content, compression, encoding
        Where the bytes come from and how they become text.
    dialect
        How the text becomes rows.
    """

    def __init__(self, content: Content, compression: str | None, encoding: str, dialect: Dialect) -> None:
        self.content = content
        self.compression = compression
        self.encoding = encoding
        self.dialect = dialect
        self.columns = dialect.names
        self._plain: bool | None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, with these columns as dictionary-encoded strings.

        Blank lines are no rows in a file of several columns; in a file of one column they are empty values.

        Raises
        ------
        InputError
            A row has too few or too many values, a quote is never closed, a byte is not valid in the encoding, a value
        is larger than `MAX_CELL`.
        """
        if self._is_plain():
            yield from self._fast_batches(columns)
        else:
            yield from self._slow_batches(columns)

    def _is_plain(self) -> bool:
        """Whether Arrow's parser understands the dialect: it knows no blanks before an opening quote."""
        if self._plain is None:
            dialect = self.dialect
            quote = dialect.quote.encode()
            self._plain = dialect.delimiter.isascii() and not (
                dialect.skip_blanks and any(quote in block for block in self._blocks())
            )
        return self._plain

    def _blocks(self, *, check: bool = False) -> Iterator[bytes]:
        return utf8_blocks(self.content, self.compression, self.encoding, check=check)

    def _fast_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Let Arrow parse; start again with larger blocks where a cell is larger than a block."""
        n_done = 0
        # Each block costs a little per column, so wide files are read in larger ones.
        block_size = max(CHUNK, _BLOCK_PER_COLUMN * len(columns))
        while True:
            n_seen = 0
            try:
                for batch in self._arrow_batches(columns, block_size):
                    n_new = n_seen + batch.num_rows - n_done
                    n_seen += batch.num_rows
                    if n_new > 0:
                        yield batch.slice(batch.num_rows - n_new) if n_new < batch.num_rows else batch
                        n_done = n_seen
                return
            except pa.ArrowInvalid as error:
                if "straddl" not in str(error):
                    raise self._located(error) from error
                self._refuse_open_quote()
                block_size *= 8
                if block_size > _MAX_BLOCK:
                    raise InputError(
                        f"{self.content.label}: a row is larger than {_MAX_BLOCK >> 30} GiB.",
                        "Check the file's quotes, or leave the row out.",
                    ) from error
            except (pa.ArrowCapacityError, pa.ArrowMemoryError) as error:
                raise InputError(
                    f"{self.content.label}: a batch of rows does not fit into memory ({error}).",
                    "Leave the columns with very large values out with --exclude.",
                ) from error

    def _arrow_batches(self, columns: Sequence[str], block_size: int) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv as arrow_csv

        dialect = self.dialect
        numbers = [dialect.names.index(name) for name in columns]
        last = len(dialect.names) - 1
        with as_file(self._blocks()) as file:
            file.read(dialect.skip_bytes)
            try:
                reader = arrow_csv.open_csv(
                    pa.PythonFile(_WholeLineEnds(file), "r"),
                    read_options=arrow_csv.ReadOptions(
                        block_size=block_size,
                        column_names=[str(i) for i in range(last + 1)],
                    ),
                    parse_options=self._parse_options(),
                    convert_options=self._convert_options(numbers),
                )
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                raise
            with reader:
                tail: pa.RecordBatch | None = None
                for batch in reader:
                    if batch.num_rows == 0:
                        continue
                    tail = batch
                    arrays = [self._trimmed(batch.column(str(i))) for i in numbers]
                    self._refuse_huge(arrays, columns)
                    yield _record_batch(arrays, columns, batch.num_rows)
        if tail is not None:
            # An opening quote without its partner swallows the rest of the file into the last cell.
            value = tail.column(str(last))[-1].as_py()
            ends = value if isinstance(value, bytes) else str(value).encode()
            if b"\n" in ends or b"\r" in ends:
                self._refuse_open_quote()

    def _refuse_huge(self, arrays: Sequence[pa.DictionaryArray], columns: Sequence[str]) -> None:
        """Raise InputError where a value is larger than `MAX_CELL`."""
        for array, column in zip(arrays, columns, strict=True):
            values = array.dictionary
            if values.nbytes > MAX_CELL and (pc.max(pc.binary_length(values)).as_py() or 0) > MAX_CELL:
                raise InputError(
                    f"{self.content.label}: a value of column {column!r} is larger than {MAX_CELL >> 20} MiB.",
                    f"Check for a quote that is never closed, or leave the column out with --exclude {column}.",
                )

    def _parse_options(self) -> ParseOptions:
        from pyarrow import csv as arrow_csv

        return arrow_csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote,
            escape_char="\\" if self.dialect.escape else False,
            newlines_in_values=True,
            ignore_empty_lines=len(self.columns) > 1,
        )

    def _convert_options(self, numbers: Sequence[int]) -> ConvertOptions:
        from pyarrow import csv as arrow_csv

        last = len(self.columns) - 1
        types = {str(i): TEXT for i in numbers}
        types.setdefault(str(last), pa.binary())
        return arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), strings_can_be_null=False, null_values=[]
        )

    def _trimmed(self, array: pa.DictionaryArray) -> pa.DictionaryArray:
        """Take off the blanks before values in this dialect, those at the start of a line as the csv module does."""
        if not self.dialect.skip_blanks:
            return array
        return pa.DictionaryArray.from_arrays(array.indices, pc.utf8_ltrim(array.dictionary, " "))

    def _slow_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Parse with the csv module, for the rare dialects that Arrow does not know."""
        numbers = [self.columns.index(name) for name in columns]
        rows = self._rows()
        tail = ""
        while chunk := [row for _, row in islice(rows, _SLOW_ROWS)]:
            cells = list(zip(*chunk, strict=True))
            arrays = [pa.array(cells[i], pa.string()).dictionary_encode() for i in numbers]
            self._refuse_huge(arrays, columns)
            tail = chunk[-1][-1]
            yield _record_batch(arrays, columns, len(chunk))
        if "\n" in tail or "\r" in tail:
            self._refuse_open_quote()

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the first physical line and the cells of each data row; raises at the first ragged one."""
        dialect = self.dialect
        width = len(self.columns)
        with io.TextIOWrapper(as_file(self._blocks(check=True)), "utf-8", newline="") as text:
            for _ in range(dialect.skip_lines):
                text.readline()
            reader = self._csv_reader(text)
            line = dialect.skip_lines + 1
            try:
                for row in reader:
                    if row or width == 1:
                        cells = row or [""]
                        if len(cells) != width:
                            raise self._ragged(line, cells)
                        yield line, cells
                    line = dialect.skip_lines + reader.line_num + 1
            except csv.Error as error:
                raise InputError(
                    f"{self.content.label}, line {line}: cannot be cut into values ({error}).", "Correct this line."
                ) from error

    def _csv_reader(self, lines: Iterator[str], *, strict: bool = False) -> Reader:
        dialect = self.dialect
        return csv.reader(
            lines,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote,
            escapechar="\\" if dialect.escape else None,
            skipinitialspace=dialect.skip_blanks,
            strict=strict,
        )

    def _ragged(self, line: int, cells: Sequence[str]) -> InputError:
        dialect = self.dialect
        return ragged(
            self.content.label,
            line,
            len(cells),
            len(self.columns),
            dialect.delimiter,
            header=dialect.header,
            text=dialect.delimiter.join(cells),
        )

    def _located(self, error: pa.ArrowInvalid) -> InputError:
        """Find the place of what Arrow has refused: a bad byte or a ragged row."""
        try:
            for _ in self._rows():
                pass
        except InputError as found:
            return found
        return InputError(
            f"{self.content.label}: cannot be read as delimited text.",
            "Name the dialect with --delimiter and --encoding, or save the file as plain CSV.",
            value=str(error),
        )

    def _refuse_open_quote(self) -> None:
        """Raise InputError where the last row opens a quote that is never closed."""
        start = 0
        for line, _ in self._rows():
            start = line
        if start == 0:
            return
        with io.TextIOWrapper(as_file(self._blocks()), "utf-8", newline="") as text:
            for _ in range(start - 1):
                text.readline()
            try:
                for _ in self._csv_reader(text, strict=True):
                    pass
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    raise open_quote(self.content.label, start, self.dialect.quote) from error


def _record_batch(arrays: Sequence[pa.Array], columns: Sequence[str], n_rows: int) -> pa.RecordBatch:
    if not arrays:
        empty = pa.StructArray.from_arrays([pa.nulls(n_rows)], names=["row"])
        return pa.RecordBatch.from_struct_array(empty)
    return pa.RecordBatch.from_arrays(list(arrays), names=list(columns))
