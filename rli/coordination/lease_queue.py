"""Waiting for the lease, or for a turn: who holds it, whether it may be taken, and what the waiting process says about that."""

from __future__ import annotations

import random
import time
from typing import ClassVar, Final

from rli.coordination.liveness import Holding, Watch
from rli.telemetry import events, metrics
from rli.telemetry.events import Event

_LONG_SECONDS: Final = 2.0
"""A process that has waited for so long says so in its log."""

_PAUSE_PER_SILENCE: Final = 0.25
_SHORTEST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.05

_SIGN_OF_LIFE_SECONDS: Final = 0.05
"""For so long a living holder counts as alive without a further check, which costs more than to read its record."""


class LeaseQueue:
    """One process that waits for the lease.

    Args:
        writer: identity of the caller.
    """

    _awaited: ClassVar[str] = "the lease"
    _end: ClassVar[str] = "taken over after {seconds:g} s without a sign of life"
    _event: ClassVar[Event] = events.LEASE_WAITING

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._began = time.monotonic()
        self._watch = Watch()
        self._stored: bytes | None = None
        self._holder: Holding | None = None
        self._held_until = 0.0
        self._is_logged = False

    @property
    def seconds(self) -> float:
        """For how long the caller has waited."""
        return time.monotonic() - self._began

    def may_take(self, stored: bytes | None) -> bool:
        """Whether nobody holds the lease, or a holder without a sign of life.

        Args:
            stored: the record as it is now; None if there is none.
        """
        now = time.monotonic()
        # A holder that dies within these milliseconds is found by the next look: only the time is lost.
        if stored is not None and stored == self._stored and now < self._held_until:
            return False
        self._stored = stored
        self._holder = None if stored is None else Holding.from_json(stored)
        # Not ``is_over``: the record's own expiry is by the holder's clock, and a waiting process has time to watch
        # instead (P10).
        is_free = stored is None or self._watch.has_lapsed(stored)
        # A record that has lapsed, and that the caller could not replace, stays free at each look.
        self._held_until = now if is_free else now + _SIGN_OF_LIFE_SECONDS
        if self._holder is not None and not (is_free or self._is_logged) and self.seconds >= _LONG_SECONDS:
            self._is_logged = True
            self._log(self._holder)
        return is_free

    def pause(self) -> None:
        """Wait until it is time for another look.

        The pause grows with the time for which this process has seen the lease unchanged. A new process therefore looks more often
        than the others, until the lease changes hands. After that, all look equally often. A random factor keeps them out of step:
        otherwise the same process would always be first.
        """
        seconds = min(
            max(self._watch.silent_seconds * _PAUSE_PER_SILENCE, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS
        )
        time.sleep(seconds * random.uniform(0.5, 1.5))  # noqa: S311  (no secret)

    def has_taken(self, displaced: tuple[str, ...]) -> None:
        """The caller holds the lease now, perhaps in place of writers that did not release it."""
        metrics.LEASE_SECONDS.add(self.seconds, awaited="lease")
        if displaced:
            events.LEASE_TAKEN_OVER.log(writer=self._writer, displaced=displaced, seconds=self.seconds)

    def describe(self) -> str:
        """What the caller is waiting for; empty before it knows."""
        holder = self._holder
        if holder is None:
            return ""
        host = "this host" if holder.process.is_on_this_host else "another host"
        silent = self._watch.silent_seconds
        return (
            f"{self._awaited}: holder={holder.writer} process={holder.process.pid} on {host}, "
            f"silent for {silent:.0f} s ({self._end.format(seconds=holder.seconds)})"
        )

    def _log(self, holder: Holding) -> None:
        self._event.log(
            writer=self._writer,
            holder=holder.writer,
            pid=holder.process.pid,
            is_on_this_host=holder.process.is_on_this_host,
            silent_seconds=self._watch.silent_seconds,
        )


class TurnQueue(LeaseQueue):
    """One process that waits for the end of another write's turn (``rli.commit.turns``)."""

    _awaited = "the turn of another write"
    _end = "over after {seconds:g} s"
    _event = events.TURN_WAITING
