"""The command line itself: usage errors, help, completion, speed."""

import json
import os
import subprocess
import sys

import pytest

from vber_cli.cli.app import COMMANDS, main
from vber_cli.cli.app import vber as group
from vber_cli.cli.reference import commands, reference


@pytest.mark.parametrize(
    ("arguments", "first", "second"),
    [
        (["mrege"], "vber has no command 'mrege'", "merge"),
        (["--verson"], "vber has no option --verson", "--version"),
        (["merge"], "no database is given", "vber merge clinic.csv police.csv"),
        (["merge", "a", "--max-sweep=3"], "vber merge has no option --max-sweep", "--max-sweeps"),
        (["merge", "a", "--k", "3"], "vber merge has no option --k", "--K"),
        (["merge", "a", "--K"], "--K needs a value", "--K INT|auto"),
        (
            ["merge", "a", "--K", "0"],
            "--K must be at least 1, not 0",
            "Give a whole number from 1 up to 9,007,199,254,740,992, or auto",
        ),
        (["merge", "a", "--K", "many"], "--K must be a whole number or auto, not 'many'", "auto"),
        (["merge", "a", "--prior", "empirica"], "--prior cannot be 'empirica'", "Did you mean empirical?"),
        (["merge", "a", "--quiet=1"], "--quiet takes no value", "Write --quiet alone"),
        (["merge", "a", "--config", "absent.toml"], "absent.toml: No such file", "--config"),
        (["merge", "a", "--type", "x=nummer"], "--type 'x=nummer' names an unknown type", "Did you mean x=number?"),
        (["config", "chekk"], "vber config has no command 'chekk'", "check"),
        (["config", "check"], "vber config check needs FILE.toml", "vber config check --help"),
        (["evaluate", "x"], "vber evaluate needs TRUTH", "vber evaluate --help"),
        (["evaluate", "x", "y", "z"], "got unexpected extra argument (z)", "vber evaluate --help"),
    ],
)
def test_wrong_usage_is_two_lines_and_code_2(capsys, arguments, first, second):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert (out, len(lines)) == ("", 2)
    assert lines[0].startswith(f"error: {first}")
    assert second in lines[1]


def test_with_log_json_a_usage_error_is_json(capsys):
    assert main(["merge", "a", "--log-json", "--K", "0"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["what"], told["exit_code"]) == ("error", "--K must be at least 1, not 0", 2)


def test_help_is_printed_without_a_command(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: vber [OPTIONS] [")
    assert main(["config"]) == 0
    assert "check" in capsys.readouterr().out
    assert main(["-h"]) == 0


def test_every_command_has_help(capsys):
    for path, text in commands():
        assert main([*path.split()[1:], "--help"]) == 0
        assert text.split()[:3] == capsys.readouterr().out.split()[:3]
    assert {path.split()[1] for path, _ in commands() if " " in path} == set(COMMANDS)
    assert group.name == "vber"


def test_the_reference_has_not_drifted(request):
    path = request.config.rootpath / "docs" / "reference.md"
    assert path.read_text(encoding="utf-8") == reference(), "write it anew: python -m vber_cli.cli.reference"


def test_version(vber):
    done = subprocess.run([vber, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("vber ")


@pytest.mark.parametrize("arguments", [["--help"], ["merge", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    program = (
        "import sys; from vber_cli.cli.app import main; main(sys.argv[1:]); "
        "sys.exit(bool({'numpy', 'pyarrow', 'numba', 'scipy', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False)
    assert done.returncode == 0


def test_the_command_does_without_pandas(tmp_path):
    """Which pyarrow would import for nothing, where it is installed as it is here."""
    (tmp_path / "a.csv").write_text("name,town\nann,york\nann,york\nbob,hull\n", encoding="utf-8")
    program = (
        "import sys; from vber_cli.cli.app import command; sys.argv[0] = 'vber'; code = command(); "
        "sys.exit(code or bool({'pandas'} & set(sys.modules)) or not {'pyarrow'} & set(sys.modules))"
    )
    arguments = ["merge", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out"), "-q"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "vber_cli", "nope"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: vber has no command 'nope'.")


def test_shell_completion(vber):
    def complete(words, shell="bash"):
        settings = {
            "_VBER_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        return subprocess.run([vber], env=os.environ | settings, capture_output=True, text=True, check=False).stdout

    assert "plain,merge" in complete("vber me")
    assert "plain,--max-sweeps" in complete("vber merge --max-s")
    assert "plain,random" in complete("vber merge --start ra")
    assert complete("vber merge cl").startswith("file,")
    assert complete("vber merge --out re").startswith("dir,")
    source = subprocess.run(
        [vber], env=os.environ | {"_VBER_COMPLETE": "zsh_source"}, capture_output=True, text=True, check=False
    )
    assert (source.returncode, source.stdout[:8]) == (0, "#compdef")


def test_a_closed_standard_output(vber):
    done = subprocess.run(f'"{vber}" config show >&-', shell=True, capture_output=True, text=True, check=False)
    assert done.stderr.count("\n") in (0, 2)
    assert "Traceback" not in done.stderr
