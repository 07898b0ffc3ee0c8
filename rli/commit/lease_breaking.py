"""Taking the lease away from its holder, for operators who find forged or damaged records of writers.

Breaking the lease of a writer that lives is safe. That writer is displaced as if it had been paused past its lease
(docs/protocol.md, P3 and P4): it fails with ``LeaseLostError``, and what it had written is removed.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rli.commit.recovery import exclusive, recover
from rli.commit.turns import end_turn
from rli.coordination.contract import LeaseHolder
from rli.coordination.of_table import coordination_of
from rli.index.contract import TableIndex
from rli.view.definition import TableDefinition


def lease_holder(table: TableDefinition, index: TableIndex) -> LeaseHolder | None:
    """Who holds the table's lease; None if it is free."""
    return coordination_of(table, index).exclusion.holder()


def break_lease(table: TableDefinition, index: TableIndex) -> LeaseHolder | None:
    """Take the lease from its holder and clear up after it; also ends a turn, and replaces records of writers that are damaged.

    Returns:
        Who held the lease; None if it was free.
    """
    coordination = coordination_of(table, index)
    writer = f"break of the lease at {datetime.now(UTC).isoformat()}"
    coordination.writers.replace_damaged()
    holder = coordination.exclusion.holder()
    coordination.exclusion.take_away(writer, coordination.writers.at_work)
    with exclusive(table, index, writer):
        pass
    end_turn(table, index)
    recover(table, index, writer)
    return holder
