"""Simulated databases as files: made-up words and dates for values, typing errors in them, and the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from vber_cli.model.simulate import Simulation
from vber_cli.model.types import IntArray
from vber_cli.results.csv_text import csv_chunk, csv_header

TRUTH = "truth.csv"
_ID = "id"
_BATCH = 100_000
_CONSONANTS, _VOWELS = "bdfghklmnprstvz", "aeiou"
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
# The years 1900 to 9999 have no more days.
_DAYS = 2_950_000


def write_databases(folder: Path, drawn: Simulation, names: Sequence[str], kind: str, seed: int) -> list[str]:
    """Write the databases and the truth; return the names of the databases' files.

    Parameters
    ----------
    folder
        An empty directory.
    drawn
        What was simulated.
    names
        (F,) the fields' names.
    kind
        csv or parquet.
    seed
        Decides what the typing errors are.
    """
    records = drawn.records
    columns = []
    for f, name in enumerate(names):
        column = _column(records.codes[:, f], name, int(records.n_values[f]), f)
        wrong = np.flatnonzero(drawn.misspelt[:, f])
        columns.append(_misspelt(column, wrong, np.random.default_rng([seed, f])) if len(wrong) else column)
    bounds = np.searchsorted(records.db_of_record, np.arange(records.n_databases + 1))
    entities = pa.array(drawn.z + 1)
    files = []
    with (folder / TRUTH).open("wb") as truth:
        truth.write(csv_header(["database", "record_id", "entity"]))
        for d, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True), start=1):
            ids = pa.array([f"db{d}-{row}" for row in range(1, end - begin + 1)])
            data = [ids, *(column.slice(begin, end - begin) for column in columns)]
            files.append(_write_table(folder / f"db{d}.{kind}", pa.table(data, names=[_ID, *names])))
            of = pa.array([f"db{d}"] * (end - begin))
            rows = pa.table([of, ids, entities.slice(begin, end - begin)], names=["database", "record_id", "entity"])
            for batch in rows.combine_chunks().to_batches(max_chunksize=_BATCH):
                truth.write(csv_chunk(batch))
    return files


def _write_table(path: Path, table: pa.Table) -> str:
    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="zstd")
        return path.name
    with path.open("wb") as out:
        out.write(csv_header(table.column_names))
        for batch in table.combine_chunks().to_batches(max_chunksize=_BATCH):
            out.write(csv_chunk(batch))
    return path.name


def _column(codes: IntArray, name: str, n_values: int, index: int) -> pa.Array:
    """Return one field's values as a dictionary of texts, null where missing."""
    seen, code = np.unique(codes, return_inverse=True)
    absent = codes < 0
    if len(seen) and seen[0] < 0:
        seen, code = seen[1:], code - 1
    indices = pa.array(np.where(absent, 0, code).astype(np.int32), mask=absent)
    texts = pa.array(value_texts(name, n_values, index, seen.tolist()), pa.string())
    return pa.DictionaryArray.from_arrays(indices, texts)


def _misspelt(column: pa.DictionaryArray, wrong: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
    """Return the column with a typing error in some of its values, none of which is missing."""
    texts = column.dictionary.to_pylist()
    indices = column.indices.to_numpy(zero_copy_only=False)
    found = [misspell(texts[int(indices[row])], rng) for row in wrong]
    more = pa.array(found, pa.string()).dictionary_encode()
    changed = np.nan_to_num(indices).astype(np.int32)
    changed[wrong] = len(texts) + more.indices.to_numpy()
    index = pa.array(changed, mask=column.is_null().to_numpy(zero_copy_only=False))
    both = pa.DictionaryArray.from_arrays(index, pa.concat_arrays([column.dictionary, more.dictionary]))
    return both.cast(pa.string()).dictionary_encode()  # an error may have made another value


def misspell(text: str, rng: np.random.Generator) -> str:
    """Return another text: a letter or digit wrong, left out, put in, or two neighbours changed round."""
    while True:
        at, how = int(rng.integers(len(text))), int(rng.integers(4))
        old = text[at]
        letters = _DIGITS if old.isdigit() else _LETTERS
        new = letters[int(rng.integers(len(letters)))]
        if not old.isalnum():
            continue
        head, tail = text[:at], text[at + 1 :]
        found = (head + new + tail, head + tail, head + new + old + tail, head + tail[:1] + old + tail[1:])[how]
        if found not in (text, ""):
            return found


def value_texts(name: str, n_values: int, index: int, codes: Sequence[int]) -> list[str]:
    """Return what the values with these codes are called, different for each.

    Words are six letters long or more and far apart from those of neighbouring codes. A field whose name ends in date
    has dates.

    Parameters
    ----------
    name, n_values, index
        The field's name, how many values it has, and its place among the fields.
    codes
        In 0..n_values - 1.
    """
    if name.casefold().endswith("date"):
        days = np.datetime64("1900-01-01", "D") + np.asarray(codes, dtype=np.int64) % _DAYS
        more = np.asarray(codes, dtype=np.int64) // _DAYS
        return [f"{day}" if not m else f"{day}/{m}" for day, m in zip(days.tolist(), more.tolist(), strict=True)]
    syllables = [c + v for c in _CONSONANTS for v in _VOWELS]
    base, length = len(syllables), 3
    while base**length < 8 * n_values:
        length += 1
    step = int(base**length * 0.6180339887)
    while math.gcd(step, base) != 1:
        step += 1
    words = []
    for code in codes:
        number = ((code + 1) * step + 7919 * index) % base**length
        word = ""
        for _ in range(length):
            number, digit = divmod(number, base)
            word += syllables[digit]
        words.append(word)
    return words
