"""What a checkpoint must have in common with the run that goes on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vber_cli.config import MergeOptions, SampleOptions
from vber_cli.config.option import Option
from vber_cli.errors import UsageError
from vber_cli.provenance import Provenance, versions


def identity_of(
    options: MergeOptions | SampleOptions,
    table: Mapping[str, Option],
    provenance: Provenance,
    decided: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what decides about every bit of a run, as plain JSON values.

    Parameters
    ----------
    options, table
        What was asked for, and what each option is.
    provenance
        The inputs' digests.
    decided
        Digests of the files of decided pairs.
    """
    values = options.to_dict()
    return {
        "versions": versions(),
        "options": {name: values[name] for name, option in table.items() if option.in_digest},
        "inputs": [[item.name, item.sha256] for item in provenance.inputs],
        "decided": list(decided),
    }


def check_same(where: str, then: Mapping[str, Any], now: Mapping[str, Any], table: Mapping[str, Option]) -> None:
    """Refuse a checkpoint of another run.

    Parameters
    ----------
    where
        The checkpoint.
    then, now
        What `identity_of` said when it was begun, and says now.
    table
        The options.

    Raises
    ------
    UsageError
        Naming what differs.
    """
    advice = "run with the same inputs and options, or begin again without --resume"
    options = then.get("options", {})
    for name, value in now["options"].items():
        if options.get(name) != value:
            raise UsageError(
                f"{where} was made with another {table[name].label}: {options.get(name)!r}, now {value!r}", advice
            )
    if then.get("inputs") != now["inputs"]:
        raise UsageError(
            f"{where} was made from other inputs: {_difference(then.get('inputs'), now['inputs'])}", advice
        )
    if then.get("decided") != now["decided"]:
        raise UsageError(f"{where} was made with other files of --must-link or --cannot-link", advice)
    for name, value in now["versions"].items():
        if then.get("versions", {}).get(name) != value:
            raise UsageError(
                f"{where} was made with {name} {then.get('versions', {}).get(name)}, this is {value}",
                "use the same version, or begin again without --resume",
            )


def _difference(then: Any, now: list[list[str]]) -> str:
    """Say which database is another one."""
    before = [str(name) for name, _ in then or []]
    names = [name for name, _ in now]
    if before != names:
        return f"{', '.join(before) or 'none'}; now {', '.join(names)}"
    changed = [name for (name, digest), (_, old) in zip(now, then, strict=True) if digest != old]
    return f"{', '.join(changed)} has changed"
