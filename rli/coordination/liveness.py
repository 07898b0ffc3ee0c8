"""Which writers are alive.

The death of a process on this host shows at once. Processes of other hosts only give signs of life: they renew their
records from time to time. A process that waits for a record watches whether the record changes, by its own monotonic clock. A
process that sees a record once must compare clocks, and allows for a difference between the clocks of two hosts.

A wrong guess costs a living writer its work, but does no harm to the table: docs/protocol.md, P10.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rli.errors import CorruptIndexError
from rli.processes import ProcessId
from rli.settings import MOST_LEASE_SECONDS
from rli.storage import Storage

CLOCK_SLACK_SECONDS: Final = 600.0
"""By how much the clocks of two hosts may differ before one takes living writers of the other for dead."""

MOST_KEPT_SECONDS: Final = 7 * 24 * 3600.0
"""For how long a record may hold without a sign of life, at most."""

_MOST_SECONDS_AHEAD: Final = 366 * 24 * 3600.0
"""A record that expires later is damaged or forged: no clock of a host is so wrong."""

_NOBODY: Final = ""
_UNKNOWN: Final = ProcessId("unknown", 0, "unknown")
_LAPSED: Final = 0.0
_AT_ONCE: Final = 0.001


def is_older_than_machine(storage: Storage, path: str) -> bool:
    """Whether this machine has started since a file was written, by its clock; False if nobody knows."""
    # Where the system does not say, the time that the machine has slept is missing from its age.
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    written_at = storage.filesystem.get_file_info(storage.full_path(path)).mtime
    return written_at is not None and written_at.timestamp() < time.time() - time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a process holds until it expires or dies: a lease, or an instant that it is writing.

    Attributes:
        writer: identity of the write.
        process: who writes.
        expires_at: seconds since the epoch, by the clock of the process's host; moved on while the process lives.
        seconds: for how long it is held without a sign of life.
        displaced: writers that held it before and let it lapse, and whose leftovers are not cleared yet.
    """

    writer: str
    process: ProcessId
    expires_at: float
    seconds: float
    displaced: tuple[str, ...] = ()

    def is_over(self, now: float) -> bool:
        """Whether nobody holds it any more, as far as one look at the clock (seconds since the epoch) tells.

        Raises:
            CorruptIndexError: it would be held for longer than any writer of rli asks for.
        """
        if self.expires_at - now > _MOST_SECONDS_AHEAD:
            raise _damaged(f"it expires in {self.expires_at - now:.0f} seconds")
        slack = 0.0 if self.process.is_on_this_host else CLOCK_SLACK_SECONDS
        return now >= self.expires_at + slack or self.process.is_known_dead

    @property
    def is_placeholder(self) -> bool:
        """Whether nobody holds it: its holder was taken for dead."""
        return self.writer == _NOBODY

    def placeholder(self, expires_at: float) -> Holding:
        """What is put in its place when its holder is taken for dead; seconds since the epoch."""
        return Holding(_NOBODY, self.process, expires_at, self.seconds)

    @classmethod
    def unknown(cls, writer: str = "unknown", displaced: tuple[str, ...] = ()) -> Holding:
        """What is put in the place of a record that nobody can read, or may keep: it is over at once."""
        return cls(writer, _UNKNOWN, _LAPSED, _AT_ONCE, displaced)

    def to_json(self) -> bytes:
        process = self.process
        stored = _StoredHolding(
            writer=self.writer,
            host=process.host,
            pid=process.pid,
            started=process.started,
            expiresAt=self.expires_at,
            seconds=self.seconds,
            displaced=self.displaced,
        )
        return stored.model_dump_json().encode()

    @classmethod
    def from_json(cls, content: bytes) -> Holding:
        """Read a record; raises ``CorruptIndexError`` for anything else."""
        try:
            stored = _StoredHolding.model_validate_json(content)
        except ValidationError as error:
            raise _damaged("; ".join(problem["msg"] for problem in error.errors())) from error
        process = ProcessId(stored.host, stored.pid, stored.started)
        return cls(stored.writer, process, stored.expiresAt, stored.seconds, displaced=stored.displaced)


class _StoredHolding(BaseModel):
    """The record as JSON; its names are those of the stored format."""

    model_config = ConfigDict(strict=True)

    writer: str
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str
    expiresAt: Annotated[float, Field(allow_inf_nan=False)]  # noqa: N815
    seconds: Annotated[float, Field(gt=0, le=MOST_LEASE_SECONDS)]
    displaced: tuple[str, ...] = ()


def _damaged(reason: str) -> CorruptIndexError:
    return CorruptIndexError(
        f"a record of a writer or of the lease is damaged or forged ({reason})",
        remedy="run: rli lease show TABLE, then: rli lease break TABLE",
    )


class Watch:
    """Watches one record for signs of life, over the monotonic clock of this host alone."""

    def __init__(self) -> None:
        self._seen: bytes | None = None
        self._since = 0.0

    @property
    def silent_seconds(self) -> float:
        """For how long the record has not changed, as far as this process has looked."""
        return 0.0 if self._seen is None else time.monotonic() - self._since

    def has_lapsed(self, record: bytes) -> bool:
        """Whether the holder is known to be dead, or gave no sign of life for as long as it holds without one.

        Args:
            record: what is stored now; to be asked again and again.
        """
        holding = Holding.from_json(record)
        if holding.process.is_known_dead:
            return True
        now = time.monotonic()
        # Any change is a sign of life, whatever it says: the content is not compared with a clock here.
        if record != self._seen:
            self._seen, self._since = record, now
        return now - self._since >= holding.seconds
