"""A small result directory of any content, as `vber merge` would write it, for tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vber_cli.io import schema

NAMES = ("clinic", "police")
FIELDS = ("name", "town")
# database, row, individual, probability: individuals 7 = {c0, p0}, 8 = {c1}, 9 = {p1}
ASSIGNED = [(0, 0, 7, 0.9), (0, 1, 8, 0.6), (1, 0, 7, 0.9), (1, 1, 9, 1.0)]
# database and row of both, probability, levels
LINKS = [(0, 0, 1, 0, 0.9, (0, 3)), (0, 1, 1, 1, 0.4, (1, 9))]
TRUTH = "database,record_id,entity\nclinic,c0,A\nclinic,c1,B\npolice,p0,A\npolice,p1,B\n"


def summary_of(names: tuple[str, ...], fields: tuple[str, ...]) -> dict[str, Any]:
    """A summary with every part that the report shows."""
    return {
        "inputs": [{"name": name, "n_records": 2, "id_column": "id", "sha256": "ab" * 32, "bytes": 2048,
                    "format": {"kind": "csv"}} for name in names],
        "options": {"K": None, "loss": "fp=1,fn=1", "link_min": 0.01, "map": ["a:b=c"]},
        "config_digest": "cd" * 32,
        "versions": {"vber": "0.1.0"},
        "n": {"mean": 2.6, "low": 2.0, "high": 3.0},
        "K": {"mean": 5.0, "low": 3.0, "high": 9.0},
        "expected": {"precision": 0.9, "recall": 0.8, "f1": 0.85},
        "candidates": {"pairs": 6, "recall": 0.97, "recall_low": 0.95, "recall_high": 0.99},
        "bound": {"elbo": -10.0, "bound": -9.0, "sweeps": 2, "converged": True},
        "fields": [{"field": field, "type": "text", "type_reason": "words", "n_values": 3, "missing": 0.25,
                    "mismatch": 0.1, "collision_entropy_bits": 3.0} for field in fields],
        "noise": {"classes": [{"share": 1.0, "mismatch": dict.fromkeys(fields, 0.25)}], "bic": {}},
        "relations": {"classes": [{"name": f"agree on {fields[0]}", "pairs": 12.0, "identical": {fields[0]: 0.8}}],
                      "runner_up": 2, "margin": 71.0},
        "dependence": [{"field": fields[1], "parent": fields[0], "gain_bits": 1.5}] if len(fields) > 1 else [],
        "warnings": [],
        "seconds": {"read": 0.5},
        "peak_memory_bytes": 5e8,
        "result": {"format": "vber result", "version": 1, "files": []},
    }  # fmt: skip


def write_result(
    directory: Path,
    *,
    names: tuple[str, ...] = NAMES,
    fields: tuple[str, ...] = FIELDS,
    assigned: list[tuple[int, int, int, float]] | None = None,
    links: list[tuple[int, int, int, int, float, tuple[int, ...]]] | None = LINKS,
    ids: list[str] | None = None,
    values: list[list[str | None]] | None = None,
    changes: dict[str, Any] | None = None,
) -> Path:
    """Write a result; `values` are those of every assigned record, `changes` replace parts of the summary."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = ASSIGNED if assigned is None else assigned
    labels = ids or [f"{names[d][0]}{row}" for d, row, _, _ in rows]
    by_place = {(d, row): label for (d, row, _, _), label in zip(rows, labels, strict=True)}
    table = {
        "database": [names[d] for d, *_ in rows], "row": [row for _, row, *_ in rows], "record_id": labels,
        "individual": [i for _, _, i, _ in rows], "probability": [p for *_, p in rows],
        "runner_up": [None] * len(rows), "runner_up_probability": [1.0 - p if p < 1.0 else None for *_, p in rows],
    }  # fmt: skip
    pq.write_table(pa.table(table, schema.ASSIGNMENTS), directory / "assignments.parquet")
    if links is not None:
        columns = {
            "database_a": [names[link[0]] for link in links], "row_a": [link[1] for link in links],
            "id_a": [by_place.get(link[:2], "?") for link in links],
            "database_b": [names[link[2]] for link in links], "row_b": [link[3] for link in links],
            "id_b": [by_place.get(link[2:4], "?") for link in links],
            "probability": [link[4] for link in links], "log_odds": [0.0] * len(links),
            "pair_log_odds": [0.0] * len(links),
            **{f"level_{field}": [link[5][f] for link in links] for f, field in enumerate(fields)},
        }  # fmt: skip
        pq.write_table(pa.table(columns, schema.links_schema(fields)), directory / "links.parquet")
    trace = {"step": [1, 2, 3], "kind": ["merge", "split", "sweep"], "bound": [-12.0, -9.5, -9.0],
             "elbo": [-12.0, -9.5, -9.0], "max_change": [1.0, 1.0, 0.0], "n": [3.0, 3.0, 3.0],
             "seconds": [0.1, 0.1, 0.1]}  # fmt: skip
    pq.write_table(pa.table(trace, schema.TRACE), directory / "trace.parquet")
    if values is not None:
        cells = {field: [row[f] for row in values] for f, field in enumerate(fields)}
        kept = {key: table[key] for key in ("database", "row", "record_id")}
        pq.write_table(pa.table({**kept, **cells}), directory / "records.parquet")
    summary = {**summary_of(names, fields), **(changes or {})}
    (directory / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return directory
