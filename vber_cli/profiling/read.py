"""All columns of a database in memory, and again as batches, so that files and pipes are read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.errors import InputError
from vber_cli.io.tables import Database

_TEXT = pa.dictionary(pa.int32(), pa.string())


def read_all(database: Database, on_progress: Callable[[int], None]) -> pa.RecordBatch:
    """Read every row and column.

    Parameters
    ----------
    database
        What to read.
    on_progress
        Called with the number of records of each batch.

    Returns
    -------
    RecordBatch
        Each column dictionary<int32, string>; of a column's dictionary no value is null.

    Raises
    ------
    InputError
        The data cannot be read, or a column's distinct values take more than 2 GiB.
    """
    pieces: list[list[pa.DictionaryArray]] = [[] for _ in database.columns]
    for batch in database.batches(database.columns):
        on_progress(batch.num_rows)
        for own, column in zip(pieces, batch.columns, strict=True):
            own.append(_without_null_values(column))
    columns = [_joined(database.name, name, own) for name, own in zip(database.columns, pieces, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(database.columns))


def batches_in_memory(tables: Sequence[pa.RecordBatch]) -> Callable[[int, Sequence[str]], Iterator[pa.RecordBatch]]:
    """Return what `codebook.encode` reads batches from."""

    def batches_of(d: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield tables[d].select(list(columns)) if columns else tables[d]

    return batches_of


def _without_null_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    if array.dictionary.null_count:
        array = array.dictionary.take(array.indices).dictionary_encode()
    return array.cast(_TEXT)


def _joined(database: str, column: str, pieces: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    if not pieces:
        return pa.array([], _TEXT)
    try:
        whole = pa.chunked_array(pieces, _TEXT).unify_dictionaries()
    except pa.ArrowException as error:
        raise InputError(
            f"{database}: the distinct values of {column!r} take more than 2 GiB ({error}).",
            "Leave the column out of the file.",
        ) from error
    indices = pa.concat_arrays([chunk.indices for chunk in whole.chunks])
    return pa.DictionaryArray.from_arrays(pc.cast(indices, pa.int32()), whole.chunk(0).dictionary)
