"""Readiness: has the index seen all of the table, and if not, who shows it the rest?

A look-up shows all commits that were acknowledged. A writer applies its own commit, as a rule; a look-up gives it a
moment for that. Then the look-up applies the commit itself: that takes no lease, may be done by several at once, and
does no harm to a writer that is only slow (P8).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from rli.commit.recovery import recover
from rli.coordination.contract import LifeWatch
from rli.coordination.of_table import coordination_of
from rli.errors import IndexNotReadyError, LeaseBusyError, StoreReadOnlyError
from rli.file_group.journal_list import SMALL_JOURNALS, journal_bytes
from rli.index.contract import LOOKUP_SECONDS, IndexState, SyncOptions, TableIndex
from rli.index.reports import Unseen
from rli.model import LeasePlace
from rli.telemetry import events, metrics
from rli.telemetry.waits import waiting
from rli.view.definition import TableDefinition

_GRACE_SECONDS: Final = 1.0
"""For so long a writer that lives is left to apply a small commit itself."""

_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.5


def require_synced(table: TableDefinition, index: TableIndex) -> IndexState:
    """The state of an index that has seen all of the table; raises ``IndexNotReadyError`` for one that has not.

    An instant that a single look misses may have been published and applied between two requests of it (P44).
    """
    state, unseen = _unseen(table, index)
    while unseen:
        # One shared instant is enough. Busy writers change the sets at each look, so equal sets would never come.
        before = {*unseen.unapplied, *unseen.withdrawn}
        state, unseen = _unseen(table, index)
        if not before.isdisjoint([*unseen.unapplied, *unseen.withdrawn]):
            raise _not_ready(table, index, unseen)
    return state


def await_synced(table: TableDefinition, index: TableIndex, seconds: float = LOOKUP_SECONDS) -> IndexState:
    """The state of an index that has seen all of the table, which it is shown if need be.

    Args:
        table: the table.
        index: its index.
        seconds: for how long to wait for writers and to apply their commits.

    Raises:
        IndexNotReadyError: the index was never bootstrapped, cannot follow the timeline, or has not seen all of the
            table after so many seconds.
    """
    state, unseen = _unseen(table, index)
    if not unseen:
        return state
    helper = _Waiting(table, index, seconds)
    with waiting(helper.describe):
        while unseen:
            helper.wait_or_help(unseen)
            state, unseen = _unseen(table, index)
        return state


def _unseen(table: TableDefinition, index: TableIndex) -> tuple[IndexState, Unseen]:
    state, unseen = index.unseen(table)
    metrics.INDEX_LAG.set(unseen.lag, table=table.location)
    return state, unseen


class _Waiting:
    """A look-up that waits for an index to see all of a table, and helps where nobody else seems to."""

    def __init__(self, table: TableDefinition, index: TableIndex, seconds: float) -> None:
        self._table = table
        self._index = index
        coordination = coordination_of(table, index)
        self._liveness = coordination.liveness
        self._lease_watch = coordination.exclusion.watch()
        self._name = f"look-up at {datetime.now(UTC).isoformat()}"
        self._began = time.monotonic()
        self._deadline = self._began + seconds
        self._pause = _FIRST_PAUSE_SECONDS
        self._writer_watches: dict[str, LifeWatch] = {}
        self._orphans: frozenset[LifeWatch] = frozenset()
        self._failure: OSError | LeaseBusyError | StoreReadOnlyError | None = None
        self._unseen: Unseen | None = None
        self._is_logged = False

    def describe(self) -> str:
        """What the look-up is waiting for; empty before it knows."""
        unseen = self._unseen
        if unseen is None:
            return ""
        if unseen.withdrawn:
            return f"the end of a rollback: instants={list(unseen.withdrawn)}"
        return f"the index to show all commits: instants={list(unseen.unapplied)}"

    def wait_or_help(self, unseen: Unseen) -> None:
        """Wait a moment, or show the index what it lacks; raises ``IndexNotReadyError`` after the deadline."""
        self._tell(unseen)
        self._require_time_left(unseen)
        try:
            if unseen.withdrawn:
                # The index follows a rollback or restore once that is complete.
                # A sync cannot help here: the instant is pending again until its rollback is complete. While the lease
                # has a holder that lives, this holder completes it; a second process could only wait for the same
                # lease.
                if self._is_orphan_again([self._lease_watch]):
                    recover(self._table, self._index, self._name, patience=self._seconds_left())
            elif self._may_help(unseen) or self._is_orphan_again(self._watches_of(unseen.unapplied)):
                # No lease: applying is idempotent (P8), also beside the writer's own sync. The deadline ends it after a
                # part; what was applied until then is not lost.
                self._index.sync(self._table, SyncOptions(on_part=lambda: self._require_time_left(unseen)))
                return
        except (OSError, LeaseBusyError, StoreReadOnlyError) as error:
            # This process may be allowed to read alone; or another one has the lease.
            self._failure = error
        time.sleep(min(self._pause, self._seconds_left()))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _is_orphan_again(self, watches: Iterable[LifeWatch]) -> bool:
        """Whether one of some leases or instants had no living holder at the last look, and has none now.

        A holder gives its record back once it is done: perhaps just now, so that it takes two looks.
        """
        before, self._orphans = self._orphans, frozenset(watch for watch in watches if not watch.sees_life())
        return not self._orphans.isdisjoint(before)

    def _watches_of(self, instants: Iterable[str]) -> list[LifeWatch]:
        return [self._writer_watches.setdefault(instant, self._liveness.watch(instant)) for instant in instants]

    def _may_help(self, unseen: Unseen) -> bool:
        """Whether a living writer has had its time. A large commit is left to it: it may have an engine."""
        if self._table.require_settings().lease is not LeasePlace.INDEX:
            # Writers of other hosts apply what they commit to their own indexes.
            return True
        is_due = time.monotonic() >= self._began + _GRACE_SECONDS
        # Time alone is no reason to apply a large commit a second time. If its writer dies, two looks at its record
        # find that.
        return is_due and journal_bytes(self._table.storage, unseen.unapplied) <= SMALL_JOURNALS

    def _tell(self, unseen: Unseen) -> None:
        """Log what the look-up is waiting for, once, if it waits for longer than a writer takes as a rule."""
        self._unseen = unseen
        if not self._is_logged and time.monotonic() >= self._began + _GRACE_SECONDS:
            self._is_logged = True
            events.SYNC_WAITING.log(
                table=self._table.location,
                index=self._index.url,
                unapplied=unseen.unapplied,
                withdrawn=unseen.withdrawn,
            )

    def _seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _require_time_left(self, unseen: Unseen) -> None:
        if time.monotonic() >= self._deadline:
            raise _not_ready(self._table, self._index, unseen) from self._failure


def _not_ready(table: TableDefinition, index: TableIndex, unseen: Unseen) -> IndexNotReadyError:
    if unseen.withdrawn:
        return IndexNotReadyError(
            f"commits of the table are being rolled back: table={table.location} index={index.url} "
            f"instants={list(unseen.withdrawn)}",
            remedy="try again later; if its process is dead, write to the table (another engine: with that engine) or run: "
            "rli index sync TABLE",
        )
    return IndexNotReadyError(
        f"the index is older than the table: table={table.location} index={index.url} "
        f"instants={list(unseen.unapplied)} (raise timeout=SECONDS for slow writers)",
        remedy="run: rli index sync TABLE",
    )
