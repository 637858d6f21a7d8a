"""Helpers for tests that merge real files with the installed command."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

MISSING = {"", "na", "n/a", "null", "none", "nan", "?", "-", "unknown"}


@dataclass(frozen=True)
class Merged:
    """What a run printed, and its tables by name."""

    directory: Path
    errors: str

    def table(self, name: str) -> pd.DataFrame:
        return pd.read_parquet(self.directory / f"{name}.parquet")

    @property
    def summary(self) -> dict:
        return json.loads((self.directory / "summary.json").read_text(encoding="utf-8"))


def merge(vber: str, out: Path, *arguments: str | Path) -> Merged:
    """Run `vber merge`, which must succeed."""
    done = subprocess.run(
        [vber, "merge", *map(str, arguments), "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return Merged(out, done.stderr)


def rows_of(file: Path) -> tuple[list[str], list[list[str]]]:
    with file.open(newline="", encoding="utf-8") as text:
        header, *rows = csv.reader(text)
    return header, rows


def write_rows(file: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return file


def subset(files: Sequence[Path], folder: Path, keep: Callable[[str], bool]) -> list[Path]:
    """The files with only those rows whose first cell, the id, is to be kept."""
    out = []
    for file in files:
        header, rows = rows_of(file)
        out.append(write_rows(folder / file.name, header, [row for row in rows if keep(row[0])]))
    return out


def input_values(files: Sequence[Path]) -> pd.DataFrame:
    """Database, row, field and value of every cell that holds one; the first column is the id."""
    parts = []
    for file in files:
        frame = pd.read_csv(file, dtype=str, keep_default_na=False).iloc[:, 1:]
        long = frame.reset_index(names="row").melt(id_vars="row", var_name="field", value_name="value")
        parts.append(long[~long["value"].str.strip().str.lower().isin(MISSING)].assign(database=file.stem))
    return pd.concat(parts, ignore_index=True)


def check_phi(merged: Merged, n_records: int) -> None:
    """Rows of every record add up to 1, the one of the null individual included."""
    phi = merged.table("phi")
    assert (phi["phi"] > 0).all()
    total = phi.groupby(["database", "row"], observed=True)["phi"].sum()
    assert len(total) == n_records
    assert (total - 1.0).abs().max() < 1e-6
    assert phi["probability"].between(0.0, 1.0).all()


def as_read(values: pd.Series) -> pd.Series:
    return values


def as_compared(values: pd.Series) -> pd.Series:
    """Spellings that differ in case, punctuation or leading zeros only are one value."""
    return values.str.casefold().str.replace("'", "").str.replace(r"[\W_]+", " ", regex=True).str.strip(" 0")


def check_lambda(
    merged: Merged, files: Sequence[Path], form_of: Callable[[pd.Series], pd.Series] = as_compared
) -> None:
    """What λ has beyond its prior is the φ of the records that show the value, read from the files anew."""
    phi = merged.table("phi").dropna(subset="individual").astype({"database": str, "individual": "int64"})
    cells = input_values(files).merge(phi, on=["database", "row"])
    keys = ["individual", "field", "value"]
    expected = cells.assign(value=form_of(cells["value"])).groupby(keys)["phi"].sum()
    lam = merged.table("lambda").astype({"field": str})
    unseen = lam[lam["value"].isna()]
    assert (unseen["lam"] - unseen["prior"]).abs().max() < 1e-9
    seen = lam.dropna(subset="value")
    found = seen.assign(value=form_of(seen["value"]), c=seen["lam"] - seen["prior"]).groupby(keys)["c"].sum()
    difference = found.sub(expected, fill_value=0.0).abs()
    assert len(difference) > 0
    assert difference.max() < 1e-6  # what is below 1e-6 is in λ and not in the table of φ
    share = lam.groupby(["individual", "field"])["probability"].sum()
    assert (share - 1.0).abs().max() < 1e-9


def check_trace(merged: Merged) -> None:
    """The bound never falls, and ends where the summary says."""
    trace = merged.table("trace")
    bound = trace["bound"].to_numpy()
    assert (bound[1:] >= bound[:-1] - 1e-9 * abs(bound[:-1])).all()
    summary = merged.summary["bound"]
    assert bound[-1] == summary["bound"]
    assert trace["elbo"].iloc[-1] == summary["elbo"]
    assert summary["converged"] is True


def check_individuals(merged: Merged, n_records: int) -> None:
    """Individuals and assignments tell the same story, for every record."""
    assignments, individuals = merged.table("assignments"), merged.table("individuals")
    assert len(assignments) == n_records
    assert individuals["individual"].is_unique
    assert individuals["n_records"].sum() == n_records
    size = assignments.groupby("individual").size()
    assert size.to_dict() == individuals.set_index("individual")["n_records"].to_dict()
    databases = assignments.astype({"database": str}).groupby("individual")["database"].nunique()
    assert databases.to_dict() == individuals.set_index("individual")["n_databases"].to_dict()
    assert assignments["probability"].between(0.0, 1.0).all()
    summary = merged.summary
    assert summary["n_individuals"] == len(individuals)
    assert sum(item["n_records"] for item in summary["inputs"]) == n_records


def check_links(merged: Merged) -> None:
    """Links are pairs of records that exist, probable ones are together and improbable ones apart."""
    links, assignments = merged.table("links"), merged.table("assignments")
    assert merged.summary["n_links"] == len(links)
    assert links["probability"].between(0.01, 1.0).all()
    assert links["probability"].is_monotonic_decreasing
    place = assignments.astype({"database": str}).set_index(["database", "row"])
    ends = []
    for side in "ab":
        index = pd.MultiIndex.from_arrays([links[f"database_{side}"].astype(str), links[f"row_{side}"]])
        end = place.loc[index]
        assert (end["record_id"].to_numpy() == links[f"id_{side}"].to_numpy()).all()
        ends.append(end["individual"].to_numpy())
    together = ends[0] == ends[1]
    pairs = links[["database_a", "row_a", "database_b", "row_b"]].astype(str)
    assert not pairs.duplicated().any()
    # two records that are more than likely the same are together unless a third one speaks against it
    p = links["probability"].to_numpy()
    assert (~together[p > 0.9]).sum() <= 0.01 * (p > 0.9).sum()
    assert together[p < 0.1].sum() <= 0.01 * (p < 0.1).sum()
    # whoever is with another record has a link to one
    size = assignments.groupby("individual")["individual"].transform("size")
    linked = pd.concat(
        [
            links.loc[together, [f"database_{side}", f"row_{side}"]].set_axis(["database", "row"], axis=1)
            for side in "ab"
        ]
    ).astype({"database": str})
    wanted = assignments.loc[size > 1, ["database", "row"]].astype({"database": str})
    assert set(map(tuple, wanted.to_numpy().tolist())) <= set(map(tuple, linked.to_numpy().tolist()))


def partition(merged: Merged) -> dict[tuple[str, str], int]:
    """Individual of every record, by database and id."""
    found = merged.table("assignments").astype({"database": str})
    return dict(zip(zip(found["database"], found["record_id"], strict=True), found["individual"], strict=True))
