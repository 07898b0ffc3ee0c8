"""Recovery: what a writer finds of writers that died, and how it cleans up after them.

Every write of rli has a record in the store that says who writes (``writer/<instant>``) and a work folder. Where the
writer is dead, its instant either completed, and only its work folder is left to remove, or it did not, and is rolled
back as if it had never been. Pending instants of other engines are left alone.
"""

from __future__ import annotations

import json
import posixpath
import time
from typing import Final

from rli.index.record_index import RecordIndex
from rli.storage import Storage
from rli.store.contract import Store
from rli.table import paths
from rli.table.definition import TableDefinition
from rli.table.lease import table_lease
from rli.table.liveness import Holding
from rli.table.rollback import finish_rollback
from rli.timeline.instant import Action
from rli.timeline.timeline import Timeline

_WRITERS: Final = "writer/"


def writer_record(instant: str) -> str:
    """Name of the control record that says who writes an instant."""
    return f"{_WRITERS}{instant}"


def recover(table: TableDefinition, index: RecordIndex, writer: str) -> dict[str, str]:
    """Roll back or tidy up what dead writers left, and finish rollbacks that they began.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller, for the lease.

    Returns:
        For each commit whose rollback was finished here, the instant of that rollback.
    """
    finished: dict[str, str] = {}
    abandoned = abandoned_instants(table.storage, index.store)
    if not abandoned and not table.storage.list_files(paths.ROLLBACK):
        return finished
    with table_lease(index.store, writer):
        timeline = table.load_timeline()
        for instant in abandoned:
            _clear(table, timeline, instant)
            remove_writer_record(index.store, instant)
        for mark in table.storage.list_files(paths.ROLLBACK):
            rollback = mark.name
            if table.timeline_writer.requested(rollback, Action.ROLLBACK) is not None:
                finished[finish_rollback(table, rollback)] = rollback
            else:
                table.storage.delete_files([mark.path])
    return finished


def undo_unpublished(table: TableDefinition, instant: str) -> None:
    """Remove every trace of a write that was not published; may be repeated."""
    storage = table.storage
    # Without this file the writer, if it lives after all, can no longer publish: it is removed first.
    storage.delete_files([paths.commit_content(instant)])
    content = storage.read_bytes(paths.manifest(instant))
    if content is not None:
        storage.delete_files(json.loads(content))
    storage.delete_folder(paths.journal_folder(instant))
    table.timeline_writer.remove(instant, Action.COMMIT)
    storage.delete_folder(paths.work_folder(instant))


def remove_writer_record(store: Store, instant: str) -> None:
    """Remove the record of who writes an instant."""
    name = writer_record(instant)
    store.compare_and_set(name, store.read_control(name), None)


def abandoned_instants(storage: Storage, store: Store) -> list[str]:
    """Instants with a work folder or a writer's record, whose writer is dead."""
    records = {name.removeprefix(_WRITERS): content for name, content in store.scan_control(_WRITERS)}
    folders = {posixpath.basename(folder) for folder in storage.list_folders(paths.WORK)}
    now = time.time()
    return sorted(
        instant
        for instant in folders | records.keys()
        if instant not in records or Holding.from_json(records[instant]).is_over(now)
    )


def _clear(table: TableDefinition, timeline: Timeline, instant: str) -> None:
    if any(completed.time == instant for completed in timeline.completed_writes):
        table.storage.delete_folder(paths.work_folder(instant))
    else:
        undo_unpublished(table, instant)
