"""The merged database is the same, whatever the number of tables it is written in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from vber_cli.encode.codebook import Codebook
from vber_cli.engine.cavi import accumulate, hard_linkage
from vber_cli.model.prior import make_prior
from vber_cli.model.types import Records
from vber_cli.results import individuals as tables

N, N_VALUES = 50, (4, 3)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_individuals_are_those_of_one_table(rng, monkeypatch, step):
    codes = np.stack([rng.integers(-1, v, N) for v in N_VALUES], axis=1).astype(np.int32)
    records = Records(codes, rng.integers(0, 3, N).astype(np.int32), np.array(N_VALUES))
    values = tuple(pa.array([f"{f}{v}" for v in range(n)]).cast(pa.large_string()) for f, n in enumerate(N_VALUES))
    book = Codebook(("one", "other"), values)
    prior = make_prior(records, "empirical", 0.3)
    label = np.unique(rng.integers(0, 20, N), return_inverse=True)[1].astype(np.int32)
    ids = rng.permutation(1000)[: label.max() + 1]
    probability = rng.random(N)
    counts = accumulate(records, prior, hard_linkage(records, label, len(ids)))
    expected = tables.individual_table(book, prior, counts, ids, label, records.db_of_record, probability)
    monkeypatch.setattr(tables, "_INDIVIDUALS_PER_TABLE", step)
    found = list(tables.individual_tables(book, prior, records, ids, label, probability))
    assert [len(table) for table in found[:-1]] == [step] * (len(found) - 1)
    assert pa.concat_tables(found).to_pylist() == expected.to_pylist()
    assert expected.column("individual").to_pylist() == sorted(ids.tolist())
    assert expected.column("n_records").to_pylist() == np.bincount(label)[np.argsort(ids)].tolist()
