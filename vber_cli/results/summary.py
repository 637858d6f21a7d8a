"""What `summary.json` says of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vber_cli.candidates.audit import Certificate
from vber_cli.candidates.plan import Plan
from vber_cli.config import MergeOptions
from vber_cli.encode.codebook import Encoded
from vber_cli.encode.comparison import Comparison
from vber_cli.engine import infer
from vber_cli.io.tables import Database
from vber_cli.model import evidence
from vber_cli.model.prior import Prior
from vber_cli.model.relations import Relations
from vber_cli.model.types import FloatArray, LongArray
from vber_cli.provenance import Provenance, versions
from vber_cli.results.output import Written

_MOSTLY = 0.7  # of a class's pairs, for a field to be part of its name


@dataclass(frozen=True)
class Search:
    """How the candidates were found and what was learned from them; absent with the literal updates.

    `n_pairs` are candidates, `n_compared` were looked at, `n_possible` are those that constraints leave open.
    """

    learned: infer.Learned
    certificate: Certificate
    plan: Plan
    n_pairs: int
    n_compared: int
    n_possible: float


def describe_inputs(provenance: Provenance, databases: Sequence[Database], encoded: Encoded) -> list[dict[str, object]]:
    """What the databases are and which bytes were read of them, as every summary has it."""
    return [
        {
            "name": database.name,
            "n_records": int(encoded.n_records_by_db[d]),
            "id_column": encoded.id_column[d],
            "sha256": provenance.inputs[d].sha256,
            "bytes": database.n_bytes,
            "format": database.format,
        }
        for d, database in enumerate(databases)
    ]


def summarise(
    options: MergeOptions,
    provenance: Provenance,
    databases: Sequence[Database],
    encoded: Encoded,
    compared: Comparison,
    found: infer.Result,
    search: Search | None,
    written: Written,
) -> dict[str, Any]:
    """Everything that `summary.json` holds but timings, memory and warnings."""
    fit, posterior = found.optimum.fit, found.posterior
    # Records without any value stand alone in the tables, and are no more individuals than there are.
    n = {"mean": float(min(written.n_individuals, found.n_individuals)), "low": None, "high": None}
    k: dict[str, float | None] = {"mean": float(found.n_individuals), "low": None, "high": None}
    if posterior is not None:
        n = {"mean": posterior.n.mean, "low": posterior.n.low, "high": posterior.n.high}
        k = {
            "mean": posterior.n_individuals.mean,
            "low": posterior.n_individuals.low,
            "high": posterior.n_individuals.high,
        }
    expected = found.expected
    summary: dict[str, Any] = {
        "inputs": describe_inputs(provenance, databases, encoded),
        "options": {key: value for key, value in options.to_dict().items() if key not in ("files", "out", "resume")},
        "config_digest": provenance.config_digest,
        "codebook_checksum": encoded.codebook.checksum,
        "versions": versions(),
        "n": n,
        "K": k,
        "n_individuals": written.n_individuals,
        "n_links": written.n_links,
        "expected": {
            "precision": None if expected is None else expected.precision,
            "recall": None if expected is None else expected.recall,
            "f1": None if expected is None else expected.f1,
        },
        "candidates": _candidates_summary(search, written),
        "bound": {
            "elbo": fit.elbo,
            "bound": found.optimum.bound,
            "sweeps": fit.n_sweeps,
            "converged": fit.converged,
            "criterion": f"no φ changed by more than {options.tol:g} in the last sweep",
        },
        "fields": _fields_summary(encoded, compared, found.prior),
        "noise": _noise_summary(encoded, search),
        "relations": _relations_summary(encoded, search),
        "dependence": _dependence_summary(encoded, search),
        "phi": {"left_out": written.phi_left_out, "left_out_mass": written.phi_left_out_mass},
    }
    if posterior is not None:
        summary["posterior"] = {
            "draws": posterior.n_draws,
            "r_hat": posterior.r_hat,
            "chain_disagreement": posterior.disagreement,
            "largest_component": posterior.largest_component,
            "discrepancy": posterior.discrepancy,
        }
    return summary


def _candidates_summary(search: Search | None, written: Written) -> dict[str, Any]:
    if search is None:
        nothing = dict.fromkeys(("pairs", "recall", "recall_low", "recall_high"))
        return {**nothing, "phi_outside": written.phi_outside}
    certificate = search.certificate
    return {
        "pairs": search.n_pairs,
        "compared": search.n_compared,
        "keys": None if search.plan.exhaustive else len(search.plan.keys),
        "recall": certificate.recall,
        "recall_low": certificate.low,
        "recall_high": certificate.high,
        "sampled": certificate.n_sampled,
        "phi_outside": written.phi_outside,
    }


def _fields_summary(encoded: Encoded, compared: Comparison, prior: Prior) -> list[dict[str, Any]]:
    records = compared.records
    missing = (records.codes < 0).mean(axis=0)
    entropy = evidence.collision_entropy(prior)
    return [
        {
            "field": field,
            "type": compared.types[f].kind,
            "type_reason": compared.types[f].reason,
            "n_values": int(records.n_values[f]),
            "missing": float(missing[f]),
            "concentration": float(prior.concentration[f]),
            "mismatch": float(prior.concentration[f] / (1.0 + prior.concentration[f])),
            "collision_entropy_bits": float(entropy[f] / np.log(2.0)),
        }
        for f, field in enumerate(encoded.codebook.fields)
    ]


def _noise_summary(encoded: Encoded, search: Search | None) -> dict[str, Any]:
    if search is None:
        return {"classes": [], "bic": {}}
    learned = search.learned
    noise = learned.hyperparameters.evidence.noise
    order = np.argsort(-noise.share, kind="stable")
    anew = noise.anew if len(noise.anew) else np.zeros(noise.concentration.shape, bool)
    return {
        "classes": [
            {
                "share": float(noise.share[q]),
                "drawn_anew": [field for field, own in zip(encoded.codebook.fields, anew[q], strict=True) if own],
                "mismatch": {
                    field: float(alpha / (1.0 + alpha))
                    for field, alpha in zip(encoded.codebook.fields, noise.concentration[q], strict=True)
                },
            }
            for q in order
        ],
        "bic": {str(key): float(value) for key, value in learned.noise_bic.items()},
    }


def _relations_summary(encoded: Encoded, search: Search | None) -> dict[str, Any]:
    if search is None:
        return {"classes": [], "bic": {}}
    learned = search.learned
    relations = learned.hyperparameters.evidence.relations
    ranked = sorted(learned.relation_bic.items(), key=lambda item: -item[1])
    fields = encoded.codebook.fields
    kinds = [_kind(fields, relations, np.array([c]), search.n_possible) for c in np.flatnonzero(relations.own)]
    for f in np.unique(relations.redrawn[relations.redrawn >= 0]):
        found = _kind(fields, relations, np.flatnonzero(relations.redrawn == f), search.n_possible)
        kinds.append({**found, "redrawn": fields[f]})
    return {
        "classes": sorted(kinds, key=lambda kind: -kind["pairs"]),
        "bic": {str(key): float(value) for key, value in learned.relation_bic.items()},
        "runner_up": ranked[1][0] if len(ranked) > 1 else None,
        "margin": float(ranked[0][1] - ranked[1][1]) if len(ranked) > 1 else None,
    }


def _kind(fields: Sequence[str], relations: Relations, classes: LongArray, n_possible: float) -> dict[str, Any]:
    """Classes of relations taken together: their name in words, their number and how often each field is identical."""
    odds = relations.odds[classes]
    levels = np.einsum("c,cfl->fl", odds / odds.sum(), relations.levels[classes])
    return {
        "name": relation_name(fields, levels),
        "pairs": float(odds.sum() * n_possible),
        "identical": {field: float(levels[f, 0]) for f, field in enumerate(fields)},
    }


def _dependence_summary(encoded: Encoded, search: Search | None) -> list[dict[str, Any]]:
    """The tree: each field that depends on another, and what knowing that one is worth, in bits a pair."""
    tree = None if search is None else search.learned.hyperparameters.tree
    if tree is None:
        return []
    fields = encoded.codebook.fields
    return [
        {"field": fields[f], "parent": fields[g], "gain_bits": float(tree.gain[f] / np.log(2.0))}
        for f, g in enumerate(tree.parent.tolist())
        if g >= 0
    ]


def relation_name(fields: Sequence[str], levels: FloatArray) -> str:
    """A class of relations in plain words, from its (F, 4) levels."""
    agree = [field for f, field in enumerate(fields) if levels[f, :3].sum() > _MOSTLY]
    differ = [field for f, field in enumerate(fields) if levels[f, 3] > _MOSTLY]
    parts = [f"{word} {', '.join(names)}" for word, names in (("agree on", agree), ("differ in", differ)) if names]
    return "; ".join(parts) or "agree on some fields"
