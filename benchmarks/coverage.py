#!/usr/bin/env python3
"""Check that vber is as sure as it says: `python benchmarks/coverage.py --runs 200 --jobs 2`.

Draws data sets of 300 to 2,000 records with `vber simulate`, merges each with `vber merge`, and compares with the
truth: how often the 90 % intervals of n and K hold it, whether link probabilities come true, whether the concentrations
come back. The sizes of population and databases, the fields, their concentrations and the share of missing values vary
from set to set. Both commands run in the same process as their command line would, so that kernels load once.
With --real the records have typing errors and fields that depend on each other as well, which the model they are merged
with learns but does not share, and the fields are compared by their types.
Writes benchmarks/coverage.md and coverage.json (with --real coverage_real); standard errors are over data sets.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
# Else numba, which looks for the package coverage, finds this file.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
N_BINS = 10
LINK_MIN = 0.001
Z90 = 1.6448536269514722
N_BOOTSTRAP = 500
ENOUGH_PAIRS = 100
EXIT_UNCONVERGED = 6
_DEPENDENT = 0.3  # share of the fields that have a parent, with --real
_TYPOS = (0.01, 0.03, 0.1)
Row = dict[str, Any]
Floats = NDArray[np.float64]


def draw_arguments(seed: int, *, real: bool) -> list[str]:
    """The options of `vber simulate` for one data set.

    The fields tell records apart well enough that agreeing on all of them is evidence: ΣH2 ≥ log N + 3 nats, where a
    field with a parent counts with what it tells within a parent's value.
    """
    from vber_cli.model.simulate import zipf_base

    rng = np.random.default_rng([seed, 90])
    n_records = round(math.exp(rng.uniform(math.log(300), math.log(2000))))
    population = max(round(n_records / math.exp(rng.uniform(math.log(0.3), math.log(3)))), 2)
    while True:
        fields, entropy, depend = [], 0.0, []
        for f in range(int(rng.integers(4, 9))):
            n_values = round(math.exp(rng.uniform(math.log(2), math.log(3000))))
            concentration = math.exp(rng.uniform(math.log(0.01), math.log(0.3)))
            zipf = float(rng.choice([0.0, 0.5, 1.0]))
            collision = float((zipf_base(n_values, zipf) ** 2).sum())
            if real and f and rng.random() < _DEPENDENT:
                kappa = math.exp(rng.uniform(math.log(0.05), math.log(2)))
                depend += ["--depend", f"f{f + 1}:f{int(rng.integers(f)) + 1}:{kappa:.3g}"]
                collision = (1 + kappa * collision) / (1 + kappa)
            entropy -= math.log(collision)
            fields += ["--fields", f"f{f + 1}:{n_values}:{concentration:.4g}:{zipf:g}"]
        if entropy >= math.log(n_records) + 3:
            break
    missing = float(rng.choice([0.0, 0.05, 0.15]))
    databases = int(rng.integers(1, 4))
    sizes = ["--records", str(n_records), "--individuals", str(population), "--databases", str(databases)]
    typos = ["--typos", f"{rng.choice(_TYPOS):g}"] if real else []
    return [*sizes, "--missing", f"{missing:g}", "--seed", str(seed), *fields, *typos, *depend]


def run_one(seed: int, *, real: bool) -> Row:
    """Simulate, merge and score one data set."""
    from vber_cli.cli.app import main

    arguments = draw_arguments(seed, real=real)
    row: Row = {"seed": seed, "command": " ".join(["vber simulate DIR", *arguments])}
    with tempfile.TemporaryDirectory(prefix="vber-coverage-") as name:
        data, result = Path(name) / "data", Path(name) / "result"
        if main(["simulate", str(data), *arguments]) != 0:
            return row | {"error": "vber simulate failed"}
        files = sorted(map(str, data.glob("db*.csv")))
        began = time.perf_counter()
        options = [*_types(real=real), "--link-min", str(LINK_MIN), "--threads", "1", "-q"]
        code = main(["merge", *files, "--out", str(result), *options])
        row["seconds"] = round(time.perf_counter() - began, 3)
        if code not in (0, EXIT_UNCONVERGED):
            return row | {"error": f"vber merge ended with exit code {code}"}
        return row | {"converged": code == 0} | score(data, result)


def _types(*, real: bool) -> list[str]:
    return [] if real else ["--type", "*=category"]


def score(data: Path, result: Path) -> Row:
    """Compare a result with the truth of its simulation."""
    truth = json.loads((data / "parameters.json").read_text(encoding="utf-8"))
    summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
    p, is_true = judged_links(data / "truth.csv", result / "links.parquet")
    bin_of = np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)
    counts = np.bincount(bin_of, minlength=N_BINS)
    sums = np.bincount(bin_of, weights=p, minlength=N_BINS)
    trues = np.bincount(bin_of, weights=is_true, minlength=N_BINS)
    unlisted = truth["pairs"] - int(is_true.sum())
    counts[0] += unlisted  # true pairs that are not listed count with probability 0
    trues[0] += unlisted
    row: Row = {
        "records": truth["records"],
        "fields": len(truth["fields"]),
        "missing": truth["fields"][0]["missing"],
        "pairs": truth["pairs"],
        "expected_pairs": float(p.sum()),
        "unlisted": unlisted,
        "surplus": sum(field["theta"]["collision_entropy"] for field in truth["fields"]) - math.log(truth["records"]),
        "bins": {"n": counts.tolist(), "probability": sums.tolist(), "true": trues.tolist()},
        "candidates": summary["candidates"],
        "noise_classes": len(summary["noise"]["classes"]),
    }
    for key in ("n", "K"):
        found = summary[key]
        inside = bool(found["low"] <= truth[key] <= found["high"])
        row[key] = {"true": truth[key], **{name: found[name] for name in ("mean", "low", "high")}, "inside": inside}
    learned = {field["field"]: field["concentration"] for field in summary["fields"]}
    row["concentration"] = [
        {"true": field["concentration"], "found": learned[field["name"]], "name": field["name"]}
        for field in truth["fields"]
    ]
    return row


def judged_links(truth: Path, links: Path) -> tuple[Floats, NDArray[np.bool_]]:
    """The listed pairs' probabilities, and which of them are true."""
    table = pacsv.read_csv(truth)
    names = table["record_id"].to_numpy()
    entity = table["entity"].to_numpy()
    order = np.argsort(names)
    listed = pq.read_table(links, columns=["id_a", "id_b", "probability"])
    a, b = (
        entity[order[np.searchsorted(names, listed[column].to_numpy(), sorter=order)]] for column in ("id_a", "id_b")
    )
    return listed["probability"].to_numpy().astype(np.float64), a == b


def calibration_error(rows: Sequence[Row]) -> float:
    """Expected calibration error of all data sets' links together."""
    n, p, true = (np.array([row["bins"][key] for row in rows]).sum(axis=0) for key in ("n", "probability", "true"))
    return float(np.abs(p - true).sum() / max(n.sum(), 1))


def bootstrap(rows: Sequence[Row], statistic: Callable[[Sequence[Row]], float]) -> float:
    """Standard error of a statistic, by drawing data sets anew."""
    rng = np.random.default_rng(0)
    drawn = [statistic([rows[i] for i in rng.integers(len(rows), size=len(rows))]) for _ in range(N_BOOTSTRAP)]
    return float(np.std(drawn))


def coverage(rows: Sequence[Row], key: str) -> Row:
    """How often the 90 % interval holds the truth, and how the truth lies in it."""
    inside = np.array([row[key]["inside"] for row in rows], dtype=np.float64)
    below = float(np.mean([row[key]["true"] < row[key]["low"] for row in rows]))
    above = float(np.mean([row[key]["true"] > row[key]["high"] for row in rows]))
    error = np.array([row[key]["mean"] / row[key]["true"] - 1 for row in rows])
    spread = np.array([max(row[key]["high"] - row[key]["low"], 1.0) / (2 * Z90) for row in rows])
    z = np.array([row[key]["mean"] - row[key]["true"] for row in rows]) / spread
    m = len(rows)
    return {
        "coverage": float(inside.mean()),
        "coverage_se": math.sqrt(max(float(inside.mean() * (1 - inside.mean())), 1e-9) / m),
        "true_below": below,
        "true_above": above,
        "relative_error": float(np.median(error)),
        "relative_width": float(np.median([(row[key]["high"] - row[key]["low"]) / row[key]["true"] for row in rows])),
        "z_mean": float(z.mean()),
        "z_mean_se": float(z.std(ddof=1) / math.sqrt(m)) if m > 1 else None,
        "z_sd": float(z.std(ddof=1)) if m > 1 else None,
    }


def recovery(rows: Sequence[Row]) -> Row:
    """How the learned concentrations compare with the true ones, where there are enough true pairs to learn from."""
    out: Row = {}
    for label, least in (("all", 0), ("enough", ENOUGH_PAIRS)):
        by_set = [
            np.array([math.log(c["found"] / c["true"]) for c in row["concentration"]])
            for row in rows
            if row["pairs"] >= least
        ]
        if not by_set:
            continue
        logs = np.concatenate(by_set)
        means = np.array([x.mean() for x in by_set])
        out[label] = {
            "data_sets": len(by_set),
            "fields": len(logs),
            "median_ratio": float(np.exp(np.median(logs))),
            "mean_log_ratio": float(means.mean()),
            "mean_log_ratio_se": float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else None,
            "within_factor_1.5": float((np.abs(logs) < math.log(1.5)).mean()),
            "within_factor_2": float((np.abs(logs) < math.log(2)).mean()),
        }
    return out


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Data sets by what may make them hard."""
    split: dict[str, Callable[[Row], float]] = {
        "records": lambda row: row["records"],
        "records per individual of the population": lambda row: row["records"] / row["K"]["true"],
        "nats to spare": lambda row: row["surplus"],
        "mean concentration": lambda row: float(np.mean([c["true"] for c in row["concentration"]])),
        "missing": lambda row: row["missing"],
    }
    out: dict[str, list[Row]] = {}
    for name, value in split.items():
        middle = float(np.median([value(row) for row in rows]))
        low, high = [row for row in rows if value(row) <= middle], [row for row in rows if value(row) > middle]
        out[f"{name} ≤ {middle:.3g}"] = low
        out[f"{name} > {middle:.3g}"] = high
    return {name: part for name, part in out.items() if part}


def summarise(rows: Sequence[Row]) -> Row:
    """Everything the study finds."""
    good = [row for row in rows if "error" not in row]
    found: Row = {"data_sets": len(rows), "failed": len(rows) - len(good)}
    if not good:
        return found
    n, p, true = (np.array([row["bins"][key] for row in good]).sum(axis=0) for key in ("n", "probability", "true"))
    found |= {
        "unconverged": sum(not row["converged"] for row in good),
        "seconds": float(np.sum([row["seconds"] for row in good])),
        "n": coverage(good, "n"),
        "K": coverage(good, "K"),
        "calibration": {
            "error": calibration_error(good),
            "error_se": bootstrap(good, calibration_error),
            "expected_pairs": float(np.sum([row["expected_pairs"] for row in good])),
            "true_pairs": int(np.sum([row["pairs"] for row in good])),
            "unlisted_true_pairs": int(np.sum([row["unlisted"] for row in good])),
            "bins": [
                {
                    "low": b / N_BINS, "high": (b + 1) / N_BINS, "n": int(n[b]), "probability": float(p[b] / n[b]),
                    "true": float(true[b] / n[b]),
                    "true_se": bootstrap(good, lambda some, b=b: _share(some, b)),  # type: ignore[misc]
                }
                for b in range(N_BINS)
                if n[b]
            ],
        },
        "concentration": recovery(good),
        "groups": {
            name: {"data_sets": len(part), "n": coverage(part, "n"), "K": coverage(part, "K"),
                   "calibration_error": calibration_error(part)}
            for name, part in groups(good).items()
        },
    }  # fmt: skip
    return found


def _share(rows: Sequence[Row], b: int) -> float:
    n = sum(row["bins"]["n"][b] for row in rows)
    return float(sum(row["bins"]["true"][b] for row in rows) / n) if n else 0.0


def report(found: Row, command: str, *, real: bool) -> list[str]:
    """The study as Markdown."""
    kind = "with typing errors and fields that depend on each other " if real else ""
    options = shlex.join(["--link-min", str(LINK_MIN), *_types(real=real)])
    lines = [
        "# Coverage" + (", with typing errors and dependence" if real else ""),
        "",
        f"Made by `{command}`: {found['data_sets']} data sets of 300 to 2,000 records drawn {kind}by "
        f"`vber simulate` and merged by `vber merge` with `{options}`; "
        f"{found['failed']} failed. ± is one standard error over data sets.",
        "",
    ]
    if "n" not in found:
        return lines
    lines += [
        "| | 90 % interval holds the truth | truth below | truth above | median error | median width | z mean | z sd |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for key in ("n", "K"):
        c = found[key]
        z = [f"{c['z_mean']:+.2f} ± {c['z_mean_se']:.2f}", f"{c['z_sd']:.2f}"] if c["z_sd"] is not None else ["–", "–"]
        cells = [key, f"{c['coverage']:.1%} ± {c['coverage_se']:.1%}", f"{c['true_below']:.1%}"]
        cells += [f"{c['true_above']:.1%}", f"{c['relative_error']:+.2%}", f"{c['relative_width']:.1%}", *z]
        lines.append(f"| {' | '.join(cells)} |")
    c = found["calibration"]
    lines += [
        "",
        f"Expected calibration error of the link probabilities, pooled: {c['error']:.4f} ± {c['error_se']:.4f}. "
        f"Pairs expected {c['expected_pairs']:,.0f}, true {c['true_pairs']:,}, of them {c['unlisted_true_pairs']:,} "
        "not listed (they count with probability 0).",
        "",
        "| probability | pairs | mean | came true |",
        "|---|--:|--:|--:|",
        *(
            f"| {b['low']:.1f} to {b['high']:.1f} | {b['n']:,} | {b['probability']:.4f} | "
            f"{b['true']:.4f} ± {b['true_se']:.4f} |"
            for b in c["bins"]
        ),
        "",
        "| learned to true concentration | sets | fields | median ratio | mean log ratio | within 1.5 | within 2 |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for label, name in (("all", "all"), ("enough", f"at least {ENOUGH_PAIRS} true pairs")):
        r = found["concentration"].get(label)
        if r is not None:
            se = "–" if r["mean_log_ratio_se"] is None else f"{r['mean_log_ratio_se']:.3f}"
            lines.append(
                f"| {name} | {r['data_sets']} | {r['fields']} | {r['median_ratio']:.3f} | "
                f"{r['mean_log_ratio']:+.3f} ± {se} | {r['within_factor_1.5']:.1%} | {r['within_factor_2']:.1%} |"
            )
    lines += ["", "| data sets with | sets | n inside | K inside | z of n, mean | ECE |", "|---|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {name} | {g['data_sets']} | {g['n']['coverage']:.1%} ± {g['n']['coverage_se']:.1%} | "
        f"{g['K']['coverage']:.1%} | {g['n']['z_mean']:+.2f} | {g['calibration_error']:.4f} |"
        for name, g in found["groups"].items()
    ]
    return lines


def main() -> int:
    """Read the command line, run the study, write what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="data sets (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="data sets at a time (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first data set; the others follow (default 0)")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR", help="where to write (default: benchmarks)")
    parser.add_argument("--real", action="store_true", help="with typing errors and fields that depend on each other")
    chosen = parser.parse_args()
    command = f"python benchmarks/coverage.py --runs {chosen.runs} --seed {chosen.seed}{' --real' * chosen.real}"
    name = "coverage_real" if chosen.real else "coverage"
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    rows: list[Row] = []
    with ProcessPoolExecutor(chosen.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(functools.partial(run_one, real=chosen.real), seeds):
            rows.append(row)
            if "error" in row:
                print(f"{row['seed']}: {row['error']}: {row['command']}", file=sys.stderr, flush=True)
            elif not row["n"]["inside"]:
                n = row["n"]
                print(f"{row['seed']}: n is {n['true']}, not in {n['low']:g} to {n['high']:g}", file=sys.stderr)
    found = summarise(rows)
    chosen.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"found": found, "data_sets": rows}, indent=1, ensure_ascii=False)
    (chosen.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    lines = report(found, command, real=chosen.real)
    (chosen.out / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
