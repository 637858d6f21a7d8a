"""Parquet and Arrow files of every type and with every damage: read whole, or refused in two lines."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.hostile.command import Ended, merge
from tests.hostile.parquets import MAKERS, N_TYPES, each_type
from tests.hostile.texts import Case

LITERAL = ("--K", "50", "--no-moves")
CASES = [(name, seed) for name, (_, count) in MAKERS.items() for seed in range(count)]


def check(case: Case, folder: Path, *options: str) -> None:
    file = folder / f"db{case.suffix}"
    file.write_bytes(case.data)
    ended = merge(folder, file, *options)
    if isinstance(ended, Ended):
        assert not case.rows, ended.err
        return
    assert case.rows != 0, "this file should have been refused"
    assert case.rows is None or len(ended.column("assignments", "row")) == case.rows


@pytest.mark.parametrize(("name", "seed"), CASES, ids=[f"{name}-{seed}" for name, seed in CASES])
def test_a_damaged_table(name: str, seed: int, tmp_path: Path) -> None:
    maker, _ = MAKERS[name]
    check(maker(np.random.default_rng([seed, zlib.crc32(name.encode())])), tmp_path, *(LITERAL if seed else ()))


@pytest.mark.parametrize("number", range(N_TYPES))
def test_a_column_of_every_plain_type(number: int, tmp_path: Path) -> None:
    check(each_type(number), tmp_path, *LITERAL)
