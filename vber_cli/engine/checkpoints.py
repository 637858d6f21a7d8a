"""What the engine says on its way, so that a run can be stopped and continued; it knows nothing of files or clocks.

The engine does the same steps in the same order whenever it is asked the same. So what a step made in an earlier run
can be handed out instead of being made again, and everything after it comes out the same, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Checkpoints:
    """Keeps nothing and has all the time; whoever does keep things overrides every method.

    What is handed to `step` and `round_done` must not change afterwards.
    """

    def step(self, name: str, make: Callable[[], T]) -> T:  # noqa: ARG002 - for those who keep
        """Return what `make` makes, or made before in the run that is continued.

        Steps may hold steps; these are forgotten when the outer one is done.
        """
        return make()

    def begun(self, start: T) -> tuple[int, T]:
        """Return how many rounds of a loop are done, and the state after them: (0, `start`) for a new one.

        A step holds one loop at most, outside of the steps within it.
        """
        return 0, start

    def round_done(self, number: int, state: object) -> None:
        """Take note of the state of the loop after a round that is not its last; `number` counts from 1."""

    def time_is_up(self) -> bool:
        """Whether to come to an end early with what there is; what follows is then not kept."""
        return False


NO_CHECKPOINTS = Checkpoints()
