"""The options of `vber merge` and `vber sample`, described once.

The command line, the TOML keys, the generated help and the reference all come from the fields of `MergeOptions`
and `SampleOptions`: each carries an `Option` with its flags, its help, its kind and its limits.
"""

from vber_cli.config.merge import DEFAULT_OUT, OPTIONS, RESULT_TABLES, SECTIONS, MergeOptions
from vber_cli.config.option import Option, nearest
from vber_cli.config.sample import SAMPLE_OPTIONS, SampleOptions
from vber_cli.config.toml import parse_toml, read_toml, to_toml

__all__ = [
    "DEFAULT_OUT",
    "OPTIONS",
    "RESULT_TABLES",
    "SAMPLE_OPTIONS",
    "SECTIONS",
    "MergeOptions",
    "Option",
    "SampleOptions",
    "nearest",
    "parse_toml",
    "read_toml",
    "to_toml",
]
