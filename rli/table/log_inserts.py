"""The change of the setting by which new records go to log files."""

from __future__ import annotations

from rli.errors import UnsupportedTableError
from rli.hudi.metadata.partitions import PartitionKind
from rli.table.opened import OpenTable
from rli.table.options import RECORD_INDEX_BESIDE_HUDI, require_log_inserts
from rli.table.setting_changes import change_settings


def change_log_inserts(table: OpenTable, *, log_inserts: bool, patience: float) -> None:
    """Let new records go to log files, or not any more; the handle follows.

    Args:
        table: the table.
        log_inserts: the new value.
        patience: seconds to wait for the lease.

    Raises:
        SettingsError: see ``require_log_inserts``.
        UnsupportedTableError: another engine wrote one of the last commits, and the metadata table has no record index.
    """
    if log_inserts:
        definition = table.reloaded()
        partitions = definition.properties.metadata_partitions
        require_log_inserts(definition.properties, definition.require_settings().index_url, partitions)
        others = table.snapshot().recent_writes_of_others()
        if others and PartitionKind.RECORD_INDEX not in partitions:
            raise UnsupportedTableError(
                "another engine writes the table, and the SIMPLE and BLOOM indexes of Hudi add keys of log files a second time: "
                f"log_inserts=True instant={others[-1].time}",
                remedy=RECORD_INDEX_BESIDE_HUDI,
            )
    change_settings(table, "change of the log inserts", {"log_inserts": log_inserts}, patience)
