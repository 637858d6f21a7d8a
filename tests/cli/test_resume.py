"""`vber merge` that is stopped, killed, out of time or out of disk: what is left, and how it goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.generate import Options, generate
from benchmarks.kills import contents, differences
from benchmarks.kills import kill as kill_merges
from vber_cli import journal, pipeline
from vber_cli.cli.app import main
from vber_cli.engine import link_posterior
from vber_cli.errors import Stopped
from vber_cli.io.lock import OutputLock
from vber_cli.results.output import estimate_bytes

CHECKPOINT = ".out.vber-checkpoint"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("inputs")
    made, _ = generate(folder, Options(records=160, entities=100, databases=2, noise=2.0, seed=3))
    _, *rows = made[0].read_text().splitlines()
    pairs = [f"{a.split(',')[0]},{b.split(',')[0]}" for a, b in zip(rows[:20:2], rows[1:20:2], strict=True)]
    (folder / "apart.csv").write_text("\n".join(["id_a,id_b", *pairs]))
    return [*map(str, made), str(folder / "apart.csv")]


WAYS = {
    "plain": [],
    "literal": ["--no-moves", "--K", "120"],
    "random": ["--start", "random", "--K", "120", "--max-sweeps", "40"],
    "forced": ["--K", "95", "--independent", "--concentration", "0.05"],
    "decided": ["--cannot-link", "apart.csv", "--no-duplicates", "db1", "--start", "records"],
}


def merge(files, folder, *more, way="plain"):
    options = [files[2] if option == "apart.csv" else option for option in WAYS[way]]
    return main(["merge", *files[:2], *options, "--out", str(folder / "out"), *more])


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """Small data are drawn for two hundred times, which is where their time would go."""
    monkeypatch.setattr(link_posterior, "_MAX_DRAWS", 12)


class Stops:
    """Has the journal stop the run when it has noted so many steps and rounds; None never."""

    def __init__(self, monkeypatch):
        self.at, self.noted, self.names = None, 0, []
        note = journal.Journal._note

        def counting(self_, key, entry):
            note(self_, key, entry)
            self.noted += 1
            self.names.append(entry.name)
            if self.noted == self.at:
                raise Stopped(signal.SIGTERM)

        monkeypatch.setattr(journal.Journal, "_note", counting)

    def stop(self, at):
        self.at, self.noted = at, 0


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_run_stopped_anywhere_goes_on_to_the_same_bits(files, tmp_path, monkeypatch, capsys, way):
    stops = Stops(monkeypatch)
    code = merge(files, tmp_path / "whole", way=way)
    assert code in (0, 6)
    n = stops.noted
    assert n > 5
    points = {2, n // 2, n - 1}
    if "learn" in stops.names:  # all of a step is done, and the step itself is not noted yet
        points.add(stops.names.index("learn"))
    for at in {n - 1} if way == "forced" else sorted(points):  # forced learns twice, which takes long
        stops.stop(at)
        capsys.readouterr()
        folder = tmp_path / str(at)
        assert merge(files, folder, way=way) == 143
        *_, what, fix = capsys.readouterr().err.splitlines()
        assert what.startswith("error: terminated by a signal; what was done so far is in")
        assert "--resume" in fix
        assert os.listdir(folder) == [CHECKPOINT]
        stops.stop(2)  # and once more on the way
        again = merge(files, folder, "--resume", way=way)
        stops.stop(None)
        if again == 143:
            assert merge(files, folder, "--resume", way=way) == code
        else:
            assert again == code
        assert differences(tmp_path / "whole" / "out", folder / "out") == []
        assert os.listdir(folder) == ["out"]
        assert "before" in json.loads((folder / "out" / "summary.json").read_text())["seconds"]


def test_another_run_is_refused(files, tmp_path, monkeypatch, capsys):
    stops = Stops(monkeypatch)
    stops.stop(4)
    assert merge(files, tmp_path) == 143
    stops.stop(None)
    capsys.readouterr()
    assert merge(files, tmp_path, "--resume", "--tol", "1e-4", "-q") == 2
    assert "made with another --tol: 1e-08, now 0.0001." in capsys.readouterr().err
    assert merge([files[1], files[0]], tmp_path, "--resume", "-q") == 2
    assert "made from other inputs: db1, db2; now db2, db1" in capsys.readouterr().err
    assert merge(files, tmp_path, "--resume", "--cannot-link", files[2], "-q") == 2
    assert "other files of --must-link or --cannot-link" in capsys.readouterr().err
    changed = tmp_path / "db1.csv"
    changed.write_text(Path(files[0]).read_text() + "\n")
    assert merge([str(changed), files[1]], tmp_path, "--resume", "-q") == 2
    assert "other inputs: db1 has changed" in capsys.readouterr().err
    (tmp_path / CHECKPOINT / "run.npz").write_bytes(b"half")
    assert merge(files, tmp_path, "--resume", "-q") == 3
    capsys.readouterr()
    assert merge(files, tmp_path) == 0
    assert "will be replaced" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["db1.csv", "out"]
    assert merge(files, tmp_path, "--resume", "--force") == 0
    assert "there is no checkpoint" in capsys.readouterr().err


def test_stdout_alone_has_nothing_to_resume(files, capsys):
    assert main(["merge", *files[:2], "--stdout", "links", "--resume"]) == 2
    assert "--out" in capsys.readouterr().err


def test_time_that_ends_before_there_is_a_result(files, tmp_path, capsys):
    assert merge(files, tmp_path, "-q", "--max-time", "0.000001s") == 6
    what, fix = capsys.readouterr().err.splitlines()
    assert (what, fix) == (
        "error: the 0 s of --max-time are up, and there is no result yet.",
        "Give it more time.",
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("way", ["plain", "literal", "random"])
def test_time_that_ends_near_the_end_gives_marked_results(files, tmp_path, monkeypatch, capsys, way):
    stops = Stops(monkeypatch)
    monkeypatch.setattr(journal.Journal, "_late", lambda self: self._must_finish)
    assert merge(files, tmp_path, "--max-time", "1h", way=way) == 6
    assert "stopped after the 1h of --max-time; the results are written, but not complete" in capsys.readouterr().err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["complete"], summary["stopped_by"]) == (False, "max-time")
    assert summary["bound"]["sweeps"] == 1
    if way != "literal":
        assert summary["posterior"]["draws"] == 10
        assert os.listdir(tmp_path / CHECKPOINT)
    assert main(["check", str(tmp_path / "out")]) == 0
    monkeypatch.setattr(journal.Journal, "_late", lambda _: False)
    stops.stop(None)
    assert merge(files, tmp_path, "--resume", "--force", way=way) in (0, 6)
    assert merge(files, tmp_path / "whole", "--force", way=way) in (0, 6)
    assert differences(tmp_path / "whole" / "out", tmp_path / "out") == []
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["stopped_by"] != "max-time"


def test_two_runs_on_one_output(files, tmp_path, capsys):
    lock = OutputLock(tmp_path / "out", "out")
    assert merge(files, tmp_path, "-q", way="literal") == 4
    what, fix = capsys.readouterr().err.splitlines()
    assert f"another run is writing there (process {os.getpid()})" in what
    assert fix.startswith("Wait for it to end")
    lock.release()
    assert merge(files, tmp_path, "-q", way="literal") == 0


def test_a_run_that_died_while_it_replaced_a_result(files, tmp_path, capsys):
    assert merge(files, tmp_path, "-q", way="literal") == 0
    before = contents(tmp_path / "out")
    os.rename(tmp_path / "out", tmp_path / ".out.vber-old-0123abcd")
    assert merge(files, tmp_path, "-q", way="literal") == 4
    assert "exists already" in capsys.readouterr().err
    assert contents(tmp_path / "out") == before
    os.rename(tmp_path / "out", tmp_path / ".out.vber-old-0123abcd")
    assert merge(files, tmp_path, "--force", way="literal") == 0
    assert "the older result is back" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["out"]


def limited() -> None:
    """No file beyond 4 KiB: the same as a disk that is full in the middle of a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_disk_that_fills_up_while_results_are_written(vber, files, tmp_path):
    command = [vber, "merge", *files[:2], "--no-moves", "--K", "120", "--out", "out", "--force", "-q"]
    subprocess.run(command, cwd=tmp_path, check=True)  # which compiles whatever has to be
    before = contents(tmp_path / "out")
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, preexec_fn=limited
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert (done.returncode, len(lines)) == (4, 2), done.stderr
    assert lines[0].startswith("error: out: cannot be written (")
    assert contents(tmp_path / "out") == before
    left = set(os.listdir(tmp_path)) - {CHECKPOINT}
    assert left == {"out"}


@pytest.mark.parametrize("call", [1, 2])  # after reading, and before writing
def test_a_disk_without_room_is_refused_first(files, tmp_path, monkeypatch, capsys, call):
    assert merge(files, tmp_path, "-q", way="literal") == 0
    before = contents(tmp_path / "out")
    calls = []

    def usage(path):
        calls.append(path)
        return SimpleNamespace(free=2**40 if len(calls) < call else 2**20)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert merge(files, tmp_path, "-q", "--force", way="literal") == 4
    what, fix = capsys.readouterr().err.splitlines()
    assert "the result may need 0." in what
    assert what.endswith("and its disk has 1.0 MiB left.")
    assert fix.startswith("Free space")
    assert contents(tmp_path / "out") == before
    assert len(calls) == call


@pytest.mark.parametrize(("way", "before_writing"), [("literal", True), ("plain", False)])
def test_records_count_for_the_room_as_long_as_they_are_not_written(files, tmp_path, monkeypatch, way, before_writing):
    counted = []

    def estimate(*given, with_records):
        counted.append(with_records)
        return estimate_bytes(*given, with_records=with_records)

    monkeypatch.setattr(pipeline, "estimate_bytes", estimate)
    assert merge(files, tmp_path, "-q", way=way) == 0
    assert counted == [True, before_writing]  # where links are looked for, they are written meanwhile


@pytest.mark.slow
def test_a_few_kills(files, tmp_path):
    command = [sys.executable, "-m", "vber_cli", "merge", *files[:2]]
    report = kill_merges(command, tmp_path, kills=3, seconds=60.0, seed=1)
    assert report.wrong == []
    assert report.kills.total() >= 1
    assert report.identical == report.resumed
