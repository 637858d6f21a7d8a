"""Who has moved is no other individual: fields that depend on each other change together, which is one event."""

from __future__ import annotations

import subprocess

import pyarrow.csv as pacsv
import pytest

from tests.cli.merging import merge

# Two or three fields hang together, and are wrong together in a tenth to a third of the records; the others say who it
# is. By set: records, individuals, fields, and what depends on what.
SETS = {
    "no relatives": (
        ["--records", "672", "--individuals", "700", "--seed", "3018"],
        "26:0.29:0.5 47:0.03:0 77:0.035:0.5 63:0.033:0 1104:0.2:0.5 225:0.2:1 4:0.16:1",
        ["f4:f1:0.58", "f5:f4:0.09"],
    ),
    "several trees": (
        ["--records", "682", "--individuals", "1562", "--databases", "2", "--missing", "0.05", "--seed", "3000"],
        "486:0.077:1 1404:0.022:1 1038:0.018:0.5 1465:0.01:1 568:0.1:0 8:0.17:0.5",
        ["f4:f3:0.33", "f5:f2:0.33", "f6:f1:0.65"],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_movers_stay_one_individual(vber, tmp_path, name):
    sizes, fields, depend = SETS[name]
    options = [word for i, text in enumerate(fields.split(), 1) for word in ("--fields", f"f{i}:{text}")]
    options += [word for text in depend for word in ("--depend", text)]
    subprocess.run([vber, "simulate", tmp_path / "made", *sizes, *options, "--typos", "0.05"], check=True)
    files = sorted((tmp_path / "made").glob("db*.csv"))
    result = merge(vber, tmp_path / "out", *files, "-q", "--link-min", "0.001")
    truth = pacsv.read_csv(tmp_path / "made" / "truth.csv").to_pandas()
    n_true = truth["entity"].nunique()
    found = result.summary["n"]
    assert abs(found["mean"] - n_true) < 0.02 * n_true
    entity = dict(zip(truth["record_id"], truth["entity"], strict=True))
    links = result.table("links")
    same = links["id_a"].map(entity).to_numpy() == links["id_b"].map(entity).to_numpy()
    pairs = int((truth.groupby("entity").size() * (truth.groupby("entity").size() - 1) // 2).sum())
    p = links["probability"].to_numpy()
    assert same[p > 0.5].mean() > 0.9
    assert int(same[p > 0.5].sum()) > 0.9 * pairs
