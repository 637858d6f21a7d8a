"""Joining a result with a truth file."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vber_cli.errors import InputError
from vber_cli.results.evaluate import evaluate
from vber_cli.results.truth import recognise_columns

# Two databases that share their ids; individuals 0 = {a1, b1}, 1 = {a2}, 2 = {a3, b2}, 3 = {b3}.
RECORDS = [
    ("clinic", 0, "1", 0), ("clinic", 1, "2", 1), ("clinic", 2, "03", 2),
    ("police", 0, "1", 0), ("police", 1, "2", 2), ("police", 2, "x", 3),
]  # fmt: skip
LINKS = [("clinic", 0, "police", 0, 0.9), ("clinic", 2, "police", 1, 0.75), ("clinic", 1, "police", 2, 0.2)]


def write_result(directory, records=RECORDS, links=None, summary=None):
    directory.mkdir(exist_ok=True)
    database, row, record_id, individual = zip(*records, strict=True)
    table = {"database": pa.array(database).dictionary_encode(), "row": row, "record_id": record_id,
             "individual": individual}  # fmt: skip
    pq.write_table(pa.table(table), directory / "assignments.parquet")
    if links is not None:
        columns = list(zip(*links, strict=True)) or [[], [], [], [], []]
        types = [pa.string(), pa.int64(), pa.string(), pa.int64(), pa.float64()]
        names = ["database_a", "row_a", "database_b", "row_b", "probability"]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        pq.write_table(pa.table(arrays, names), directory / "links.parquet")
    if summary is not None:
        (directory / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return directory


TRUTH = "database,record_id,entity\nclinic,1,A\nclinic,2,B\nclinic,03,B\npolice,1,A\npolice,2,C\npolice,x,D\n"


@pytest.fixture
def result(tmp_path):
    return write_result(tmp_path / "out", links=LINKS, summary={"n": {"mean": 4, "low": 3, "high": 5}})


@pytest.fixture
def truth(tmp_path):
    path = tmp_path / "truth.csv"

    def write(text, encoding="utf-8"):
        path.write_text(text, encoding=encoding)
        return str(path)

    return write


def test_everything_by_hand(result, truth):
    found = evaluate(result, truth(TRUTH))
    assert (found.n_records, found.n_truth, found.n_not_in_result) == (6, 6, 0)
    metrics = found.metrics
    assert (metrics.n_found, metrics.n_true, metrics.correct_clusters) == (4, 4, 2)
    assert (metrics.found_pairs, metrics.true_pairs, metrics.correct_pairs) == (2, 2, 1)
    assert (metrics.pairwise.precision, metrics.pairwise.recall) == (0.5, 0.5)
    assert found.interval == (3.0, 5.0)
    calibration = found.calibration
    assert (calibration.n, calibration.n_unlisted) == (4, 1)
    assert calibration.brier == pytest.approx((0.1**2 + 0.75**2 + 0.2**2 + 1) / 4)
    assert json.loads(json.dumps(found.to_dict()))["pairs"] == {"found": 2, "true": 2, "correct": 1}
    assert found.columns == {"database": "database", "record_id": "record_id", "entity": "entity"}


def test_the_order_of_the_truth_and_blanks_do_not_matter(result, truth):
    head, *lines = TRUTH.splitlines()
    other = "\n".join([head, *(line.replace(",", ", ") for line in reversed(lines)), lines[0]])
    assert evaluate(result, truth(other)).metrics == evaluate(result, truth(TRUTH)).metrics


def test_a_sample_of_the_records(result, truth):
    found = evaluate(result, truth("db;id;person\nclinic;1;A\npolice;1;A\npolice;9;Z\nother;1;A\nclinic;2;\n"))
    assert (found.n_truth, found.n_not_in_result, found.metrics.n_records) == (4, 2, 2)
    assert (found.metrics.n_found, found.metrics.n_true, found.interval) == (1, 1, None)
    assert (found.calibration.n, found.calibration.n_unlisted) == (1, 0)
    assert "1 lines without" in found.notes[0]


def test_databases_may_be_named_by_their_files(result, truth):
    found = evaluate(result, truth(TRUTH.replace("clinic,", "data/clinic.csv.gz,")))
    assert found.metrics.n_records == 6


def test_ids_that_databases_share_need_a_database(result, truth):
    with pytest.raises(InputError) as caught:
        evaluate(result, truth("record_id,entity\n1,A\nx,B\n"))
    assert "'1' is in the databases clinic, police" in caught.value.what
    assert "database" in caught.value.fix
    assert evaluate(result, truth("record_id,entity\n03,A\nx,B\n")).metrics.n_records == 2


def test_a_source_column_that_names_no_database_is_not_used(result, truth):
    found = evaluate(result, truth("record_id,source,entity\n03,web,A\nx,web,B\n"))
    assert found.metrics.n_records == 2
    assert "source" in found.notes[0]


def test_the_first_two_columns_without_known_names(result, truth):
    found = evaluate(result, truth("Schlüssel,Wer,Notiz\n03,A,q\nx,B,q\n"))
    assert found.columns == {"record_id": "Schlüssel", "entity": "Wer"}


def test_a_parquet_truth_with_numbers(result, tmp_path):
    path = tmp_path / "truth.parquet"
    pq.write_table(pa.table({"database": ["clinic", "police"], "record_id": [2, 2], "entity": [7, 7]}), path)
    found = evaluate(result, str(path))
    assert (found.metrics.true_pairs, found.metrics.found_pairs) == (1, 0)


def test_one_database_twice_the_same_id(tmp_path, truth):
    directory = write_result(tmp_path / "out", [("a", 0, "1", 0), ("a", 1, "1", 1)])
    with pytest.raises(InputError, match="several records of a have the id '1'"):
        evaluate(directory, truth("id,entity\n1,A\n"))


def test_without_links_there_is_no_calibration(tmp_path, truth):
    found = evaluate(write_result(tmp_path / "out"), truth(TRUTH))
    assert found.calibration is None
    assert found.to_dict()["calibration"] is None
    assert found.interval is None


def test_links_without_rows(tmp_path, truth):
    found = evaluate(write_result(tmp_path / "out", links=[]), truth(TRUTH))
    assert (found.calibration.n, found.calibration.brier) == (2, 1.0)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("database,record_id,entity\nclinic,1,A\nclinic,1,B\n", "record '1' has two entities"),
        ("record_id,entity\n77,A\n78,B\n", "none of its ids"),
        ("record_id\n03\nx\n", "one column"),
    ],
)
def test_a_truth_that_cannot_be_used(result, truth, text, what):
    with pytest.raises(InputError, match=what):
        evaluate(result, truth(text))


def test_a_directory_that_is_no_result(tmp_path, truth):
    with pytest.raises(InputError, match="absent does not exist"):
        evaluate(tmp_path / "absent", truth(TRUTH))
    with pytest.raises(InputError, match=r"assignments\.parquet does not exist"):
        evaluate(tmp_path, truth(TRUTH))
    with pytest.raises(InputError, match="is a file, not a result directory"):
        evaluate(tmp_path / "truth.csv", truth(TRUTH))
    (tmp_path / "assignments.parquet").write_text("no")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        evaluate(tmp_path, truth(TRUTH))
    pq.write_table(pa.table({"database": ["a"]}), tmp_path / "assignments.parquet")
    with pytest.raises(InputError, match="has no column row"):
        evaluate(tmp_path, truth(TRUTH))


def test_links_to_unknown_records(tmp_path, truth):
    directory = write_result(tmp_path / "out", links=[("clinic", 0, "police", 77, 0.5)])
    with pytest.raises(InputError, match="links name records that"):
        evaluate(directory, truth(TRUTH))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["Entity ID", "Rec-ID"], {"record_id": "Rec-ID", "entity": "Entity ID"}),
        (["id", "x"], {"record_id": "id", "entity": "x"}),
        (["x", "cluster"], {"record_id": "x", "entity": "cluster"}),
        (["file", "id", "who"], {"database": "file", "record_id": "id", "entity": "who"}),
        (["source", "who"], {"record_id": "source", "entity": "who"}),
        (["a", "b", "c"], {"record_id": "a", "entity": "b"}),
    ],
)
def test_recognised_columns(columns, expected):
    assert recognise_columns(columns) == expected
