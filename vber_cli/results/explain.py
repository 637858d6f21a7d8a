"""Why two records are one individual or not: their evidence line by line, from the model that a result holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vber_cli.engine.block_model import BlockModel, block_model
from vber_cli.engine.candidate_pairs import tilt_of
from vber_cli.engine.evidence_kernels import pair_evidence, pair_levels
from vber_cli.engine.pair_explanation import PairExplanation, explain_pairs
from vber_cli.errors import InputError
from vber_cli.model.order import canonical_order, in_order
from vber_cli.model.similar import CLOSE, IDENTICAL, MISSING_LEVEL, NEAR, OTHER
from vber_cli.model.types import FloatArray, IntArray, LongArray
from vber_cli.results.individuals import LEAST_DOUBT
from vber_cli.results.model_files import StoredModel, read_model
from vber_cli.results.open_result import OpenResult
from vber_cli.results.summary import relation_name

BIT = math.log(2.0)
LEVEL_WORDS = {
    IDENTICAL: "identical",
    CLOSE: "one slip apart",
    NEAR: "similar",
    OTHER: "different",
    MISSING_LEVEL: "missing",
}
_SAME_FORM = "same when compared"
_LARGEST_LOG_ODDS = math.log1p(-LEAST_DOUBT) - math.log(LEAST_DOUBT)
TELLING_BITS = 0.05  # evidence that rounds to nothing is not worth a word


@dataclass(frozen=True)
class RecordName:
    """A record: its database, row, id and individual."""

    database: str
    row: int
    id: str
    individual: int

    @property
    def text(self) -> str:
        """The name that the commands take."""
        return f"{self.database}:{self.id}"


@dataclass(frozen=True)
class Line:
    """One step from the prior odds to the probability.

    Attributes
    ----------
    kind
        prior, field, relation, others (records and uncertainties beside the pair) or limit (of what a probability
        near 1 can tell).
    name
        The field, or what the line is about.
    value_a, value_b
        As they were read; None where missing, or where the line is not about a field.
    level
        How the values compare, in words; empty for other lines.
    bits, running_bits
        What the line adds to the log odds, and their sum so far.
    note
        What explains the number.
    """

    kind: str
    name: str
    value_a: str | None
    value_b: str | None
    level: str
    bits: float
    running_bits: float
    note: str


@dataclass(frozen=True)
class PairReport:
    """Everything about two records.

    Attributes
    ----------
    a, b
        The records.
    lines
        From the prior on; their bits sum to `log_odds`.
    pair_log_odds, pair_probability
        Of the two records by themselves.
    log_odds, probability
        As links.parquet has them; those of the pair by itself where it does not list the pair.
    listed, together
        Whether links.parquet has the pair; whether the two are in one individual.
    verdict
        The outcome and its main reasons, in a sentence.
    """

    a: RecordName
    b: RecordName
    lines: tuple[Line, ...]
    pair_log_odds: float
    pair_probability: float
    log_odds: float
    probability: float
    listed: bool
    together: bool
    verdict: str

    @property
    def pair_bits(self) -> float:
        """Log odds of the two records by themselves, in bits."""
        return self.pair_log_odds / BIT

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


class Explainer:
    """Explains pairs of a result's records.

    Parameters
    ----------
    result
        An open result with model.json and records.parquet.

    Raises
    ------
    InputError
        They are absent or damaged.
    """

    def __init__(self, result: OpenResult) -> None:
        self.result = result
        self.stored: StoredModel = read_model(result)
        order = canonical_order(self.stored.records)
        self._place = np.empty(len(order), dtype=np.int64)
        self._place[order] = np.arange(len(order))
        self._model: BlockModel = block_model(
            in_order(self.stored.records, order), self.stored.learned.in_order(order).evidence
        )

    @cached_property
    def _links(self) -> tuple[LongArray, FloatArray]:
        """Keys of the listed pairs, sorted, and their probabilities."""
        if not self.result.has("links"):
            return np.zeros(0, np.int64), np.zeros(0)
        a, b, probability = read_links(self.result)
        key = self._key(a, b)
        order = np.argsort(key)
        return key[order], probability[order]

    def _key(self, a: LongArray, b: LongArray) -> LongArray:
        return np.minimum(a, b) * self.result.n_records + np.maximum(a, b)

    def _ends(self, a: LongArray, b: LongArray) -> tuple[IntArray, IntArray]:
        """The pairs' places in the engine's order, the earlier first."""
        x, y = self._place[a], self._place[b]
        return np.minimum(x, y).astype(np.int32), np.maximum(x, y).astype(np.int32)

    def probability(self, a: LongArray, b: LongArray) -> FloatArray:
        """(P,) float64, link probabilities as listed; nan where a pair is not listed."""
        keys, probability = self._links
        if not len(keys):
            return np.full(len(a), np.nan)
        key = self._key(a, b)
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where(keys[at] == key, probability[at], np.nan)

    def pair_log_odds(self, a: LongArray, b: LongArray) -> FloatArray:
        """(P,) float64 nats, log odds of pairs of records by themselves."""
        first, second = self._ends(a, b)
        link, doubt = pair_evidence(self._model, second, pair_levels(self._model, first, second))
        return link - doubt - self.stored.learned.log_new + tilt_of(self._model, first, second)

    def record(self, record: int) -> RecordName:
        """Return the name of a record."""
        result = self.result
        return RecordName(
            result.databases[int(result.db_of_record[record])],
            int(result.row[record]),
            str(result.record_id[record].as_py()),
            int(result.individual[record]),
        )

    def pairs(self, pairs: Sequence[tuple[int, int]]) -> list[PairReport]:
        """Explain pairs of records, given by their places in the assignments."""
        if not pairs:
            return []
        a, b = np.array(pairs, dtype=np.int64).T
        first, second = self._ends(a, b)
        found = explain_pairs(self._model, first, second)
        listed, tilt = self.probability(a, b), tilt_of(self._model, first, second)
        return [
            self._report(int(a[i]), int(b[i]), int(second[i]), found, i, float(tilt[i]), float(listed[i]))
            for i in range(len(pairs))
        ]

    def _report(
        self, a: int, b: int, later: int, found: PairExplanation, i: int, tilt: float, listed: float
    ) -> PairReport:
        lines = [self._prior_line(), *self._field_lines(a, b, later, found, i)]
        if len(self._model.relation_odds):
            lines.append(self._relation_line(found, i))
        if tilt != 0.0:
            lines.append(self._database_line(a, tilt))
        own = float(found.total[i]) - self.stored.learned.log_new + tilt
        is_listed = not math.isnan(listed)
        log_odds = _log_odds(listed) if is_listed else own
        if is_listed:
            lines.append(_others_line(own, log_odds))
        names = self.record(a), self.record(b)
        together = names[0].individual == names[1].individual
        probability = listed if is_listed else _probability(own)
        report = PairReport(
            *names, tuple(_running(lines)), own, _probability(own), log_odds, probability, is_listed, together, ""
        )
        return PairReport(**{**vars(report), "verdict": self._verdict(report)})

    def _prior_line(self) -> Line:
        log_new = self.stored.learned.log_new
        odds = f"1 to {math.exp(log_new):,.0f}" if log_new > 0 else f"{math.exp(-log_new):,.2f} to 1"
        note = f"odds {odds}: any two records, with K and n as they are"
        return Line("prior", "before comparing", None, None, "", -log_new / BIT, 0.0, note)

    def _field_lines(self, a: int, b: int, later: int, found: PairExplanation, i: int) -> list[Line]:
        lines = []
        for f, field in enumerate(self.stored.fields):
            column = self.stored.values[f]
            value_a, value_b = column[a].as_py(), column[b].as_py()
            level = int(found.levels[i, f])
            word = LEVEL_WORDS[level]
            if level == IDENTICAL and value_a != value_b:
                word = _SAME_FORM
            if found.swapped[i, f] >= 0:
                word = f"swapped with {self.stored.fields[found.swapped[i, f]]}"
            bits = float(found.by_field[i, f]) / BIT
            note = self._note(f, later, found, i)
            lines.append(Line("field", field, value_a, value_b, word, bits, 0.0, note))
        return lines

    def _note(self, f: int, later: int, found: PairExplanation, i: int) -> str:
        """How rare an identical value is, and which other field it follows from."""
        levels = found.levels[i]
        notes = []
        if levels[f] == IDENTICAL:
            prior, code = self.stored.learned.evidence.prior, int(self._model.codes[later, f])
            notes.append(f"1 in {1.0 / float(prior.base[prior.value_ptr[f] + code]):,.0f}")
        parent = int(self.stored.learned.evidence.dependence.parent[f])
        own, free = float(found.by_field[i, f]) / BIT, float(found.independent[i, f]) / BIT
        if parent >= 0 and levels[parent] == IDENTICAL and abs(own - free) > TELLING_BITS:
            word = "implied by" if 0.0 <= own < free / 2 else "counted given"
            notes.append(f"{word} {self.stored.fields[parent]} ({free:+.1f} bits without it)")
        return ", ".join(notes)

    def _relation_line(self, found: PairExplanation, i: int) -> Line:
        kind = int(found.relation[i])
        name = relation_name(self.stored.fields, self._model.relation_level[kind])
        bits = -float(found.doubt[i]) / BIT
        note = f"such as those who {name}" if bits <= -TELLING_BITS else ""
        return Line("relation", "could be a relative", None, None, "", bits, 0.0, note)

    def _database_line(self, a: int, tilt: float) -> Line:
        name = self.result.databases[int(self.result.db_of_record[a])]
        note = f"{name} holds {'few' if tilt < 0 else 'many'} duplicates of its own"
        return Line("database", "both in one database", None, None, "", tilt / BIT, 0.0, note)

    def _verdict(self, report: PairReport) -> str:
        p = f"{report.probability:.4f}"
        if report.together:
            text = f"One individual, with probability {p}" + ("" if report.listed else " by the two records alone")
        elif report.listed:
            text = f"Not linked, with probability {p} of being one individual"
        else:
            text = f"Not linked: not among the pairs of links.parquet; by the two records alone the probability is {p}"
        return f"{text}. {self._reason(report)}".strip()

    def _reason(self, report: PairReport) -> str:
        others = next((line for line in report.lines if line.kind == "others"), None)
        likely = report.pair_log_odds > 0
        if report.together:
            if others is not None and not likely:
                return "By themselves they would not be linked; the other records of the individual decide."
            return ""
        if report.listed and likely:
            return "By themselves they would be linked; the other records speak for other partners."
        if not report.listed and likely:
            if not self.stored.linked:
                return "The literal updates (--no-moves) look for no links."
            return "By themselves they would be linked: they were no candidates, or other records speak against it."
        against = sorted(
            (x for x in report.lines if x.bits <= -TELLING_BITS and x.kind in ("field", "relation")),
            key=lambda x: x.bits,
        )
        if not against:
            return "What agrees is too little beside the number of individuals."
        return "Against it: " + ", ".join(f"{line.name} ({line.bits:+.1f} bits)" for line in against[:3]) + "."


def _others_line(own: float, log_odds: float) -> Line:
    if log_odds >= _LARGEST_LOG_ODDS - 1e-9 and own > log_odds:
        return Line(
            "limit", "as good as certain", None, None, "", (log_odds - own) / BIT, 0.0,
            "probabilities closer to 1 than 10^-15 are not told apart",
        )  # fmt: skip
    return Line(
        "others", "beside the pair", None, None, "", (log_odds - own) / BIT, 0.0,
        "the other records, and what is uncertain about noise and K",
    )  # fmt: skip


def _running(lines: list[Line]) -> list[Line]:
    total, out = 0.0, []
    for line in lines:
        total += line.bits
        out.append(Line(**{**vars(line), "running_bits": total}))
    return out


def _log_odds(probability: float) -> float:
    """Log odds as links.parquet has them."""
    p = min(max(probability, 1e-300), 1.0 - LEAST_DOUBT)
    return math.log(p) - math.log1p(-p)


def _probability(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-log_odds)) if log_odds > -700 else 0.0


def read_links(result: OpenResult) -> tuple[LongArray, LongArray, FloatArray]:
    """(P,) places in the assignments of both records of every link, and its probability.

    Raises
    ------
    InputError
        There are no links, or they name unknown records.
    """
    if not result.has("links"):
        raise InputError(
            f"{result.path} has no links.parquet: the literal updates look for no links",
            "run `vber merge` without --no-moves",
        )
    table = result.table("links", ["database_a", "row_a", "database_b", "row_b", "probability"])
    a, b = (result.positions(table.column(f"database_{side}"), table.column(f"row_{side}")) for side in ("a", "b"))
    return a, b, table.column("probability").to_numpy()


def explain_pair(directory: Path, name_a: str, name_b: str) -> PairReport:
    """Explain two records, each called `id` or `database:id`.

    Raises
    ------
    InputError
        The directory is no result with a model, or there is no such record.
    """
    result = OpenResult(directory)
    a, b = result.find_record(name_a), result.find_record(name_b)
    return Explainer(result).pairs([(a, b)])[0]
