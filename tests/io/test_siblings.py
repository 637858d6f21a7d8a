"""What runs that died left beside a result is put back or removed, and nothing else is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vber_cli.errors import OutputError
from vber_cli.io.siblings import recover
from vber_cli.io.write import ResultDirectory


def result(path: Path, mark: str, *, whole: bool = True) -> None:
    path.mkdir()
    summary = {"mark": mark, "result": {"files": ["summary.json", "phi.parquet"]}}
    (path / "summary.json").write_text(json.dumps(summary))
    if whole:
        (path / "phi.parquet").write_text(mark)


def test_a_result_whose_successor_never_came_is_put_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result(tmp_path / ".out.vber-old-00000001", "older")
    os.utime(tmp_path / ".out.vber-old-00000001", (1, 1))
    result(tmp_path / ".out.vber-old-00000002", "newer")
    assert recover(out)
    assert os.listdir(tmp_path) == ["out"]
    assert (out / "phi.parquet").read_text() == "newer"
    assert not recover(out)


def test_what_a_complete_result_has_replaced_goes(tmp_path: Path) -> None:
    result(tmp_path / "out", "new")
    result(tmp_path / ".out.vber-old-00000001", "old")
    (tmp_path / ".out.vber-tmp-0a0a0a0a").mkdir()
    (tmp_path / ".out.vber-tmp-0a0a0a0a" / "phi.parquet").write_text("half")
    assert not recover(tmp_path / "out")
    assert os.listdir(tmp_path) == ["out"]
    assert (tmp_path / "out" / "phi.parquet").read_text() == "new"


def test_a_part_of_an_old_result_is_not_put_back(tmp_path: Path) -> None:
    result(tmp_path / ".out.vber-old-00000001", "half removed", whole=False)
    (tmp_path / ".out.vber-old-00000002").mkdir()
    assert not recover(tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    for name in (".out.vber-tmp-xyz", ".other.vber-tmp-00000001", "out.vber-old-00000001", ".out.vber-old-000000012"):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.vber-old-00000003").write_text("a file")
    for kind in ("tmp", "old"):
        (tmp_path / f".out.vber-{kind}-0000000a").mkdir()
        (tmp_path / f".out.vber-{kind}-0000000a" / "thesis.txt").write_text("x")
    before = sorted(os.listdir(tmp_path))
    assert not recover(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / ".out.vber-tmp-0000000a" / "thesis.txt").exists()


def test_a_run_clears_up_when_it_begins_and_never_under_a_live_one(tmp_path: Path) -> None:
    result(tmp_path / ".out.vber-old-00000001", "old")
    (tmp_path / ".out.vber-tmp-0a0a0a0a").mkdir()
    with pytest.raises(OutputError, match="exists already"), ResultDirectory(tmp_path / "out", force=False):
        pass
    assert os.listdir(tmp_path) == ["out"]
    with ResultDirectory(tmp_path / "out", force=True) as live:
        assert not live.restored
        during = sorted(os.listdir(tmp_path))
        with pytest.raises(OutputError, match="another run"), ResultDirectory(tmp_path / "out", force=True):
            pass
        assert sorted(os.listdir(tmp_path)) == during
    assert os.listdir(tmp_path) == ["out"]
    os.rename(tmp_path / "out", tmp_path / ".out.vber-old-00000001")
    with ResultDirectory(tmp_path / "out", force=True) as again:
        assert again.restored
