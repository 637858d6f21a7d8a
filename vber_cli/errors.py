"""The errors a user can cause or meet, each with its exit code; `cli.app` turns them into two lines."""


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
