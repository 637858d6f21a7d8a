"""Verifies a result: its tables against their schemas, each other, the summary and the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vber_cli.errors import InputError, VberError
from vber_cli.io import schema
from vber_cli.results.check_tables import ProblemError, check_lambda, check_links, check_phi, close
from vber_cli.results.learned_file import MODEL, model_fields
from vber_cli.results.open_result import OpenResult

_FACTS = ("version", "seed", "config_digest", "input_digests", "result_version")


@dataclass(frozen=True)
class Finding:
    """One thing that was verified: what was found, or what is wrong with it (`problem`), or why it was not looked at.

    Attributes
    ----------
    name
        What was verified.
    status
        ok, wrong or skipped.
    detail
        What was found.
    """

    name: str
    status: str
    detail: str


def check_result(directory: Path) -> tuple[Finding, ...]:
    """Verify a result directory.

    Raises
    ------
    InputError
        It is no result directory, or has no readable summary.json.
    """
    result = OpenResult(directory)
    if not result.summary:
        raise InputError(
            f"{directory / 'summary.json'} does not exist or cannot be read",
            "give the directory that `vber merge` wrote",
        )
    return tuple(_run(name, step, result) for name, step in _STEPS.items())


def _run(name: str, step: Callable[[OpenResult], str], result: OpenResult) -> Finding:
    try:
        return Finding(name, "ok", step(result))
    except NothingToCheckError as reason:
        return Finding(name, "skipped", str(reason))
    except ProblemError as problem:
        return Finding(name, "wrong", str(problem))
    except VberError as error:
        return Finding(name, "wrong", error.what)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        return Finding(name, "wrong", f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error)}")


class NothingToCheckError(Exception):
    """There is nothing to verify."""


def _files(result: OpenResult) -> str:
    """Every file that the summary lists is there and readable."""
    listed = result.summary.get("result")
    if not isinstance(listed, dict) or not isinstance(listed.get("files"), list):
        raise ProblemError("summary.json does not list the result's files")
    for name in listed["files"]:
        path = result.path / name
        if not path.is_file():
            raise ProblemError(f"{name} is missing")
        if name.endswith(".parquet"):
            with pq.ParquetFile(path) as file:
                _ = file.metadata.num_rows
        elif name.endswith(".json"):
            json.loads(path.read_text(encoding="utf-8"))
    return f"{len(listed['files'])} files"


def _tables(result: OpenResult) -> Iterator[str]:
    return (path.stem for path in sorted(result.path.glob("*.parquet")))


def _schemas(result: OpenResult) -> str:
    """Columns and types are those that `vber merge` writes."""
    fixed = {
        "phi": schema.PHI, "lambda": schema.LAMBDA, "assignments": schema.ASSIGNMENTS, "trace": schema.TRACE,
        "values": schema.VALUES, "similar": schema.SIMILAR,
    }  # fmt: skip
    if (result.path / MODEL).exists():
        fields = model_fields(result.path)
        fixed |= {
            "individuals": schema.individuals_schema(fields),
            "links": schema.links_schema(fields),
            "records": schema.records_schema(fields),
        }
    names = [name for name in _tables(result) if name in fixed]
    for name in names:
        with pq.ParquetFile(result.path / f"{name}.parquet") as file:
            found, wanted = file.schema_arrow, fixed[name]
        for column in wanted:
            if column.name not in found.names:
                raise ProblemError(f"{name}.parquet has no column {column.name}")
            kind = found.field(column.name).type
            if not kind.equals(column.type):
                raise ProblemError(f"{name}.parquet: column {column.name} is {kind}, not {column.type}")
    return f"{len(names)} tables"


def _digests(result: OpenResult) -> str:
    """All files come from one run: same version, seed, options and inputs."""
    facts = {f"{name}.parquet": result.metadata(name) for name in _tables(result)}
    if (result.path / MODEL).exists():
        model = json.loads((result.path / MODEL).read_text(encoding="utf-8"))["metadata"]
        facts[MODEL] = {**facts["assignments.parquet"], **model}
    wanted = facts["assignments.parquet"]
    for file, own in facts.items():
        for key in _FACTS:
            if key not in own:
                raise ProblemError(f"{file} says nothing of its {key}")
            if own[key] != wanted[key]:
                raise ProblemError(f"{file} and assignments.parquet differ in their {key}: they are not of one run")
    summary = result.summary
    if summary.get("config_digest") not in (None, wanted["config_digest"]):
        raise ProblemError("summary.json and assignments.parquet differ in their config_digest")
    inputs = {item["name"]: item["sha256"] for item in summary["inputs"]}
    if inputs != {item["database"]: item["sha256"] for item in json.loads(wanted["input_digests"])}:
        raise ProblemError("summary.json and assignments.parquet differ in the digests of their inputs")
    return f"{len(facts)} files of one run over {len(inputs)} databases"


def _records(result: OpenResult) -> str:
    """Every row of every input is there once, in order."""
    counts = {item["name"]: int(item["n_records"]) for item in result.summary["inputs"]}
    names = [name for name, count in counts.items() if count]
    if list(result.databases) != names:
        raise ProblemError(
            f"assignments.parquet holds the databases {', '.join(result.databases)}, not {', '.join(names)}"
        )
    wanted = np.concatenate([np.arange(counts[name]) for name in names])
    if len(wanted) != result.n_records:
        raise ProblemError(f"assignments.parquet has {result.n_records:,} rows for {len(wanted):,} records read")
    if not bool((np.diff(result.db_of_record) >= 0).all() and (result.row == wanted).all()):
        raise ProblemError("the rows of assignments.parquet are not those of the inputs, in their order")
    return f"{result.n_records:,} rows, as many as were read"


def _individuals(result: OpenResult) -> str:
    """Individuals are those of the assignments, with as many records."""
    table = result.table("individuals", ["individual", "n_records", "n_databases", "confidence"])
    names, size = np.unique(result.individual, return_counts=True)
    own = table.column("individual").to_numpy()
    order = np.argsort(own)
    if len(own) != len(names) or not bool((own[order] == names).all()):
        raise ProblemError("individuals.parquet does not hold the individuals of assignments.parquet")
    if not bool((table.column("n_records").to_numpy()[order] == size).all()):
        raise ProblemError("individuals.parquet counts other records than assignments.parquet")
    n = result.summary.get("n_individuals")
    if n is not None and n != len(names):
        raise ProblemError(f"summary.json counts {n:,} individuals, assignments.parquet {len(names):,}")
    probability = result.table("assignments", ["probability"]).column("probability").to_numpy()
    if not bool(((probability >= 0) & (probability <= 1)).all()):
        raise ProblemError("assignments.parquet has a probability outside 0 to 1")
    return f"{len(names):,} individuals"


def _phi(result: OpenResult) -> str:
    return check_phi(result) if result.has("phi") else _skip("there is no phi.parquet")


def _lambda(result: OpenResult) -> str:
    if not (result.has("lambda") and result.has("phi")):
        return _skip("there is no lambda.parquet")
    if not result.has("records"):
        return _skip("records.parquet, with the values of the records, was not kept")
    return check_lambda(result)


def _links(result: OpenResult) -> str:
    return check_links(result) if result.has("links") else _skip("there is no links.parquet")


def _evidence(result: OpenResult) -> str:
    """The model gives every pair the log odds that links.parquet says it has by itself."""
    from vber_cli.results.explain import Explainer, read_links

    if not (result.has("links") and (result.path / MODEL).exists() and result.has("records")):
        return _skip("there is no model with links and records")
    column = result.table("links", ["pair_log_odds"]).column("pair_log_odds")
    if column.null_count:
        return _skip("the links hold no evidence of single pairs")
    explainer = Explainer(result)
    a, b, _ = read_links(result)
    gap = float(np.abs(explainer.pair_log_odds(a, b) - column.to_numpy()).max(initial=0.0))
    if not gap <= 1e-6:
        raise ProblemError(
            f"model.json and records.parquet give a pair of links.parquet log odds that differ by {gap:.2g}"
        )
    return f"log odds of {len(a):,} pairs from the stored model, within {max(gap, 1e-12):.1g}"


def _trace(result: OpenResult) -> str:
    """The bound never falls and ends where the summary says."""
    if not result.has("trace"):
        return _skip("there is no trace.parquet")
    bound = result.table("trace", ["bound"]).column("bound").to_numpy()
    summary = result.summary.get("bound")
    if not len(bound) or not isinstance(summary, dict) or summary.get("bound") is None:
        return _skip("there is no bound")
    fall = np.diff(bound) < -1e-9 * np.abs(bound[:-1])
    if bool(fall.any()):
        raise ProblemError(f"the bound falls at step {int(np.flatnonzero(fall)[0]) + 2} of trace.parquet")
    if not close(float(bound[-1]), float(summary["bound"])):
        raise ProblemError("the last bound of trace.parquet is not that of summary.json")
    return f"{len(bound):,} steps"


def _record_values(result: OpenResult) -> str:
    """The records' table lists the same records."""
    if not result.has("records"):
        return _skip("records.parquet was not kept (--no-records)")
    table = result.table("records", ["database", "row", "record_id"])
    assigned = result.table("assignments", ["database", "row", "record_id"])
    for name in table.column_names:
        one, two = (side.column(name).cast(kind) for side, kind in ((table, _plain(name)), (assigned, _plain(name))))
        if len(one) != len(two) or not pc.all(pc.equal(one, two), min_count=0).as_py():
            raise ProblemError("records.parquet does not list the records of assignments.parquet")
    return f"{len(table):,} rows"


def _plain(name: str) -> pa.DataType:
    return pa.int64() if name == "row" else pa.large_string()


def _skip(reason: str) -> str:
    raise NothingToCheckError(reason)


_STEPS: dict[str, Callable[[OpenResult], str]] = {
    "files": _files,
    "schemas": _schemas,
    "one run": _digests,
    "records": _records,
    "individuals": _individuals,
    "values of the records": _record_values,
    "phi sums to 1": _phi,
    "lambda = A + sum of phi": _lambda,
    "links": _links,
    "evidence": _evidence,
    "bound": _trace,
}


def to_dict(directory: Path, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Return plain JSON values."""
    return {
        "directory": str(directory),
        "ok": all(item.status != "wrong" for item in findings),
        "checks": [asdict(item) for item in findings],
    }
