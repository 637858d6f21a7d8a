"""One HTML file: written beside its place, renamed into it; replaces nothing but an older file of its kind."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from vber_cli.errors import OutputError
from vber_cli.io.write import writing

_HEAD_BYTES = 4096


def check_page(path: Path, generator: str) -> None:
    """Refuse a place that cannot be written to, or that something else has taken.

    Parameters
    ----------
    path
        Of the file to be.
    generator
        Beginning of the page's ``<meta name="generator">``, by which an older file of the kind is known.

    Raises
    ------
    OutputError
        If it is a directory, another file, or in no directory that can be written to.
    """
    another = "name another file with --out"
    if not path.parent.is_dir():
        raise OutputError(f"{path.parent} is not a directory", another)
    if path.is_dir():
        raise OutputError(f"{path} is a directory", another)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path.parent} cannot be written to", another)
    if not os.path.lexists(path):
        return
    mark = f'<meta name="generator" content="{generator}'.encode()
    try:
        with path.open("rb") as file:
            ours = path.is_file() and mark in file.read(_HEAD_BYTES)
    except OSError:
        ours = False
    if not ours:
        raise OutputError(f"{path} exists and is not a {generator}", f"move it away, or {another}")


def write_page(path: Path, page: str, generator: str) -> None:
    """Write a page; what was there is replaced when the new one is complete.

    Raises
    ------
    OutputError
        As `check_page`, or if the disk is full.
    """
    check_page(path, generator)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with writing(str(path)):
        try:
            temporary.write_bytes(page.encode())
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
