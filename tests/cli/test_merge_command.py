"""`vber merge` as a process, on a fake pipeline: exit codes, streams, signals, what is kept."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_pipeline.py")
ROOT = Path(__file__).parents[2]


def environment(fate):
    return {**os.environ, "FAKE_FATE": fate, "PYTHONPATH": str(ROOT), "TERM": "xterm"}


def run(folder, *arguments, fate="good", typed=None, temporary=None):
    return subprocess.run(
        [sys.executable, FAKE, *arguments],
        cwd=folder,
        env={**environment(fate), "TMPDIR": str(temporary or folder)},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_merge_keeps_its_result(tmp_path):
    done = run(tmp_path, "merge", "a.csv", "b.csv")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == ["note: column id is the record id", "warning: something odd"]
    assert (tmp_path / "vber-out" / "assignments.parquet").exists()


def test_quiet_and_verbose_and_json(tmp_path):
    assert run(tmp_path, "merge", "a.csv", "-q", "-o", "1").stderr == ""
    verbose = run(tmp_path, "merge", "a.csv", "-v", "-o", "2").stderr.splitlines()
    assert verbose[0].startswith("read: 1 (")
    assert verbose[3:7] == [
        "1,234 records in 2 databases",
        "1,000 individuals (90% interval 990 to 1,010)",
        "77 pairs that may be one individual",
        "1 warning, see above",
    ]
    assert verbose[7].startswith("results in 2 (")
    events = [json.loads(line) for line in run(tmp_path, "merge", "a.csv", "--log-json", "-o", "3").stderr.splitlines()]
    assert [event["event"] for event in events] == ["start", "end", "note", "warning", "done"]
    assert events[-1]["out"] == "3"


def test_a_terminal_gets_the_summary(tmp_path):
    terminal, side = pty.openpty()
    done = subprocess.run(
        [sys.executable, FAKE, "merge", "a.csv"], cwd=tmp_path, env=environment("good"), stderr=side, check=False
    )
    os.close(side)
    text = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert "1,000 individuals (90% interval 990 to 1,010)" in text
    assert "results in vber-out (" in text


@pytest.mark.parametrize(
    ("fate", "code", "first", "second"),
    [
        ("input", 3, "error: a.csv: line 3 has 2 cells, the header has 3.", "Quote the cell\\nor repair it."),
        ("full", 4, "error: /results/phi.parquet: No space left on device.", "Free some space, or write elsewhere"),
        ("denied", 4, "error: /results: Permission denied.", "Check the permissions, or write elsewhere"),
        ("memory", 5, "error: out of memory.", "Use fewer"),
        ("bug", 1, "error: a bug in vber: ZeroDivisionError: division by zero.", "Run it again with --debug"),
    ],
)
def test_an_error_is_two_lines_and_a_code(tmp_path, fate, code, first, second):
    done = run(tmp_path, "merge", "a.csv", "-q", fate=fate)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), lines[0]) == (code, 2, first)
    assert lines[1].startswith(second)
    assert done.stdout == ""
    debugged = run(tmp_path, "merge", "a.csv", "-q", "--debug", fate=fate)
    assert (debugged.returncode, debugged.stderr.splitlines()[0]) == (code, "Traceback (most recent call last):")
    told = json.loads(run(tmp_path, "merge", "a.csv", "--log-json", fate=fate).stderr.splitlines()[-1])
    assert (told["event"], told["exit_code"]) == ("error", code)


def test_debug_may_stand_in_the_file(tmp_path):
    (tmp_path / "run.toml").write_text("[merge]\ndebug = true\n")
    assert "Traceback" in run(tmp_path, "merge", "a.csv", "--config", "run.toml", fate="bug").stderr


def test_unconverged_results_are_kept(tmp_path):
    done = run(tmp_path, "merge", "a.csv", "-q", fate="unconverged")
    assert (done.returncode, done.stderr) == (6, "")
    assert (tmp_path / "vber-out").exists()
    done = run(tmp_path, "merge", "a.csv", "-o", "2", fate="unconverged")
    assert "warning: not converged after 500 sweeps" in done.stderr


def test_stdout_alone_leaves_nothing_behind(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = run(tmp_path, "merge", "-", "b.csv", "--stdout", "assignments", "-q", typed="x", temporary=temporary)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr, len(lines)) == (0, "", 50_001)
    assert lines[:2] == ["database,row,record_id,individual", "clinic,0,0,0"]
    assert sorted(tmp_path.rglob("*")) == [temporary]


def test_stdout_with_out_keeps_the_result(tmp_path):
    (tmp_path / "run.toml").write_text('[merge]\nfiles = ["a.csv"]\nout = "vber-out"\nstdout = "assignments"\n')
    for number, arguments in enumerate([["a.csv", "--stdout", "assignments", "--out"], ["--config", "run.toml", "-o"]]):
        done = run(tmp_path, "merge", "-q", *arguments, f"kept{number}")
        assert done.stdout.startswith("database,")
        assert (tmp_path / f"kept{number}").exists()
    assert run(tmp_path, "merge", "-q", "--config", "run.toml").returncode == 0
    assert (tmp_path / "vber-out").exists()


def test_a_table_that_was_not_written(tmp_path):
    done = run(tmp_path, "merge", "a.csv", "--stdout", "links", "-q")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no table links" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "fate", "code"),
    [
        (["merge", "a.csv", "--stdout", "assignments", "-q"], "good", 0),
        (["merge", "a.csv", "--stdout", "assignments", "-q"], "unconverged", 6),
        (["config", "show"], "good", 0),
    ],
)
def test_a_closed_pipe_is_no_error(tmp_path, arguments, fate, code):
    with subprocess.Popen(
        [sys.executable, FAKE, *arguments], cwd=tmp_path, env=environment(fate), stdout=-1, stderr=-1
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (code, b"")


def test_a_full_standard_output(tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, FAKE, "merge", "a.csv", "--stdout", "assignments", "-q"],
            cwd=tmp_path, env=environment("good"), stdout=full, stderr=-1, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_nothing_half_written(tmp_path, number, code):
    with subprocess.Popen(
        [sys.executable, FAKE, "merge", "a.csv", "-q"],
        cwd=tmp_path,
        env=environment("slow"),
        stdout=-1,
        stderr=-1,
        # whoever runs the tests may have had the signal ignored, as nohup does, and that is inherited
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - the test has no threads
    ) as process:
        half = process.stdout.readline()
        assert half
        process.send_signal(number)
        errors = process.stderr.read()
    assert process.returncode == code
    assert errors.count(b"\n") == 2
    assert list(tmp_path.iterdir()) == []
