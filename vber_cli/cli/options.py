"""Command-line options made from the configuration's metadata, and the way back to `MergeOptions`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from vber_cli.config import OPTIONS, SAMPLE_OPTIONS, SECTIONS, MergeOptions, Option, SampleOptions, read_toml

_CONFIG_SECTION = "run"


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # older versions of click know no type parameter
    _ParamType = click.ParamType

debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="Print the traceback of an error.", type=bool
)


class OptionType(_ParamType):
    """A value that its `Option` parses; what is wrong with it is said by the same words as for a TOML file."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.name = option.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        """Parse one argument."""
        return self.option.parse(value) if isinstance(value, str) else value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Offer the names that the option knows, files for FILES, directories for --out."""
        if self.option.positional:
            return [CompletionItem(incomplete, type="file")]
        if self.option.metavar == "DIR":
            return [CompletionItem(incomplete, type="dir")]
        words = [*self.option.choices, *([self.option.none_word] if self.option.none_word else [])]
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class SectionedOption(click.Option):
    """An option that knows under which heading of the help it stands."""

    def __init__(self, *args: Any, section: str = _CONFIG_SECTION, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help groups the options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their sections."""
        records: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        records[OPTIONS["files"].section].append((OPTIONS["files"].label, OPTIONS["files"].help))
        for param in self.get_params(ctx):
            if isinstance(param, click.Argument):
                continue
            record = param.get_help_record(ctx)
            if record is not None:
                records[getattr(param, "section", _CONFIG_SECTION)].append(record)
        for section, rows in records.items():
            if rows:
                with formatter.section(SECTIONS[section]):
                    formatter.write_dl(rows)


class MergeCommand(SectionedCommand):
    """A command that takes options of `vber merge`.

    Parameters
    ----------
    taken
        Names of the options; by default all.
    """

    def __init__(self, *args: Any, taken: Collection[str] = tuple(OPTIONS), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*merge_parameters(taken), *self.params]


class SampleCommand(SectionedCommand):
    """A command that takes every option of `vber sample`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*option_parameters(SAMPLE_OPTIONS, SampleOptions()), *self.params]


def _default_text(option: Option, defaults: object) -> str:
    value = getattr(defaults, option.name)
    if value is None:
        return f"  [default: {option.none_word}]"
    if option.kind in ("list", "columns") or (option.kind == "flag" and not option.off_flag):
        return ""
    if option.kind == "flag":
        return f"  [default: {option.label if value else f'--no-{option.key}'}]"
    return f"  [default: {value}]"


def option_parameters(options: Mapping[str, Option], defaults: object) -> list[click.Parameter]:
    """Return the click parameter of every option; `defaults` has the defaults as attributes."""
    parameters: list[click.Parameter] = []
    for option in options.values():
        if option.positional:
            parameters.append(
                click.Argument([option.name], nargs=-1, required=False, metavar=option.metavar, type=OptionType(option))
            )
            continue
        shape: dict[str, Any] = {"type": OptionType(option), "metavar": option.metavar}
        flags = list(option.flags)
        if option.kind == "flag":
            shape = {"is_flag": True, "default": False}
            if option.off_flag:
                flags[-1] = f"{option.label}/--no-{option.key}"
        elif option.kind in ("list", "columns"):
            shape["multiple"] = True
        text = option.help + _default_text(option, defaults)
        parameters.append(SectionedOption([option.name, *flags], help=text, section=option.section, **shape))
    return parameters


def merge_parameters(taken: Collection[str]) -> list[click.Parameter]:
    """Return the click parameters of the named fields of `MergeOptions`, and --config."""
    config = SectionedOption(
        ["config", "--config"],
        metavar="FILE.toml",
        help="Take options from the table [merge] of a TOML file; the command line wins over it.",
    )
    chosen = {name: option for name, option in OPTIONS.items() if name in taken}
    return [*option_parameters(chosen, MergeOptions()), config]


def given_options(
    ctx: click.Context, parameters: Mapping[str, Any], options: Mapping[str, Option] = OPTIONS
) -> dict[str, object]:
    """Return the values of the options that stand on the command line, by name."""
    given: dict[str, object] = {}
    for name, option in options.items():
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = parameters[name]
        if option.kind in ("list", "columns"):
            value = tuple(item for part in value for item in part)
            if option.positional and not value:
                continue
        given[name] = value
    return given


def merge_options(ctx: click.Context, parameters: Mapping[str, Any]) -> tuple[MergeOptions, frozenset[str]]:
    """Return the options of this run, and the names of those that the file or the command line gives.

    Raises
    ------
    UsageError
        If the file cannot be read, or the options contradict each other.
    """
    path = parameters.get("config")
    from_file = read_toml(path) if path is not None else {}
    given = given_options(ctx, parameters)
    options = MergeOptions.layered(from_file, given)
    remember_manners(ctx, debug=options.debug, log_json=options.log_json, verbose=options.verbose)
    return options, frozenset(from_file) | frozenset(given)


def remember_manners(ctx: click.Context, *, debug: bool, log_json: bool, verbose: bool) -> None:
    """Have errors told as the options of this run say."""
    manners = ctx.find_root().obj
    if manners is not None:
        manners.debug = debug
        manners.log_json = log_json
        manners.verbose = verbose
