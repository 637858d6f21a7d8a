"""Every option of `vber merge`, and how the command line overrides a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vber_cli.config.checks import (
    check_delimiter,
    check_loss,
    check_map,
    check_memory,
    check_name,
    check_out,
    check_time,
    check_type,
    parse_loss,
    parse_memory,
    parse_time,
)
from vber_cli.config.option import Kind, Option, Section, digest_options, named_options
from vber_cli.errors import UsageError

SECTIONS: Mapping[str, str] = {
    "input": "Input",
    "model": "Model",
    "inference": "Inference",
    "output": "Output",
    "run": "Run",
}
DEFAULT_OUT = "vber-out"
RESULT_TABLES = ("assignments", "links", "individuals")


def _opt(default: Any, kind: Kind, section: Section, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(kind=kind, section=section, help=text, **more)})


@dataclass(frozen=True)
class MergeOptions:
    """Every option of `vber merge`; constructing one checks it.

    Raises
    ------
    UsageError
        If a value is of the wrong kind, outside its limits, or contradicts another.
    """

    files: tuple[str, ...] = _opt(
        (),
        "list",
        "input",
        "The databases: CSV, TSV, Parquet, Arrow or Feather, also .gz .bz2 .zst; - is standard input; a "
        "directory or a quoted glob of parts is one database; NAME=PATH names a database.",
        metavar="FILES...",
        in_digest=False,
        check_text=check_name,
        positional=True,
    )
    K: int | None = _opt(
        None,
        "int",
        "model",
        "Individuals in the population, recorded or not; auto learns it.",
        metavar="INT|auto",
        none_word="auto",
        low=1,
        high=2**53,
    )
    out: str = _opt(
        DEFAULT_OUT,
        "text",
        "output",
        "Result directory; an existing one is replaced only with --force. With --stdout and without --out "
        "nothing is kept on disk.",
        short="-o",
        metavar="DIR",
        in_digest=False,
        check_text=check_out,
    )
    id: tuple[str, ...] = _opt(
        (),
        "list",
        "input",
        "The column that identifies a record, for every database or for one (DB:COL); never used as a field. "
        "Without it a column named like an id is used if its values are unique, else the row number. "
        "Repeatable.",
        metavar="COL|DB:COL",
        check_text=check_name,
    )
    fields: tuple[str, ...] = _opt(
        (),
        "columns",
        "input",
        "The fields to compare (default: the columns present in at least two databases; the others are announced). "
        "Repeatable.",
        metavar="A,B,...",
        check_text=check_name,
    )
    exclude: tuple[str, ...] = _opt(
        (), "columns", "input", "Columns that are not fields. Repeatable.", metavar="A,B,...", check_text=check_name
    )
    map: tuple[str, ...] = _opt(
        (),
        "list",
        "input",
        "Read this column of this database as this field. Repeatable.",
        metavar="DB:COLUMN=FIELD",
        check_text=check_map,
    )
    type: tuple[str, ...] = _opt(
        (),
        "list",
        "input",
        "Type of a field instead of the one its values suggest, or of every field with '*=TYPE': category (the same "
        "letter for letter, or not), text, longtext, number or date. Repeatable.",
        metavar="FIELD=TYPE",
        check_text=check_type,
    )
    null: tuple[str, ...] = _opt(
        (),
        "list",
        "input",
        "One more spelling of a missing value, besides the empty cell, NA, N/A, NULL, None, nan, ?, - and "
        "unknown (case and outer blanks do not matter). Repeatable.",
        metavar="TOKEN",
    )
    delimiter: str | None = _opt(
        None,
        "text",
        "input",
        "What separates the cells of CSV input: one character, or tab; auto detects it per file.",
        metavar="CHAR",
        none_word="auto",
        spellings=(("tab", "\t"), (r"\t", "\t")),
        check_text=check_delimiter,
    )
    encoding: str | None = _opt(
        None,
        "text",
        "input",
        "Text encoding of CSV input, such as utf-8 or latin-1; auto detects it per file.",
        metavar="NAME",
        none_word="auto",
        check_text=check_name,
    )
    prior: str = _opt(
        "empirical",
        "choice",
        "model",
        "Base distribution of a field: empirical uses the values' frequencies, so that agreeing on a rare "
        "value counts for more; uniform counts every value alike.",
        metavar="NAME",
        choices=("empirical", "uniform"),
    )
    concentration: float | None = _opt(
        None,
        "float",
        "model",
        "How noisy the fields are: a/(1+a) is about the share of mismatches between records of one "
        "individual; learned fits it per field.",
        metavar="A|learned",
        none_word="learned",
        low=1e-12,
        high=1e12,
    )
    no_duplicates: tuple[str, ...] = _opt(
        (),
        "list",
        "model",
        "No two records of this database are the same individual. Repeatable.",
        metavar="DB",
        check_text=check_name,
    )
    link: bool = _opt(
        False,
        "flag",
        "model",
        "Link records of different databases only: no database has duplicates.",
        off_flag=True,
    )
    dedupe: bool = _opt(
        False,
        "flag",
        "model",
        "Link records of one database only: no individual is in two of them.",
        off_flag=True,
    )
    must_link: tuple[str, ...] = _opt(
        (),
        "list",
        "model",
        "Pairs that are the same individual: a table of record ids, id_a and id_b or its first two columns; DB:ID, or "
        "database_a and database_b, where databases share ids. With a column decision only its rows with yes. "
        "Repeatable.",
        metavar="FILE",
        in_digest=False,
        check_text=check_name,
    )
    cannot_link: tuple[str, ...] = _opt(
        (),
        "list",
        "model",
        "Pairs that are different individuals, as for --must-link; with a column decision only its rows with no. "
        "Repeatable.",
        metavar="FILE",
        in_digest=False,
        check_text=check_name,
    )
    decisions: tuple[str, ...] = _opt(
        (),
        "list",
        "model",
        "A file of vber review, filled in: its rows with yes are taken as by --must-link, those with no as by "
        "--cannot-link. Repeatable.",
        metavar="FILE",
        in_digest=False,
        check_text=check_name,
    )
    independent: bool = _opt(
        False,
        "flag",
        "model",
        "Take different individuals as unrelated: no classes of relatives, neighbours or namesakes.",
        off_flag=True,
    )
    max_sweeps: int = _opt(
        500,
        "int",
        "inference",
        "Stop after this many sweeps; if not converged by then, the results are written and the exit code is 6.",
        metavar="INT",
        low=1,
        high=10**9,
    )
    tol: float = _opt(
        1e-08,
        "float",
        "inference",
        "A run has converged when a sweep changes no membership by more than this.",
        metavar="FLOAT",
        low=0,
        low_open=True,
        high=1,
    )
    start: str = _opt(
        "auto",
        "choice",
        "inference",
        "Where the sweeps begin: records puts K distinct records in individuals of their own; random draws "
        "memberships; auto chooses.",
        metavar="NAME",
        choices=("auto", "records", "random"),
    )
    start_from: str | None = _opt(
        None,
        "text",
        "inference",
        "Begin with the noise, the relations and the tree that the result in DIR has learned, and look for no others: "
        "quick, and what changes is due to new decisions or records alone.",
        metavar="DIR",
        none_word="none",
        in_digest=False,
        check_text=check_name,
    )
    moves: bool = _opt(
        True,
        "flag",
        "inference",
        "Reassign, merge and split individuals between sweeps; --no-moves runs the literal updates alone.",
        off_flag=True,
    )
    loss: str = _opt(
        "fp=1,fn=1",
        "text",
        "inference",
        "What a false pair and a missed pair cost; the assignment written out minimises the expected loss.",
        metavar="fp=X,fn=Y",
        check_text=check_loss,
    )
    link_min: float = _opt(
        0.01, "float", "output", "Write the pairs whose link probability is at least this.", metavar="P", low=0, high=1
    )
    phi_min: float = _opt(
        1e-06,
        "float",
        "output",
        "Leave memberships below this out of phi.parquet; how much was left out is counted.",
        metavar="P",
        low=0,
        high=1,
    )
    records: bool = _opt(
        True,
        "flag",
        "output",
        "Keep the values of every record as they were read in records.parquet, for vber explain and vber review; "
        "--no-records leaves that table out.",
        off_flag=True,
        in_digest=False,
    )
    seed: int = _opt(
        0,
        "int",
        "run",
        "Seed of every random choice: the same inputs, options and seed give the same bits.",
        metavar="INT",
        low=0,
        high=2**63 - 1,
    )
    threads: int | None = _opt(
        None,
        "int",
        "run",
        "Threads to use; the result does not depend on it; auto uses every core.",
        metavar="INT|auto",
        none_word="auto",
        low=1,
        high=4096,
        in_digest=False,
    )
    max_memory: str | None = _opt(
        None,
        "text",
        "run",
        "Keep no more than this in memory, such as 4G. On Linux what is too much lives in a file beside the results "
        "meanwhile. Where that is not possible, or too little, the run stops with exit code 5; none sets no limit.",
        metavar="SIZE",
        none_word="none",
        in_digest=False,
        check_text=check_memory,
    )
    max_time: str | None = _opt(
        None,
        "text",
        "run",
        "Stop after this time, such as 90s, 15m or 2h, with exit code 6: with results marked as incomplete, or with a "
        "checkpoint alone if there are none yet; none sets no limit.",
        metavar="TIME",
        none_word="none",
        in_digest=False,
        check_text=check_time,
    )
    resume: bool = _opt(
        False,
        "flag",
        "run",
        "Go on from the checkpoint that an interrupted run left beside the result directory, to the same bits; without "
        "one, begin. Inputs and options must be the same.",
        off_flag=True,
        in_digest=False,
    )
    force: bool = _opt(
        False,
        "flag",
        "output",
        "Replace an existing result directory once the new results are complete.",
        off_flag=True,
        in_digest=False,
    )
    stdout: str | None = _opt(
        None,
        "choice",
        "output",
        "Also write this result to standard output as CSV: assignments, links or individuals. Give --out as "
        "well to keep the result directory.",
        metavar="TABLE",
        none_word="none",
        choices=RESULT_TABLES,
        in_digest=False,
    )
    quiet: bool = _opt(False, "flag", "run", "Print nothing but errors.", short="-q", in_digest=False)
    verbose: bool = _opt(False, "flag", "run", "Print a line for every phase.", short="-v", in_digest=False)
    log_json: bool = _opt(
        False, "flag", "run", "Print progress, warnings and errors as lines of JSON.", in_digest=False
    )
    debug: bool = _opt(False, "flag", "run", "Print the traceback of an error.", in_digest=False)

    def __post_init__(self) -> None:
        for option in OPTIONS.values():
            option.check(getattr(self, option.name), option.label)
        if self.quiet and (self.verbose or self.log_json):
            other = "--verbose" if self.verbose else "--log-json"
            raise UsageError(f"--quiet and {other} contradict each other", f"leave out --quiet or {other}")
        if self.link and self.dedupe:
            raise UsageError("--link and --dedupe contradict each other", "leave out one of them")
        if self.start_from is not None:
            self._check_start_from()

    def _check_start_from(self) -> None:
        """Refuse what would overrule, or never use, what the earlier result has learned."""
        others = (
            ("--no-moves", not self.moves),
            ("--independent", self.independent),
            ("--concentration", self.concentration is not None),
        )
        for other, given in others:
            if given:
                raise UsageError(
                    f"--start-from and {other} contradict each other", f"leave out --start-from or {other}"
                )

    @property
    def loss_weights(self) -> tuple[float, float]:
        """The loss of a false pair and of a missed pair."""
        return parse_loss(self.loss)

    @property
    def max_memory_bytes(self) -> int | None:
        """The memory budget in bytes, None without one."""
        return None if self.max_memory is None else parse_memory(self.max_memory)

    @property
    def max_seconds(self) -> float | None:
        """The time limit in seconds, None without one."""
        return None if self.max_time is None else parse_time(self.max_time)

    def digest(self, files: Sequence[str] = ()) -> str:
        """Return the SHA-256 of the options that can change what is found.

        Paths are left out: the digests of the inputs stand for the databases, wherever they lie, and `files` for what
        else was read.
        """
        return digest_options(self, OPTIONS, {"decided": list(files)} if files else {})

    def to_dict(self) -> dict[str, object]:
        """Return the options as plain JSON values, in the order of the reference."""
        values = {name: getattr(self, name) for name in OPTIONS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def layered(cls, file: Mapping[str, object], command_line: Mapping[str, object]) -> MergeOptions:
        """Return the defaults, overridden by a configuration file, overridden by the command line.

        Raises
        ------
        UsageError
            If the result contradicts itself.
        """
        values = dict(file)
        loud, silent = ("verbose", "log_json"), ("quiet",)
        for chosen, dropped in ((loud, silent), (silent, loud)):
            if any(command_line.get(name) for name in chosen):
                values = {name: value for name, value in values.items() if name not in dropped}
        return cls(**(values | dict(command_line)))  # type: ignore[arg-type]


OPTIONS: Mapping[str, Option] = named_options(MergeOptions)
