"""How the writers of one table agree, as its settings say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rli.coordination.contract import Liveness, MutualExclusion, Writers
from rli.coordination.eager_writers import require_no_eager
from rli.coordination.heartbeats import Heartbeats
from rli.coordination.lease import TableLease
from rli.coordination.locks.locked_lease import LockedLease
from rli.coordination.locks.of_properties import present_lock
from rli.coordination.shared_records import shared_records
from rli.coordination.signs import signs_of_requests, signs_of_writers
from rli.coordination.writers import RegisteredWriters
from rli.hudi.lock_settings import is_lock_named
from rli.index.contract import TableIndex
from rli.view.definition import TableDefinition
from rli.view.registration import require_same_lease


@dataclass(frozen=True, slots=True)
class Coordination:
    """How the writers of a table agree.

    Attributes:
        exclusion: one of them at a time changes the table.
        writers: which writes are under way.
        liveness: which of their processes live, by instant.
        requests: which processes live that keep a request, by the name of its folder.
    """

    exclusion: MutualExclusion
    writers: Writers
    liveness: Liveness
    requests: Liveness


def coordination_of(table: TableDefinition, index: TableIndex) -> Coordination:
    """How the writers of a table agree.

    Raises:
        SettingsError: they agree in the store of the table's index, and this index has none.
    """
    records, settings = shared_records(table, index), table.require_settings()
    liveness = signs_of_writers(records, settings.lease_seconds)
    lease = TableLease(records, settings.lease_seconds, require_same=partial(require_same_lease, table))
    exclusion: MutualExclusion = lease
    heartbeats = None
    if is_lock_named(table.properties.raw):
        heartbeats = Heartbeats.of(table)
        exclusion = LockedLease(lease, partial(present_lock, table), partial(require_no_eager, table, heartbeats))
    return Coordination(
        exclusion=exclusion,
        writers=RegisteredWriters(table.storage, records, liveness, settings.index_generation, heartbeats),
        liveness=liveness,
        requests=signs_of_requests(records, settings.lease_seconds),
    )
