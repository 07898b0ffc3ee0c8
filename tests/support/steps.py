"""Cutting in on a write at one of its steps."""

from __future__ import annotations

from collections.abc import Callable

from rli import Step


class Once:
    """Does something the first time that a write has reached a step."""

    def __init__(self, step: Step, action: Callable[[], object]) -> None:
        self.reached = 0
        self._step, self._action = step, action

    def __call__(self, step: Step) -> None:
        if step is self._step:
            self.reached += 1
            if self.reached == 1:
                self._action()
