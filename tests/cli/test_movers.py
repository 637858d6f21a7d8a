"""Who has moved is no other individual: fields that depend on each other change together, which is one event."""

from __future__ import annotations

import subprocess

import pyarrow.csv as pacsv
import pytest

from tests.cli.merging import merge

# Two or three fields hang together, and are wrong together in a tenth to a third of the records; the others say who it
# is. By set: records and individuals, fields, what depends on what, and seeds, over which pairs are counted together.
SETS = {
    "no relatives": (
        ["--records", "672", "--individuals", "700"],
        "26:0.29:0.5 47:0.03:0 77:0.035:0.5 63:0.033:0 1104:0.2:0.5 225:0.2:1 4:0.16:1",
        ["f4:f1:0.58", "f5:f4:0.09"],
        [3018],
    ),
    "several trees": (
        ["--records", "682", "--individuals", "1562", "--databases", "2", "--missing", "0.05"],
        "486:0.077:1 1404:0.022:1 1038:0.018:0.5 1465:0.01:1 568:0.1:0 8:0.17:0.5",
        ["f4:f3:0.33", "f5:f2:0.33", "f6:f1:0.65"],
        [3000, 2],
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_movers_stay_one_individual(vber, tmp_path, name):
    sizes, fields, depend, seeds = SETS[name]
    options = [word for i, text in enumerate(fields.split(), 1) for word in ("--fields", f"f{i}:{text}")]
    options += [word for text in depend for word in ("--depend", text)]
    n_true, n_found, pairs, decided, right = 0, 0.0, 0, 0, 0
    for seed in seeds:
        made = tmp_path / f"made{seed}"
        subprocess.run([vber, "simulate", made, *sizes, "--seed", str(seed), *options, "--typos", "0.05"], check=True)
        result = merge(vber, tmp_path / f"out{seed}", *sorted(made.glob("db*.csv")), "-q", "--link-min", "0.001")
        truth = pacsv.read_csv(made / "truth.csv").to_pandas()
        n_true += truth["entity"].nunique()
        n_found += result.summary["n"]["mean"]
        entity = dict(zip(truth["record_id"], truth["entity"], strict=True))
        links = result.table("links")
        same = links["id_a"].map(entity).to_numpy() == links["id_b"].map(entity).to_numpy()
        size = truth.groupby("entity").size()
        pairs += int((size * (size - 1) // 2).sum())
        likely = links["probability"].to_numpy() > 0.5
        decided, right = decided + int(likely.sum()), right + int(same[likely].sum())
    assert abs(n_found - n_true) < 0.02 * n_true
    assert right > 0.9 * decided
    assert right > 0.9 * pairs
