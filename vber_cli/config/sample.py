"""Every option of `vber sample`; what it has in common with `vber merge` is described there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vber_cli.config.checks import check_beta_prior, check_out, parse_beta_prior, parse_memory
from vber_cli.config.merge import MergeOptions
from vber_cli.config.option import Kind, Option, Section, digest_options, named_options
from vber_cli.errors import UsageError

DRAWS_KEPT = 100  # of each chain, by default


def _opt(default: Any, kind: Kind, section: Section, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(kind=kind, section=section, help=text, **more)})


def _as_in_merge(name: str) -> Any:
    item = next(item for item in dataclasses.fields(MergeOptions) if item.name == name)
    return field(default=item.default, metadata=item.metadata)


@dataclass(frozen=True)
class SampleOptions:
    """Every option of `vber sample`; constructing one checks it.

    Raises
    ------
    UsageError
        If a value is of the wrong kind, outside its limits, or contradicts another.
    """

    files: tuple[str, ...] = _as_in_merge("files")
    id: tuple[str, ...] = _as_in_merge("id")
    fields: tuple[str, ...] = _as_in_merge("fields")
    exclude: tuple[str, ...] = _as_in_merge("exclude")
    map: tuple[str, ...] = _as_in_merge("map")
    null: tuple[str, ...] = _as_in_merge("null")
    delimiter: str | None = _as_in_merge("delimiter")
    encoding: str | None = _as_in_merge("encoding")
    K: int | None = _opt(
        None,
        "int",
        "model",
        "Individuals that the records may describe; records takes as many as there are records, as SMERED does.",
        metavar="INT|records",
        none_word="records",
        low=1,
    )
    beta_prior: str = _opt(
        "1,99",
        "text",
        "model",
        "Beta prior of each field's share of distorted values; its mean is a/(a+b).",
        metavar="A,B",
        check_text=check_beta_prior,
    )
    theta_prior: float = _opt(
        1.0,
        "float",
        "model",
        "Dirichlet prior of each field's distribution: what every value counts before any record is seen.",
        metavar="MU",
        low=0,
        low_open=True,
    )
    iterations: int = _opt(
        1000,
        "int",
        "inference",
        "Iterations of each chain, burn-in included: linkage moves, then one draw of everything else.",
        metavar="INT",
        low=1,
    )
    burn_in: int | None = _opt(
        None,
        "int",
        "inference",
        "Iterations to leave out at the beginning; auto leaves out half.",
        metavar="INT|auto",
        none_word="auto",
        low=0,
    )
    thin: int | None = _opt(
        None,
        "int",
        "inference",
        f"Keep the linkage of every so many iterations; auto keeps {DRAWS_KEPT} of each chain.",
        metavar="INT|auto",
        none_word="auto",
        low=1,
    )
    chains: int = _opt(4, "int", "inference", "Chains, from different starts.", metavar="INT", low=1, high=1000)
    moves_per_sweep: int | None = _opt(
        None,
        "int",
        "inference",
        "Linkage moves in each iteration; auto makes as many as there are records.",
        metavar="INT|auto",
        none_word="auto",
        low=1,
    )
    out: str = _opt(
        "vber-sample",
        "text",
        "output",
        "Result directory; an existing one is replaced only with --force. DIR.checkpoint.npz beside it holds the "
        "chains while they run.",
        short="-o",
        metavar="DIR",
        in_digest=False,
        check_text=check_out,
    )
    link_min: float = _as_in_merge("link_min")
    force: bool = _opt(
        False,
        "flag",
        "output",
        "Replace an existing result directory once the new results are complete, and the checkpoint of an "
        "interrupted run at once.",
        off_flag=True,
        in_digest=False,
    )
    resume: bool = _opt(
        False,
        "flag",
        "run",
        "Continue an interrupted run with the same inputs and options from its checkpoint; without one, begin. "
        "The draws are those of a run that was not interrupted.",
        in_digest=False,
    )
    checkpoint_every: float = _opt(
        60.0,
        "float",
        "run",
        "Seconds between checkpoints; an interrupted run writes one, too.",
        metavar="SECONDS",
        low=0,
        in_digest=False,
    )
    seed: int = _as_in_merge("seed")
    threads: int | None = _opt(
        None,
        "int",
        "run",
        "Chains to run at a time; the result does not depend on it; auto uses every core.",
        metavar="INT|auto",
        none_word="auto",
        low=1,
        high=4096,
        in_digest=False,
    )
    max_memory: str | None = _as_in_merge("max_memory")
    quiet: bool = _as_in_merge("quiet")
    verbose: bool = _as_in_merge("verbose")
    log_json: bool = _as_in_merge("log_json")
    debug: bool = _as_in_merge("debug")

    def __post_init__(self) -> None:
        for option in SAMPLE_OPTIONS.values():
            option.check(getattr(self, option.name), option.label)
        if self.quiet and (self.verbose or self.log_json):
            other = "--verbose" if self.verbose else "--log-json"
            raise UsageError(f"--quiet and {other} contradict each other", f"leave out --quiet or {other}")
        if self.n_draws < 1:
            raise UsageError(
                f"{self.iterations:,} iterations, of which {self.n_burn_in:,} are burn-in and every "
                f"{self.thin_every:,}th is kept, leave no draw",
                "raise --iterations, or lower --burn-in or --thin",
            )

    @property
    def n_burn_in(self) -> int:
        """Iterations left out at the beginning."""
        return self.iterations // 2 if self.burn_in is None else self.burn_in

    @property
    def thin_every(self) -> int:
        """Every so many iterations one linkage is kept."""
        return max((self.iterations - self.n_burn_in) // DRAWS_KEPT, 1) if self.thin is None else self.thin

    @property
    def n_draws(self) -> int:
        """Linkages that each chain keeps."""
        return max(self.iterations - self.n_burn_in, 0) // self.thin_every

    @property
    def beta_parameters(self) -> tuple[float, float]:
        """The parameters of the beta prior."""
        return parse_beta_prior(self.beta_prior)

    @property
    def max_memory_bytes(self) -> int | None:
        """The memory budget in bytes, None without one."""
        return None if self.max_memory is None else parse_memory(self.max_memory)

    def digest(self) -> str:
        """Return the SHA-256 of the options that can change what is found."""
        return digest_options(self, SAMPLE_OPTIONS)

    def to_dict(self) -> dict[str, object]:
        """Return the options as plain JSON values."""
        values = {name: getattr(self, name) for name in SAMPLE_OPTIONS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


SAMPLE_OPTIONS: Mapping[str, Option] = named_options(SampleOptions)
