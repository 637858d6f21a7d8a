"""Options as TOML: reading what a file sets, and writing a file that loads back identically."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path

from vber_cli.config.merge import DEFAULT_OUT, OPTIONS, SECTIONS, MergeOptions
from vber_cli.config.option import Option, nearest
from vber_cli.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

TABLE = "merge"


def to_toml(options: MergeOptions, given: Collection[str] = ()) -> str:
    """Return a TOML file that loads back as these options.

    Parameters
    ----------
    options
        What to write; every option is written, so that a later version with other defaults does the same.
    given
        Names of the options that were given rather than left at their default. It matters for `out` alone, whose
        default stays a comment: naming a directory makes --stdout keep the results.

    Raises
    ------
    UsageError
        If a text cannot be written in TOML (an undecodable file name).
    """
    lines = [f"[{TABLE}]"]
    for section in SECTIONS:
        lines.append(f"\n# {SECTIONS[section]}")
        for option in OPTIONS.values():
            if option.section == section:
                value = getattr(options, option.name)
                implied = option.name == "out" and value == DEFAULT_OUT and "out" not in given
                lines.append(("# " if implied else "") + f"{option.key} = {_toml_value(option, value)}")
    return "\n".join(lines) + "\n"


def _toml_value(option: Option, value: object) -> str:
    if value is None:
        return _toml_text(option.none_word or "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_text(item) for item in value) + "]"
    return _toml_text(value) if isinstance(value, str) else repr(value)


def _toml_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(
            f"{text!r} cannot be written in TOML, which is UTF-8", "rename the file, or give it on the command line"
        ) from None
    # JSON escapes what TOML's basic strings do, except DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def parse_toml(text: str, source: str) -> dict[str, object]:
    """Read the options set in a TOML text.

    Parameters
    ----------
    text
        The TOML; its options stand in the table ``[merge]``.
    source
        What errors call it, usually the file's path.

    Returns
    -------
    dict
        Value by name of `MergeOptions` field, only those that are set.

    Raises
    ------
    UsageError
        If the text is not TOML, or holds an unknown key (the nearest known one is named), or a wrong value.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for nesting and numbers beyond all measure
        raise UsageError(f"{source} is not valid TOML: {error}", "texts need quotes, lists need brackets") from None
    known = {option.key: option for option in OPTIONS.values()}
    for name in document:
        if name == TABLE:
            continue
        close = nearest(name.replace("_", "-"), known)
        if close and not isinstance(document[name], dict):
            raise UsageError(f"{source} sets {name!r} outside a table", f"write [{TABLE}] above {close}")
        raise UsageError(f"{source} holds an unknown name {name!r}", f"options stand in the table [{TABLE}]")
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise UsageError(f"{source}: {TABLE} is not a table", f"begin the options with [{TABLE}]")
    values: dict[str, object] = {}
    for name, value in table.items():
        option = known.get(name.replace("_", "-"))
        if option is None:
            close = nearest(name.removeprefix("no-").replace("_", "-"), known)
            fix = f"did you mean {close!r}?" if close else "`vber config show` lists every key"
            raise UsageError(f"{source} sets an unknown option {name!r}", fix)
        if option.name in values:
            raise UsageError(f"{source} sets {option.key!r} twice", "keep one of the two spellings")
        values[option.name] = option.convert(value, f"{source}: {option.key}")
    return values


def read_toml(path: str) -> dict[str, object]:
    """Read the options set in a TOML file; see `parse_toml`.

    Raises
    ------
    UsageError
        If the file cannot be read, besides the cases of `parse_toml`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "give --config a TOML file that can be read") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None
    return parse_toml(text, path)
