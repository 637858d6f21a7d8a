"""What fuzzing has found, again, and a bounded and repeatable look around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.run import CORPUS
from tests.fuzz.targets import TARGETS

KEPT = sorted(CORPUS.glob("*/*"))
SEEDS = {target: [path.read_bytes() for path in KEPT if path.parent.name == target] for target in TARGETS}
EDITS = st.lists(st.tuples(st.integers(0, 4095), st.binary(max_size=6), st.integers(0, 6)), max_size=5)
ALPHABET = st.text(st.sampled_from(list("ab1 ,;|\t\"'\\\n\r\0é🙂\ufeff=")), max_size=60)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name[:8]}")
def test_what_was_found_stays_mended(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_around_the_corpus(target: str) -> None:
    @settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(SEEDS[target]), EDITS)
    def look(seed: bytes, edits: list[tuple[int, bytes, int]]) -> None:
        data = bytearray(seed)
        for place, piece, n_replaced in edits:
            at = place % (len(data) + 1)
            data[at : at + n_replaced] = piece
        TARGETS[target](bytes(data))

    look()


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(ALPHABET, st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_any_text_of_the_characters_that_matter(text: str, encoding: str) -> None:
    TARGETS["text"](text.encode(encoding))
