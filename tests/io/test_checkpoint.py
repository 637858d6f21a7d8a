"""Checkpoints come back as they were, and replace each other as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from vber_cli.errors import InputError, OutputError
from vber_cli.io import checkpoint
from vber_cli.io.checkpoint import load_checkpoint, save_checkpoint


def test_arrays_and_facts_come_back(tmp_path, rng):
    arrays = {
        "0/x": rng.normal(size=(3, 4)),
        "0/stream": np.array([2**64 - 1], np.uint64),
        "1/none": np.zeros((0, 5), np.int32),
    }
    facts = {"options": {"seed": 3, "null": ["é"]}, "seconds": 1.5}
    save_checkpoint(tmp_path / "c.npz", arrays, facts)
    found, told = load_checkpoint(tmp_path / "c.npz")
    assert told == facts
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "c.npz"
    save_checkpoint(path, {"x": np.arange(3)}, {})

    def fail(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.np, "savez", fail)
    with pytest.raises(OutputError, match="No space left"):
        save_checkpoint(path, {"x": np.arange(4)}, {})
    assert [p.name for p in tmp_path.iterdir()] == ["c.npz"]
    assert load_checkpoint(path)[0]["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken"])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "c.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load_checkpoint(path)
    np.savez(path, x=np.arange(3))
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load_checkpoint(path)
