"""Whether writers of Hudi find all keys of a table, before they are let in."""

from __future__ import annotations

from collections.abc import Collection

from rli.errors import UnsupportedTableError
from rli.hudi.lock_settings import NO_LOCK, lock_changes
from rli.hudi.metadata.partitions import PartitionKind
from rli.table.options import require_log_inserts
from rli.view.definition import TableDefinition
from rli.view.file_findings import commits_of
from rli.view.log_inserts import MERGE_NEW_RECORDS, ONLY_IN_LOGS, log_of_new_records, may_have_hudi_writers
from rli.view.snapshot import Snapshot


def require_keys_under_lock(table: TableDefinition, lock: str) -> None:
    """Pass another lock for a table. The caller holds the lease.

    Raises:
        SettingsError: see ``require_log_inserts``.
        UnsupportedTableError: log files may hold new records, and the metadata table has no record index.
    """
    settings, properties = table.require_settings(), table.properties
    changed = properties.changed(lock_changes(properties.raw, lock))
    if properties.is_copy_on_write:
        return
    if settings.log_inserts:
        require_log_inserts(changed, settings.index_url, properties.metadata_partitions)
    if lock != NO_LOCK and PartitionKind.RECORD_INDEX not in properties.metadata_partitions:
        _require_no_new_records(Snapshot.now(table), f"lock={lock}")


def require_keys_without(table: TableDefinition, partitions: Collection[str]) -> None:
    """Pass the removal of partitions of a table's metadata table.

    Raises:
        UnsupportedTableError: writers of Hudi are known, and find keys in log files by one of them alone.
    """
    if table.properties.is_copy_on_write or PartitionKind.RECORD_INDEX not in partitions:
        return
    snapshot = Snapshot.now(table)
    if may_have_hudi_writers(snapshot):
        _require_no_new_records(snapshot, f"removed={PartitionKind.RECORD_INDEX}")


def require_droppable(table: TableDefinition, partition: str) -> None:
    """Pass the drop of a table's index, which is a partition of its metadata table. The caller holds the lease.

    Raises:
        UnsupportedTableError: the setting ``log_inserts`` relies on it; or as ``require_keys_without``.
    """
    settings = table.require_settings()
    if settings.log_inserts and not table.properties.is_copy_on_write and partition == PartitionKind.RECORD_INDEX:
        raise UnsupportedTableError(
            f"new records go to log files, and the table's index finds them there: log_inserts=True index={settings.index_url} "
            f"table={table.location}",
            remedy=(
                "run: rli table-type TABLE --no-log-inserts, then drop the index; or give the table another one: "
                "rli index migrate TABLE --to URL"
            ),
        )
    require_keys_without(table, [partition])


def _require_no_new_records(snapshot: Snapshot, change: str) -> None:
    log = log_of_new_records(snapshot, commits_of(snapshot))
    if log is not None:
        raise UnsupportedTableError(f"{ONLY_IN_LOGS}: {change} file={log}", remedy=MERGE_NEW_RECORDS)
