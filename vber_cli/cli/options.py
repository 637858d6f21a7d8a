"""Command-line options made from the configuration's metadata, and the way back to `MergeOptions`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from vber_cli.config import OPTIONS, SECTIONS, MergeOptions, Option, read_toml

_DEFAULTS = MergeOptions()
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


class MergeCommand(click.Command):
    """A command that takes options of `vber merge`; its help groups them by section.

    Parameters
    ----------
    taken
        Names of the options; by default all.
    """

    def __init__(self, *args: Any, taken: Collection[str] = tuple(OPTIONS), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*merge_parameters(taken), *self.params]

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


def _default_text(option: Option) -> str:
    value = getattr(_DEFAULTS, option.name)
    if value is None:
        return f"  [default: {option.none_word}]"
    if option.kind in ("list", "columns") or (option.kind == "flag" and not option.off_flag):
        return ""
    if option.kind == "flag":
        return f"  [default: {option.label if value else f'--no-{option.key}'}]"
    return f"  [default: {value}]"


def merge_parameters(taken: Collection[str]) -> list[click.Parameter]:
    """Return the click parameters of the named fields of `MergeOptions`, and --config."""
    parameters: list[click.Parameter] = []
    for option in (option for name, option in OPTIONS.items() if name in taken):
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
        text = option.help + _default_text(option)
        parameters.append(SectionedOption([option.name, *flags], help=text, section=option.section, **shape))
    parameters.append(
        SectionedOption(
            ["config", "--config"],
            metavar="FILE.toml",
            help="Take options from the table [merge] of a TOML file; the command line wins over it.",
        )
    )
    return parameters


def given_options(ctx: click.Context, parameters: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the options that stand on the command line, by name of `MergeOptions` field."""
    given: dict[str, object] = {}
    for name, option in OPTIONS.items():
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
    manners = ctx.find_root().obj
    if manners is not None:
        manners.debug = options.debug
        manners.log_json = options.log_json
    return options, frozenset(from_file) | frozenset(given)
