"""Removing surplus records of repeated keys before the index of a table is built."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from rli.index.registry import opened_in_files
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.write.engine.local import LocalEngine
from rli.write.operations.deduplicate import Deduplicated, deduplicate
from rli.write.options import WriteOptions

_SAMPLE: Final = 10


def remove_repeats(table: TableDefinition, patience: float) -> Deduplicated:
    """Let one record of each key stay in a table whose index is not built; see ``Table.deduplicate``.

    Args:
        table: the table, as it is to be with the index.
        patience: seconds; for how long to wait for the lease at most.

    Raises:
        UnsupportedTableError: rli does not write such tables.
        LeaseBusyError: the lease was not free in that time.
    """
    with closing(opened_in_files(table)) as index:
        done = deduplicate(table, index, LocalEngine(), WriteOptions(patience=patience))
    if done.instant is not None:
        sample = [found.key for found in done.repeated[:_SAMPLE]]
        events.INDEX_DEDUPLICATED.log(
            table=table.location, instant=done.instant, keys=done.keys, records=done.records_removed, sample=sample
        )
    return done
