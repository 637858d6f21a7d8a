#!/usr/bin/env python3
"""How time and memory of `vber merge` grow with the number of records, with one thread and with two.

`python benchmarks/growth.py` makes people of 10,000 to a million records (`--sizes`), merges them with no option but
the files and the threads, in turn, and compares the tables of one thread with those of more. Beside each stands what
reading the files and writing them as dictionaries takes. Each size is merged once more within less memory than it took,
as little as it agrees to. Writes growth.md, growth.json and growth.svg.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.generate import Options, generate  # noqa: E402
from benchmarks.run import evaluate, machine, measure  # noqa: E402

HERE = ROOT / "benchmarks"
TABLES = ("assignments", "individuals", "links", "phi", "lambda")
INFERENCE = ("learn", "certify", "link")  # phases; the others read, compare and write
HEAD = ("records", "threads", "seconds", "inference", "s / 100,000", "MiB", "KiB / record", "F1", "floor", "same")
HELD_HEAD = ("records", "--max-memory, MiB", "MiB", "MiB without", "seconds", "times as long", "same")
SHARES = (0.4, 0.5, 0.6, 0.75, 0.9)  # of the memory that a merge took, to be tried as its limit
REFUSED = 5  # the exit code of a merge that does not fit
LIMIT = 7200.0  # seconds


def same_tables(one: Path, other: Path) -> bool:
    """Whether all tables of two results hold the same rows, to the last bit."""
    return all(pq.read_table(one / f"{t}.parquet").equals(pq.read_table(other / f"{t}.parquet")) for t in TABLES)


def grown(
    vber: str, size: int, threads: Sequence[int], n_runs: int, scratch: Path
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Rows of one size: one for each number of threads, which take turns; and of a merge within less memory."""
    files, truth = generate(scratch / "data", Options(records=size, entities=size * 4 // 5))
    paths = [str(path) for path in files]
    floor = [sys.executable, str(HERE / "peers" / "io_floor.py"), *paths, str(scratch / "floor.parquet")]
    runs: dict[int, list[tuple[float, float, float]]] = {number: [] for number in threads}
    floors = []
    for _ in range(n_runs):
        floors.append(measure(floor, LIMIT).seconds)
        for number in threads:
            out = scratch / f"out{number}"
            run = measure([vber, "merge", *paths, "--threads", str(number), "--out", str(out), "--force", "-q"], LIMIT)
            if run.code != 0:
                raise SystemExit(f"{size:,} records with {number} threads: exit code {run.code}\n{run.error}")
            phases = json.loads((out / "summary.json").read_text())["seconds"]
            runs[number].append((run.seconds, run.mebibytes, sum(phases[name] for name in INFERENCE)))
    rows: list[dict[str, object]] = []
    for number in threads:
        seconds, mebibytes, inference = (statistics.median(part) for part in zip(*runs[number], strict=True))
        accuracy = evaluate(vber, scratch / f"out{number}", truth)
        pairwise = accuracy["pairwise"]
        assert isinstance(pairwise, dict)
        rows.append(
            {
                "records": size, "threads": number, "seconds": seconds, "inference_seconds": inference,
                "mebibytes": mebibytes, "f1": pairwise["f1"], "floor_seconds": statistics.median(floors),
                "same_tables": same_tables(scratch / f"out{threads[0]}", scratch / f"out{number}"),
            }
        )  # fmt: skip
    return rows, held(vber, paths, rows[-1], scratch / f"out{threads[-1]}", scratch / "held")


def held(vber: str, paths: Sequence[str], free: dict[str, object], free_out: Path, out: Path) -> dict[str, object]:
    """A merge within the smallest share of the memory of another that is not refused."""
    mebibytes, seconds = (float(str(free[name])) for name in ("mebibytes", "seconds"))
    for share in SHARES:
        limit = round(share * mebibytes)
        asked = ["--threads", str(free["threads"]), "--max-memory", f"{limit}M"]
        run = measure([vber, "merge", *paths, *asked, "--out", str(out), "--force", "-q"], LIMIT)
        if run.code == 0:
            return {
                "records": free["records"], "limit": limit, "mebibytes": run.mebibytes, "free_mebibytes": mebibytes,
                "seconds": run.seconds, "times": run.seconds / seconds, "same_tables": same_tables(free_out, out),
            }  # fmt: skip
        if run.code != REFUSED:
            raise SystemExit(f"{free['records']:,} records within {limit} MiB: exit code {run.code}\n{run.error}")
    return {"records": free["records"], "limit": None}


def held_row(row: dict[str, object]) -> str:
    """One line of the table of merges within less memory."""
    if row["limit"] is None:
        return f"| {row['records']:,} | refused" + " |" * (len(HELD_HEAD) - 1)
    cells = [
        f"{row['records']:,}", f"{row['limit']:,}", f"{row['mebibytes']:,.0f}", f"{row['free_mebibytes']:,.0f}",
        f"{row['seconds']:.1f}", f"{row['times']:.2f}", "yes" if row["same_tables"] else "NO",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table_row(row: dict[str, object]) -> str:
    """One line of growth.md."""
    size, seconds, mebibytes = (float(str(row[name])) for name in ("records", "seconds", "mebibytes"))
    cells = [
        f"{size:,.0f}", str(row["threads"]), f"{seconds:.1f}", f"{row['inference_seconds']:.1f}",
        f"{seconds / size * 1e5:.1f}", f"{mebibytes:,.0f}", f"{mebibytes * 1024 / size:.2f}", f"{row['f1']:.4f}",
        f"{row['floor_seconds']:.2f}", "yes" if row["same_tables"] else "NO",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def ratios(rows: Sequence[dict[str, object]]) -> list[str]:
    """One line for each size with several numbers of threads: how many times faster the inference is with more."""
    lines = []
    for size in sorted({int(str(row["records"])) for row in rows}):
        own = [row for row in rows if row["records"] == size]
        first = float(str(own[0]["inference_seconds"]))
        for row in own[1:]:
            faster = first / float(str(row["inference_seconds"]))
            lines.append(
                f"- {size:,} records: inference {faster:.2f} times faster with {row['threads']} threads than with "
                f"{own[0]['threads']}."
            )
    return lines


def draw(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Seconds and memory over records, both axes by powers of ten."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vber"  # the same picture from the same figures
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for number in sorted({int(str(row["threads"])) for row in rows}):
        own = [row for row in rows if row["threads"] == number]
        label = f"{number} thread{'s' * (number > 1)}"
        for axis, name in zip(axes, ("seconds", "mebibytes"), strict=True):
            axis.loglog([row["records"] for row in own], [row[name] for row in own], marker="o", label=label)
    first = [row for row in rows if row["threads"] == rows[0]["threads"]]
    sizes = [row["records"] for row in first]
    axes[0].loglog(sizes, [row["floor_seconds"] for row in first], "k--", marker=".", label="read and write only")
    for axis, title in zip(axes, ("seconds, whole process", "MiB, largest resident size"), strict=True):
        axis.set(xlabel="records", title=title)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Measure, and write the three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=1, help="of which medians are taken")
    parser.add_argument("--out", type=Path, default=HERE, help="directory for the files")
    options = parser.parse_args(arguments)
    vber = str(Path(sysconfig.get_path("scripts")) / "vber")
    about = machine()
    rows, within = [], []
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as scratch:
            found, less = grown(vber, size, options.threads, options.runs, Path(scratch))
        print(*map(table_row, found), held_row(less), sep="\n", flush=True)
        rows += found
        within.append(less)
    text = [
        "# Growth", "",
        "Made by `python benchmarks/growth.py`: people made by `generate.py`, four fifths of them different, in two",
        "CSV files; `vber merge FILES --threads N`, whole process, all results out. *inference* is what the phases",
        "learn, certify and link take; *floor* is reading the files, encoding them as dictionaries and writing these",
        f"with Arrow; *same*: all tables hold the same rows as with one thread. Medians of {options.runs}.", "",
        ", ".join(f"{name} {value}" for name, value in about.items()), "",
        f"| {' | '.join(HEAD)} |", "|--:" * (len(HEAD) - 1) + "|---|", *map(table_row, rows), "", *ratios(rows), "",
        "Once more with the most threads and `--max-memory`, which lets arrays live on the disk (Linux), the smallest",
        f"of {', '.join(f'{share:.0%}' for share in SHARES)} of what it took without that is not refused.", "",
        f"| {' | '.join(HELD_HEAD)} |", "|--:" * (len(HELD_HEAD) - 1) + "|---|", *map(held_row, within), "",
        "![seconds and memory by records](growth.svg)", "",
    ]  # fmt: skip
    (options.out / "growth.md").write_text("\n".join(text))
    (options.out / "growth.json").write_text(
        json.dumps({"machine": about, "rows": rows, "within_less_memory": within}, indent=1) + "\n"
    )
    draw(rows, options.out / "growth.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
