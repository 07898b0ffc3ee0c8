"""Signs of life as shared records: each process renews the record of its name as long as it lives.

What a silence means is decided by ``rli.coordination.liveness``, and what follows from a death by
``rli.commit.recovery``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rli.coordination.lease import HeldLease, RecordWatch
from rli.coordination.liveness import Holding
from rli.coordination.shared_records import SharedRecords
from rli.errors import CorruptIndexError
from rli.hudi.timeline.instant import is_instant_time
from rli.settings import DEFAULT_LEASE_SECONDS

WRITERS: Final = "writer/"
"""What the names of the shared records of writers begin with."""

REQUESTS: Final = "request/"
"""What the names of the shared records of requests begin with."""

_REQUEST: Final = re.compile(r"[0-9a-f]{32}")


class RecordedLiveness:
    """Signs of life of one kind; ``rli.coordination.contract.Liveness`` says what each method promises.

    Args:
        records: where they are kept.
        prefix: what the names of the records begin with.
        is_name: whether a record that is found has a name of this kind; may raise for another one.
        seconds: for how long a process counts as alive without a sign.
    """

    def __init__(self, records: SharedRecords, prefix: str, is_name: Callable[[str], bool], seconds: float) -> None:
        self._records = records
        self._prefix = prefix
        self._is_name = is_name
        self._seconds = seconds

    def begin(self, name: str) -> HeldLease | None:
        """Give signs of life under a name until they are released; None if somebody has given some."""
        # Only where there is no record: to replace another process's signs would be to take that process for dead.
        signs = HeldLease(self._records, self._prefix + name, name, self._seconds)
        return signs if signs.take(over=None) else None

    def signs(self) -> dict[str, Holding]:
        """The last sign of life of each name; raises ``CorruptIndexError`` for a damaged one."""
        found = ((name.removeprefix(self._prefix), sign) for name, sign in self._records.scan_control(self._prefix))
        return {name: Holding.from_json(sign) for name, sign in found if self._is_name(name)}

    def end(self, name: str) -> bool:
        """End the signs of a dead process; False if it seems to live, or if it has no name of this kind."""
        if not self._is_name(name):
            return False
        stored = self._records.read_control(self._prefix + name)
        if stored is None:
            return True
        is_over = Holding.from_json(stored).is_over(time.time())
        return is_over and self._records.compare_and_set(self._prefix + name, stored, None)

    def watch(self, name: str) -> RecordWatch:
        """A watch for signs of life of one name."""
        return RecordWatch(self._records, self._prefix + name)


def signs_of_writers(records: SharedRecords, seconds: float = DEFAULT_LEASE_SECONDS) -> RecordedLiveness:
    """Signs of life of writers, each under its instant."""
    return RecordedLiveness(records, WRITERS, _require_instant, seconds)


def signs_of_requests(records: SharedRecords, seconds: float = DEFAULT_LEASE_SECONDS) -> RecordedLiveness:
    """Signs of life of processes that keep a request, each under the name of its folder."""
    # Other names are passed over: a name becomes that of a folder which is deleted.
    return RecordedLiveness(records, REQUESTS, lambda name: _REQUEST.fullmatch(name) is not None, seconds)


def replace_damaged(records: SharedRecords) -> None:
    """Let processes whose record is damaged count as dead."""
    for name, content in records.scan_control(WRITERS):
        if not is_instant_time(name.removeprefix(WRITERS)):
            records.compare_and_set(name, content, None)
        elif _is_damaged(content):
            # The record of a dead writer replaces the unreadable record, so that recovery rolls the write back.
            records.compare_and_set(name, content, Holding.unknown().to_json())
    for name, content in records.scan_control(REQUESTS):
        if _is_damaged(content):
            # A request without a record is removed by the next write.
            records.compare_and_set(name, content, None)


def _is_damaged(content: bytes) -> bool:
    try:
        Holding.from_json(content).is_over(datetime.now(UTC).timestamp())
    except CorruptIndexError:
        return True
    return False


def _require_instant(name: str) -> bool:
    """Whether a writer's record names an instant, which becomes the name of folders that are deleted; raises if not."""
    if not is_instant_time(name):
        raise CorruptIndexError(
            f"a record of a writer does not name an instant: record={WRITERS + name!r}",
            remedy="no version of rli writes such a record: find out who changes the index, and bootstrap it again",
        )
    return True
