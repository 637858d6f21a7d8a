"""One target under atheris: `python -m tests.fuzz.guided TARGET [libFuzzer's options]`; started by `tests.fuzz.run`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["vber_cli", "csv"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Hand over to libFuzzer, which ends the process."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
