"""The command `vber`: its group of commands, loaded when they are used, and the one place where errors are told."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from types import FrameType
from typing import Any

import click
from click.shell_completion import shell_complete

from vber_cli.cli.groups import LazyGroup, did_you_mean, print_help_alone
from vber_cli.cli.streams import drop_stdout
from vber_cli.config import OPTIONS, SAMPLE_OPTIONS
from vber_cli.errors import BudgetError, OutputError, Stopped, VberError
from vber_cli.progress import JsonProgress, one_line

PROGRAM = "vber"
COMMANDS = {
    "merge": "vber_cli.cli.merge:merge",
    "profile": "vber_cli.cli.profile:profile",
    "explain": "vber_cli.cli.explain:explain",
    "review": "vber_cli.cli.review:review",
    "evaluate": "vber_cli.cli.evaluate:evaluate",
    "compare": "vber_cli.cli.compare:compare",
    "check": "vber_cli.cli.check:check",
    "report": "vber_cli.cli.report:report",
    "simulate": "vber_cli.cli.simulate:simulate",
    "sample": "vber_cli.cli.sample:sample",
    "config": "vber_cli.cli.config_cmd:config",
}
EXIT_BUG = 1
EXIT_USAGE = 2
_COMPLETE_VARIABLE = "_VBER_COMPLETE"
_CANNOT_WRITE = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EFBIG", "EIO", "ENAMETOOLONG", "EMFILE", "ENFILE")
    if hasattr(errno, name)
}


@dataclass
class Manners:
    """How errors are told: with a traceback, as JSON, with the values of the data they are about."""

    debug: bool = False
    log_json: bool = False
    verbose: bool = False


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from vber_cli.provenance import version

        click.echo(f"{PROGRAM} {version()}")
        ctx.exit()


# \b keeps click from filling the lines of a paragraph.
_HELP = """Merge noisy databases that share no id: no labels, no rules, no threshold, but probabilities.

Data goes to standard output, everything else to standard error.

\b
Exit codes:
  0    done
  1    a bug in vber
  2    wrong usage
  3    bad input data
  4    the output exists or cannot be written
  5    over the memory budget
  6    stopped at the limit of sweeps or time; the results are written and marked,
       unless the error says that there were none yet
  130  interrupted (143 when terminated)
"""


@click.group(cls=LazyGroup, lazy=COMMANDS, help=_HELP)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.help_option("-h", "--help", help="Print this help.")
@click.pass_context
def vber(ctx: click.Context) -> None:
    """Print the help when no command is given."""
    print_help_alone(ctx)


def _usage_lines(error: click.ClickException) -> tuple[str, str]:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path if ctx is not None else PROGRAM
    fix = f"see `{path} --help`"
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        known = [flag for param in ctx.command.get_params(ctx) for flag in (*param.opts, *param.secondary_opts)]
        long = [flag for flag in known if flag.startswith("--")]
        return f"{path} has no option {error.option_name}", did_you_mean(error.option_name, long, f"{path} --help")
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{path} needs {error.param.human_readable_name}", fix
    if isinstance(error, click.BadOptionUsage):
        for option in (*OPTIONS.values(), *SAMPLE_OPTIONS.values()):
            if error.option_name in option.flags and option.metavar is not None:
                return f"{option.label} needs a value", f"write {option.label} {option.metavar}"
            if error.option_name in option.flags:
                return f"{option.label} takes no value", f"write {option.label} alone"
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:], fix


def _stopped_lines(error: Stopped) -> tuple[str, str]:
    what = "interrupted" if error.number == signal.SIGINT else "terminated by a signal"
    if error.kept is None:
        return what, "Half-written results are removed, earlier ones are untouched"
    return f"{what}; what was done so far is in {error.kept}", (
        "give the same command with --resume to go on; earlier results are untouched"
    )


def _os_lines(error: OSError) -> tuple[str, str]:
    what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return what, "free some space, or write elsewhere with --out; earlier results are untouched"
    return what, "check the permissions, or write elsewhere with --out; earlier results are untouched"


def _as_vber_error(error: BaseException) -> tuple[int, str, str]:
    """Return exit code, what is wrong, and what to do."""
    stopped = Stopped.behind(error)
    if stopped is not None:
        return stopped.exit_code, *_stopped_lines(stopped)
    if isinstance(error, VberError):
        return error.exit_code, error.what, error.fix
    if isinstance(error, click.ClickException):
        return EXIT_USAGE, *_usage_lines(error)
    if isinstance(error, MemoryError):
        return BudgetError.exit_code, "out of memory", "use fewer fields or records, or a machine with more memory"
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
        return OutputError.exit_code, *_os_lines(error)
    if isinstance(error, UnicodeEncodeError) and error.reason.startswith("surrogates"):
        # Only an argument brings them in: bytes that are no text.
        return EXIT_USAGE, "a name on the command line is not UTF-8 text", "rename the file or directory"
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return EXIT_BUG, f"a bug in {PROGRAM}: {text}", "run it again with --debug and report what it prints"


def _sentence(text: str, *, begins: bool = False) -> str:
    """Return the text on one line and ending like a sentence; with `begins` it starts like one, too."""
    line = one_line(text).strip()
    if begins and re.match(r"[a-z]+(\s|$)", line):
        line = line[:1].upper() + line[1:]
    return line if line.endswith((".", "?", "!", ":")) else line + "."


def _tell(error: BaseException, manners: Manners) -> int:
    """Print the error in two lines (or one of JSON) to standard error and return the exit code."""
    code, what, fix = _as_vber_error(error)
    if isinstance(error, VberError) and error.value is not None and (manners.verbose or manners.debug):
        what = f"{what.rstrip('.')}: {error.value!r}"
    stream = sys.stderr
    if stream is None:
        return code
    with suppress(OSError, ValueError):
        if manners.debug:
            traceback.print_exception(error, file=stream)
        if manners.log_json:
            JsonProgress(stream).event("error", what=what, fix=fix, exit_code=code)
        else:
            stream.write(f"error: {_sentence(what)}\n{_sentence(fix, begins=True)}\n")
        stream.flush()
    return code


@contextmanager
def _stopping_signals() -> Iterator[None]:
    """Turn signals into an exception, so that work is kept and temporaries are removed on the way out."""

    def stop(number: int, _frame: FrameType | None) -> None:
        # whoever types Ctrl-C once more does not want to wait for that
        signal.signal(number, signal.SIG_DFL if number == signal.SIGINT else signal.SIG_IGN)
        raise Stopped(number)

    before: dict[int, Any] = {}
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # A signal that is ignored (nohup) stays ignored; handlers belong to the main thread alone.
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                with suppress(ValueError):
                    before[number] = signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _invoke(arguments: list[str], manners: Manners) -> int:
    try:
        with vber.make_context(PROGRAM, arguments, obj=manners) as ctx:
            result = vber.invoke(ctx)
    except click.exceptions.Exit as stop:
        result = stop.exit_code
    if sys.stdout is not None:
        sys.stdout.flush()
    return result if isinstance(result, int) else 0


class _WithoutPandas(MetaPathFinder):
    """Finds everything as before, but no pandas."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        """See `importlib.abc.MetaPathFinder`."""
        if fullname == "pandas":
            raise ModuleNotFoundError("vber runs without pandas", name=fullname)


def command() -> int:
    """`main` for a process that does nothing else, as the installed command is.

    Where pandas is installed pyarrow imports it to ask whether an array is one of its own. Here none is, and the import
    takes longer than those of numpy and pyarrow together.
    """
    sys.meta_path.insert(0, _WithoutPandas())
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error ends here.

    Parameters
    ----------
    arguments
        Without the program's name; None takes those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if _COMPLETE_VARIABLE in os.environ:
        return shell_complete(vber, {}, PROGRAM, _COMPLETE_VARIABLE, os.environ[_COMPLETE_VARIABLE])
    manners = Manners("--debug" in words, "--log-json" in words, "-v" in words or "--verbose" in words)
    try:
        with _stopping_signals():
            return _invoke(words, manners)
    except BrokenPipeError:
        drop_stdout()
        return 0
    except BaseException as error:  # the boundary: nothing may pass it
        code = _tell(error, manners)
        if isinstance(error, OSError):
            drop_stdout()
        return code
