"""The index of the kind ``record-index:``."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from rli.errors import ConflictError, IndexNotReadyError, InstantNotFoundError
from rli.hudi.metadata.reader import MetadataTableReader
from rli.index.contract import PointIndex
from rli.index.locators import joined_locations
from rli.index.metadata_record.opening import PARTITION, opened_reader
from rli.index.metadata_record.state import MetadataIndexState
from rli.index.metadata_record.verifying import compared, entries_of, groups_of_locations
from rli.index.reports import IndexFacts, IndexStats, VerifyReport
from rli.index.table_files.unlogged_index import UnloggedIndex
from rli.model import FileGroupId, KeyMode
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_verified


class MetadataIndex(UnloggedIndex, PointIndex):
    """The record index of a table's metadata table. Each commit brings its entries with it."""

    def state_of(self, snapshot: Snapshot) -> MetadataIndexState:
        return MetadataIndexState(snapshot, self.scope)

    # Look-ups --------------------------------------------------------------------------------------------------

    def locate_now(
        self,
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        deadline = time.monotonic() + timeout
        distinct = record_keys.unique()
        while True:
            await_synced(max(0.0, deadline - time.monotonic()))
            try:
                locator = self.unseen(self._table)[0].locator()
                if partition_paths is not None:
                    return locator.locate(record_keys, partition_paths)
                return joined_locations(record_keys, distinct, locator.locate_all(distinct))
            except ConflictError as error:
                if time.monotonic() > deadline:
                    raise IndexNotReadyError(
                        f"others changed the table again and again while keys were looked up: index={self.url} "
                        f"seconds={timeout:g}",
                        remedy="look up again with a longer timeout",
                    ) from error

    # The index as a whole --------------------------------------------------------------------------------------

    def verify_against(
        self, table: TableDefinition, tasks: TaskRunner, await_synced: Callable[[], object]
    ) -> VerifyReport:
        await_synced()
        return self.repair_from(table, tasks)

    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:  # noqa: ARG002  (in passes)
        """Compare the index with the table; if they differ, the caller builds the partition again (``rli.table.index_partition``)."""
        return told_of_verified(table, self._compared)

    def facts(self) -> IndexFacts:
        return IndexFacts()

    def count(self) -> int:
        return self.stats().entries

    def _compared(self, snapshot: Snapshot) -> VerifyReport:
        return compared(snapshot, self._reader(snapshot), self.scope)

    def stats_of(self, snapshot: Snapshot) -> IndexStats:
        reader = self._reader(snapshot)
        groups = reader.groups(PARTITION)
        size = sum(file.size for group in groups for file in (group.base, *group.logs) if file is not None)
        entries, named = 0, set[FileGroupId]()
        for found in entries_of(snapshot.table, reader):
            entries += found.num_rows
            named |= {*groups_of_locations(found)[0]}
        latest = snapshot.timeline.latest_write
        return IndexStats(
            entries=entries,
            tombstones=0,
            bytes=size,
            bytes_per_entry=size / entries if entries else None,
            shards=len(groups),
            file_groups=len(named),
            last_sequence=None,
            applied_sequence=None,
            last_instant=None if latest is None else latest.time,
            key_mode=KeyMode.EXACT,
            url=self.url,
            kind=self.kind,
            scope=self.scope,
        )

    def _reader(self, snapshot: Snapshot) -> MetadataTableReader:
        """As ``opened_reader``, but a conflict is the error after which readers load the timeline again (P44)."""
        try:
            return opened_reader(snapshot, self.scope)
        except ConflictError as error:
            raise InstantNotFoundError(str(error), remedy="call again") from error
