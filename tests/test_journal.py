"""A run that is stopped anywhere goes on where it was, and pays for files only where they are worth it."""

from __future__ import annotations

import os
import signal

import pytest

from vber_cli import journal as module
from vber_cli.engine.optimise import Step
from vber_cli.errors import InputError, OutputError, Stopped, TimeLimitError, UsageError
from vber_cli.journal import Journal

IDENTITY = {"options": {}, "inputs": [["a", "1"]], "decided": [], "versions": {"vber": "1"}}


class Notes:
    """Progress that remembers."""

    def __init__(self):
        self.lines = []

    def note(self, message):
        self.lines.append(message)

    warn = note


def step(kind, n):
    return Step(kind, 0.0, 0.0, 0.0, n), 0.5


def work(journal, made, stop_at=None, error=None):
    """Steps within steps, a loop after a step, and a trace; `made` hears of all that is not taken from before."""

    def make(name, value):
        if len(made) == stop_at:
            raise error or Stopped(signal.SIGTERM)
        made.append(name)
        return value

    def inner():
        a = journal.step("a", lambda: make("a", 1))
        journal.trace.append(step("merge", a))
        b = journal.step("b", lambda: (journal.trace.append(step("split", 2)), make("b", a + 1))[1])
        return looped(b, "inner")

    def looped(start, name):
        done, total = journal.begun(start)
        for number in range(done + 1, 5):
            total = make(f"{name} {number}", total + number)
            journal.trace.append(step("sweep", total))
            if number < 4:
                journal.round_done(number, total)
        return total

    first = journal.step("first", lambda: make("first", 10))
    second = journal.step("second", inner)
    third = journal.step("third", lambda: looped(second, "third"))
    return first, second, third


def run(path, made, *, resume, notes=None, identity=IDENTITY, max_seconds=None, **more):
    with Journal(path, notes or Notes(), resume=resume, max_seconds=max_seconds) as journal:
        journal.begin(identity, {})
        found = work(journal, made, **more)
        journal.remove()
    return found, journal.trace


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".out.vber-checkpoint"


@pytest.mark.parametrize("least_work", [0.0, 1000.0])  # every step is written, or only the last moment's state is
@pytest.mark.parametrize("stop_at", range(11))
def test_it_goes_on_from_anywhere(path, monkeypatch, stop_at, least_work):
    monkeypatch.setattr(module, "_LEAST_WORK", least_work)
    whole = []
    expected = run(path, whole, resume=False)
    assert len(whole) == 11
    assert not path.exists()
    made = []
    with pytest.raises(Stopped) as caught:
        run(path, made, resume=False, stop_at=stop_at)
    assert made == whole[:stop_at]
    assert (caught.value.kept is not None) == (stop_at > 0) == path.exists()
    if 5 < stop_at < 10:  # once again, in the middle of what is left
        with pytest.raises(Stopped):
            run(path, made, resume=True, stop_at=stop_at + 1)
    assert run(path, made, resume=True) == expected
    assert made == whole  # nothing was made twice
    assert not path.exists()


def test_steps_in_a_step_are_forgotten_when_it_is_done(path, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_WORK", 0.0)
    monkeypatch.setattr(module, "_SHARE", 1e9)
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=5)
    assert sorted(os.listdir(path)) == ["1.npz", "2.1.npz", "2.2.npz", "2.loop.npz", "run.npz"]
    with pytest.raises(Stopped):
        run(path, [None] * 5, resume=True, stop_at=8)
    assert sorted(os.listdir(path)) == ["1.npz", "2.npz", "3.loop.npz", "run.npz"]


def test_short_runs_write_nothing(path, monkeypatch):
    monkeypatch.setattr(module, "save_checkpoint", lambda *_: pytest.fail("a file was written"))
    run(path, [], resume=False)
    assert not path.exists()


def test_without_a_place_nothing_is_kept(tmp_path):
    with pytest.raises(Stopped) as caught:
        run(None, [], resume=False, stop_at=6)
    assert caught.value.kept is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemError("compiled code")])
def test_an_interruption_is_told_as_one(path, error):
    if isinstance(error, SystemError):
        error.__cause__ = KeyboardInterrupt()
    with pytest.raises(Stopped) as caught:
        run(path, [], resume=False, stop_at=3, error=error)
    assert (caught.value.exit_code, caught.value.kept) == (130, str(path))


@pytest.mark.parametrize(("error", "kept"), [(OutputError("a", "b"), True), (UsageError("a", "b"), False)])
def test_errors_that_would_come_again_leave_nothing(path, error, kept):
    notes = Notes()
    with pytest.raises(type(error)):
        run(path, [], resume=False, stop_at=3, error=error, notes=notes)
    assert path.exists() == kept
    assert notes.lines == [f"what was done so far is in {path}; --resume goes on from there"] * kept


def test_an_old_checkpoint_is_replaced_when_there_is_something_new(path):
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=8)
    old = sorted(os.listdir(path))
    notes = Notes()
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=0, notes=notes)
    assert "--resume" in notes.lines[0]
    assert sorted(os.listdir(path)) == old
    (path / "letter.txt").write_text("dear")
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=1)
    assert sorted(os.listdir(path)) == ["1.npz", "letter.txt", "run.npz"]
    run(path, [], resume=False)
    assert os.listdir(path) == ["letter.txt"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inputs": [["a", "2"]]}, "a has changed"),
        ({"inputs": [["a", "1"], ["b", "1"]]}, "other inputs: a; now a, b"),
        ({"decided": ["must_link:1"]}, "--must-link"),
        ({"versions": {"vber": "2"}}, "made with vber 1, this is 2"),
    ],
)
def test_another_run_is_refused_and_nothing_lost(path, change, says):
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=3)
    before = sorted(os.listdir(path))
    with pytest.raises(UsageError, match=says):
        run(path, [], resume=True, identity={**IDENTITY, **change})
    assert sorted(os.listdir(path)) == before


def test_damage_is_told(path):
    with pytest.raises(Stopped):
        run(path, [], resume=False, stop_at=3)
    os.replace(path / "2.1.npz", path / "2.2.npz")  # a step under the name of another
    os.replace(path / "1.npz", path / "2.1.npz")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        run(path, [], resume=True)
    (path / "1.npz").write_bytes(b"PK\3\4 half")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        run(path, [], resume=True)


def test_a_full_disk_stops_checkpoints_and_not_the_run(path, monkeypatch):
    def full(*_):
        raise OutputError("no space", "free some")

    monkeypatch.setattr(module, "save_checkpoint", full)
    monkeypatch.setattr(module, "_LEAST_WORK", 0.0)
    notes = Notes()
    assert run(path, [], resume=False, notes=notes)[0] == (10, 12, 22)
    assert sum("the run goes on: no space" in line for line in notes.lines) == 1
    with pytest.raises(Stopped) as caught:
        run(path, [], resume=False, stop_at=3)
    assert caught.value.kept is None


def test_the_end_of_the_time_leaves_a_checkpoint(path):
    with pytest.raises(TimeLimitError, match="no result yet") as caught:
        run(path, [], resume=False, max_seconds=0.0)
    assert (caught.value.exit_code, caught.value.fix) == (6, "give it more time")
    made = []

    def too_late():
        with Journal(path, Notes(), resume=False, max_seconds=1000.0) as journal:
            journal.begin(IDENTITY, {})
            journal.step("first", lambda: made.append(1))
            journal._deadline = 0.0
            journal.step("second", lambda: made.append(2))

    with pytest.raises(TimeLimitError, match="what was done is in") as caught:
        too_late()
    assert made == [1]
    assert "--resume" in caught.value.fix
    assert (path / "1.npz").exists()


def test_what_is_cut_short_is_not_kept(path):
    with Journal(path, Notes(), resume=False, max_seconds=1000.0) as journal:
        journal.begin(IDENTITY, {})
        journal.step("first", lambda: 1)
        journal.finish()
        assert not journal.time_is_up()
        journal._deadline = 0.0
        assert journal.step("second", lambda: 2 if journal.time_is_up() else 3) == 2
        assert journal.cut
        journal.step("third", lambda: 4)
        assert journal.keep() == str(path)
    assert sorted(os.listdir(path)) == ["1.npz", "run.npz"]
