"""A table service from its beginning to its end: alone on the table, with an index that has followed the timeline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rli.index.record_index import RecordIndex
from rli.layout.support import require_writable
from rli.table.coordination.recovery import exclusive, recover
from rli.table.file_groups.tasks import InProcess
from rli.table.following.sync import sync
from rli.table.services.fence import Fence
from rli.table.state.definition import TableDefinition


@contextmanager
def table_service(
    table: TableDefinition, index: RecordIndex, name: str, *, patience: float = math.inf
) -> Iterator[tuple[TableDefinition, Fence]]:
    """Hold the lease for a table service.

    Args:
        table: the table.
        index: its index.
        name: of the service, for those who wait for it.
        patience: seconds; for how long to wait for the lease at most.

    Raises:
        LeaseBusyError: it was not free in that time.
        UnsupportedTableError: rli does not write such tables.
        IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
    """
    definition = table.reloaded()
    require_writable(definition.properties)
    writer = f"{name} at {datetime.now(UTC).isoformat()}"
    recover(definition, index, writer, patience=patience)
    with exclusive(definition, index, writer, patience=patience) as lease:
        sync(definition, index, InProcess())
        yield definition, Fence(definition, lease.require_held)
