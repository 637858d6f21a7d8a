"""What a bounded, seeded sample of the records shows: how columns relate, which fields depend on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.candidates.join import PAIRS_PER_RECORD
from vber_cli.encode.codebook import Codebook, Encoded
from vber_cli.encode.comparison import compare
from vber_cli.encode.dates import DateReading
from vber_cli.encode.types import FieldType
from vber_cli.engine.block_model import block_model
from vber_cli.engine.candidate_pairs import with_levels
from vber_cli.engine.dependence_tree import learn_tree
from vber_cli.engine.infer import first_guess
from vber_cli.engine.learn import Settings, possible_levels
from vber_cli.learning import Candidates
from vber_cli.model.constraints import NO_CONSTRAINTS
from vber_cli.model.occupancy import Occupancy
from vber_cli.model.order import canonical_order, in_order
from vber_cli.model.prior import make_prior
from vber_cli.model.types import LongArray, Records
from vber_cli.profiling.columns import ColumnValues
from vber_cli.profiling.overlap import ColumnSample
from vber_cli.profiling.profile import TreeEdge
from vber_cli.running import n_cores

RECORDS = 10_000  # of all databases, from which the tree is learned; so many are still compared pair by pair
ROWS = 10_000  # of each database, by which columns are compared
MOST_COLUMNS = 40  # of each database, that are compared with each other; and fields that the tree is learned of


@dataclass(frozen=True)
class SampleFindings:
    """What was learned from `n_records` records: the tree, and the number of their candidate pairs."""

    tree: tuple[TreeEdge, ...]
    n_records: int
    n_pairs: int


def sampled_rows(n_rows: int, seed: int, database: int) -> LongArray:
    """(min(n_rows, ROWS),) int64 rows in random order."""
    return np.random.default_rng([seed, 71, database]).permutation(n_rows)[:ROWS].astype(np.int64)


@dataclass(frozen=True)
class ComparedColumn:
    """A column, and how its values are compared."""

    database: int
    name: str
    values: ColumnValues
    kind: FieldType
    dates: DateReading | None


def column_samples(columns: Sequence[ComparedColumn], seed: int) -> list[ColumnSample]:
    """Values of columns in the same sampled rows of each database, numbered through all of them.

    Parameters
    ----------
    columns
        The columns.
    seed
        Of the sampled rows.
    """
    if not columns:
        return []
    rows = {one.database: sampled_rows(len(one.values.codes), seed, one.database) for one in columns}
    forms = [one.values.sampled_forms(rows[one.database], one.kind, one.dates) for one in columns]
    distinct = pc.unique(pa.concat_arrays(forms)).drop_null()
    return [
        ColumnSample(
            one.database, one.name, one.kind.kind,
            pc.fill_null(pc.index_in(form, distinct), -1).to_numpy(zero_copy_only=False).astype(np.int64),
        )
        for one, form in zip(columns, forms, strict=True)
    ]  # fmt: skip


def sample_records(encoded: Encoded, seed: int) -> tuple[Records, Codebook]:
    """A random sample of the records that does not depend on the order of rows, and the values that occur in it.

    Fields without a value in the sample are left out, and of many fields all but the first.
    """
    records = encoded.records
    n = records.n_records
    chosen = np.random.default_rng([seed, 72]).permutation(n)[:RECORDS]
    rows = np.sort(canonical_order(records)[chosen]) if n > RECORDS else np.arange(n)
    fields, values, columns = [], [], []
    for f, field in enumerate(encoded.codebook.fields[:MOST_COLUMNS]):
        column = records.codes[rows, f]
        used = np.unique(column[column >= 0])
        if len(used):
            fields.append(field)
            values.append(encoded.codebook.values[f].take(pa.array(used)))
            columns.append(np.where(column >= 0, np.searchsorted(used, column), -1).astype(np.int32))
    codebook = Codebook(tuple(fields), tuple(values))
    codes = np.ascontiguousarray(np.column_stack(columns)) if columns else np.empty((len(rows), 0), np.int32)
    return Records(codes, records.db_of_record[rows], codebook.n_values), codebook


def learn_from_sample(
    encoded: Encoded,
    names: Sequence[str],
    kinds: Mapping[str, FieldType],
    asked: Mapping[str, str],
    seed: int,
    threads: int | None,
) -> SampleFindings | None:
    """Learn the dependence tree on a sample, and count its candidate pairs.

    Pairs are candidates by the prior odds of a link among all records, not among those of the sample, so that their
    number can be scaled up.

    Parameters
    ----------
    encoded, names
        All records, and the databases' names.
    kinds, asked
        The fields' types, judged by all records; and those that an option names.
    seed, threads
        The threads have no influence on the result.

    Returns
    -------
    SampleFindings or None
        None with fewer than two records, or without a value.
    """
    sample, codebook = sample_records(encoded, seed)
    if sample.n_records < 2 or sample.n_fields == 0:
        return None
    threads = threads or n_cores()
    # a category that is asked for is compared letter for letter, one that is inferred is not
    told = {field: kind.kind for field, kind in kinds.items() if kind.kind != "category"} | dict(asked)
    compared = compare(sample, codebook, tuple(names), told, threads)
    order = canonical_order(compared.records)
    records = in_order(compared.records, order)
    everything = Occupancy(encoded.records.n_records)
    settings = Settings(everything, True, True, True, seed, threads)
    start = first_guess(records, make_prior(records, "empirical"), compared.similar, settings)
    start = replace(start, log_new=everything.log_new(0.9 * encoded.records.n_records))
    found = Candidates(
        records, compared.key_codes[order], compared.key_field, settings.occupancy, NO_CONSTRAINTS, seed, threads
    ).find(start)
    model = block_model(records, start.evidence)
    pairs = with_levels(model, found)
    tree = learn_tree(
        records, start.evidence, pairs.b, pairs.a, pairs.levels, possible_levels(model),
        Occupancy(records.n_records), seed,
    ).dependence  # fmt: skip
    fields = codebook.fields
    edges = [
        TreeEdge(fields[f], fields[g], float(tree.gain[f] / np.log(2.0))) for f, g in enumerate(tree.parent) if g >= 0
    ]
    edges.sort(key=lambda edge: -edge.gain_bits)
    return SampleFindings(tuple(edges), records.n_records, len(pairs))


def most_pairs(n_records: int) -> int:
    """How many candidate pairs of `n_records` records are kept, at most (about)."""
    return PAIRS_PER_RECORD * n_records
