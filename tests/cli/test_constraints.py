"""Constraints from files to files: every table keeps to them, and what cannot be is refused in two lines."""

from __future__ import annotations

import itertools
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.merging import (
    Merged,
    check_individuals,
    check_lambda,
    check_phi,
    check_trace,
    merge,
    partition,
    rows_of,
    write_rows,
)

N_RECORDS, N_DATABASES = 180, 3


@pytest.fixture(scope="module")
def files(vber: str, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three simulated databases, whose ids differ from each other."""
    folder = tmp_path_factory.mktemp("constraints")
    sizes = ["--records", str(N_RECORDS), "--databases", str(N_DATABASES), "--individuals", "80", "--seed", "5"]
    subprocess.run([vber, "simulate", str(folder / "drawn"), *sizes], check=True, capture_output=True)
    out = []
    for i, path in enumerate(sorted((folder / "drawn").glob("*.csv"))):
        if path.stem != "truth":
            header, rows = rows_of(path)
            out.append(
                write_rows(
                    folder / f"list{'abc'[i]}.csv", ["id", *header[1:]], [[f"{'abc'[i]}{r[0]}", *r[1:]] for r in rows]
                )
            )
    return out


@pytest.fixture(scope="module")
def free(vber: str, files: list[Path]) -> Merged:
    return merge(vber, files[0].parent / "free", *files)


def members(merged: Merged) -> dict[str, set[int]]:
    """The individuals that each record leans on in φ, by id."""
    phi = merged.table("phi").dropna(subset="individual")
    return phi.groupby("record_id")["individual"].agg(set).to_dict()


def link_probability(merged: Merged) -> dict[frozenset[str], float]:
    links = merged.table("links")
    return dict(zip(map(frozenset, zip(links["id_a"], links["id_b"], strict=True)), links["probability"], strict=True))


def check(merged: Merged, files: list[Path], may: Callable[[str, str], bool]) -> None:
    """All tables are sound, and no pair that may not be one individual is, is linked, or shares an individual of φ."""
    check_phi(merged, N_RECORDS)
    check_lambda(merged, files)
    check_trace(merged)
    check_individuals(merged, N_RECORDS)
    place, leans, linked = partition(merged), members(merged), link_probability(merged)
    individual = {record_id: k for (_, record_id), k in place.items()}
    for a, b in itertools.combinations(sorted(individual), 2):
        if not may(a, b):
            assert individual[a] != individual[b]
            assert frozenset((a, b)) not in linked
            assert not leans.get(a, set()) & leans.get(b, set())


def pairs_file(path: Path, pairs: list[tuple[str, str]]) -> Path:
    return write_rows(path, ["id_a", "id_b"], pairs)


def test_link_and_no_duplicates_and_dedupe(vber: str, files: list[Path], free: Merged, tmp_path: Path) -> None:
    assert any(a[0] == b[0] for a, b in map(sorted, link_probability(free)))  # there is something to forbid
    linked = merge(vber, tmp_path / "link", *files, "--link")
    check(linked, files, lambda a, b: a[0] != b[0])
    assert linked.summary["n_links"] > 0
    assert linked.summary["n"]["low"] >= max(item["n_records"] for item in linked.summary["inputs"])
    one = merge(vber, tmp_path / "one", *files, "--no-duplicates", "listb")
    check(one, files, lambda a, b: not a[0] == b[0] == "b")
    within = link_probability(one)
    assert any(a[0] == b[0] != "b" for a, b in map(sorted, within))
    dedupe = merge(vber, tmp_path / "dedupe", *files, "--dedupe")
    check(dedupe, files, lambda a, b: a[0] == b[0])
    assert dedupe.summary["n_links"] > 0
    found = [run.summary["constraints"] for run in (linked, one, dedupe, free)]
    assert [len(each["databases_without_duplicates"]) for each in found] == [3, 1, 0, 0]
    assert [each["within_databases_only"] for each in found] == [False, False, True, False]


def test_decided_pairs_hold_and_the_order_of_rows_decides_nothing(
    vber: str, files: list[Path], free: Merged, tmp_path: Path
) -> None:
    place = {record_id: k for (_, record_id), k in partition(free).items()}
    said = Counter(tuple(row[1:]) for file in files for row in rows_of(file)[1])
    ids = sorted(row[0] for file in files for row in rows_of(file)[1] if said[tuple(row[1:])] == 1)
    rng = np.random.default_rng(4)
    apart = [pair for pair in itertools.combinations(ids, 2) if place[pair[0]] != place[pair[1]]]
    together = [pair for pair in itertools.combinations(ids, 2) if place[pair[0]] == place[pair[1]]]
    must = [apart[i] for i in rng.choice(len(apart), 3, replace=False)]
    unit = {end for pair in must for end in pair}
    cannot = [pair for pair in together if not unit & set(pair)]
    given = ["--must-link", pairs_file(tmp_path / "must.csv", must)]
    given += ["--cannot-link", pairs_file(tmp_path / "no.csv", cannot), "--phi-min", "1e-12"]
    assert len(cannot) > 3
    merged = merge(vber, tmp_path / "out", *files, *given)
    check(merged, files, lambda a, b: (a, b) not in set(cannot))
    individual = {record_id: k for (_, record_id), k in partition(merged).items()}
    leans, linked = members(merged), link_probability(merged)
    for a, b in must:
        assert individual[a] == individual[b]
        assert linked[frozenset((a, b))] == 1.0
        assert leans[a] == leans[b]
    # what links one record of a unit links them all
    for a, b in must:
        for other in ids:
            if other not in (a, b):
                assert linked.get(frozenset((a, other))) == linked.get(frozenset((b, other)))
    counted = merged.summary["constraints"]
    assert (counted["must_link"]["pairs"], counted["cannot_link"]["pairs"]) == (3, len(cannot))
    assert "3 pairs decided as together" in merged.errors
    shuffled = []
    for file in files:
        header, rows = rows_of(file)
        random.Random(3).shuffle(rows)
        shuffled.append(write_rows(tmp_path / "again" / file.name, header, rows))
    again = merge(vber, tmp_path / "other", *reversed(shuffled), *given, "--threads", "2")
    assert blocks(again, shuffled) == blocks(merged, files)


def blocks(merged: Merged, files: list[Path]) -> Counter[tuple]:
    """The individuals by what their records say: which of two equal records of a list is which is left open."""
    said = {row[0]: (file.stem, *row[1:]) for file in files for row in rows_of(file)[1]}
    out: dict[int, list[tuple]] = {}
    for (_, record_id), individual in partition(merged).items():
        out.setdefault(individual, []).append(said[record_id])
    return Counter(tuple(sorted(block)) for block in out.values())


def test_a_fixed_k_forces_only_what_may_be(vber: str, files: list[Path], tmp_path: Path) -> None:
    sizes = [len(rows_of(file)[1]) for file in files]
    merged = merge(vber, tmp_path / "out", *files, "--link", "--K", str(max(sizes) + 5))
    check(merged, files, lambda a, b: a[0] != b[0])
    assert len(merged.table("individuals")) <= max(sizes) + 5


def test_a_review_and_a_file_without_a_header(vber: str, files: list[Path], free: Merged, tmp_path: Path) -> None:
    ids = [row[0] for row in rows_of(files[0])[1][:6]]
    review = write_rows(
        tmp_path / "review.csv", ["id_a", "id_b", "decision"],
        [[ids[0], ids[1], "yes"], [ids[2], ids[3], "no"], [ids[4], ids[5], ""]],
    )  # fmt: skip
    bare = tmp_path / "bare.csv"
    bare.write_text(f"lista:{ids[4]},{ids[0]}\n{ids[4]},{ids[1]}\n")
    merged = merge(
        vber, tmp_path / "out", *files, "--must-link", review, "--cannot-link", review, "--cannot-link", bare
    )
    individual = {record_id: k for (_, record_id), k in partition(merged).items()}
    assert individual[ids[0]] == individual[ids[1]] != individual[ids[4]]
    assert individual[ids[2]] != individual[ids[3]]
    counted = merged.summary["constraints"]
    assert counted["must_link"]["files"][0]["left_aside"] == 2
    assert [file["pairs"] for file in counted["cannot_link"]["files"]] == [1, 2]
    assert merged.summary["config_digest"] != free.summary["config_digest"]


@pytest.mark.parametrize(
    ("code", "says", "arguments"),
    [
        (3, "row 1: no record has the id 'zz'", ["--must-link", "unknown.csv"]),
        (3, "through others (--must-link), and cannot be", ["--must-link", "p.csv", "--cannot-link", "p.csv"]),
        (3, "both are of a, which has no duplicates", ["--must-link", "p.csv", "--link"]),
        (3, "they are of different databases (--dedupe)", ["--must-link", "q.csv", "--dedupe"]),
        (3, "the id '1' is in 2 databases, a, b", ["--cannot-link", "shared.csv"]),
        (3, "--K 2 is fewer than the 3 individuals", ["--no-duplicates", "a", "--K", "2"]),
        (3, "--K 2: no way was found", ["--cannot-link", "triangle.csv", "--K", "2"]),
        (3, "no such file", ["--must-link", "nowhere.csv"]),
        (2, "there is no database 'aa'", ["--no-duplicates", "aa"]),
        (2, "--dedupe and --no-moves contradict each other", ["--dedupe", "--no-moves", "--K", "4"]),
        (2, "--link and --dedupe contradict each other", ["--link", "--dedupe"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(vber: str, tmp_path: Path, code: int, says: str, arguments: list[str]) -> None:
    texts = {
        "a": "id,name,city\n1,anna,ulm\na2,bert,bonn\na3,carl,trier\n",
        "b": "id,name,city\n1,anna,ulm\nb2,dora,bonn\n",
        "unknown": "id_a,id_b\na2,zz\n",
        "p": "id_a,id_b\na2,a3\n",
        "q": "id_a,id_b\na2,b2\n",
        "shared": "id_a,id_b\n1,a2\n",
        "triangle": "id_a,id_b\na2,a3\na2,b2\na3,b2\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.csv").write_text(text)
    words = [vber, "merge", "a.csv", "b.csv", "-q", *arguments]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines)) == (code, 2), done.stderr
    assert says in lines[0]
    assert not (tmp_path / "vber-out").exists()


def test_link_needs_two_databases(vber: str, files: list[Path], tmp_path: Path) -> None:
    words = [vber, "merge", str(files[0]), "--link", "-q", "-o", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: --link needs two databases, and there is one.")


def test_a_list_without_duplicates_by_itself_is_all_apart(vber: str, files: list[Path], tmp_path: Path) -> None:
    merged = merge(vber, tmp_path / "out", files[0], "--no-duplicates", files[0].stem)
    n = len(rows_of(files[0])[1])
    assert len(merged.table("individuals")) == n
    assert merged.summary["n"]["low"] == merged.summary["n"]["high"] == n
    assert isinstance(merged.table("links"), pd.DataFrame)
    assert len(merged.table("links")) == 0
