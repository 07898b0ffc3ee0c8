"""Changes of a table's settings and of its properties, under the lease."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from rli.coordination.locks.of_properties import is_usable_lock, require_usable_lock
from rli.hudi.java_properties import format_properties
from rli.hudi.lock_settings import lock_changes, lock_properties
from rli.hudi.properties import PROPERTIES_PATH
from rli.table.keys_for_hudi import require_keys_under_lock
from rli.table.opened import OpenTable
from rli.view import paths
from rli.view.definition import load_definition
from rli.view.registration import has_index_of, stored_form


def change_settings(table: OpenTable, service: str, changes: Mapping[str, object], patience: float) -> None:
    """Change fields of rli's settings of a table; the handle follows.

    Args:
        table: the table.
        service: its name, for other writers.
        changes: new values of fields.
        patience: seconds to wait for the lease.
    """
    stored = load_definition(table.definition.storage)
    # This handle may have an index of its own; if it has the table's, it may know a password of it.
    is_same = has_index_of(table.definition, stored)
    opened = OpenTable(replace(stored, binding=table.definition.adopted().binding) if is_same else stored)
    # Settings are replaced as a whole: under the lease, so that no change of the index is lost.
    with closing(opened), opened.service(service, patience) as (_, fence):
        stored = load_definition(table.definition.storage)
        changed = stored.require_settings().model_copy(update=changes)
        fence.replace(paths.SETTINGS, stored_form(stored.with_settings(changed)))
    mine = table.definition.require_settings().model_copy(update=changes)
    table.definition = table.definition.with_settings(mine)


def change_lock(table: OpenTable, lock: str, patience: float) -> None:
    """Give a table another lock, which its commits share with writers of Hudi.

    Args:
        table: the table.
        lock: as the option of ``create_table``.
        patience: seconds to wait for the lease.

    Raises:
        SettingsError: there is no such choice, or a library is not installed; or as ``require_keys_under_lock``.
        UnsupportedTableError: Hudi has no such lock for tables on this storage; or as ``require_keys_under_lock``.
    """
    storage = table.definition.storage
    require_usable_lock(storage, lock_properties(lock))
    is_refused = not is_usable_lock(storage, table.definition.reloaded().properties.raw)
    with table.service("change of the lock", patience, is_unlocked=is_refused) as (definition, fence):
        now = definition.reloaded()
        require_keys_under_lock(now, lock)
        properties = now.properties
        changed = properties.changed(lock_changes(properties.raw, lock))
        fence.replace(PROPERTIES_PATH, format_properties(changed.raw))
    table.reloaded()
