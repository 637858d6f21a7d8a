"""Parquet and Arrow files to batches of text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.io.bytestream import Content

_BATCH_ROWS = 1 << 16
TEXT = pa.dictionary(pa.int32(), pa.string())


class ArrowTable:
    """One Parquet file, Arrow file or Arrow stream.

    Parameters
    ----------
    content
        The uncompressed bytes.
    kind
        "parquet", "arrow" (the file format) or "arrow-stream".

    Raises
    ------
    InputError
        The file is damaged.
    """

    def __init__(self, content: Content, kind: str) -> None:
        self.content = content
        self.kind = kind
        with self._reading():
            self.schema = self._schema()
            names = self.schema.names
        self.columns = tuple(name.strip() for name in names)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, with these columns as dictionary-encoded strings.

        Raises
        ------
        InputError
            A column holds lists, structures or bytes, or the file is damaged.
        """
        numbers = [self.columns.index(name) for name in columns]
        for name, i in zip(columns, numbers, strict=True):
            check_type(self.content.label, name, self.schema.field(i).type)
        with self._reading():
            for batch in self._stored_batches(numbers):
                if batch.num_rows == 0:
                    continue
                if not columns:
                    yield batch
                    continue
                if self.kind != "parquet":
                    # Arrow takes the offsets of its own formats on trust, and reads wherever damaged ones point.
                    for array, name in zip(batch.columns, columns, strict=True):
                        _check_buffers(array, self.content.label, name)
                arrays = [
                    as_text(array, self.content.label, name) for array, name in zip(batch.columns, columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            raise InputError(
                f"{self.content.label}: is not readable as {self.kind} ({reason}).",
                "Write or download the file again; it may be damaged or incomplete.",
            ) from error

    def _source(self) -> Any:
        path = self.content.path
        return pa.memory_map(os.fsencode(path)) if path is not None and self.content.n_bytes else self.content.open()

    def _schema(self) -> pa.Schema:
        with self._source() as source:
            if self.kind == "parquet":
                from pyarrow import parquet

                return parquet.ParquetFile(source).schema_arrow
            opener: Callable[[Any], Any] = pa.ipc.open_file if self.kind == "arrow" else pa.ipc.open_stream
            return opener(source).schema

    def _stored_batches(self, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        names = [self.schema.names[i] for i in numbers]
        with self._source() as source:
            if self.kind == "parquet":
                from pyarrow import parquet

                texts = [name for name in names if _is_string(self.schema.field(name).type)]
                file = parquet.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
                # No columns asked for: still say how many rows there are.
                for batch in file.iter_batches(_BATCH_ROWS, columns=names or self.schema.names[:1]):
                    yield batch.select(names) if names else batch
            elif self.kind == "arrow":
                reader = pa.ipc.open_file(source)
                for i in range(reader.num_record_batches):
                    yield from _pieces(_select(reader.get_batch(i), names))
            else:
                for batch in pa.ipc.open_stream(source):
                    yield from _pieces(_select(batch, names))


def _select(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    return batch.select(list(names)) if names else batch


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(start, _BATCH_ROWS)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view")


def _value_type(kind: pa.DataType) -> pa.DataType:
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def check_type(label: str, column: str, kind: pa.DataType) -> None:
    """Raise InputError where values of this type have no plain text form."""
    value = _value_type(kind)
    if pa.types.is_nested(value):
        what = "nested values"
    elif (
        pa.types.is_binary(value)
        or pa.types.is_large_binary(value)
        or pa.types.is_fixed_size_binary(value)
        or str(value) == "binary_view"
    ):
        what = "bytes"
    elif pa.types.is_duration(value) or str(value).endswith("interval"):
        # Arrow has three kinds of interval; pyarrow has arrays of one, and tells it from the others by its name only.
        what = "durations"
    else:
        return
    raise InputError(
        f"{label}: column {column!r} holds {what} ({value}), which are no field values.",
        f"Leave it out with --exclude {column}, or store it as text.",
    )


def _check_buffers(array: pa.Array, label: str, column: str) -> None:
    """Raise InputError where text is not valid UTF-8, ArrowInvalid where offsets or indices point outside."""
    kind = array.type
    try:
        array.validate(full=_is_string(_value_type(kind)) or kind != _value_type(kind))
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise _not_utf8(label, column) from error
        raise


def _not_utf8(label: str, column: str) -> InputError:
    return InputError(
        f"{label}: column {column!r} holds text that is not valid UTF-8.",
        f"Write the file again with proper text, or leave it out with --exclude {column}.",
    )


def as_text(array: pa.Array, label: str, column: str) -> pa.DictionaryArray:
    """Turn any plain column into dictionary-encoded text.

    Integers, booleans (true, false), dates and times (ISO 8601) and decimals as Arrow writes them, floats in their
    shortest exact form ("1.0"); null and NaN are null.

    Parameters
    ----------
    array
        One column of a batch.
    label, column
        Named in errors.

    Returns
    -------
    DictionaryArray
        int32 indices into a string dictionary.

    Raises
    ------
    InputError
        Text is not valid UTF-8.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array)
    values = _text_of_values(array.dictionary, label, column)
    indices = array.indices.cast(pa.int32())
    if values.null_count:
        return pc.dictionary_encode(values.take(indices))
    return pa.DictionaryArray.from_arrays(indices, values)


def _text_of_values(values: pa.Array, label: str, column: str) -> pa.StringArray:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_text(values, label, column).cast(pa.string())
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False)
        missing = np.isnan(numbers)
        return pa.array(numbers.astype(str).astype(object), pa.string(), mask=missing)
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring_regex(values.cast(pa.string()), r"^([-+0-9]+) ", r"\1T")
        text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+($|[-+Z])", r"\1\2")
        text = pc.replace_substring_regex(text, r"\.($|[-+Z])", r"\1")
        return pc.replace_substring_regex(text, r"([-+][0-9]{2})([0-9]{2})$", r"\1:\2") if kind.tz else text
    if pa.types.is_time(kind):
        text = pc.replace_substring_regex(values.cast(pa.string()), r"(\.[0-9]*?)0+$", r"\1")
        return pc.replace_substring_regex(text, r"\.$", "")
    text = values.cast(pa.string())
    if _is_string(kind):
        try:
            text.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _not_utf8(label, column) from error
    return text
