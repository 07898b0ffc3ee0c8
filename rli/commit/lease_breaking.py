"""Taking the lease away from its holder, for operators who find forged or damaged records of writers.

Breaking the lease of a writer that lives is safe. That writer is displaced as if it had been paused past its lease
(docs/protocol.md, P3 and P4): it fails with ``LeaseLostError``, and what it had written is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rli.commit.lease import LEASE
from rli.commit.liveness import Holding, writers_at_work
from rli.commit.recovery import WRITERS, exclusive, recover
from rli.commit.requests import REQUESTS
from rli.commit.shared_records import SharedRecords, shared_records
from rli.commit.turns import end_turn
from rli.errors import CorruptIndexError
from rli.hudi.timeline.instant import is_instant_time
from rli.index.contract import TableIndex
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a table's lease.

    Attributes:
        writer: the instant of the write, or the name of the service; None where the record is damaged.
        host: this boot of its host; None as above.
        pid: number of its process there; None as above.
        expires_at: when the lease lapses without a sign of life, in UTC by the holder's clock; None as above.
        damage: why the record cannot be read; None where it can.
    """

    writer: str | None
    host: str | None
    pid: int | None
    expires_at: datetime | None
    damage: str | None = None


def lease_holder(table: TableDefinition, index: TableIndex) -> LeaseHolder | None:
    """Who holds the table's lease; None if it is free."""
    content = shared_records(table, index).read_control(LEASE)
    if content is None:
        return None
    try:
        held = Holding.from_json(content)
        expires_at = datetime.fromtimestamp(held.expires_at, UTC)
    except (CorruptIndexError, ValueError, OverflowError, OSError) as error:
        return LeaseHolder(None, None, None, None, damage=str(error))
    return LeaseHolder(held.writer, held.process.host, held.process.pid, expires_at)


def break_lease(table: TableDefinition, index: TableIndex) -> LeaseHolder | None:
    """Take the lease from its holder and clear up after it; also ends a turn, and replaces records of writers that are damaged.

    Returns:
        Who held the lease; None if it was free.
    """
    records = shared_records(table, index)
    writer = f"break of the lease at {datetime.now(UTC).isoformat()}"
    _replace_damaged_writers(records)
    holder = lease_holder(table, index)
    while (stored := records.read_control(LEASE)) is not None:
        # The holder finds a record that is not its own, so it renews nothing; the next writer clears up after it.
        broken = Holding.unknown(writer, _displaced(table, stored))
        if records.compare_and_set(LEASE, stored, broken.to_json()):
            break
    with exclusive(table, index, writer):
        pass
    end_turn(records)
    recover(table, index, writer)
    return holder


def _displaced(table: TableDefinition, stored: bytes) -> tuple[str, ...]:
    """The writers that may still publish: the writers named by the record, or all writers at work if it is damaged."""
    try:
        held = Holding.from_json(stored)
        return (held.writer, *held.displaced)
    except CorruptIndexError:
        return writers_at_work(table.storage)


def _replace_damaged_writers(records: SharedRecords) -> None:
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
