"""Recovery: what a writer finds of writers that died, and how it cleans up after them.

Every write of rli has a record in the store that says who writes (``writer/<instant>``) and a work folder. Where the
writer is dead, its instant either completed, and only its work folder is left to remove, or it did not, and is rolled
back as if it had never been. Pending instants of other engines are left alone.

A writer that is taken for dead may only be paused, and go on at any moment. So whatever it publishes by is removed
first, and only then it is asked whether it has published (docs/protocol.md, P3 and P4).
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rli.index.record_index import RecordIndex
from rli.storage import Storage
from rli.store.contract import Store
from rli.table import paths
from rli.table.definition import TableDefinition
from rli.table.lease import KeptHolding, is_left_behind, table_lease
from rli.table.liveness import Holding
from rli.table.rollback import finish_rollback
from rli.timeline.instant import Action

_WRITERS: Final = "writer/"

_OWN_ACTIONS: Final = (Action.COMMIT, Action.REPLACE_COMMIT)
"""What writes of rli complete as."""


def writer_record(instant: str) -> str:
    """Name of the control record that says who writes an instant."""
    return f"{_WRITERS}{instant}"


@contextmanager
def exclusive(table: TableDefinition, index: RecordIndex, writer: str) -> Iterator[KeptHolding]:
    """Hold the table's lease, with nothing left that an earlier holder, should it wake up, could still publish.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller.
    """
    with table_lease(index.store, writer, table.require_settings().lease_seconds) as lease:
        _clear_displaced(table, index.store, lease)
        yield lease


def recover(table: TableDefinition, index: RecordIndex, writer: str) -> dict[str, str]:
    """Roll back or tidy up what dead writers left, and finish rollbacks that they began.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller, for the lease.

    Returns:
        For each commit whose rollback was finished here, the instant of that rollback.
    """
    if not (
        abandoned_instants(table.storage, index.store)
        or table.storage.list_files(paths.ROLLBACK)
        or is_left_behind(index.store)
    ):
        return {}
    with table_lease(index.store, writer, table.require_settings().lease_seconds) as lease:
        finished = _clear_displaced(table, index.store, lease)
        # Asked again, because the lease may have been long in coming.
        for instant in abandoned_instants(table.storage, index.store):
            _clear(table, index.store, instant)
        return finished | _finish_rollbacks(table)


def undo_unpublished(table: TableDefinition, instant: str, promoted: Iterable[str] = ()) -> None:
    """Remove every trace of a write that was not published; may be repeated, and raced by the writer itself.

    Args:
        table: the table.
        instant: of the write.
        promoted: base files that the caller knows it has brought, or may have brought, into the table.
    """
    storage = table.storage
    # Without this file nobody can publish the write any more: it is removed first.
    storage.delete_files([paths.commit_content(instant)])
    content = storage.read_bytes(paths.manifest(instant))
    # Base files that are still to be moved go before those that have been, so that none is moved in between.
    storage.delete_folder(paths.unpublished_files(instant))
    storage.delete_files([*promoted, *(json.loads(content) if content is not None else ())])
    storage.delete_folder(paths.journal_folder(instant))
    for action in _OWN_ACTIONS:
        table.timeline_writer.remove(instant, action)
    storage.delete_folder(paths.work_folder(instant))


def is_published(table: TableDefinition, instant: str) -> bool:
    """Whether a write has become part of the table."""
    return any(table.timeline_writer.is_completed(instant, action) for action in _OWN_ACTIONS)


def abandoned_instants(storage: Storage, store: Store) -> list[str]:
    """Instants with a work folder or a writer's record, whose writer is dead."""
    # A writer makes its record before its folder and removes it after it. So the folders are listed first: whoever
    # lives and is found by its folder is then found by its record too.
    folders = {posixpath.basename(folder) for folder in storage.list_folders(paths.WORK)}
    records = {name.removeprefix(_WRITERS): content for name, content in store.scan_control(_WRITERS)}
    now = time.time()
    return sorted(
        instant
        for instant in folders | records.keys()
        if instant not in records or Holding.from_json(records[instant]).is_over(now)
    )


def _clear_displaced(table: TableDefinition, store: Store, lease: KeptHolding) -> dict[str, str]:
    """Clear up after those who held the lease and did not release it; the rollbacks that were finished by that."""
    if not lease.displaced:
        return {}
    for writer in lease.displaced:
        # Of the holders only writes are named by an instant; rollbacks leave marks.
        if writer.isdecimal():
            _clear(table, store, writer)
    finished = _finish_rollbacks(table)
    lease.settle()
    return finished


def _clear(table: TableDefinition, store: Store, instant: str) -> None:
    """Undo a write whose writer is taken for dead, or tidy up after it if it was published. The caller has the lease."""
    table.storage.delete_files([paths.commit_content(instant)])
    if is_published(table, instant):
        table.storage.delete_folder(paths.work_folder(instant))
    else:
        undo_unpublished(table, instant)
    name = writer_record(instant)
    store.compare_and_set(name, store.read_control(name), None)


def _finish_rollbacks(table: TableDefinition) -> dict[str, str]:
    """Finish the rollbacks that were announced, drop those that were not; commit → rollback. The caller has the lease."""
    finished: dict[str, str] = {}
    for mark in table.storage.list_files(paths.ROLLBACK):
        if table.timeline_writer.requested(mark.name, Action.ROLLBACK) is None:
            # Without its mark nobody can announce it any more, and it may just have been.
            table.storage.delete_files([mark.path])
        if table.timeline_writer.requested(mark.name, Action.ROLLBACK) is not None:
            finished[finish_rollback(table, mark.name)] = mark.name
    return finished
