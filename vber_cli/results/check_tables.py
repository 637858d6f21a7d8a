"""The numbers in φ, λ and the links against each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vber_cli.io import schema
from vber_cli.model.types import LongArray
from vber_cli.results.individuals import LEAST_DOUBT
from vber_cli.results.learned_file import model_fields
from vber_cli.results.model_files import read_values
from vber_cli.results.open_result import OpenResult, plain_text

_ROUNDING = 1e-9


class ProblemError(Exception):
    """What is wrong with a result."""


def close(x: float, y: float) -> bool:
    """Say whether two numbers are the same but for rounding."""
    return abs(x - y) <= _ROUNDING * max(abs(x), abs(y), 1.0)


def _left_out(result: OpenResult) -> float:
    """Mass of φ that --phi-min left out, over all records: the bound within which sums may fall short."""
    phi = result.summary.get("phi")
    mass = phi.get("left_out_mass") if isinstance(phi, dict) else None
    return float(mass) if mass is not None else 0.0


def check_phi(result: OpenResult) -> str:
    """Rows of every record sum to 1, less what was left out; none is negative or above 1."""
    table = result.table("phi", ["database", "row", "phi", "probability"])
    place = result.positions(table.column("database"), table.column("row"))
    phi, probability = (table.column(name).to_numpy() for name in ("phi", "probability"))
    for name, values in (("phi", phi), ("probability", probability)):
        if not bool(((values >= 0) & (values <= 1 + _ROUNDING)).all()):
            raise ProblemError(f"phi.parquet has a {name} outside 0 to 1")
    total = np.bincount(place, weights=phi, minlength=result.n_records)
    left_out = _left_out(result)
    wrong = np.flatnonzero((total > 1 + _ROUNDING) | (total < 1 - left_out - _ROUNDING))
    if len(wrong):
        first = int(wrong[0])
        raise ProblemError(
            f"phi of {len(wrong):,} records does not sum to 1 (bound {left_out:.1g}), first of "
            f"{result.name_of(first)}: {total[first]:.9f}"
        )
    return f"{result.n_records:,} records, within {max(left_out, _ROUNDING):.1g}"


def check_lambda(result: OpenResult) -> str:
    """Every λ beyond its prior is the φ of the records that show the value; probabilities sum to 1."""
    fields = model_fields(result.path)
    lam = result.table("lambda", schema.LAMBDA.names)
    names = plain_text(lam.column("field"))
    field = pc.index_in(names, pa.array(fields, names.type)).to_numpy(zero_copy_only=False).astype(np.int64)
    individual, individual_code = np.unique(lam.column("individual").to_numpy(), return_inverse=True)
    group = individual_code.ravel() * len(fields) + field
    share = np.bincount(group, weights=lam.column("probability").to_numpy(), minlength=len(individual) * len(fields))
    if not bool((np.abs(share - 1.0) <= 1e-9).all()):
        raise ProblemError("the probabilities of a field of an individual in lambda.parquet do not sum to 1")
    excess = lam.column("lam").to_numpy() - lam.column("prior").to_numpy()
    phi = result.table("phi", ["database", "row", "individual", "phi"])
    phi = phi.filter(pc.is_valid(phi.column("individual")))
    place = result.positions(phi.column("database"), phi.column("row"))
    mass = phi.column("phi").to_numpy()
    holder = np.searchsorted(individual, phi.column("individual").to_numpy().astype(np.int64))
    tolerance = _left_out(result) + 1e-7
    worst = 0.0
    for f, column in enumerate(read_values(result, fields)):
        code = column.indices.fill_null(-1).to_numpy().astype(np.int64)[place]
        width = len(column.dictionary) + 1
        shown = code >= 0
        rows = np.flatnonzero(field == f)
        value = pc.index_in(
            plain_text(lam.column("value")).take(pa.array(rows)), column.dictionary.cast(pa.large_string())
        )
        own = individual_code.ravel()[rows] * width + value.fill_null(width - 1).to_numpy().astype(np.int64)
        gap = _largest_gap(own, excess[rows], holder[shown] * width + code[shown], mass[shown])
        worst = max(worst, gap)
    if not worst <= tolerance:
        raise ProblemError(
            f"a value in lambda.parquet differs by {worst:.3g} from its prior and the phi of its records"
        )
    return f"{len(lam):,} values, within {worst:.1g}"


def _largest_gap(key_a: LongArray, a: np.ndarray, key_b: LongArray, b: np.ndarray) -> float:
    """Largest difference between two sparse sums by key."""
    keys, inverse = np.unique(np.concatenate([key_a, key_b]), return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=np.concatenate([a, -b]), minlength=len(keys))
    return float(np.abs(total).max(initial=0.0))


def check_links(result: OpenResult) -> str:
    """Links are pairs of records that exist, each once, with the log odds of their probability."""
    table = result.table("links", [field.name for field in schema.links_schema([])][:8])
    a, b = (result.positions(table.column(f"database_{side}"), table.column(f"row_{side}")) for side in ("a", "b"))
    for side, place in (("a", a), ("b", b)):
        same = pc.equal(plain_text(table.column(f"id_{side}")), result.record_id.take(pa.array(place)))
        if not pc.all(same, min_count=0).as_py():
            raise ProblemError(f"id_{side} of links.parquet is not the id of its record")
    if bool((a == b).any()):
        raise ProblemError("links.parquet links a record to itself")
    key = np.minimum(a, b) * result.n_records + np.maximum(a, b)
    if len(np.unique(key)) != len(key):
        raise ProblemError("links.parquet lists a pair twice")
    n = result.summary.get("n_links")
    if n is not None and n != len(table):
        raise ProblemError(f"summary.json counts {n:,} links, links.parquet {len(table):,}")
    p = table.column("probability").to_numpy()
    if not bool(((p >= 0) & (p <= 1)).all()):
        raise ProblemError("links.parquet has a probability outside 0 to 1")
    clipped = np.clip(p, 1e-300, 1.0 - LEAST_DOUBT)
    gap = np.abs(np.log(clipped) - np.log1p(-clipped) - table.column("log_odds").to_numpy())
    if not bool((gap <= 1e-6).all()):
        raise ProblemError("a log_odds of links.parquet is not that of its probability")
    return f"{len(table):,} pairs"
