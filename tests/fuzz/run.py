"""Look for inputs that make a target fail: `python -m tests.fuzz.run MINUTES [TARGET]`; `make fuzz MINUTES=30`.

Bytes are mutated under the guidance of coverage where atheris is installed (Linux, and Pythons it has wheels for), and
drawn by hypothesis elsewhere. An input that fails is kept in `corpus/TARGET`, where the tests go through it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
SECONDS_AN_INPUT = 60
# Now and then pyarrow loses a thread when a reader is given up in the middle of a file, and after many it waits for
# ever. A command gives up one reader at most; a process that tries inputs gives up hundreds a second.
SECONDS_A_PROCESS = 60
MEMORY_MB = 4096
LONGEST = 8192


def keep(target: str, data: bytes) -> Path:
    """Write an input into the corpus, under a name made of its content."""
    path = CORPUS / target / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def guided(target: str, seconds: int) -> bool:
    """Let atheris look in a process of its own, which a crash may end; say whether nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found"
        (Path(folder) / "new").mkdir()
        end = time.monotonic() + seconds
        clean = True
        while clean and (left := int(end - time.monotonic())) > 0:
            clean = _guided_for(min(left, SECONDS_A_PROCESS), target, found)
        for path in Path(folder).glob("found-*"):
            print(f"{target}: {path.name} kept as {keep(target, path.read_bytes())}")
        return clean


def _guided_for(seconds: int, target: str, found: Path) -> bool:
    """One process of atheris, which goes on from the inputs that those before it thought worth keeping."""
    words = [
        sys.executable,
        "-m",
        "tests.fuzz.guided",
        target,
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS_AN_INPUT}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-max_len={LONGEST}",
        f"-artifact_prefix={found}-",
        "-print_final_stats=1",
        "-verbosity=0",
        str(found.parent / "new"),
        str(CORPUS / target),
    ]
    try:
        return subprocess.run(words, check=False, timeout=seconds + 2 * SECONDS_AN_INPUT).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"{target}: the process hangs")
        return False


def drawn(target: str, seconds: int) -> bool:
    """Let hypothesis draw and mend inputs from the corpus until the time is up; say whether nothing was found."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    seeds = [path.read_bytes()[:LONGEST] for path in sorted((CORPUS / target).iterdir())] or [b"a,b\n1,2\n"]

    @settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), st.lists(st.tuples(st.integers(0, LONGEST), st.binary(max_size=8)), max_size=6))
    def look(seed: bytes, edits: list[tuple[int, bytes]]) -> None:
        data = bytearray(seed)
        for place, piece in edits:
            at = place % (len(data) + 1)
            data[at : at + len(piece) // 2] = piece
        try:
            TARGETS[target](bytes(data))
        except Exception:
            print(f"{target}: kept as {keep(target, bytes(data))}")
            raise

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            look()
        except Exception as error:  # told, and kept above
            print(f"{target}: {error!r}")
            return False
    return True


def main(minutes: float, chosen: list[str]) -> int:
    """Share the time among the targets; 1 if something was found."""
    look = guided if importlib.util.find_spec("atheris") else drawn
    if look is drawn:
        print("atheris is not installed (pip install atheris): hypothesis draws the inputs, without coverage")
    clean = [look(target, max(int(60 * minutes / len(chosen)), 1)) for target in chosen]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    wanted = sys.argv[2:] or list(TARGETS)
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, wanted))
