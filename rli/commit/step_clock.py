"""Where the time of one attempt to write goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rli.model import Phase, Step

_WORK: Final = (Phase.TAG, Phase.WRITE)

OnStep = Callable[[Step], None]
"""Called after each step of a write."""


class StepClock:
    """Passes steps on, and adds the time since the step before to the phase of each.

    Attributes:
        seconds: by phase, in the order in which they were reached.
        attempts: of the write so far, this one included.
        conflicts: how many of the earlier attempts lost against other writers.
    """

    def __init__(self, on_step: OnStep) -> None:
        self._on_step = on_step
        self._last = time.monotonic()
        self._reached: set[Step] = set()
        self.seconds: dict[str, float] = {}
        self.attempts = 1
        self.conflicts = 0

    def follow(self, attempts: int, conflicts: int, seconds: float) -> None:
        """Count the earlier attempts of the write in.

        Args:
            attempts: how many there were.
            conflicts: how many of them lost against other writers.
            seconds: that they took, with the pauses after them.
        """
        self.attempts += attempts
        self.conflicts += conflicts
        if attempts:
            self.seconds[Phase.RETRIES.value] = seconds

    def has_reached(self, step: Step) -> bool:
        """Whether the attempt got so far."""
        return step in self._reached

    def __call__(self, step: Step) -> None:
        self._reached.add(step)
        now, phase = time.monotonic(), step.phase.value
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
        self._on_step(step)

    @property
    def work_seconds(self) -> float:
        """The time between the announcement of the instant and the manifest, in which a write waits for no other."""
        return sum(self.seconds.get(phase.value, 0.0) for phase in _WORK)
