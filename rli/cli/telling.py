"""What a command says beside its report: what it is waiting for, and warnings. On standard error."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from rli.cli.output import print_note
from rli.errors import SettingsError
from rli.telemetry import events
from rli.telemetry.events import ATTRIBUTE_PREFIX
from rli.telemetry.waits import current_waits

_LEVEL_VARIABLE: Final = "RLI_LOG"
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

_LOOK_SECONDS: Final = 0.25
_LONG_SECONDS: Final = 1.0
"""A command that has waited for so long says so: within two seconds, the pause between two looks included."""

_AGAIN_SECONDS: Final = 10.0

_TOLD_BY_THE_ERROR: Final = frozenset({events.COMMIT_FAILED.name, events.STORE_UNAVAILABLE.name})


@contextmanager
def waits_and_warnings_told() -> Iterator[None]:
    """While a command runs, say what it is waiting for, and show log records from the level in ``RLI_LOG`` on.

    Raises:
        SettingsError: there is no such level.
    """
    handler = _LogLines(_level())
    logger, ended = logging.getLogger("rli"), Event()
    before = logger.level
    logger.addHandler(handler)
    if handler.level < logger.getEffectiveLevel():
        logger.setLevel(handler.level)
    teller = Thread(target=_tell_waits, args=(ended,), name="rli waits", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        logger.removeHandler(handler)
        logger.setLevel(before)


def _level() -> str:
    level = os.environ.get(_LEVEL_VARIABLE, "WARNING").upper()
    if level not in _LEVELS:
        raise SettingsError(
            f"no such log level: {_LEVEL_VARIABLE}={level}", remedy=f"choose one of {', '.join(_LEVELS)}"
        )
    return level


def _tell_waits(ended: Event) -> None:
    told: dict[int, float] = {}
    while not ended.wait(_LOOK_SECONDS):
        for wait in current_waits(_LONG_SECONDS):
            # Waits are told apart by when they began: an ended one's place in memory may be taken again.
            key = hash((wait.thread, wait.since))
            if wait.seconds >= told.get(key, 0.0):
                told[key] = wait.seconds + _AGAIN_SECONDS
                print_note(f"waiting for {wait.describe()}; for {wait.seconds:.0f} s so far")


class _LogLines(logging.Handler):
    """Shows log records as lines."""

    def emit(self, record: logging.LogRecord) -> None:
        # The command ends with this error, which is shown as its own.
        if getattr(record, f"{ATTRIBUTE_PREFIX}event", None) not in _TOLD_BY_THE_ERROR:
            print_note(f"{record.levelname.lower()}: {self.format(record)}")
