"""The benchmark data: sizes as asked for, reproducible, and wrong where it should be."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import ablations, compare_peers, growth, smered
from benchmarks.generate import WIDTH, Options, assign, generate, misspell
from benchmarks.run import COLUMNS, bench, candidate_recall, measure, reliability, share_listed, table_row
from benchmarks.sets import DataSet, load
from vber_cli.engine import learn, noise_classes, relation_classes


def test_generated_sizes_and_repeatability(tmp_path: Path) -> None:
    options = Options(records=3_000, entities=2_000, databases=3, seed=5)
    files, truth = generate(tmp_path / "a", options)
    again, truth_again = generate(tmp_path / "b", options)
    assert [path.read_bytes() for path in [*files, truth]] == [path.read_bytes() for path in [*again, truth_again]]
    tables = [pd.read_csv(path, dtype=str) for path in files]
    assert sum(map(len, tables)) == 3_000
    known = pd.read_csv(truth, dtype=str)
    assert known["entity"].nunique() == 2_000
    assert not known.duplicated(["database", "record_id"]).any()
    assert sorted(known["record_id"]) == sorted(pd.concat(tables)["rec_id"])


@pytest.mark.parametrize("split_date", [False, True])
def test_without_noise_records_of_one_person_agree(tmp_path: Path, split_date: bool) -> None:
    options = Options(records=2_000, entities=1_500, noise=0.0, split_date=split_date)
    files, truth = generate(tmp_path, options)
    records = pd.concat([pd.read_csv(path, dtype=str) for path in files])
    merged = records.merge(pd.read_csv(truth, dtype=str), left_on="rec_id", right_on="record_id")
    fields = [column for column in records if column != "rec_id"]
    assert not merged[fields].isna().any().any()
    assert (merged.groupby("entity")[fields].nunique() == 1).all().all()


def test_no_duplicates_within_a_database(rng: np.random.Generator) -> None:
    person, database = assign(Options(records=5_000, entities=3_000, databases=3, within=0.0), rng)
    assert len(np.unique(person * 3 + database)) == 5_000
    assert np.bincount(database, minlength=3).min() > 1_000


def test_misspelt_words_are_one_edit_away(rng: np.random.Generator) -> None:
    words = np.array([b"anna", b"x", b"wood", b"ville"] * 500, dtype=f"S{WIDTH}")
    wrong = misspell(words, rng)
    length = np.char.str_len(wrong) - np.char.str_len(words)
    assert set(length) == {-1, 0, 1}
    assert (wrong != words).mean() > 0.8
    for before, after in zip(words.tolist(), wrong.tolist(), strict=True):
        if len(before) == len(after):
            differ = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
            assert len(differ) <= 1 or (len(differ) == 2 and sorted(before) == sorted(after))


def test_public_sets_are_whole(febrl4: DataSet, rldata500: DataSet) -> None:
    assert (febrl4.n_records, febrl4.n_entities, len(febrl4.files)) == (10_000, 5_000, 2)
    assert (rldata500.n_records, rldata500.n_entities) == (500, 450)
    for data in (febrl4, rldata500):
        columns = list(pd.read_csv(data.files[0], dtype=str))
        assert columns[0] == "rec_id"
        assert "soc_sec_id" not in columns


def test_a_measured_process_tells_time_memory_and_code() -> None:
    run = measure(["sh", "-c", "echo wrong >&2; exit 3"], limit=60)
    assert (run.code, run.error) == (3, "wrong")
    assert run.seconds > 0
    assert run.mebibytes > 0
    assert measure(["sleep", "60"], limit=0.05).code is None


def test_failed_cases_keep_their_line() -> None:
    row = {"set": "some", "records": 10, "individuals": None, "error": "exit code 3: a\nb"}
    assert table_row(row).startswith("| some | 10 | – | exit code 3: a |")
    assert table_row(row).count("|") == len(COLUMNS) + 1


def test_a_case_is_run_and_scored(vber: str, rldata500: DataSet, tmp_path: Path) -> None:
    row = bench(vber, "rldata500", rldata500, tmp_path, n_runs=1, deadline=time.monotonic() + 120)
    assert "error" not in row
    assert row["runs"] == 1
    assert table_row(row).count("|") == len(COLUMNS) + 1
    assert table_row(row).startswith("| rldata500 | 500 | 450 |")
    lines = reliability(row)
    assert all(line.startswith("| rldata500 | 0.") and line.count("|") == 6 for line in lines)
    assert sum(int(line.split("|")[3].replace(",", "")) for line in lines) == row["accuracy"]["calibration"]["n"]
    assert reliability({"set": "some", "error": "out of time"}) == []
    assert row["candidate_recall"] == 1.0  # all pairs of so few records are compared
    assert {"read", "compare", "learn", "link", "write"} <= set(row["phases"])


def test_true_pairs_that_are_not_listed_are_missed(tmp_path: Path) -> None:
    truth, links = tmp_path / "truth.csv", tmp_path / "links.parquet"
    truth.write_text("database,record_id,entity\none,1,a\ntwo,1,a\ntwo,3,a\none,2,b\ntwo,2,b\n")
    ends = {"database_a": ["one", "one"], "id_a": ["1", "2"], "database_b": ["two", "two"], "id_b": ["1", "1"]}
    pq.write_table(pa.table(ends), links)
    assert share_listed(links, truth) == 0.25  # one of three pairs of a and one of b; the other one listed is none


def test_sets_that_were_made_before_are_read(vber: str, tmp_path: Path) -> None:
    for name in ("two", "one", "truth"):
        (tmp_path / f"{name}.csv").write_text("database,record_id,entity\none,1,a\ntwo,1,a\none,2,b\n")
    data = load(tmp_path)
    assert [path.name for path in data.files] == ["one.csv", "two.csv"]
    assert (data.truth.name, data.n_records, data.n_entities) == ("truth.csv", 3, 2)
    data.files[0].write_text("no,table\n")
    assert candidate_recall(vber, data, tmp_path / "out", 60.0) is None


def test_pairs_are_scored_as_pairs(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text(
        "database,record_id,entity\n" + "".join(f"d,r{i},e{e}\n" for i, e in enumerate([0, 0, 0, 1, 1, 2]))
    )
    clusters = pd.DataFrame({"rec_id": ["r0", "r1", "r3", "r4", "r5"], "cluster": ["a", "a", "b", "c", "c"]})
    # true pairs 3 + 1, found 2, one of them right; r2 is in no cluster
    score = compare_peers.pairwise(clusters, truth)
    assert (score.precision, score.recall) == (0.5, 0.25)
    assert score.f1 == pytest.approx(1 / 3)


def test_tools_take_turns(vber: str, rldata500: DataSet, tmp_path: Path) -> None:
    rows = compare_peers.compared(vber, rldata500, ["io_floor", "recordlinkage_ecm"], tmp_path, n_rounds=1)
    assert [row["tool"] for row in rows] == ["vber", "io_floor", "recordlinkage_ecm"]
    assert rows[0]["f1"] > 0.95
    assert "f1" not in rows[1]
    assert 0.5 < rows[2]["f1"] < 1.0
    lines = [compare_peers.table_row("rldata500", row, rows[0]["seconds"]) for row in rows]
    assert {line.count("|") for line in lines} == {len(compare_peers.COLUMNS) + 1}
    assert "| vber |" in lines[0]
    assert "| 1.00 |" in lines[0]


def test_parts_are_left_out_of_the_model(rldata500: DataSet, tmp_path: Path) -> None:
    exact, *_, whole = ablations.STAGES
    with ablations.only(exact):
        assert noise_classes.CLASS_COUNTS == (1,)
        assert learn.parts_that_links_change(None, 1) == []
        assert relation_classes.RELATION_COUNTS == (0,)
    with ablations.only(whole):
        assert len(noise_classes.CLASS_COUNTS) > 1
        assert len(relation_classes.RELATION_COUNTS) > 1
    row = ablations.measured(exact, rldata500.files, rldata500.truth, tmp_path)
    line = ablations.table_row("rldata500", row)
    assert line.startswith("| rldata500 | exact values | 450 |")
    assert line.count("|") == len(ablations.COLUMNS) + 1
    with (tmp_path / "result" / "summary.json").open(encoding="utf-8") as file:
        assert {field["type"] for field in json.load(file)["fields"]} == {"category"}


def test_smered_is_run_beside_merge(vber: str, rldata500: DataSet, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(smered.ITERATIONS, "rldata500", 40)
    rows = smered.bench(vber, "rldata500", rldata500, tmp_path, limit=120)
    assert [row["command"].split()[1] for row in rows] == ["merge", "merge", "sample", "sample"]
    assert rows[3]["command"].endswith(f"--K {round(rows[0]['summary']['K']['mean'])}")
    text = smered.report({"rldata500": {"machine": {"cores": 2}, "rows": rows}})
    lines = [line for line in text.splitlines() if line.startswith("| rldata500 | 500 | 450 |")]
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {len(smered.COLUMNS) + 1}
    failed = smered.bench(vber, "rldata500", rldata500, tmp_path, limit=0.01)
    assert [row["error"] for row in failed] == ["not done after 0 s"] * 3
    assert {smered.table_row(row).count("|") for row in failed} == {len(smered.COLUMNS) + 1}


def test_growth_measures_each_number_of_threads(tmp_path: Path) -> None:
    vber = str(Path(sys.executable).parent / "vber")
    rows, within = growth.grown(vber, 400, (1, 2), 1, tmp_path)
    assert within == {"records": 400, "limit": None}  # so few take little but the program itself
    assert growth.held_row(within).count("|") == len(growth.HELD_HEAD) + 1
    assert [(row["records"], row["threads"]) for row in rows] == [(400, 1), (400, 2)]
    assert all(row["same_tables"] for row in rows)
    assert all(0.0 < float(str(row["inference_seconds"])) < float(str(row["seconds"])) for row in rows)
    assert growth.table_row(rows[0]).count("|") == len(growth.HEAD) + 1
    (line,) = growth.ratios(rows)
    assert line.startswith("- 400 records: inference ")
    (tmp_path / "out1" / "links.parquet").unlink()
    table = pq.read_table(tmp_path / "out2" / "links.parquet")
    pq.write_table(table.slice(1), tmp_path / "out1" / "links.parquet")
    assert not growth.same_tables(tmp_path / "out1", tmp_path / "out2")


def test_growth_measures_a_merge_within_less_memory(tmp_path: Path) -> None:
    vber = str(Path(sys.executable).parent / "vber")
    files, _ = generate(tmp_path, Options(records=400, entities=300))
    paths = [str(path) for path in files]
    free = tmp_path / "free"
    assert measure([vber, "merge", *paths, "--out", str(free), "-q"], 600).code == 0
    row = growth.held(
        vber, paths, {"records": 400, "threads": 1, "mebibytes": 4000, "seconds": 2.0}, free, tmp_path / "held"
    )
    assert row["limit"] == 1600
    assert row["same_tables"]
    assert 0 < float(str(row["mebibytes"])) < 1600
    assert growth.held_row(row).count("|") == len(growth.HELD_HEAD) + 1


def test_memory_is_measured_without_what_the_parent_holds() -> None:
    held = bytearray(500_000_000)
    run = measure([sys.executable, "-c", "import time; time.sleep(0.3)"], 60)
    assert 0 < run.mebibytes < 200 < len(held)
