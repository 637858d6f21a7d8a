"""Third-party packages stay in the rooms they belong to; the layers themselves are import-linter's contracts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "vber_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported_names(path: Path) -> Iterator[str]:
    """Top-level names of all packages a module imports, at its head or later."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def room_of(path: Path) -> str:
    """The module's path in the package, with slashes."""
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=room_of)
def test_third_parties_stay_in_their_rooms(path: Path) -> None:
    names = set(imported_names(path))
    room = room_of(path)
    if not path.stem.endswith("kernels"):
        assert "numba" not in names
    if not room.startswith("cli/"):
        assert "click" not in names
    if not room.startswith("cli/") and room != "progress.py":
        assert "rich" not in names
    if not room.startswith("report/"):
        assert "jinja2" not in names
    assert not names & {"pandas", "duckdb", "hypothesis", "pytest", "tests", "benchmarks"}


@pytest.mark.parametrize("path", MODULES, ids=room_of)
def test_files_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 500


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    found = [room_of(path) for path in MODULES if any(mark in path.read_text(encoding="utf-8") for mark in marks)]
    assert not found
