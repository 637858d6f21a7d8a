"""The errors a user can cause or meet, each with its exit code; `cli.app` turns them into two lines."""

from __future__ import annotations

import signal


class VberError(Exception):
    """A problem told in two lines: what is wrong and where, then what to do.

    Parameters
    ----------
    what
        What is wrong and where (file, row, column); one line.
    fix
        What to do about it, naming the flag that helps; one line.
    value
        What stands in the data there, if it helps: told with --verbose or --debug alone, since logs are read by others
        than data are.
    """

    exit_code = 1

    def __init__(self, what: str, fix: str, *, value: str | None = None) -> None:
        super().__init__(f"{what}\n{fix}")
        self.what = what
        self.fix = fix
        self.value = value


class UsageError(VberError):
    """The command line or the configuration asks for something impossible (exit code 2)."""

    exit_code = 2


class InputError(VberError):
    """An input file cannot be read, or does not hold what it must (exit code 3)."""

    exit_code = 3


class OutputError(VberError):
    """The result exists already or cannot be written (exit code 4)."""

    exit_code = 4


class BudgetError(VberError):
    """The run would need, or needed, more memory than it was given (exit code 5)."""

    exit_code = 5


class TimeLimitError(VberError):
    """The time given to the run was up before there was a result (exit code 6)."""

    exit_code = 6


class Stopped(BaseException):
    """The run was asked to stop by a signal; unwinding keeps what can be continued and removes what is half written.

    Parameters
    ----------
    number
        Of the signal.

    Attributes
    ----------
    kept
        The checkpoint from which the run can be continued, if there is one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = 128 + number
        self.kept: str | None = None

    @classmethod
    def behind(cls, error: BaseException | None) -> Stopped | None:
        """Return the signal behind an error, if one is.

        Compiled code that a signal interrupts may answer with an error of its own, caused by that of the signal. An
        error that is raised again while what followed from it is dealt with stands behind itself.
        """
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if isinstance(error, cls):
                return error
            if isinstance(error, KeyboardInterrupt):
                return cls(signal.SIGINT)
            error = error.__cause__ or error.__context__
        return None
