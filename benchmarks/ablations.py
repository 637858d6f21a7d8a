#!/usr/bin/env python3
"""Measure what each part of the model is worth: `python benchmarks/ablations.py` writes ablations.md.

Every set is merged with exact values only, then with levels of similarity, the tree of dependent fields, noise that
depends on a class, and classes of related individuals, each added to those before; the last is `vber merge FILES` as it
is. Parts are switched off in this process: there are no options for them. `--only NAME` runs one set.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# this folder holds a `coverage` of its own, which numba would take for the package of that name
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sets import SETS, MissingPackageError  # noqa: E402
from vber_cli.cli.app import main as vber  # noqa: E402
from vber_cli.engine import learn, noise_classes, relation_classes  # noqa: E402

CASES = ("rldata10000", "febrl3", "people10k")
HEAD = "Parts of the model added one by one; made by `python benchmarks/ablations.py`.\n\n"
COLUMNS = "set model individuals found n,90% precision recall F1 ECE".split(" ")


@dataclass(frozen=True)
class Stage:
    """Options of the command, and what of the model is there."""

    name: str
    options: tuple[str, ...]
    noise: bool
    relations: bool


STAGES = (
    Stage("exact values", ("--independent", "--type", "*=category"), noise=False, relations=False),
    Stage("+ levels", ("--independent",), noise=False, relations=False),
    Stage("+ tree", (), noise=False, relations=False),
    Stage("+ conditional noise", (), noise=True, relations=False),
    Stage("+ related classes", (), noise=True, relations=True),
)


@contextlib.contextmanager
def only(stage: Stage) -> Iterator[None]:
    """Leave out of the model what the stage has not."""
    with contextlib.ExitStack() as stack:
        if not stage.noise:
            stack.enter_context(patch.object(noise_classes, "CLASS_COUNTS", (1,)))
            stack.enter_context(patch.object(noise_classes, "FEW_CLASSES", 1))
            # nor does a class of its own draw a part anew
            stack.enter_context(patch.object(learn, "parts_that_links_change", lambda *_: []))
        if not stage.relations:
            stack.enter_context(patch.object(relation_classes, "RELATION_COUNTS", (0,)))
            stack.enter_context(
                patch.object(relation_classes, "with_redrawn", lambda _, relations, noise, *__: (relations, noise))
            )
        yield


def measured(stage: Stage, files: Sequence[Path], truth: Path, folder: Path) -> dict[str, object]:
    """Merge under one stage, and score."""
    out = folder / "result"
    with only(stage):
        code = vber(["merge", *map(str, files), "--out", str(out), "--force", "-q", *stage.options])
    if code != 0:
        raise SystemExit(f"{stage.name}: exit code {code}")
    told = subprocess.run(
        [sys.executable, "-m", "vber_cli", "evaluate", str(out), str(truth), "--json"], capture_output=True, check=True
    )
    scores = json.loads(told.stdout)
    n = json.loads((out / "summary.json").read_text(encoding="utf-8"))["n"]
    return {"model": stage.name, "n": n, **scores}


def table_row(name: str, row: Mapping[str, object]) -> str:
    """One line of the table."""
    n, pairwise, individuals, calibration = (row[key] for key in ("n", "pairwise", "individuals", "calibration"))
    assert isinstance(n, dict)
    assert isinstance(pairwise, dict)
    assert isinstance(individuals, dict)
    assert isinstance(calibration, dict)
    cells = [
        name, row["model"], f"{individuals['true']:,}", f"{individuals['found']:,}",
        f"{n['low']:,.0f}–{n['high']:,.0f}",
        *(f"{pairwise[key]:.4f}" for key in ("precision", "recall", "f1")), f"{calibration['expected_error']:.4f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def report(lines: Sequence[str]) -> str:
    """Return the table as Markdown."""
    head = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    return "\n".join([*head, *lines]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run all sets, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SETS, metavar="NAME", help="run this set; repeatable")
    chosen = parser.parse_args(arguments)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for case in chosen.only or CASES:
            try:
                data = SETS[case](Path(name) / case)
            except MissingPackageError as error:
                print(f"{case}: skipped, {error}", file=sys.stderr)
                continue
            for stage in STAGES:
                lines.append(table_row(case, measured(stage, data.files, data.truth, Path(name))))
                print(lines[-1], flush=True)
                if not chosen.only:  # a run that is stopped keeps what it has
                    (ROOT / "benchmarks" / "ablations.md").write_text(HEAD + report(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
