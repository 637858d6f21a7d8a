"""Where a result comes from: the version, the inputs' and the configuration's digests.

What is written into result files is the same on every machine and on every day: no path, no host, no date. Versions of
libraries and of Python belong into the summary, which `versions` serves.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol

DISTRIBUTION = "vber"
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow")


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def version() -> str:
    """Return the installed version of vber, or ``0+unknown`` where it runs without being installed."""
    return _version_of(DISTRIBUTION) or "0+unknown"


def versions() -> dict[str, str]:
    """Return the versions of vber, of Python and of the libraries that the numbers pass through."""
    libraries = {name: _version_of(name) or "missing" for name in LIBRARIES}
    return {"vber": version(), "python": platform.python_version(), **libraries}


class Digest(Protocol):
    """A running checksum, as `hashlib` makes them."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take in more bytes."""

    def hexdigest(self) -> str:
        """Return the checksum of all bytes so far."""


def new_digest() -> Digest:
    """Return an empty SHA-256, the checksum of every digest here."""
    return hashlib.sha256()


@dataclass(frozen=True)
class InputDigest:
    """One database as it was read: its name, and the SHA-256 of its bytes (of its parts in order)."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Provenance:
    """What a result depends on.

    Attributes
    ----------
    seed
        Seed of the run.
    config_digest
        SHA-256 of the options that can change what is found.
    inputs
        One per database, in their order.
    """

    seed: int
    config_digest: str
    inputs: tuple[InputDigest, ...]

    def metadata(self) -> dict[str, str]:
        """Return the facts that every result file carries in its schema."""
        return {
            "version": version(),
            "seed": str(self.seed),
            "config_digest": self.config_digest,
            "input_digests": json.dumps(
                [{"database": item.name, "sha256": item.sha256} for item in self.inputs], ensure_ascii=False
            ),
        }

    @classmethod
    def of(cls, seed: int, config_digest: str, names: Sequence[str], digests: Sequence[str]) -> Provenance:
        """Return the provenance of a run over the databases `names` whose bytes have these `digests`.

        Raises
        ------
        ValueError
            If there is not one digest for each name.
        """
        pairs = zip(names, digests, strict=True)
        return cls(seed, config_digest, tuple(InputDigest(name, digest) for name, digest in pairs))
