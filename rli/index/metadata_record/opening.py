"""The record index as of one state of a table: its files are listed once, so that all processes read the same ones."""

from __future__ import annotations

from rli.errors import (
    ConflictError,
    CorruptIndexError,
    CorruptTableError,
    IndexMismatchError,
    IndexNotReadyError,
    InstantNotFoundError,
    RliError,
)
from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.properties import TableProperties, load_properties
from rli.model import Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import require_each_commit

PARTITION = PartitionKind.RECORD_INDEX
"""Of the metadata table."""


def opened_reader(snapshot: Snapshot, scope: Scope) -> MetadataTableReader:
    """Reads the record index as of a state of the table. Picklable, with the list of its files.

    Args:
        snapshot: the state; its timeline was loaded before.
        scope: where a record key is to be unique.

    Raises:
        ConflictError: others have committed and compacted since the timeline was loaded.
        CorruptIndexError: the record index is damaged.
        IndexMismatchError: its keys are unique in another scope.
        IndexNotReadyError: the metadata table has none.
    """
    # Loaded behind the timeline: a partition that is listed now has each of its commits.
    table = snapshot.table.reloaded()
    _require_listed(table, table.properties)
    _require_scope(table, scope)
    try:
        reader = MetadataTableReader(table.storage, snapshot.timeline, table.properties)
        # Keys of such a commit would be inserted again.
        require_each_commit(reader, PARTITION, table)
        suspects = reader.shown_beyond(PARTITION)
        # An upsert would insert the keys of a lost file again.
        reader.require_whole(PARTITION)
    except CorruptTableError as error:
        raise broken(table, error) from error
    except InstantNotFoundError as error:
        raise ConflictError(
            f"others compacted the metadata table while its record index was opened: table={table.location} ({error})",
            remedy="call again",
        ) from error
    is_younger = reader.born_at > (snapshot.timeline.latest_time or "")
    if suspects or is_younger:
        _require_same_state(snapshot, suspects, is_younger=is_younger)
    return reader


def broken(table: TableDefinition, error: RliError) -> RliError:
    """The error of a look-up that found the metadata table damaged: the record index was removed meanwhile, or is damaged."""
    try:
        _require_listed(table, load_properties(table.storage))
    except IndexNotReadyError as removed:
        return removed
    return CorruptIndexError(
        f"the record index of the metadata table is damaged: table={table.location} ({error})",
        remedy="build it again: rli index bootstrap TABLE",
    )


def _require_listed(table: TableDefinition, properties: TableProperties) -> None:
    if PARTITION not in properties.metadata_partitions:
        state = "inflight" if PARTITION in properties.metadata_partitions_inflight else "absent"
        raise IndexNotReadyError(
            f"the metadata table has no record index: table={table.location} index={table.index_url} "
            f"partition={PARTITION} state={state}",
            remedy="build it: rli metadata enable TABLE --partitions record_index",
        )


def _require_scope(table: TableDefinition, scope: Scope) -> None:
    definition = load_index_definitions(table.storage, table.properties).get(PARTITION)
    is_partitioned = definition is not None and definition.is_partitioned
    found = Scope.PARTITION if is_partitioned else Scope.GLOBAL
    if found is not scope:
        raise IndexMismatchError(
            f"the record index of the metadata table has another scope: table={table.location} "
            f"index={table.index_url} scope={scope} found={found}",
            remedy=f"build it in this scope: rli index bootstrap TABLE --index '{table.index_url}'",
        )


def _require_same_state(snapshot: Snapshot, suspects: frozenset[str], *, is_younger: bool) -> None:
    """Raise ``ConflictError`` if the files may hold changes of instants that the state does not have.

    Builds of partitions have instants of their own, which the timeline of the table never shows. The first one has an
    instant before all others, whenever it is. Restores of Hudi have such instants, too, and then the timeline shows the restore.

    Args:
        snapshot: the state.
        suspects: the instants; see ``MetadataTableReader.shown_beyond``.
        is_younger: the metadata table may have been built behind the last instant of the state.
    """
    timeline, now = snapshot.timeline, snapshot.table.load_timeline()
    shown = tuple(sorted(suspects & {instant.time for instant in now.instants}))
    is_later = is_younger or any(instant > (timeline.latest_time or "") for instant in suspects)
    if shown or (is_later and now.completed != timeline.completed):
        raise ConflictError(
            f"others changed the table while the record index was opened: table={snapshot.table.location} "
            f"instants={list(shown)}",
            instants=shown,
            remedy="call again",
        )
