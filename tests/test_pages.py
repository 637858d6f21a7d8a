"""The commands of the README and of the pages in docs/ run, and print what the pages say.

`python -m tests.test_pages` writes their output into the pages anew,
or into those that it is given. Each page has a directory of its own, in which its
commands run one after the other.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = ("make", "pip")  # they would install, or run this test again


def steps_of(block: str) -> list[tuple[str, str]]:
    """The commands of a block with the output shown after each."""
    steps: list[tuple[str, str]] = []
    continued = False
    for line in block.splitlines(keepends=True):
        command, output = steps[-1] if steps else ("", "")
        if continued:
            steps[-1] = (command + line, output)
        elif line.startswith("$ "):
            steps.append((line[2:], ""))
        else:
            steps[-1] = (command, output + line)
            continue
        continued = line.endswith("\\\n")
    return steps


def steps_of_page(page: Path) -> list[tuple[str, str]]:
    """All commands of a page."""
    return [step for block in BLOCK.findall(page.read_text(encoding="utf-8")) for step in steps_of(block)]


STEPS = {page: steps_of_page(page) for page in PAGES}
WITH_COMMANDS = [page for page, steps in STEPS.items() if steps]


def prepare(directory: Path) -> None:
    """Put the files that the commands name into a directory."""
    for name in ("sample_data", "examples"):
        (directory / name).symlink_to(ROOT / name)


def run(command: str, directory: Path) -> str:
    """Run a command as a shell does; return its standard output."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def program_of(command: str) -> str:
    """First word of a command."""
    return shlex.split(command)[0]


def test_pages_have_commands() -> None:
    assert {"README.md", "tutorial.md"} <= {page.name for page in WITH_COMMANDS}


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    prepare(tmp_path)
    ours = [(command, output) for command, output in STEPS[page] if program_of(command) not in NOT_RUN]
    assert len(ours) >= 3
    for command, output in ours:
        assert run(command, tmp_path) == output, command


@pytest.mark.parametrize(
    "command", [command for command, _ in STEPS[ROOT / "README.md"] if program_of(command) == "make"]
)
def test_make_has_the_targets(command: str) -> None:
    target = shlex.split(command)[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not missing


def rewrite(page: Path) -> None:
    """Run the page's commands and put what they print under them."""
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))

        def renewed(match: re.Match[str]) -> str:
            shown = []
            for command, output in steps_of(match[1]):
                new = output if program_of(command) in NOT_RUN else run(command, Path(name))
                shown.append(f"$ {command}{new}")
            return "```console\n" + "".join(shown) + "```"

        page.write_text(BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:]) if sys.argv[1:] else WITH_COMMANDS:
        rewrite(each)
