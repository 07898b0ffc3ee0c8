"""Records of the commit log as they lie in the store, a block of them at a time."""

from __future__ import annotations

from rli.index.record.log.record import LogRecord, block_of, bounds_of_block, record_name, sequence_of
from rli.store.contract import Store


def records_between(store: Store, first: int, after: int) -> list[LogRecord]:
    """The records whose sequences are in a range, in order.

    Args:
        store: of the log.
        first: the sequence that a record begins with.
        after: the first sequence behind the range.
    """
    found: list[LogRecord] = []
    while first < after:
        stored = store.scan_control(block_of(first), start=record_name(first))
        both = ((sequence_of(name), content) for name, content in stored)
        found.extend(LogRecord.from_json(sequence, content) for sequence, content in both if sequence < after)
        first = bounds_of_block(first)[1]
    return found
