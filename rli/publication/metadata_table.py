"""Hudi's metadata table, as far as rli does not keep it.

Hudi's readers take the files that the metadata table lists for all there are. A commit of rli that is not in it
would be invisible to them, and lost at Hudi's next write. So what a change does not keep goes before the change is
published: the metadata table as a whole, or a partition of it alone. Hudi builds it again at its next write.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Final

from rli.hudi.java_properties import format_properties
from rli.hudi.metadata.index_definitions import definitions_path, format_index_definitions, load_index_definitions
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.properties import PROPERTIES_PATH, Key, TableProperties, save_properties
from rli.storage import Storage
from rli.telemetry import events
from rli.view.definition import TableDefinition

_LISTS: Final = (Key.METADATA_PARTITIONS, Key.METADATA_PARTITIONS_INFLIGHT)


def switch_off_metadata_table(storage: Storage, properties: TableProperties) -> None:
    """Make readers list files instead. The caller holds the lease."""
    # The properties first: they make readers use the metadata table. A crash before the folder goes leaves a folder
    # that nobody reads.
    if any(properties.raw.get(key) for key in _LISTS):
        save_properties(storage, properties.changed(dict.fromkeys(_LISTS)))
    if storage.exists(METADATA_FOLDER):
        storage.delete_folder(METADATA_FOLDER)
        storage.flush(folders=[posixpath.dirname(METADATA_FOLDER)])


def drop_partitions(
    table: TableDefinition,
    reasons: Mapping[str, str],
    replace: Callable[[str, bytes], None],
    require_held: Callable[[], None],
) -> None:
    """Drop some partitions of the metadata table, not its lists of files. The caller holds the lease.

    Args:
        table: the table.
        reasons: the partitions by name, each with the reason why it goes.
        replace: writes a file of the table in place of the one of that name, if the lease is held.
        require_held: raises ``LeaseLostError`` once the lease is another one's.
    """
    storage, properties = table.storage, table.reloaded().properties
    # Readers stop to use a partition by the properties; what is left after a crash, nobody reads.
    lists = {key: _without(properties.raw.get(key, ""), reasons) or None for key in _LISTS}
    replace(PROPERTIES_PATH, format_properties(properties.changed(lists).raw))
    definitions = load_index_definitions(storage, properties)
    kept = [definition for name, definition in definitions.items() if name not in reasons]
    if len(kept) < len(definitions):
        replace(definitions_path(properties), format_index_definitions(kept))
    # Hudi may have built it again, if the lease was lost.
    require_held()
    for name, reason in reasons.items():
        storage.delete_folder(posixpath.join(METADATA_FOLDER, name))
        events.METADATA_DROPPED.log(table=table.location, partition=name, reason=reason)
    storage.flush(folders=[METADATA_FOLDER])


def _without(names: str, dropped: Mapping[str, str]) -> str:
    return ",".join(name for name in names.split(",") if name.strip() and name.strip() not in dropped)
