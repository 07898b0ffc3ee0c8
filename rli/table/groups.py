"""The groups of a table's methods, and their flat names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rli.index.contract import LOOKUP_SECONDS
from rli.index.reports import VerifyReport
from rli.model import CommitResult, KeyMode, MigrationResult, MigrationStep, OnRepeatedKey, Step, TableType
from rli.services.archive import ArchiveResult
from rli.services.clean import CleanResult
from rli.services.compaction import CompactionResult, ScheduledCompaction
from rli.services.restore import RestoreResult
from rli.settings import Maintenance
from rli.table.column_indexes import IndexesOnColumns
from rli.table.index_of_table import IndexOfTable, SyncResult
from rli.table.maintenance import TableMaintenance
from rli.table.metadata_of_table import MetadataOfTable
from rli.table.opened import OpenTable
from rli.table.versions import TableVersions
from rli.tasks import TaskRunner
from rli.view.column_indexes import ColumnIndex, IndexHome, IndexUse, WantedIndex
from rli.write.operations.deduplicate import Deduplicated
from rli.write.options import pass_over


class TableGroups:
    """Groups of methods, and an alias for each of them; ``Table`` inherits them."""

    _opened: OpenTable

    @property
    def maintenance(self) -> TableMaintenance:
        """Cluster, clean and archive, and how often writers do: ``table.maintenance.clean()``."""
        return TableMaintenance(self._opened)

    @property
    def versions(self) -> TableVersions:
        """Savepoints, rollback and restore: ``table.versions.savepoint()``."""
        return TableVersions(self._opened)

    @property
    def index(self) -> IndexOfTable:
        """The table's index: ``table.index.verify()``."""
        return IndexOfTable(self._opened)

    @property
    def metadata(self) -> MetadataOfTable:
        """Hudi's metadata table: ``table.metadata.status()``."""
        return MetadataOfTable(self._opened)

    def rollback(self, instant: str, *, timeout: float | None = None) -> str:
        """As ``versions.rollback``."""
        return self.versions.rollback(instant, timeout=timeout)

    def savepoint(self, instant: str | None = None, comment: str = "", *, timeout: float | None = None) -> str:
        """As ``versions.savepoint``."""
        return self.versions.savepoint(instant, comment, timeout=timeout)

    def delete_savepoint(self, instant: str, *, timeout: float | None = None) -> None:
        """As ``versions.delete_savepoint``."""
        self.versions.delete_savepoint(instant, timeout=timeout)

    def restore(self, instant: str, *, timeout: float | None = None, dry_run: bool = False) -> RestoreResult:
        """As ``versions.restore``."""
        return self.versions.restore(instant, timeout=timeout, dry_run=dry_run)

    def cluster(
        self,
        *,
        smaller_than: int | None = None,
        sort_by: Sequence[str] = (),
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
    ) -> CommitResult:
        """As ``maintenance.cluster``."""
        return self.maintenance.cluster(
            smaller_than=smaller_than,
            sort_by=sort_by,
            tasks=tasks,
            attempts=attempts,
            on_step=on_step,
            timeout=timeout,
        )

    def deduplicate(
        self,
        *,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> Deduplicated:
        """As ``maintenance.deduplicate``."""
        return self.maintenance.deduplicate(attempts=attempts, on_step=on_step, timeout=timeout, dry_run=dry_run)

    def compact(
        self,
        *,
        least_share: float = 0.0,
        most_bytes: int | None = None,
        take_over: bool = False,
        tasks: TaskRunner | None = None,
        attempts: int | None = None,
        on_step: Callable[[Step], None] = pass_over,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> CompactionResult:
        """As ``maintenance.compact``."""
        return self.maintenance.compact(
            least_share=least_share,
            most_bytes=most_bytes,
            take_over=take_over,
            tasks=tasks,
            attempts=attempts,
            on_step=on_step,
            timeout=timeout,
            dry_run=dry_run,
        )

    def schedule_compaction(
        self,
        *,
        least_share: float = 0.0,
        most_bytes: int | None = None,
        timeout: float | None = None,
        dry_run: bool = False,
    ) -> ScheduledCompaction:
        """As ``maintenance.schedule_compaction``."""
        return self.maintenance.schedule_compaction(
            least_share=least_share, most_bytes=most_bytes, timeout=timeout, dry_run=dry_run
        )

    def clean(self, keep_commits: int = 10, *, timeout: float | None = None, dry_run: bool = False) -> CleanResult:
        """As ``maintenance.clean``."""
        return self.maintenance.clean(keep_commits, timeout=timeout, dry_run=dry_run)

    def archive(self, keep_commits: int = 30, *, timeout: float | None = None, dry_run: bool = False) -> ArchiveResult:
        """As ``maintenance.archive``."""
        return self.maintenance.archive(keep_commits, timeout=timeout, dry_run=dry_run)

    def set_maintenance(self, maintenance: Maintenance, *, timeout: float | None = None) -> None:
        """As ``maintenance.set``."""
        self.maintenance.set(maintenance, timeout=timeout)

    def set_tombstones(self, tombstones: str, *, timeout: float | None = None) -> None:
        """As ``maintenance.set_tombstones``."""
        self.maintenance.set_tombstones(tombstones, timeout=timeout)

    def set_lock(self, lock: str, *, timeout: float | None = None) -> None:
        """As ``maintenance.set_lock``."""
        self.maintenance.set_lock(lock, timeout=timeout)

    def set_table_type(self, table_type: TableType | str, *, timeout: float | None = None) -> None:
        """As ``maintenance.set_table_type``."""
        self.maintenance.set_table_type(table_type, timeout=timeout)

    def set_log_inserts(self, log_inserts: bool, *, timeout: float | None = None) -> None:  # noqa: FBT001
        """As ``maintenance.set_log_inserts``."""
        self.maintenance.set_log_inserts(log_inserts, timeout=timeout)

    def bootstrap_index(
        self,
        url: str | None = None,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_duplicate: OnRepeatedKey | str = OnRepeatedKey.FAIL,
        on_deduplicated: Callable[[Deduplicated], None] | None = None,
    ) -> int:
        """As ``index.bootstrap``."""
        return self.index.bootstrap(
            url,
            shards=shards,
            key_mode=key_mode,
            tasks=tasks,
            timeout=timeout,
            on_duplicate=on_duplicate,
            on_deduplicated=on_deduplicated,
        )

    def migrate_index(
        self,
        to: str,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        drop_old: bool = False,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_step: Callable[[MigrationStep], None] = lambda _: None,
    ) -> MigrationResult:
        """As ``index.migrate``."""
        return self.index.migrate(
            to,
            shards=shards,
            key_mode=key_mode,
            drop_old=drop_old,
            tasks=tasks,
            timeout=timeout,
            on_step=on_step,
        )

    def sync_index(self, tasks: TaskRunner | None = None, *, timeout: float | None = None) -> SyncResult:
        """As ``index.sync``."""
        return self.index.sync(tasks, timeout=timeout)

    def verify_index(
        self, tasks: TaskRunner | None = None, *, timeout: float = LOOKUP_SECONDS, deep: bool = False
    ) -> VerifyReport:
        """As ``index.verify``."""
        return self.index.verify(tasks, timeout=timeout, deep=deep)

    def repair_index(
        self, tasks: TaskRunner | None = None, *, timeout: float | None = None, dry_run: bool = False
    ) -> VerifyReport:
        """As ``index.repair``."""
        return self.index.repair(tasks, timeout=timeout, dry_run=dry_run)

    def relocate(self, *, also: bool = False) -> tuple[str, ...]:
        """As ``index.relocate``."""
        return self.index.relocate(also=also)

    def create_index(  # noqa: PLR0913  (the choices of an index)
        self,
        name: str,
        on: str,
        using: IndexUse | str | None = None,
        *,
        expression: str | None = None,
        home: IndexHome | str | None = None,
        unique: bool = False,
        wait: bool = True,
        timeout: float | None = None,
        on_progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> ColumnIndex:
        """Make an index on a column, beside writers; every commit keeps it from then on.

        An index that is there stays as it is. An invalid one is built again.

        Args:
            name: small letters, digits and ``_``.
            on: the column.
            using: "secondary": value of the column → record keys; "column_stats": least and greatest value of the column, or of the
                expression, in each file; "bloom_filters": a bloom filter of each file, of the column's or the expression's values.
                By default "secondary", with an expression "column_stats".
            expression: over the column, such as ``hour(ts)``, in the grammar of filters: its values are indexed, and filters that name
                the expression use them. Parts of times are those of the UTC clock. None for the column itself.
            home: of a secondary index: "metadata" for the metadata table, with its record index, in tables of version 9; "store" for
                the key-value store of the table's index. By default "metadata" in tables of version 9, otherwise "store".
            unique: refuse commits that would give two records one value of the column. This takes a secondary index in a store.
                Records with null are not compared.
            wait: False: only schedule the index, and let ``build_indexes`` build it, here or in another process.
            timeout: as for ``clean``.
            on_progress: as for ``metadata.enable``.

        Returns:
            The index.

        Example:
            >>> table.create_index("by_ts", on="ts", using="column_stats").state
            <ColumnIndexState.VALID: 'valid'>
            >>> table.indexes()[0].name
            'by_ts'
            >>> table.drop_index("by_ts")
            True

        Raises:
            IndexExistsError: the table has another index of this name.
            InvalidInputError: rli makes no such index.
            SchemaError: there is no such column, or it is nested.
            RepeatedValueError: two records have one value already.
            UnsupportedTableError: a secondary index is wanted, and the table can have none.
            RliError: otherwise as for ``metadata.enable``.
        """
        record_key = self._opened.definition.properties.record_key_fields
        index = WantedIndex.of(on, using, expression, home, is_unique=unique, record_key=record_key)
        indexes = IndexesOnColumns(self._opened)
        return indexes.create(name, index, timeout, on_progress) if wait else indexes.schedule(name, index, timeout)

    def build_indexes(
        self, *, timeout: float | None = None, on_progress: Callable[[int, int], None] = lambda _, __: None
    ) -> tuple[ColumnIndex, ...]:
        """Build the scheduled indexes on columns, one after the other, beside writers, and remove the data of dropped ones.

        If the process dies, the index that it was building stays scheduled, and nobody uses it: the next call builds it, and
        ``drop_index`` removes it. Several processes may build at once: each finds built what another has built.

        Args:
            timeout: as for ``clean``; of each index.
            on_progress: as for ``metadata.enable``; for each index.

        Returns:
            The indexes that are built now.

        Example:
            >>> table.create_index("by_ts", on="ts", using="column_stats", wait=False).state
            <ColumnIndexState.BUILDING: 'building'>
            >>> len(table.build_indexes())
            1
            >>> table.drop_index("by_ts")
            True

        Raises:
            RliError: as for ``create_index``, of an index that cannot be built: it stays scheduled, and the others are built. If several
                indexes cannot be built, the error names all of them, and its ``__cause__`` holds their errors.
        """
        return IndexesOnColumns(self._opened).build(timeout, on_progress)

    def indexes(self) -> tuple[ColumnIndex, ...]:
        """The indexes on columns, those of Hudi's writers included: what they are made of, on which columns, in which state.

        The index of the record keys is ``table.index``.

        Raises:
            CorruptTableError: the metadata table, or a file that describes the indexes, is damaged.
        """
        return IndexesOnColumns(self._opened).list()

    def drop_index(self, name: str | None = None, *, timeout: float | None = None) -> bool:
        """Drop an index on a column; without a name, the index of the record keys, as ``index.drop``.

        A named index on a column is dropped at once, without the lease: from then on no reader and no writer of rli uses it. Its data
        are removed under the lease. While another process holds the lease, the index is shown as ``dropping``, until
        ``build_indexes``, a clean, or the next index of this name removes its data. Any other
        index on a column is dropped under the lease.

        Args:
            name: of the index, as ``indexes`` shows it.
            timeout: seconds to wait for the lease before the data are left for later; 0 by default. For an index without a
                name of rli's, as for ``clean``.

        Returns:
            Whether the data are removed; False while the index is shown as ``dropping``.

        Raises:
            IndexNotFoundError: there is no index of this name.
            LeaseBusyError: of an index without a name of rli's, as for ``metadata.enable``.
            LeaseLostError: as for ``metadata.enable``.
        """
        if name is None:
            self.index.drop()
            return True
        return IndexesOnColumns(self._opened).drop(name, timeout)
