"""The hidden siblings of a result directory: results being written or replaced, and what dead runs left of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from pathlib import Path

SUMMARY = "summary.json"
RESULT_KEY = "result"
# Files that a result may hold although its summary does not list them.
_TABLES = (
    "phi", "lambda", "individuals", "assignments", "links", "trace", "codebook", "records", "values", "similar",
    "draws", "iterations",
)  # fmt: skip
_KNOWN_FILES = frozenset({SUMMARY, "report.html", "model.json"} | {f"{name}.parquet" for name in _TABLES})


def foreign_entry(path: Path, entries: list[str]) -> str | None:
    """Return the first entry of a directory that no vber result holds; the summary tells what belongs to it."""
    try:
        summary = json.loads((path / SUMMARY).read_text("utf-8"))
    except (OSError, ValueError):
        return next((entry for entry in entries if entry != SUMMARY), SUMMARY)
    if not isinstance(summary, dict):
        return SUMMARY
    result = summary.get(RESULT_KEY)
    listed = result.get("files") if isinstance(result, dict) else None
    own = _KNOWN_FILES | {name for name in (listed if isinstance(listed, list) else []) if isinstance(name, str)}
    return next((entry for entry in entries if entry not in own or not (path / entry).is_file()), None)


def remove_result(path: Path) -> None:
    """Remove a result file by file, so that nothing else can go with it."""
    entries = sorted(os.listdir(path))
    if foreign_entry(path, entries) is None:
        # the summary goes last: without it nobody would know the rest
        for entry in sorted(entries, key=lambda name: name == SUMMARY):
            os.unlink(path / entry)
    os.rmdir(path)


def sibling(path: Path, kind: str) -> Path:
    """Return a new name beside a result directory; `kind` is tmp (being written) or old (being replaced)."""
    return path.with_name(f".{path.name}.vber-{kind}-{secrets.token_hex(4)}")


def make_sibling(path: Path, kind: str) -> Path:
    """Make a directory under such a name."""
    while True:
        made = sibling(path, kind)
        with contextlib.suppress(FileExistsError):
            made.mkdir()
            return made


def recover(path: Path) -> bool:
    """Clear up after runs that died: put back an old result whose successor never came, remove the rest.

    Parameters
    ----------
    path
        The result directory; its lock must be held, so that what is found belongs to no live run.

    Returns
    -------
    bool
        Whether an old result was put back.
    """
    restored = False
    old = [found for found in _siblings(path, "old") if _is_result(found)]
    if old and not os.path.lexists(path):
        os.rename(max(old, key=lambda found: found.stat().st_mtime_ns), path)
        restored = True
    for left in _siblings(path, "old"):
        with contextlib.suppress(OSError):
            remove_result(left)
    for left in _siblings(path, "tmp"):
        with contextlib.suppress(OSError):
            _remove_unfinished(left)
    return restored


def _siblings(path: Path, kind: str) -> list[Path]:
    name = re.compile(rf"\.{re.escape(path.name)}\.vber-{kind}-[0-9a-f]{{8}}")
    with os.scandir(path.parent) as entries:
        return [
            Path(entry.path) for entry in entries if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]


def _is_result(path: Path) -> bool:
    """Whether a directory holds a result, the whole of it, and nothing else."""
    entries = sorted(os.listdir(path))
    if foreign_entry(path, entries) is not None:
        return False
    try:
        return set(json.loads((path / SUMMARY).read_text("utf-8"))[RESULT_KEY]["files"]) <= set(entries)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _remove_unfinished(path: Path) -> None:
    for name in os.listdir(path):
        if name in _KNOWN_FILES:
            os.unlink(path / name)
    os.rmdir(path)
