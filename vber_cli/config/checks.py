"""What the texts of single options must look like; every check raises `UsageError` with `where` in front."""

from __future__ import annotations

import math
import re

from vber_cli.config.option import nearest
from vber_cli.errors import UsageError

_SECONDS_OF_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FIELD_TYPES = ("category", "text", "number", "date", "longtext")
_BYTES_OF_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def check_name(text: str, where: str) -> None:
    """Refuse an empty text."""
    if not text:
        raise UsageError(f"{where} has an empty name", "leave it out, or give a name")


def check_map(text: str, where: str) -> None:
    """Refuse what is not DB:COLUMN=FIELD."""
    source, equals, target = text.rpartition("=")
    database, colon, column = source.partition(":")
    if not (equals and colon and database and column and target.strip()):
        raise UsageError(
            f"{where} {text!r} is not of the form DB:COLUMN=FIELD", "for example --map police:surname=name"
        )


def check_type(text: str, where: str) -> None:
    """Refuse what is not FIELD=TYPE."""
    name, equals, kind = text.rpartition("=")
    if not (equals and name):
        raise UsageError(f"{where} {text!r} is not of the form FIELD=TYPE", "for example --type '*=category'")
    if kind in FIELD_TYPES:
        return
    close = nearest(kind, FIELD_TYPES)
    raise UsageError(
        f"{where} {text!r} names an unknown type {kind!r}",
        (f"did you mean {name}={close}? " if close else "") + f"types: {', '.join(FIELD_TYPES)}",
    )


def check_delimiter(text: str, where: str) -> None:
    """Refuse what cannot separate cells."""
    if len(text) != 1 or text in '\r\n"' or ord(text) > 127:
        raise UsageError(f"{where} must be one ASCII character, not {text!r}", "for example ';', or the word tab")


def check_out(text: str, where: str) -> None:
    """Refuse a blank directory, and one whose name is no text."""
    if not text.isascii() and text.encode("utf-8", "ignore").decode() != text:
        raise UsageError(f"{where} {text!r} is not UTF-8 text", "give a directory whose name is")
    if not text.strip():
        raise UsageError(f"{where} names no directory", "give a directory, for example vber-out")


def check_loss(text: str, where: str) -> None:
    """Refuse what `parse_loss` cannot read."""
    parse_loss(text, where)


def check_beta_prior(text: str, where: str) -> None:
    """Refuse what `parse_beta_prior` cannot read."""
    parse_beta_prior(text, where)


def check_memory(text: str, where: str) -> None:
    """Refuse what `parse_memory` cannot read."""
    parse_memory(text, where)


def check_time(text: str, where: str) -> None:
    """Refuse what `parse_time` cannot read."""
    parse_time(text, where)


def parse_loss(text: str, where: str = "--loss") -> tuple[float, float]:
    """Read ``fp=1,fn=2`` as the loss of a false pair and of a missed pair.

    Raises
    ------
    UsageError
        If a name is unknown or repeated, or a loss is not a positive finite number.
    """
    fix = "for example fp=1,fn=1: the loss of a false pair and of a missed pair"
    losses: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            loss = float(number)
        except ValueError:
            loss = math.nan
        if name not in ("fp", "fn") or name in losses or not (math.isfinite(loss) and loss > 0):
            raise UsageError(f"{where} {text!r} does not give fp and fn positive numbers", fix)
        losses[name] = loss
    return losses.get("fp", 1.0), losses.get("fn", 1.0)


def parse_beta_prior(text: str, where: str = "--beta-prior") -> tuple[float, float]:
    """Read ``1,99`` as the parameters of a beta distribution.

    Raises
    ------
    UsageError
        If it is not two positive finite numbers.
    """
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        a = b = math.nan
    if not (math.isfinite(a) and math.isfinite(b) and a > 0 and b > 0):
        raise UsageError(
            f"{where} {text!r} is not two positive numbers", "for example 1,99: a share of distorted values about 1/100"
        )
    return a, b


def parse_memory(text: str, where: str = "--max-memory") -> int:
    """Read ``2G``, ``512MB`` or ``1.5GiB`` as bytes (units are powers of 1024).

    Raises
    ------
    UsageError
        If it is not a positive number with a known unit.
    """
    upper = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = upper[-1:] if upper[-1:] in ("K", "M", "G", "T") else ""
    try:
        amount = float(upper.removesuffix(unit) if unit else upper)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount * _BYTES_OF_UNIT[unit] >= 1):
        raise UsageError(f"{where} must be a size in bytes, not {text!r}", "for example 512M, 4G or 1.5T")
    return int(amount * _BYTES_OF_UNIT[unit])


def parse_time(text: str, where: str = "--max-time") -> float:
    """Read ``90s``, ``15m``, ``2h``, ``1d`` or ``1h30m`` as seconds; a number alone is seconds.

    Raises
    ------
    UsageError
        If it is not a positive time.
    """
    lower = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", f"{lower}s" if lower[-1:].isdigit() else lower)
    seconds = sum(float(amount) * _SECONDS_OF_UNIT[unit] for amount, unit in parts)
    written = "".join(amount + unit for amount, unit in parts)
    if written not in (lower, f"{lower}s") or not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"{where} must be a time, not {text!r}", "for example 90s, 15m, 2h or 1h30m")
    return seconds
