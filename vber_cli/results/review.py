"""The pairs of records that are most worth a person's decision, as a table to fill in."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from vber_cli.config import MergeOptions
from vber_cli.errors import VberError
from vber_cli.model.types import FloatArray, LongArray
from vber_cli.results.csv_text import csv_chunk, csv_header
from vber_cli.results.explain import read_links
from vber_cli.results.learned_file import model_fields
from vber_cli.results.model_files import read_values
from vber_cli.results.open_result import OpenResult

KEY_COLUMNS = ("id_a", "database_a", "id_b", "database_b", "probability")
DECISION = "decision"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*")


@dataclass(frozen=True)
class Review:
    """Pairs to decide, the most valuable first.

    Attributes
    ----------
    table
        Their columns: both records' names, the probability, each field of both, and an empty decision.
    value
        (n,) float64, the expected loss that deciding each pair takes away.
    n_links
        Pairs in links.parquet.
    loss
        Expected loss of the assignment over all pairs in links.parquet.
    """

    table: pa.Table
    value: FloatArray
    n_links: int
    loss: float

    def csv(self) -> bytes:
        """Return the table as CSV for a spreadsheet, in UTF-8."""
        batches = self.table.combine_chunks().to_batches()
        # spreadsheets take a file for UTF-8 only if it begins with this mark
        return codecs.BOM_UTF8 + csv_header(self.table.column_names) + b"".join(csv_chunk(batch) for batch in batches)


def review(directory: Path, n_pairs: int) -> Review:
    """Choose the pairs whose decision is worth most.

    Parameters
    ----------
    directory
        A result directory with links.parquet, records.parquet and model.json.
    n_pairs
        At most so many.

    Raises
    ------
    InputError
        The directory is no such result.
    """
    result = OpenResult(directory)
    fields = model_fields(directory)
    values = read_values(result, fields)
    a, b, probability = read_links(result)
    loss = _loss(result)
    value = review_value(a, b, probability, result.individual, loss)
    chosen = best_pairs(a, b, value, result.individual, n_pairs)
    sides = [side[chosen] for side in (a, b)]
    names = pa.array(result.databases, pa.large_string())
    columns: list[pa.Array] = []
    for side in sides:
        columns += [
            safe_texts(result.record_id.take(pa.array(side))),
            safe_texts(names.take(pa.array(result.db_of_record[side]))),
        ]
    columns.append(pa.array([f"{p:.6f}" for p in probability[chosen]], pa.large_string()))
    for column in values:
        columns += [safe_texts(column.take(pa.array(side)).cast(pa.large_string())) for side in sides]
    columns.append(pa.nulls(len(chosen), pa.large_string()))
    all_loss = float(wrong_loss(a, b, probability, result.individual, loss).sum())
    return Review(
        pa.table(columns, [safe_text(name) for name in column_names(fields)]), value[chosen], len(a), all_loss
    )


def column_names(fields: Sequence[str]) -> list[str]:
    """Names of the columns; a field whose name is taken gets trailing underscores."""
    taken = {*KEY_COLUMNS, DECISION}
    names = list(KEY_COLUMNS)
    for field in fields:
        free = field
        while f"{free}_a" in taken or f"{free}_b" in taken:
            free += "_"
        names += [f"{free}_a", f"{free}_b"]
        taken |= {f"{free}_a", f"{free}_b"}
    return [*names, DECISION]


def _loss(result: OpenResult) -> tuple[float, float]:
    """The loss that the merge minimised; the default where the summary does not say."""
    options = result.summary.get("options")
    text = options.get("loss") if isinstance(options, dict) else None
    try:
        return MergeOptions(loss=text).loss_weights if isinstance(text, str) else MergeOptions().loss_weights
    except VberError:
        return MergeOptions().loss_weights


def review_value(
    a: LongArray, b: LongArray, probability: FloatArray, individual: LongArray, loss: tuple[float, float]
) -> FloatArray:
    """(P,) float64: the expected loss that a decision on each pair takes away.

    The assignment as it stands is wrong about a pair with probability 1 − p where it puts the records together, and p
    where it keeps them apart; that costs fp or fn for every pair that the decision moves: of two individuals all pairs
    between them, within one all pairs of the record that would leave.
    """
    _, code, size = np.unique(individual, return_inverse=True, return_counts=True)
    size = size[code.ravel()]
    together = individual[a] == individual[b]
    moved = np.where(together, size[a] - 1, size[a] * size[b])
    return np.asarray(wrong_loss(a, b, probability, individual, loss) * moved)


def wrong_loss(
    a: LongArray, b: LongArray, probability: FloatArray, individual: LongArray, loss: tuple[float, float]
) -> FloatArray:
    """(P,) float64: the expected loss of each single pair under the assignment."""
    false_pair, missed_pair = loss
    together = individual[a] == individual[b]
    return np.where(together, false_pair * (1.0 - probability), missed_pair * probability)


def best_pairs(a: LongArray, b: LongArray, value: FloatArray, individual: LongArray, n_pairs: int) -> LongArray:
    """(n,) int64: the pairs of greatest value; between two individuals, and of one record within its own, only one."""
    order = np.lexsort((b, a, -value))
    order = order[value[order] > 0]
    first, second = individual[a[order]], individual[b[order]]
    together = first == second
    low = np.where(together, np.minimum(a[order], b[order]), np.minimum(first, second))
    high = np.where(together, -1, np.maximum(first, second))
    _, once = np.unique(np.column_stack([low, high]), axis=0, return_index=True)
    chosen: LongArray = order[np.sort(once)[:n_pairs]]
    return chosen


def safe_texts(texts: pa.Array) -> pa.Array:
    """Texts that no spreadsheet takes for a formula: those that could be get an apostrophe in front."""
    return pa.array([None if text is None else safe_text(text) for text in texts.to_pylist()], pa.large_string())


def safe_text(text: str) -> str:
    """One such text; numbers stay as they are."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
