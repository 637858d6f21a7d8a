"""What stands behind an error."""

from __future__ import annotations

import signal

from vber_cli.errors import InputError, Stopped


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_a_signal_behind_other_errors_is_found() -> None:
    stopped = Stopped(signal.SIGTERM)
    assert Stopped.behind(caused(SystemError("a"), caused(ValueError("b"), stopped))) is stopped
    interrupted = Stopped.behind(caused(SystemError("a"), KeyboardInterrupt()))
    assert interrupted is not None
    assert interrupted.exit_code == 130
    assert Stopped.behind(InputError("a", "b")) is None
    assert Stopped.behind(None) is None


def test_an_error_that_stands_behind_itself_ends() -> None:
    first, then = OSError("disk full"), InputError("a", "b")
    then.__cause__ = first
    first.__context__ = then
    assert Stopped.behind(then) is None
    assert Stopped.behind(first) is None
