"""Standard output whose reader has gone."""

import os
import sys
from contextlib import suppress


def drop_stdout() -> None:
    """Let what is still buffered for a closed pipe go nowhere, silently."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
