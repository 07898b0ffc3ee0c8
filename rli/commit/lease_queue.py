"""Waiting for the lease: who holds it, whether it may be taken, and what the waiting process says about that."""

from __future__ import annotations

import time
from typing import Final

from rli.commit.liveness import Holding, Watch
from rli.telemetry import events, metrics

_LONG_SECONDS: Final = 2.0
"""A process that has waited for so long says so in its log."""


class LeaseQueue:
    """One process that waits for the lease.

    Args:
        writer: identity of the caller.
    """

    def __init__(self, writer: str) -> None:
        self._writer = writer
        self._began = time.monotonic()
        self._watch = Watch()
        self._holder: Holding | None = None
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
        self._holder = None if stored is None else Holding.from_json(stored)
        is_free = stored is None or self._watch.has_lapsed(stored)
        if self._holder is not None and not (is_free or self._is_logged) and self.seconds >= _LONG_SECONDS:
            self._is_logged = True
            self._log(self._holder)
        return is_free

    def has_taken(self, displaced: tuple[str, ...]) -> None:
        """The caller holds the lease now, perhaps in place of writers that did not release it."""
        metrics.LEASE_SECONDS.add(self.seconds)
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
            f"the lease: holder={holder.writer} process={holder.process.pid} on {host}, "
            f"silent for {silent:.0f} s (taken over after {holder.seconds:g} s without a sign of life)"
        )

    def _log(self, holder: Holding) -> None:
        events.LEASE_WAITING.log(
            writer=self._writer,
            holder=holder.writer,
            pid=holder.process.pid,
            is_on_this_host=holder.process.is_on_this_host,
            silent_seconds=self._watch.silent_seconds,
        )
