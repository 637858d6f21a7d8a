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


def called_in(node: ast.AST) -> set[str]:
    """Names of everything that is called somewhere within."""
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def test_what_kernels_call_counts_no_references() -> None:
    """One that does is compiled with the counts for whoever calls it, even leaves, if a kernel was compiled first."""
    makes_arrays = {"empty", "zeros", "full", "ones", "arange", "argsort", "sort", "copy", "append", "flatnonzero"}
    kernels: dict[str, ast.FunctionDef] = {}
    leaves: dict[str, ast.FunctionDef] = {}
    from_python: set[str] = set()
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        made = {name: ast.unparse(node.decorator_list[0]) for name, node in functions.items() if node.decorator_list}
        kernels |= {name: functions[name] for name, by in made.items() if by == "kernel"}
        leaves |= {name: functions[name] for name, by in made.items() if by in ("leaf", "inlined_leaf")}
        compiled = [functions[name] for name in made if name in kernels or name in leaves]
        from_python |= called_in(ast.Module([node for node in tree.body if node not in compiled], []))
    assert min(len(kernels), len(leaves)) > 50  # they are told by the names of their decorators
    by_kernels = set().union(*(called_in(node) for node in (*kernels.values(), *leaves.values())))
    by_kernels = {name for name in by_kernels if not name.endswith("_kernel")}  # these are for Python
    creating = makes_arrays | {name for name, node in kernels.items() if called_in(node) & makes_arrays}
    creating |= {name for name, node in kernels.items() if called_in(node) & creating} | {"compared"}  # hands out views
    of_numbers = {name for name in kernels if room_of_kernel(name) == "engine/special_kernels.py"}
    counting = (by_kernels & set(kernels)) - from_python - creating - of_numbers
    assert not counting


def room_of_kernel(name: str) -> str:
    """The module that defines a compiled function."""
    return next(room_of(path) for path in MODULES if f"\ndef {name}(" in path.read_text(encoding="utf-8"))
