"""What one option is: its flags, its help, its kind, its limits; and how its value is read and checked."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vber_cli.errors import UsageError

Kind = Literal["text", "list", "columns", "int", "float", "flag", "choice"]
Section = Literal["input", "model", "inference", "output", "run"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name` (case set aside), or None when nothing is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[close[0]] if close else None


@dataclass(frozen=True)
class Option:
    """What one option means on the command line, in TOML and in the reference.

    Attributes
    ----------
    kind
        ``list`` may be repeated; ``columns`` may be repeated and takes comma-separated names as well.
    name
        The field of `MergeOptions`; flag and TOML key follow from it.
    positional
        Whether it stands on the command line without a flag.
    off_flag
        Whether ``--no-NAME`` exists.
    none_word
        The word that stands for None on the command line and in TOML (``auto``), where None is allowed.
    low, low_open, high
        Limits of a number; `low_open` excludes `low` itself.
    spellings
        Words that stand for a text which is awkward to type, and that text.
    check_text
        Checks one text, given where it stands; raises `UsageError`.
    in_digest
        False for options that cannot change what is found, only how or where the run goes.
    """

    kind: Kind
    section: Section
    help: str
    name: str = ""
    short: str | None = None
    positional: bool = False
    off_flag: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    none_word: str | None = None
    low: float | None = None
    low_open: bool = False
    high: float | None = None
    spellings: tuple[tuple[str, str], ...] = ()
    check_text: Callable[[str, str], None] | None = None
    in_digest: bool = True

    @property
    def key(self) -> str:
        """The option's name in a TOML file."""
        return self.name.replace("_", "-")

    @property
    def label(self) -> str:
        """The option as an error names it: its long flag, or FILES."""
        return "FILES" if self.positional else f"--{self.key}"

    @property
    def flags(self) -> tuple[str, ...]:
        """Its spellings on the command line, the short one first."""
        if self.positional:
            return ()
        return (self.short, self.label) if self.short else (self.label,)

    def parse(self, text: str) -> object:
        """Turn one argument of the command line into a value (for lists: into one tuple).

        Raises
        ------
        UsageError
            If the text is not of the option's kind or lies outside its limits.
        """
        if self.none_word is not None and text == self.none_word:
            return None
        if self.kind == "columns":
            return self.check(tuple(_split_names(text)), self.label)
        if self.kind == "list":
            return self.check((text,), self.label)
        if self.kind in ("int", "float"):
            return self.check(self._number(text), self.label)
        return self.check(dict(self.spellings).get(text, text), self.label)

    def convert(self, value: object, where: str) -> object:
        """Turn a TOML value into the option's value.

        Raises
        ------
        UsageError
            If the value is not of the option's kind or lies outside its limits; `where` names file and key.
        """
        if self.none_word is not None and value == self.none_word:
            return None
        if isinstance(value, str):
            value = dict(self.spellings).get(value, value)
        if self.kind in ("list", "columns"):
            if isinstance(value, str):
                value = (value,)
            elif isinstance(value, list):
                value = tuple(value)
        elif self.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        return self.check(value, where)

    def check(self, value: Any, where: str) -> object:
        """Return the value if it is of the option's kind and within its limits.

        Raises
        ------
        UsageError
            If it is not; `where` begins the message.
        """
        if value is None:
            if self.none_word is None:
                raise UsageError(f"{where} needs a value", f"give {self.expected()}")
            return None
        if not self._of_kind(value):
            raise UsageError(f"{where} must be {self.expected()}, not {_shown(value)}", self._advice())
        if self.kind in ("int", "float"):
            self._check_limits(value, where)
        if any("\0" in item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, str)):
            raise UsageError(f"{where} holds a NUL character, which no name can", "leave it out")
        if self.choices and value not in self.choices:
            close = nearest(value, self.choices)
            known = ", ".join(self.choices)
            hint = f"did you mean {close}? known: {known}" if close else f"known: {known}"
            raise UsageError(f"{where} cannot be {_shown(value)}", hint)
        if self.check_text is not None:
            for item in value if isinstance(value, tuple) else (value,):
                self.check_text(item, where)
        return value

    def expected(self) -> str:
        """Say in words what the option takes."""
        nouns = {
            "int": "a whole number",
            "float": "a number",
            "flag": "true or false",
            "list": "a list of texts",
            "columns": "a list of column names",
            "text": "a text",
            "choice": "one of " + ", ".join(self.choices),
        }
        return nouns[self.kind] + (f" or {self.none_word}" if self.none_word else "")

    def _of_kind(self, value: object) -> bool:
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "int":
            return isinstance(value, int) and not isinstance(value, bool)
        if self.kind == "float":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.kind in ("list", "columns"):
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        return isinstance(value, str)

    def _number(self, text: str) -> int | float:
        try:
            return int(text) if self.kind == "int" else float(text)
        except ValueError:
            pass
        raise UsageError(f"{self.label} must be {self.expected()}, not {_shown(text)}", self._advice())

    def _check_limits(self, value: float, where: str) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{where} must be a finite number, not {value}", self._advice())
        low, high = self.low, self.high
        if low is not None and (value < low or (self.low_open and value == low)):
            bound = f"greater than {low:g}" if self.low_open else f"at least {low:g}"
            raise UsageError(f"{where} must be {bound}, not {value}", self._advice())
        if high is not None and value > high:
            raise UsageError(f"{where} must be at most {self._limit(high)}, not {value}", self._advice())

    def _limit(self, number: float) -> str:
        return f"{number:,}" if self.kind == "int" else f"{number:g}"

    def _advice(self) -> str:
        low = "" if self.low is None else f" {'above' if self.low_open else 'from'} {self.low:g}"
        high = "" if self.high is None else f" up to {self._limit(self.high)}"
        noun = {"int": "a whole number", "float": "a number"}.get(self.kind)
        if noun is None:
            return f"give {self.expected()}"
        return f"give {noun}{low}{high}" + (f", or {self.none_word}" if self.none_word else "")


def _split_names(text: str) -> list[str]:
    """Split a,b on its commas; a name that holds a comma is written in double quotes."""
    try:
        rows = list(csv.reader([text], skipinitialspace=True))
    except csv.Error:
        raise UsageError(
            f"{_shown(text)} holds a line end outside quotes", "write such a name in double quotes, as in 'a,\"b c\"'"
        ) from None
    return [name.strip() for name in rows[0] if name.strip()] if rows else []


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def digest_options(chosen: Any, options: Mapping[str, Option], more: Mapping[str, object] | None = None) -> str:
    """Return the SHA-256 of those options that can change what is found, and of `more` that can."""
    values = {name: getattr(chosen, name) for name, option in options.items() if option.in_digest} | dict(more or {})
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode("ascii")).hexdigest()


def named_options(kind: type) -> dict[str, Option]:
    """Return the `Option` of each field of a dataclass, with the field's name."""
    return {
        item.name: dataclasses.replace(item.metadata["option"], name=item.name) for item in dataclasses.fields(kind)
    }
