"""`vber simulate`: databases drawn from the model, with the truth about them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vber_cli.cli.options import OptionType, debug_option
from vber_cli.config import Option
from vber_cli.errors import OutputError, UsageError

if TYPE_CHECKING:
    from vber_cli.model.dependence import Dependence
    from vber_cli.model.simulate import Simulation

PARAMETERS = "parameters.json"
FORMAT = "vber simulation"
MAX_VALUES = 10_000_000
_ID = "id"
_KAPPA = 0.1
# name, distinct values, Zipf's exponent: few and many values, flat and steep
_KIT = (
    ("first_name", 500, 0.8),
    ("surname", 3_000, 0.8),
    ("birth_date", 20_000, 0.0),
    ("sex", 2, 0.0),
    ("town", 300, 1.0),
    ("occupation", 60, 0.5),
    ("street", 2_000, 0.5),
    ("language", 12, 1.5),
)


@dataclass(frozen=True)
class FieldSpec:
    """A field to simulate."""

    name: str
    n_values: int
    concentration: float
    zipf: float


@dataclass(frozen=True)
class SimulateOptions:
    """The options of `vber simulate`."""

    records: int = 1000
    databases: int = 2
    individuals: int | None = None
    fields: tuple[str, ...] = ("5",)
    concentration: float = 0.1
    values: int | None = None
    zipf: float | None = None
    missing: float = 0.0
    typos: float = 0.0
    depend: tuple[str, ...] = ()
    seed: int = 0
    format: str = "csv"
    force: bool = False


_DEFAULTS = SimulateOptions()
_OPTIONS = {
    option.name: option
    for option in (
        Option("int", "model", "Records in all; the databases get equal shares.", "records", metavar="INT", low=1,
               high=2**31 - 1),
        Option("int", "model", "Databases, named db1, db2, ...", "databases", metavar="INT", low=1, high=10_000),
        Option("int", "model", "Individuals in the population, recorded or not; auto takes as many as records.",
               "individuals", metavar="K|auto", low=1, high=2**53, none_word="auto"),
        Option("list", "model", "A number of made-up fields with few and many values, or one field of your own: its "
               "name and how many distinct values it has, then, if they differ from --concentration and --zipf, its "
               "concentration and Zipf's exponent, as in town:300:0.05:1. Repeatable.", "fields",
               metavar="INT|NAME:VALUES[:A[:ZIPF]]"),
        Option("float", "model", "How noisy the fields are: a/(1+a) is about the share of mismatches between records "
               "of one individual.", "concentration", metavar="A", low=0, low_open=True, high=1e9),
        Option("int", "model", "Distinct values of every made-up field; auto goes from 2 for a sex to 20,000 for a "
               "birth date.", "values", metavar="INT|auto", low=1, high=MAX_VALUES, none_word="auto"),
        Option("float", "model", "The v-th most frequent value is drawn in proportion to v^-ZIPF: 0 makes all alike; "
               "auto goes from 0 to 1.5 by made-up field and is 0 for your own.", "zipf", metavar="ZIPF|auto", low=0,
               high=100, none_word="auto"),
        Option("float", "model", "Probability that a value is missing, completely at random.", "missing", metavar="P",
               low=0, high=1),
        Option("float", "model", "Probability that a value that is there has a typing error: a letter or digit wrong, "
               "left out, put in, or two changed round.", "typos", metavar="P", low=0, high=1),
        Option("list", "model", "The values of a field depend on those of another one, as in postcode:town:0.1: each "
               "town has postcodes of its own, the fewer the smaller KAPPA (0.1 if left out), and whoever has another "
               "town has another postcode. Repeatable.", "depend", metavar="FIELD:PARENT[:KAPPA]"),
        Option("int", "run", "The same options and seed give the same bytes.", "seed", metavar="INT", low=0,
               high=2**63 - 1),
        Option("choice", "output", "Format of the databases: csv or parquet.", "format", metavar="NAME",
               choices=("csv", "parquet")),
        Option("flag", "output", "Replace an earlier simulation in DIR.", "force"),
    )
}  # fmt: skip


class SimulateCommand(click.Command):
    """A command that tells what a flag without its value needs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            raise
        except click.BadOptionUsage as error:
            option = _OPTIONS.get(error.option_name.lstrip("-"))
            if option is None or option.metavar is None:
                raise
            raise UsageError(f"{option.label} needs a value", f"write {option.label} {option.metavar}") from error


def _simulate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS.values()):
        value = getattr(_DEFAULTS, option.name)
        if option.kind == "flag":
            command = click.option(option.label, is_flag=True, help=option.help)(command)
            continue
        shown = value
        if isinstance(value, tuple):
            shown = ", ".join(value) or "none"
        elif value is None:
            shown = option.none_word
        command = click.option(
            option.label,
            type=OptionType(option),
            metavar=option.metavar,
            multiple=option.kind == "list",
            default=() if option.kind == "list" else value,
            help=f"{option.help}  [default: {shown}]",
        )(command)
    return command


@click.command(cls=SimulateCommand, short_help="Draw databases from the model, with known truth.")
@click.argument("directory", metavar="DIR")
@_simulate_options
@debug_option
@click.help_option("-h", "--help", help="Print this help.")
def simulate(directory: str, **parameters: Any) -> None:
    """Draw databases from the model and write them to DIR, with the truth.

    Each record describes one of the --individuals, all equally likely. In each field an individual has a distribution
    of its own over the values, Dirichlet with the concentration times the field's frequencies; the record's value is
    drawn from it, or missing. --depend and --typos add what real records have and that model has not.

    DIR gets a file per database with the column id first; truth.csv with database, record_id and entity, as
    `vber evaluate` reads it; and parameters.json with what was drawn from: K and how many of them are recorded, and
    per field the concentration and the frequencies. Values are made-up words; a field whose name ends in date holds
    dates.
    """
    for name in ("fields", "depend"):
        given = tuple(item for part in parameters[name] for item in part)
        parameters[name] = given or getattr(_DEFAULTS, name)
    run(directory, SimulateOptions(**parameters))


def run(directory: str, options: SimulateOptions) -> None:
    """Simulate as the options say.

    Raises
    ------
    UsageError
        If the options contradict each other.
    OutputError
        If the directory is taken or cannot be written.
    """
    if options.databases > options.records:
        raise UsageError(
            f"--databases is {options.databases:,}, but there are {options.records:,} records to share",
            "give at least as many --records, or fewer --databases",
        )
    specs = field_specs(options)
    parents = parents_of(options, specs)
    path = _check_place(directory, force=options.force)

    import numpy as np

    from vber_cli.model.prior import Prior, value_pointers
    from vber_cli.model.simulate import simulate as draw
    from vber_cli.model.simulate import zipf_base
    from vber_cli.results.simulated import TRUTH, write_databases

    prior = Prior(
        value_pointers(np.array([spec.n_values for spec in specs], dtype=np.int64)),
        np.concatenate([zipf_base(spec.n_values, spec.zipf) for spec in specs]),
        np.array([spec.concentration for spec in specs]),
    )
    population = options.individuals or options.records
    drawn = draw(
        prior, options.records, options.databases, population,
        missing=options.missing, misspelt=options.typos, dependence=_dependence(specs, parents), seed=options.seed,
    )  # fmt: skip
    with _new_directory(path, directory, force=options.force) as temporary:
        files = write_databases(temporary, drawn, [spec.name for spec in specs], options.format, options.seed)
        parameters = _parameters(drawn, specs, parents, options)
        parameters["files"] = sorted([*files, TRUTH, PARAMETERS])
        text = json.dumps(parameters, indent=2, ensure_ascii=False)
        (temporary / PARAMETERS).write_bytes(f"{text}\n".encode())
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(
            f"{options.records:,} records of {drawn.n_occupied:,} individuals out of {population:,} in {directory}",
            err=True,
        )


def field_specs(options: SimulateOptions) -> list[FieldSpec]:
    """Return the fields that the options ask for.

    Raises
    ------
    UsageError
        If --fields cannot be understood, or names a field twice.
    """
    if len(options.fields) == 1 and options.fields[0].isascii() and options.fields[0].isdigit():
        return _made_up(int(options.fields[0]), options)
    specs = [_own_field(text, options) for text in options.fields]
    seen = {_ID}
    for spec in specs:
        if spec.name.casefold() in seen:
            what = "is the column of record ids" if spec.name.casefold() == _ID else "is there twice"
            raise UsageError(f"--fields: {spec.name!r} {what}", "give the field another name")
        seen.add(spec.name.casefold())
    return specs


def _made_up(count: int, options: SimulateOptions) -> list[FieldSpec]:
    if not 1 <= count <= 1000:
        raise UsageError(f"--fields must be from 1 to 1000, not {count}", "give a number, or name the fields")
    specs = []
    for f in range(count):
        name, n_values, zipf = _KIT[f % len(_KIT)]
        again = f // len(_KIT) + 1
        specs.append(
            FieldSpec(
                name if again == 1 else f"{name}_{again}" if not name.endswith("date") else f"{again}_{name}",
                n_values if options.values is None else options.values,
                options.concentration,
                zipf if options.zipf is None else options.zipf,
            )
        )
    return specs


def _own_field(text: str, options: SimulateOptions) -> FieldSpec:
    name, *numbers = text.split(":")
    label = f"--fields {text!r}"
    if not name.strip() or not 1 <= len(numbers) <= 3:
        raise UsageError(
            f"{label} is not of the form NAME:VALUES[:CONCENTRATION[:ZIPF]]",
            "for example --fields town:300:0.05:1, or a number alone for made-up fields",
        )
    given: list[Any] = []
    for what, number in zip(("values", "concentration", "zipf"), numbers, strict=False):
        option = _OPTIONS[what]
        try:
            given.append(option.check(int(number) if what == "values" else float(number), what))
        except (ValueError, UsageError) as error:
            limits = {
                "values": f"a whole number from 1 to {MAX_VALUES:,}",
                "concentration": "a number above 0",
                "zipf": "a number from 0 to 100",
            }
            raise UsageError(f"{label}: {what} cannot be {number!r}", f"give {limits[what]}") from error
    given += [options.concentration, options.zipf or 0.0][len(given) - 1 :]
    return FieldSpec(name.strip(), *given)


def parents_of(options: SimulateOptions, specs: Sequence[FieldSpec]) -> dict[int, tuple[int, float]]:
    """Return the parent and κ of each field that depends on another one.

    Raises
    ------
    UsageError
        If --depend cannot be understood, names a field that is not there, or goes in a circle.
    """
    place = {spec.name: f for f, spec in enumerate(specs)}
    parents: dict[int, tuple[int, float]] = {}
    for text in options.depend:
        label = f"--depend {text!r}"
        child, *rest = text.split(":")
        if not 1 <= len(rest) <= 2:
            raise UsageError(
                f"{label} is not of the form FIELD:PARENT[:KAPPA]", "for example --depend postcode:town:0.1"
            )
        for name in (child, rest[0]):
            if name not in place:
                raise UsageError(f"{label}: there is no field {name!r}", f"the fields are {', '.join(place)}")
        try:
            strength = _KAPPA if len(rest) == 1 else float(rest[1])
            _OPTIONS["concentration"].check(strength, "kappa")
        except (ValueError, UsageError) as error:
            raise UsageError(f"{label}: kappa cannot be {rest[1]!r}", "give a number above 0") from error
        if place[child] in parents:
            raise UsageError(f"{label}: {child!r} has a parent already", "give each field one parent at most")
        parents[place[child]] = place[rest[0]], strength
        above = place[rest[0]]
        while above in parents and above != place[child]:
            above = parents[above][0]
        if above == place[child]:
            raise UsageError(f"{label}: {child!r} would depend on itself", "leave one of the circle out")
    return parents


def _dependence(specs: Sequence[FieldSpec], parents: Mapping[int, tuple[int, float]]) -> Dependence:
    from dataclasses import replace

    import numpy as np

    from vber_cli.model.dependence import Dependence

    found = Dependence.none(len(specs))
    of = [parents.get(f, (-1, 0.0)) for f in range(len(specs))]
    return replace(found, parent=np.array([g for g, _ in of]), strength=np.array([kappa for _, kappa in of]))


def _parameters(
    drawn: Simulation, specs: Sequence[FieldSpec], parents: Mapping[int, tuple[int, float]], options: SimulateOptions
) -> dict[str, Any]:
    """Return what parameters.json holds."""
    import numpy as np

    from vber_cli.model.evidence import collision_entropy
    from vber_cli.provenance import version
    from vber_cli.results.simulated import value_texts

    prior, records = drawn.prior, drawn.records
    sizes = np.bincount(records.db_of_record, minlength=records.n_databases)
    entropy = collision_entropy(prior)
    fields = []
    for f, spec in enumerate(specs):
        theta = prior.base[prior.value_ptr[f] : prior.value_ptr[f + 1]]
        top = range(min(5, spec.n_values))
        fields.append(
            {
                "name": spec.name,
                "concentration": spec.concentration,
                "missing": options.missing,
                "typos": options.typos,
                "parent": specs[parents[f][0]].name if f in parents else None,
                "kappa": parents[f][1] if f in parents else None,
                "values": spec.n_values,
                "values_seen": len(np.unique(records.codes[records.codes[:, f] >= 0, f])),
                "zipf": spec.zipf,
                "theta": {
                    "collision_entropy": float(entropy[f]),
                    "largest": dict(
                        zip(value_texts(spec.name, spec.n_values, f, top), theta[: len(top)].tolist(), strict=True)
                    ),
                    "smallest": float(theta[-1]),
                },
            }
        )
    return {
        "format": FORMAT,
        "version": version(),
        "seed": options.seed,
        "K": drawn.n_individuals,
        "n": drawn.n_occupied,
        "pairs": drawn.n_pairs,
        "records": records.n_records,
        "databases": {f"db{d}": int(size) for d, size in enumerate(sizes, start=1)},
        "fields": fields,
    }


def _check_place(shown: str, *, force: bool) -> Path:
    """Return the directory's real path, if a simulation may be put there."""
    if not shown.strip():
        raise UsageError("DIR is empty", "name a directory, for example simulated")
    path = Path(os.path.realpath(shown))
    another = "name another directory"
    parent = next(p for p in path.parents if os.path.lexists(p))
    if not parent.is_dir():
        raise OutputError(f"{parent}: is not a directory", another)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{shown}: the directory {parent} cannot be written to", another)
    if not os.path.lexists(path):
        return path
    if not path.is_dir():
        raise OutputError(f"{shown}: exists and is not a directory", another)
    if path == Path.cwd() or path in Path.cwd().parents or os.path.ismount(path):
        raise OutputError(f"{shown}: is the current directory, one above it, or a mount point", another)
    try:
        entries = sorted(os.listdir(path))
    except OSError as error:
        raise OutputError(f"{shown}: cannot be read ({error.strerror})", another) from error
    if entries and not force:
        raise OutputError(f"{shown}: exists already", f"{another}, or replace it with --force")
    own = _own_files(path)
    foreign = next((entry for entry in entries if entry not in own or not (path / entry).is_file()), None)
    if foreign is not None:
        raise OutputError(
            f"{shown}: holds {foreign!r}, which is not part of a simulation; --force replaces nothing else",
            f"move it away, or {another}",
        )
    return path


def _own_files(path: Path) -> frozenset[str]:
    """Return the files that belong to the simulation in a directory."""
    try:
        parameters = json.loads((path / PARAMETERS).read_bytes())
    except (OSError, ValueError):
        return frozenset()
    if not isinstance(parameters, Mapping) or parameters.get("format") != FORMAT:
        return frozenset()
    files = parameters.get("files")
    return frozenset(name for name in files if isinstance(name, str)) if isinstance(files, list) else frozenset()


@contextlib.contextmanager
def _new_directory(path: Path, shown: str, *, force: bool) -> Iterator[Path]:
    """Give a temporary sibling of `path` that takes its place if the block ends well, and vanishes if not."""
    created = []
    temporary: Path | None = None
    done = False
    try:
        for parent in reversed([p for p in path.parents if not p.exists()]):
            parent.mkdir(exist_ok=True)
            created.append(parent)
        temporary = _sibling(path, "tmp")
        temporary.mkdir()
        yield temporary
        _check_place(shown, force=force)
        _put(temporary, path)
        done = True
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{shown}: cannot be written ({reason})", "free space, or name another directory") from error
    finally:
        if not done:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            for parent in reversed(created):
                with contextlib.suppress(OSError):
                    parent.rmdir()


def _put(temporary: Path, path: Path) -> None:
    """Rename a complete directory to its place, then remove the simulation that was there, file by file."""
    old: Path | None = None
    if path.exists():
        old = _sibling(path, "old")
        os.rename(path, old)
    try:
        os.rename(temporary, path)
    except OSError:
        if old is not None:
            os.rename(old, path)
        raise
    if old is not None:
        with contextlib.suppress(OSError):
            for name in _own_files(old):
                (old / name).unlink(missing_ok=True)
            old.rmdir()


def _sibling(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.vber-{kind}-{secrets.token_hex(4)}")
