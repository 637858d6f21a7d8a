"""What every command that reads databases does before and after its phases."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vber_cli import running


@pytest.mark.parametrize(("threads", "heaps"), [(1, 2), (2, 2), (16, 16)])
def test_threads_share_heaps(threads: int, heaps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda what, value: asked.append((what, value)))
    monkeypatch.setattr(running.ctypes, "CDLL", lambda _: library)
    running.share_heaps(threads)
    assert asked == [(-8, heaps)]  # M_ARENA_MAX


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[None] = []

    def library(_: None) -> SimpleNamespace:
        looked_up.append(None)
        return SimpleNamespace()

    monkeypatch.setattr(running.ctypes, "CDLL", library)
    running.share_heaps(2)
    running.give_memory_back()
    assert len(looked_up) == 2
