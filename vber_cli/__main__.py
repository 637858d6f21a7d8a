"""`python -m vber_cli` is the command `vber`."""

import sys

from vber_cli.cli.app import command

if __name__ == "__main__":
    sys.exit(command())
