"""Checkpoints: arrays and facts of an unfinished run in one file, replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vber_cli.errors import InputError
from vber_cli.io.write import writing

_FACTS = "facts.json"


def save_checkpoint(path: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
    """Write a checkpoint; a kill at any moment leaves the old one or the new one.

    Parameters
    ----------
    path
        Where, ending in .npz.
    arrays, facts
        What to keep; the facts are JSON values.

    Raises
    ------
    OutputError
        The disk is full or the place cannot be written.
    """
    told = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with writing(str(path)):
            with temporary.open("wb") as file:
                np.savez(file, **{_FACTS: told, **arrays})  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays and the facts of a checkpoint.

    Raises
    ------
    InputError
        It cannot be read, or is no checkpoint.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as parts:
            arrays = {name: parts[name] for name in parts.files}
        facts = json.loads(arrays.pop(_FACTS).tobytes())
    except (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a readable checkpoint ({error})", "remove it to begin again, or name another --out"
        ) from None
    return arrays, facts
