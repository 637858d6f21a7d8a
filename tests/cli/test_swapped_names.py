"""Given name and surname that have changed places, from files to an explanation."""

from __future__ import annotations

import csv
import random
import subprocess

import duckdb
import pytest

PARTS = ["al", "be", "cor", "dan", "el", "fri", "gus", "hol", "ir", "jo", "kar", "lin", "mar", "nor"]
GIVEN = [a + b for a in PARTS[:10] for b in PARTS[4:]]
FAMILY = [a + b + c for a in PARTS for b in PARTS[:6] for c in ("sen", "berg", "man")] + GIVEN[:30]
N_PEOPLE = 300


@pytest.fixture(scope="module")
def merged(vber, tmp_path_factory):
    """300 people, each in two files; one in ten with the names the other way round in the second.

    A given name there that is a surname of someone else is misspelt besides; who has one is returned as well.
    """
    folder = tmp_path_factory.mktemp("swapped")
    rng = random.Random(1)
    files = {"one": [], "two": []}
    misspelt = []
    people = [(rng.choice(GIVEN), rng.choice(FAMILY)) for _ in range(N_PEOPLE)]
    surnames = {family for _, family in people}
    for i, person in enumerate(people):
        given, family = person
        born = f"{rng.randint(1920, 2000)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        files["one"].append([f"a{i}", given, family, born])
        if given != family and i % 10 == 0:
            given, family = family, given
            if family in surnames:
                family = family[:2] + family[3:]
                misspelt.append(i)
        files["two"].append([f"b{i}", given, family, born])
    for name, rows in files.items():
        rng.shuffle(rows)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([["id", "given", "family", "born"], *rows])
    done = subprocess.run(
        [vber, "merge", "one.csv", "two.csv", "--out", "out", "-q"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 0 < len(misspelt) < N_PEOPLE // 20
    return folder, misspelt


def test_they_are_linked(merged):
    folder, misspelt = merged
    rows = duckdb.sql(
        f"select record_id, individual from '{folder}/out/assignments.parquet'"
    ).fetchall()  # fmt: skip
    of = dict(rows)
    together = [of[f"a{i}"] == of[f"b{i}"] for i in range(N_PEOPLE)]
    crossed = [together[i] for i in range(0, N_PEOPLE, 10)]
    assert sum(together) >= 0.98 * N_PEOPLE
    assert sum(crossed) >= 0.9 * len(crossed)
    assert all(together[i] for i in misspelt)


@pytest.mark.parametrize("slip", ["none", "misspelt"])
def test_the_explanation_says_so_and_adds_up(vber, merged, slip):
    folder, misspelt = merged
    swapped = misspelt[0] if slip == "misspelt" else next(i for i in range(0, N_PEOPLE, 10) if i not in misspelt)
    words = [vber, "explain", "out", f"one:a{swapped}", f"two:b{swapped}"]
    told = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "swapped with family" in told
    assert "swapped with given" in told
    checked = subprocess.run([vber, "check", "out"], cwd=folder, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
