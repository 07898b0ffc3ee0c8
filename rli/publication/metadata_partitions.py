"""How partitions come into Hudi's metadata table and leave it, whatever becomes of the process.

Readers and writers rely on the partitions that the properties of the table list. So a partition is listed last, after all
its files are in place, and unlisted first, before any of them goes. New files wait in a folder of their own. The process
that has the lease next removes that folder first: from then on, a process that was paused brings no more of them into place.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from rli.errors import CorruptTableError
from rli.hudi.java_properties import format_properties
from rli.hudi.metadata.index_definitions import (
    DEFAULT_PATH,
    OWN_PATH,
    PATH_KEY,
    IndexDefinition,
    definitions_at,
    definitions_path,
    format_index_definitions,
)
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.metadata.partitions import METADATA_FOLDER, PartitionKind, is_own
from rli.hudi.properties import PROPERTIES_PATH, Key
from rli.hudi.timeline.instant import Action
from rli.metadata_table.kept_shards import remove_kept
from rli.publication.instants import TableInstant
from rli.publication.metadata_files import ReplacesFiles, bring_into_place, flush_waiting
from rli.view import paths
from rli.view.planned_indexing import indexings_of

_SEPARATOR: Final = ","


class PlannedPartitions(BaseModel):
    """What is about to come into the metadata table, as a file beside its files says it.

    Attributes:
        version: of the format.
        partitions: of the metadata table.
        instant: of the deltacommit that makes them.
        is_first: the metadata table itself is new.
        files: those to bring into the metadata table's folder, in this order.
        source: folder that they wait in.
    """

    version: Literal[1] = 1
    partitions: tuple[str, ...]
    instant: str
    is_first: bool
    files: tuple[str, ...]
    source: str


def add_partitions(plan: PlannedPartitions, definitions: Sequence[IndexDefinition], fence: ReplacesFiles) -> None:
    """Bring new partitions into the metadata table, and list them. The caller holds the lease.

    Args:
        plan: what is to come.
        definitions: of the new partitions that have one.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over; it has removed what was begun.
    """
    storage, folder = fence.table.storage, paths.birth_folder(uuid4().hex)
    storage.write_bytes(paths.birth_plan(folder), plan.model_dump_json().encode())
    storage.flush(folders=[folder])
    flush_waiting(plan.source, plan.files, fence)
    _change_properties(fence, inflight=plan.partitions)
    # What another engine has left of partitions that are not listed.
    _delete_folders(fence, plan.partitions, is_whole=plan.is_first)
    bring_into_place(plan.source, plan.files, fence)
    _change_definitions(fence, definitions, plan.partitions)
    _change_properties(fence, listed=plan.partitions)
    storage.delete_folder(folder)


def remove_partitions(partitions: Sequence[str], fence: ReplacesFiles) -> None:
    """Unlist partitions of the metadata table, and remove them; with ``files`` the whole of it goes.

    Pending indexings that build one of them are aborted.

    The caller holds the lease.

    Args:
        partitions: that are listed, inflight, or scheduled by Hudi.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over; partitions that are not listed any more are left to it.
    """
    _change_properties(fence, unlisted=partitions)
    _delete_folders(fence, partitions, is_whole=PartitionKind.FILES in partitions)
    _change_definitions(fence, (), partitions)
    remove_kept(fence.table.storage, partitions)
    # Last: as long as the plan is there, the partitions can be removed again.
    for indexing in indexings_of(fence.table.load_timeline(), partitions):
        fence.require_held()
        TableInstant(fence.table, indexing.instant.time, Action.INDEXING).drop()


def take_back_partitions(content: bytes, folder: str, fence: ReplacesFiles) -> None:
    """Remove what a dead process has brought into the metadata table, unless its partitions are listed.

    Args:
        content: of the plan's file.
        folder: that the plan is in.
        fence: of the caller, who holds the lease.

    Raises:
        CorruptTableError: the plan is damaged.
    """
    plan = _parsed(content, folder)
    # From here on nobody else can bring more into place.
    fence.table.storage.delete_folder(plan.source)
    table = fence.table.reloaded()
    absent = [partition for partition in plan.partitions if partition not in table.properties.metadata_partitions]
    if not absent:
        # All had been done but the end.
        return
    _change_properties(fence, unlisted=absent)
    if plan.is_first and table.properties.metadata_partitions:
        # Another engine has made a metadata table since.
        return
    _delete_folders(fence, absent, is_whole=plan.is_first)
    if not plan.is_first:
        layout = metadata_layout(table.timeline_layout)
        files = table.storage.list_files(layout.folder)
        of_instant = (f"{plan.instant}.", f"{plan.instant}_")
        table.storage.delete_files(
            file.path for file in files if file.name.startswith(of_instant) and Action.DELTA_COMMIT in file.name
        )
    _change_definitions(fence, (), absent)


def _change_properties(
    fence: ReplacesFiles, *, inflight: Iterable[str] = (), listed: Iterable[str] = (), unlisted: Iterable[str] = ()
) -> None:
    """Let partitions be built, be relied on, or be neither, in one step; other properties stay as they are now."""
    properties = fence.table.reloaded().properties
    present, built = {*properties.metadata_partitions}, {*properties.metadata_partitions_inflight}
    present, built = present - {*unlisted} | {*listed}, built - {*unlisted} - {*listed} | {*inflight}
    changed = properties.changed(
        {
            Key.METADATA_PARTITIONS: _joined(present, own=False),
            Key.METADATA_PARTITIONS_INFLIGHT: _joined(built, own=False),
            Key.OWN_METADATA_PARTITIONS: _joined(present, own=True),
            Key.OWN_METADATA_PARTITIONS_INFLIGHT: _joined(built, own=True),
            **({PATH_KEY: properties.raw.get(PATH_KEY) or DEFAULT_PATH} if listed else {}),
        }
    )
    if changed != properties:
        fence.replace(PROPERTIES_PATH, format_properties(changed.raw))


def _joined(partitions: Iterable[str], *, own: bool) -> str | None:
    """The partitions that Hudi knows, or the others, as a property lists them."""
    return _SEPARATOR.join(sorted(name for name in partitions if is_own(name) == own)) or None


def _change_definitions(fence: ReplacesFiles, added: Iterable[IndexDefinition], changed: Iterable[str]) -> None:
    """Put definitions of indexes in place of those that some partitions have."""
    table = fence.table.reloaded()
    for path, own in ((definitions_path(table.properties), False), (OWN_PATH, True)):
        present = definitions_at(table.storage, path)
        kept = {name: definition for name, definition in present.items() if name not in {*changed}}
        kept |= {definition.name: definition for definition in added if is_own(definition.name) == own}
        if kept != present:
            table.storage.make_folder(posixpath.dirname(path))
            fence.replace(path, format_index_definitions(kept.values()))


def _delete_folders(fence: ReplacesFiles, partitions: Iterable[str], *, is_whole: bool) -> None:
    """Remove the files of partitions that nobody relies on, and their folders."""
    storage = fence.table.storage
    folders = [METADATA_FOLDER] if is_whole else [posixpath.join(METADATA_FOLDER, name) for name in partitions]
    files = [file.path for folder in folders for file in storage.list_files(folder, recursive=True)]
    if not files:
        return
    # What was listed before is of no successor.
    fence.require_held()
    storage.discard_files(files)
    emptied = {folder for file in files for folder in _folders_above(file)}
    # The innermost first.
    for folder in sorted(emptied, key=len, reverse=True):
        storage.delete_empty_folder(folder)
    storage.flush(folders=[posixpath.dirname(METADATA_FOLDER)])


def _folders_above(file: str) -> Iterator[str]:
    """The folders that a file of the metadata table is in, up to the metadata table's own."""
    folder = posixpath.dirname(file)
    while folder != METADATA_FOLDER:
        yield folder
        folder = posixpath.dirname(folder)
    yield folder


def _parsed(content: bytes, folder: str) -> PlannedPartitions:
    try:
        return PlannedPartitions.model_validate_json(content)
    except ValidationError as error:
        raise CorruptTableError(
            f"the plan of new partitions of the metadata table is damaged: file={paths.birth_plan(folder)}",
            remedy=f"delete the folder {folder}, then run: rli metadata enable TABLE",
        ) from error
