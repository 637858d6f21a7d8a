"""The ways of telling progress."""

import io
import json

import pytest

from vber_cli.progress import JsonProgress, LineProgress, RichProgress, SilentProgress, make_progress, one_line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def tell(progress):
    with progress.phase("encode", 10) as phase:
        progress.note("an [id] was found")
        phase.advance(4)
        phase.advance(6)
        phase.advance()
    with progress.phase("write"):
        progress.warn("two\nlines\x1b[31m")


def test_the_stream_and_the_options_choose():
    pipe, terminal = io.StringIO(), Terminal()
    assert isinstance(make_progress(None), SilentProgress)
    assert isinstance(make_progress(terminal, quiet=True), SilentProgress)
    assert isinstance(make_progress(terminal, log_json=True), JsonProgress)
    assert isinstance(make_progress(terminal), RichProgress)
    assert isinstance(make_progress(pipe), LineProgress)


def test_without_v_a_pipe_gets_notes_and_warnings_only():
    stream = io.StringIO()
    tell(make_progress(stream))
    assert stream.getvalue().splitlines() == ["note: an [id] was found", "warning: two\\nlines\\x1b[31m"]


def test_with_v_a_line_for_every_phase():
    stream = io.StringIO()
    tell(make_progress(stream, verbose=True))
    lines = stream.getvalue().splitlines()
    assert lines[1].startswith("encode: 11 (")
    assert lines[3].startswith("write: (")
    assert len(lines) == 4


def test_json_lines(monkeypatch):
    monkeypatch.setattr("vber_cli.progress.REPORT_EVERY_SECONDS", 0.0)
    stream = io.StringIO()
    tell(make_progress(stream, log_json=True))
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        "start", "note", "progress", "progress", "progress", "end", "start", "warning", "end",
    ]  # fmt: skip
    assert events[2]["done"] == 4
    assert events[5]["done"] == 11
    assert events[7]["message"] == "two\nlines\x1b[31m"
    assert all("time" in event for event in events)


def test_a_terminal_gets_a_bar_that_vanishes():
    stream = Terminal()
    tell(make_progress(stream, verbose=True))
    text = stream.getvalue()
    assert "an [id] was found" in text
    assert "encode: 11 (" in text
    assert "two\\nlines" in text


def test_quiet_says_nothing():
    stream = Terminal()
    tell(make_progress(stream, quiet=True))
    assert stream.getvalue() == ""


@pytest.mark.parametrize("kind", [LineProgress, JsonProgress])
def test_a_closed_stream_does_not_stop_the_run(kind):
    stream = io.StringIO()
    stream.close()
    tell(kind(stream, phases=True) if kind is LineProgress else kind(stream))


@pytest.mark.parametrize("options", [{}, {"verbose": True}, {"log_json": True}, {"quiet": True}])
def test_an_error_passes_through_a_phase(options):
    def fail(progress):
        with progress.phase("encode", 3):
            raise ValueError("no")

    for stream in (Terminal(), io.StringIO()):
        with pytest.raises(ValueError, match="no"):
            fail(make_progress(stream, **options))
        assert "end" not in stream.getvalue()


def test_one_line():
    assert one_line("a\tb\u202ec é 名") == "a\\tb\\u202ec é 名"
