"""The model on disk: every number comes back as it was, and what does not fit is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from tests.encode.test_comparison import compared
from vber_cli.encode.codebook import Codebook, Encoded
from vber_cli.encode.comparison import compare
from vber_cli.engine.block_model import Evidence
from vber_cli.engine.learn import Hyperparameters
from vber_cli.errors import InputError
from vber_cli.io.write import ResultDirectory
from vber_cli.model.dependence import Dependence
from vber_cli.model.noise import Noise
from vber_cli.model.prior import make_prior
from vber_cli.model.relations import Relations
from vber_cli.model.similar import Swaps
from vber_cli.model.types import Records
from vber_cli.provenance import Provenance
from vber_cli.results import individuals as tables
from vber_cli.results import model_files
from vber_cli.results.learned_file import model_fields
from vber_cli.results.model_files import read_model, write_model
from vber_cli.results.open_result import OpenResult

NAMES = ("left", "right")
COLUMNS = {
    "row": ["Müller", "MULLER", "Miller", None, "Smith", "Ann, \"B\"", "=1+1", "Smith"],
    "born": ["25/03/1984", "05/04/1971", "30/12/1965", None, "05/04/1971", "03/25/1984", "05/04/1971", "12/30/1965"],
    "empty": [None, "x", None, None, None, None, "y", None],
}  # fmt: skip
DB = [0, 0, 0, 0, 1, 1, 1, 1]


def encode():
    values = [sorted({v for v in column if v is not None}, key=str.encode) for column in COLUMNS.values()]
    codes = np.column_stack(
        [[own.index(v) if v is not None else -1 for v in c] for own, c in zip(values, COLUMNS.values(), strict=True)]
    ).astype(np.int32)
    book = Codebook(tuple(COLUMNS), tuple(pa.array(own, pa.string()) for own in values))
    records = Records(codes, np.array(DB, np.int32), book.n_values)
    row = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    ids = pa.array([f"{'ab'[d]}{r}" for d, r in zip(DB, row, strict=True)])
    return Encoded(records, book, ids, row, np.array([4, 4]), (None, None), ())


def hyperparameters(rng, found, n_classes, n_relations, with_tree):
    f = found.records.n_fields
    prior = make_prior(found.records, "empirical", rng.gamma(0.1, size=f))
    prior = prior.with_base(prior.base * (1 + 1e-13 * rng.random(len(prior.base))))
    noise = Noise(rng.gamma(0.2, size=(n_classes, f)), rng.dirichlet(np.ones(3), (n_classes, f)),
                  rng.dirichlet(np.ones(n_classes)))  # fmt: skip
    relations = Relations(rng.random(n_relations) * 1e-5, rng.dirichlet(np.ones(4), (n_relations, f)))
    tree = Dependence(np.array([-1, 0, 0]), rng.random(f) * 10, rng.dirichlet(np.ones(4), f), rng.random(f))
    twin = np.full(int(found.records.n_values[0]), -1, dtype=np.int32)
    twin[[0, 2]] = [1, 0]
    similar = found.similar.with_swaps(Swaps.of([(0, 2, twin, int(found.records.n_values[2]), 2)]))
    known = dataclasses.replace(tree, drawn=rng.random(found.records.n_records))
    evidence = Evidence(prior, noise, similar, relations, known if with_tree else Dependence.none(f))
    return Hyperparameters(evidence, 5.3, float(rng.normal(3)), tree if with_tree else None)


def write(directory, rng, n_classes=2, n_relations=2, *, with_tree=True, with_records=True):
    encoded = encode()
    found = compare(encoded.records, encoded.codebook, NAMES, {"row": "text", "born": "date"}, 1)
    learned = hyperparameters(rng, found, n_classes, n_relations, with_tree)
    facts = Provenance.of(0, "c" * 64, NAMES, ["1" * 64, "2" * 64]).metadata()
    with ResultDirectory(directory, force=True) as result:
        write_model(result, facts, encoded, found, learned, linked=True, with_records=with_records)
        names = tables.RecordNames(NAMES, encoded.records.db_of_record, encoded.row, encoded.record_id)
        label = np.zeros(8, np.int32)
        ids, p = np.zeros(1, np.int64), np.ones(8)
        table = tables.assignment_table(names, ids, label, p, np.full(8, -1, np.int32), 0 * p)
        result.writer("assignments", table.schema.remove_metadata(), facts).write(table)
        result.write_json("summary.json", {})
        result.commit()
    return encoded, found, learned


def assert_same(one, two):
    """Two dataclasses of arrays, numbers and the like are the same to the last bit."""
    assert type(one) is type(two)
    for item in dataclasses.fields(one):
        a, b = getattr(one, item.name), getattr(two, item.name)
        if dataclasses.is_dataclass(a):
            assert_same(a, b)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, item.name
            np.testing.assert_array_equal(a, b, err_msg=item.name)
        else:
            assert a == b, item.name


@pytest.mark.parametrize("rows", [1, 3, 1 << 20])
@pytest.mark.parametrize(("n_classes", "n_relations", "with_tree"), [(1, 0, False), (3, 2, True)])
def test_every_number_comes_back(tmp_path, rng, monkeypatch, n_classes, n_relations, with_tree, rows):
    monkeypatch.setattr(model_files, "_ROWS_PER_TABLE", rows)  # written in so many tables
    encoded, found, learned = write(tmp_path / "out", rng, n_classes, n_relations, with_tree=with_tree)
    stored = read_model(OpenResult(tmp_path / "out"))
    assert_same(stored.learned, learned)
    assert stored.fields == tuple(COLUMNS) == model_fields(tmp_path / "out")
    assert stored.types == tuple(kind.kind for kind in found.types)
    assert [column.to_pylist() for column in stored.values] == list(COLUMNS.values())
    np.testing.assert_array_equal(stored.records.codes, found.records.codes)
    np.testing.assert_array_equal(stored.records.n_values, found.records.n_values)
    np.testing.assert_array_equal(stored.records.db_of_record, encoded.records.db_of_record)


def test_the_case_has_texts_that_databases_read_differently():
    found = compared({"born": COLUMNS["born"]}, {"born": "date"}, DB)
    assert found.records.codes[1, 0] != found.records.codes[4, 0]  # both 05/04/1971
    assert found.records.codes[0, 0] == found.records.codes[5, 0]


def test_nothing_that_is_learned_is_forgotten():
    """Whoever adds a part to these must write and read it, and add its name here."""
    names = {kind: [item.name for item in dataclasses.fields(kind)] for kind in (Hyperparameters, Evidence)}
    assert names[Hyperparameters] == ["evidence", "n", "log_new", "tree", "present"]
    # constraints are no part of what is learned: the result's options and summary name them
    assert names[Evidence] == ["prior", "noise", "similar", "relations", "dependence", "tilt", "constraints", "near"]


def test_without_records(tmp_path, rng):
    write(tmp_path / "out", rng, with_records=False)
    assert not (tmp_path / "out" / "records.parquet").exists()
    with pytest.raises(InputError, match=r"has no records\.parquet") as caught:
        read_model(OpenResult(tmp_path / "out"))
    assert "--no-records" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("model.json", None, r"has no model\.json"),
        ("model.json", lambda text: text[:100], "not a readable model"),
        ("model.json", lambda text: text.replace("vber model", "another"), "of another format"),
        ("model.json", lambda text: text.replace('"share"', '"shares"'), "is damaged"),
        ("model.json", lambda text: json.dumps({**json.loads(text), "n_forms": [9, 9, 9]}), "is damaged"),
        ("values.parquet", None, r"values\.parquet does not exist"),
    ],
)
def test_a_model_that_is_damaged(tmp_path, rng, name, change, what):
    write(tmp_path / "out", rng)
    path = tmp_path / "out" / name
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=what):
        read_model(OpenResult(tmp_path / "out"))


def test_records_of_another_run(tmp_path, rng, sample_result):
    write(tmp_path / "out", rng)
    shutil.copy(sample_result / "records.parquet", tmp_path / "out")
    with pytest.raises(InputError, match=r"records\.parquet"):
        read_model(OpenResult(tmp_path / "out"))
