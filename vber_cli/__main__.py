"""`python -m vber_cli` is the command `vber`."""

import sys

from vber_cli.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
