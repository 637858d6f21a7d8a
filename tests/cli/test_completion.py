"""Shell completion: the scripts for bash, zsh and fish, what they ask for, and bash itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def ask(vber: str, shell: str, words: str, last: int, folder: Path) -> list[str]:
    """What a shell is offered for the last of some words."""
    names = {"COMP_WORDS": words, "COMP_CWORD": str(last), "_VBER_COMPLETE": f"{shell}_complete"}
    if shell == "fish":
        names["COMP_CWORD"] = words.split(" ")[last]
    done = subprocess.run([vber], env={**os.environ, **names}, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_choices_are_offered(vber: str, shell: str, tmp_path: Path) -> None:
    def offered(words: str) -> str:
        return "\n".join(ask(vber, shell, words, len(words.split(" ")) - 1, tmp_path))

    assert "merge" in offered("vber me")
    assert "--must-link" in offered("vber merge --mus")
    assert "uniform" in offered("vber merge --prior ")
    assert "assignments" in offered("vber merge --stdout as")
    assert "config" not in offered("vber me")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_and_a_line_for_it(vber: str, shell: str) -> None:
    names = {"_VBER_COMPLETE": f"{shell}_source"}
    done = subprocess.run([vber], env={**os.environ, **names}, capture_output=True, text=True, check=False)
    assert f"_VBER_COMPLETE={shell}_complete" in done.stdout
    for page in ("automation.md", "reference.md"):
        assert f"_VBER_COMPLETE={shell}_source vber" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_bash_completes(vber: str) -> None:
    bash = shutil.which("bash")
    assert bash, "the checks themselves are run by bash"
    script = (
        'eval "$(_VBER_COMPLETE=bash_source vber)"\n'
        "COMP_WORDS=(vber merge --cannot) COMP_CWORD=2\n"
        "_vber_completion vber\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
        "complete -p vber"
    )
    path = os.pathsep.join([str(Path(vber).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        [bash, "--norc", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "--cannot-link"
    assert "-F _vber_completion vber" in done.stdout
