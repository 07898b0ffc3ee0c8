"""What a write builds on: the state of table and index, and the questions that its work asks of them.

A write that is to be committed (``BegunWrite``) and a dry run, which changes nothing, answer them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import pyarrow as pa

from rli.commit.keygen_check import require_known_key_generation
from rli.commit.step_clock import OnStep
from rli.errors import InstantNotFoundError
from rli.file_group.deleted_keys import DeletedKeys
from rli.file_group.log_appends import LogAppending
from rli.file_group.write_context import WriteContext
from rli.hudi.avro_schema import to_avro
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.schema_evolution import evolved_schema, missing_columns
from rli.hudi.schema_history import require_no_history
from rli.hudi.timeline.instant import instant_before
from rli.index.contract import ExpiringState, IndexState, PointIndex, TableIndex
from rli.index.locators import Locator
from rli.index.placing import PlacesRecords
from rli.model import FileGroupId, MissingColumns
from rli.view.column_indexes import columns_of_values
from rli.view.definition import TableDefinition, load_settings
from rli.view.log_inserts import may_have_hudi_writers
from rli.view.merging.rules import MergeRules
from rli.view.planned_rewrites import compacted_groups
from rli.view.snapshot import Snapshot


class WriteBasis:
    """What a write builds on.

    Attributes:
        table: the definition, as it was when the write began.
        index: its index.
        instant: the write's instant.
        state: the state of table and index that the write builds on.
        on_step: called after each step.
    """

    instant: str
    state: IndexState

    def __init__(self, table: TableDefinition, index: TableIndex, on_step: OnStep) -> None:
        self.table = table
        self.index = index
        self.on_step = on_step

    def require_writable_state(self) -> None:
        """Raise ``UnsupportedTableError`` for a table whose commits and records show that rli does not write it."""
        last = self.snapshot.last_change
        require_no_history({} if last is None else last.extra, self.table.location)
        require_known_key_generation(self.snapshot)
        if not self.table.properties.is_copy_on_write:
            MergeRules.of(self.table.properties)

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table that the write builds on."""
        return self.state.snapshot

    @property
    def saves(self) -> bool:
        """Whether the work of the write makes files."""
        return True

    @cached_property
    def locator(self) -> Locator:
        """Locates record keys as of that state."""
        if isinstance(self.state, ExpiringState):
            return self.state.locator_at(self.instant)
        return self.state.locator()

    @property
    def keeps_deleted_keys(self) -> bool:
        """Whether deletes keep their keys and ordering values, to compare them with records that come later."""
        return self._seconds_of_tombstones is not None

    @property
    def _seconds_of_tombstones(self) -> int | None:
        has_order = self.table.properties.ordering_field is not None
        return self.table.require_settings().tombstones if has_order else None

    @cached_property
    def deleted_keys(self) -> DeletedKeys:
        """The deleted keys that count in that state."""
        return self.deleted_keys_of(self.snapshot)

    def deleted_keys_of(self, snapshot: Snapshot) -> DeletedKeys:
        """The deleted keys that count for this write in a state of the table."""
        seconds = self._seconds_of_tombstones
        if seconds is None:
            return DeletedKeys(self.table.storage)
        return DeletedKeys.of(self.table.storage, snapshot.timeline, instant_before(self.instant, seconds))

    @property
    def expired_before(self) -> str | None:
        """See ``ExpiringState.expired_before``; None where keys do not expire."""
        return self.state.expired_before(self.instant) if isinstance(self.state, ExpiringState) else None

    def schema_with(self, incoming: pa.Schema, missing: MissingColumns = MissingColumns.FAIL) -> pa.Schema:
        """The table's schema once records of ``incoming`` are in it.

        Args:
            incoming: of the records.
            missing: what becomes of columns of the table that they lack.

        Raises:
            SchemaError: they do not fit.
        """
        stored = self.snapshot.schema
        of_keys = (*self.table.properties.record_key_fields, *self.table.properties.partition_fields)
        schema = incoming if stored is None else evolved_schema(stored, incoming, missing=missing, fixed=of_keys)
        to_avro(schema, self.table.properties.name)
        return schema

    def missing_in(self, incoming: pa.Schema) -> tuple[str, ...]:
        """The columns of the table that records of ``incoming`` lack."""
        return () if self.snapshot.schema is None else tuple(missing_columns(self.snapshot.schema, incoming))

    def context(self, schema: pa.Schema, *, is_flushed: bool = True, kept: tuple[str, ...] = ()) -> WriteContext:
        """What the tasks of this write need to know.

        Args:
            schema: of the records after the write.
            is_flushed: whether each task waits for the disk; if not, ``PreparedWrite.is_flushed`` says so, too.
            kept: columns of which updated records keep their stored values.
        """
        return WriteContext(
            storage=self.table.storage if is_flushed else self.table.storage.unflushed(),
            instant=self.instant,
            schema=schema,
            ordering_field=self.table.properties.ordering_field,
            partition_fields=self.table.properties.partition_fields,
            compression=self.table.require_settings().compression,
            kept=kept,
            # A new column comes with a commit, also where it is null in every record.
            skips_unchanged=self.snapshot.schema is not None and schema.equals(self.snapshot.schema),
            bloom_filter_rate=self.index.bloom_filter_rate,
            holds_journals=not is_flushed,
            noted=() if is_flushed else self._noted(schema),
            expired_before=self.expired_before,
            appending=None if self.table.properties.is_copy_on_write else self._appending(schema),
        )

    @cached_property
    def logs_take_new(self) -> bool:
        """Whether new records may go to log files, where no other reason is against it.

        Hudi's SIMPLE and BLOOM writers would add the keys again. So new records go to base files where another engine made one of the
        recent writes, and where the table shares a lock with its writers, unless the metadata table has a record index, by which they find the keys.
        """
        table = self.table
        if table.properties.is_copy_on_write:
            return False
        if isinstance(self.index, PlacesRecords):
            return True
        if not table.require_settings().log_inserts or not isinstance(self.index, PointIndex):
            return False
        # Another process may have changed the setting since this one opened the table, to let such a writer in.
        stored, _ = load_settings(table.storage)
        if stored is None or not stored.log_inserts:
            return False
        has_record_index = PartitionKind.RECORD_INDEX in table.properties.metadata_partitions
        return has_record_index or not may_have_hudi_writers(self.snapshot)

    def _noted(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns whose changed values indexes will ask for."""
        return tuple(name for name in columns_of_values(self.table) if name in schema.names)

    def _appending(self, schema: pa.Schema) -> LogAppending:
        return LogAppending.of(
            self.table,
            self.snapshot.schema,
            schema,
            takes_new=self.logs_take_new,
            compactions=self.planned_compactions,
        )

    @cached_property
    def planned_compactions(self) -> Mapping[FileGroupId, str]:
        """File groups of which a compaction is planned that has not completed, with its instant."""
        return {group: instant.time for group, instant in compacted_groups(self.snapshot.timeline).items()}

    def bytes_per_record(self, estimate: float) -> float:
        """What a record takes in a base file, from the last commit; ``estimate`` in a table without commits."""
        for instant in reversed(self.snapshot.timeline.completed_writes):
            try:
                stats = self.snapshot.change(instant).written
            except InstantNotFoundError:
                # Another process has archived it, and all older ones, or has undone it: then this write is in conflict.
                break
            records = sum(stat.writes for stat in stats)
            if records:
                return max(1.0, sum(stat.written_bytes for stat in stats) / records)
        return max(1.0, estimate)
