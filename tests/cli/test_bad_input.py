"""What a user can get wrong, through the installed command: two lines, the right code, old results as they were."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet

from vber_cli.cli.app import main

GOOD_A = "id,name,city\n1,anna,ulm\n2,bert,bonn\n3,carl,trier\n"
LITERAL = ("--K", "5", "--no-moves")  # the quickest run
GOOD_B = "id,name,city\n7,anna,ulm\n8,dora,bonn\n9,carla,trier\n"


@pytest.fixture(scope="module")
def merged(vber: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two databases and an old result in vber-out."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "a.csv").write_text(GOOD_A)
    (folder / "b.csv").write_text(GOOD_B)
    done = subprocess.run(
        [vber, "merge", "a.csv", "b.csv", "-q", *LITERAL], cwd=folder, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return folder


@pytest.fixture
def here(merged: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    shutil.copytree(merged, tmp_path / "w")
    return tmp_path / "w"


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(vber: str, here: Path, code: int, *arguments: str) -> str:
    """Run a merge that must end with this code; returns the first of its two lines."""
    before = content(here)
    words = [vber, "merge", "-q", *arguments]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), done.stdout) == (code, 2, ""), done.stderr
    assert lines[0].startswith("error: ")
    assert len(lines[1]) > 10
    assert content(here) == before
    return lines[0]


def raw(text: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(text) and None


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda path: path.mkdir(), "bad.csv"),
        (raw(b""), "bad.csv: the file is empty"),
        (raw(b"\n\n  \n"), "bad.csv"),
        (raw(b"id,name,city\n1,anna\n2,bert,bonn\n"), "bad.csv, line 2"),
        (raw(b"id,name,city\n1,anna,ulm\n2,bert,bonn,x,y\n"), "bad.csv, line 3"),
        (raw(b'id,name,city\n1,"anna\nmaria",ulm\n2,bert\n'), "bad.csv, line 4"),
        (raw(b"id,name,city\n1,anna,ulm\n2,b\x00\x01\x02\xff\xfe\x03,\x04\n" * 20 + bytes(range(256)) * 8), "bad.csv"),
        (raw(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4), "bad.csv"),
        (raw(b"PAR1" + bytes(100)), "bad.csv"),
        (raw(b"id,name,name\n1,anna,ulm\n"), "two columns are called 'name'"),
        (raw(b"key,colour,size\n1,red,7\n2,blue,8\n"), "no column in common"),
        (raw(b"\x1f\x8b\x08\x00broken"), "bad.csv"),
    ],
    ids=[
        "directory", "empty", "blank", "short row", "long row", "ragged after a line break", "binary", "picture",
        "broken parquet", "duplicate columns", "no common field", "broken gzip",
    ],
)  # fmt: skip
def test_a_file_that_is_no_table(vber: str, here: Path, write: Callable[[Path], None], says: str) -> None:
    write(here / "bad.csv")
    assert says in refused(vber, here, 3, "a.csv", "bad.csv", "--force")


def test_no_such_file(vber: str, here: Path) -> None:
    assert "nothing.csv: no such file" in refused(vber, here, 3, "a.csv", "nothing.csv", "--force")


def test_only_headers(vber: str, here: Path) -> None:
    (here / "head.csv").write_text("id,name,city\n")
    assert "no rows" in refused(vber, here, 3, "head.csv", "--force")
    # beside a database that has rows it is a database without any
    done = subprocess.run([vber, "merge", "a.csv", "head.csv", "-q", "-o", "new", *LITERAL], cwd=here, check=False)
    assert done.returncode == 0
    assert len(parquet.read_table(here / "new" / "assignments.parquet")) == 3


def test_the_wrong_encoding(vber: str, here: Path) -> None:
    (here / "bad.csv").write_bytes("id,name,city\n1,änne,köln\n2,jörg,bonn\n".encode("latin-1"))
    assert "bad.csv" in refused(vber, here, 3, "a.csv", "bad.csv", "--force", "--encoding", "utf-8")
    assert "--encoding" in refused(vber, here, 2, "a.csv", "b.csv", "--force", "--encoding", "klingon")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--fields", "nme"), ("--exclude", "nme"), ("--id", "nme"), ("--id", "a:nme"), ("--map", "a:nme=name"),
        ("--map", "c:name=name"), ("--type", "nme=text"),
    ],
)  # fmt: skip
def test_a_column_that_is_not_there(vber: str, here: Path, arguments: tuple[str, str]) -> None:
    line = refused(vber, here, 2, "a.csv", "b.csv", "--force", *arguments)
    assert "nme" in line or "c" in line


@pytest.mark.parametrize("k", ["0", "-3", "many", "1.5", "nan", ""])
def test_k_that_is_no_number_of_individuals(vber: str, here: Path, k: str) -> None:
    assert "--K" in refused(vber, here, 2, "a.csv", "b.csv", "--force", "--K", k)


def test_k_far_too_large_is_allowed_and_said(vber: str, here: Path) -> None:
    words = [vber, "merge", "a.csv", "b.csv", "--K", str(10**15), "--no-moves", "-o", "new"]
    done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning: --K 1,000,000,000,000,000" in done.stderr


def test_the_literal_updates_need_a_k(vber: str, here: Path) -> None:
    assert "--no-moves" in refused(vber, here, 2, "a.csv", "b.csv", "--force", "--no-moves")


def test_output_that_exists(vber: str, here: Path) -> None:
    assert "vber-out: exists already" in refused(vber, here, 4, "a.csv", "b.csv")
    (here / "mine").mkdir()
    (here / "mine" / "letter.txt").write_text("dear")
    assert "'letter.txt'" in refused(vber, here, 4, "a.csv", "b.csv", "--force", "-o", "mine")
    assert "not a directory" in refused(vber, here, 4, "a.csv", "b.csv", "--force", "-o", "a.csv")


def test_output_below_a_file(vber: str, here: Path) -> None:
    assert "a.csv: is not a directory" in refused(vber, here, 4, "a.csv", "b.csv", "-o", "a.csv/out")


def test_bad_output_is_found_before_the_inputs_are_read(vber: str, here: Path) -> None:
    assert "exists already" in refused(vber, here, 4, "nothing.csv")


def mount(folder: Path) -> bool:
    """Mount a file system of 16 kB, where that is allowed."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def test_a_full_disk(
    vber: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = content(here)
    disk = here / "disk"
    disk.mkdir()
    if mount(disk):
        try:
            line = refused(vber, here, 4, "a.csv", "b.csv", "-o", "disk/out", *LITERAL)
            assert list(disk.iterdir()) == []
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        assert "disk/out: the result may need" in line  # before anything is written

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(here)
    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    assert main(["merge", "a.csv", "b.csv", "-q", "--force", *LITERAL]) == 4
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: vber-out: cannot be written (No space left on device)."
    assert second.startswith("Free space")
    checkpoint = here / ".vber-out.vber-checkpoint"
    assert (checkpoint / "run.npz").exists()  # the work is not lost
    shutil.rmtree(checkpoint)
    assert content(here) == old


def test_over_the_memory_budget(vber: str, here: Path) -> None:
    assert "--max-memory" in refused(vber, here, 5, "a.csv", "b.csv", "--force", "--max-memory", "10MB")


def test_an_error_in_a_config_file(vber: str, here: Path) -> None:
    (here / "run.toml").write_text("[merge]\nKK = 3\n")
    assert "KK" in refused(vber, here, 2, "a.csv", "b.csv", "--force", "--config", "run.toml")
