"""Dropping a table with its index: what a kill leaves is cleaned up by the same call.

The order makes each step safe to repeat. An announcement says that the table goes. Then its properties go, and with them the
table: nobody opens it from then on. Then the index goes, then the files. The settings, which say where the index is, and
the announcement go last. A folder with an announcement is taken for no new table.

Files that no table writer names like this stay, and their folders with them: the table's folder may hold other things.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rli.commit.recovery import exclusive
from rli.coordination.of_table import coordination_of
from rli.errors import (
    ConflictError,
    IndexMismatchError,
    IndexNotReadyError,
    InvalidInputError,
    LeaseBusyError,
    RliError,
    SettingsError,
    StoreUnavailableError,
    UnsupportedTableError,
)
from rli.hudi.properties import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from rli.index.contract import TableIndex
from rli.index.kinds import KeptKind
from rli.index.record.entries.identity import identity_of
from rli.index.record.record_index import RecordIndex
from rli.index.record.stored_index import stored_index
from rli.index.record.table.location import known_locations
from rli.index.registry import index_kind
from rli.index.roles import KeptInStore
from rli.storage import Storage
from rli.table.opened import OpenTable
from rli.urls import without_password
from rli.view import paths
from rli.view.definition import TableDefinition, load_definition
from rli.view.index_location import from_stored
from rli.view.registration import with_index_at

_OURS: Final = re.compile(
    r"[^_/]+_[^_/]+_\d+\.parquet|\.[^/]+_\d+\.log\.\d+(_[^/]*)?|\.hoodie_partition_metadata(\.\w+)?"
    r"|\.[^/]+\.[0-9a-f]{32}\.tmp",
    re.ASCII,
)
"""Names of files in the partitions of a table."""

_CHECKSUM: Final = re.compile(r"\.(?P<name>.+)\.crc")
_META: Final = ".hoodie/"


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """What ``drop_table`` removed.

    Attributes:
        location: of the table.
        index: store URL of the index that is gone, without a password; None if there was none.
        files: how many files are gone, those of rli and of Hudi in ``.hoodie`` among them.
        left: files in the table's folder that belong to no table, so that they stay.
        dry_run: whether it only told what it would remove.
    """

    location: str
    index: str | None
    files: int
    left: tuple[str, ...]
    dry_run: bool = False


def drop_table(
    path: str | os.PathLike[str],
    *,
    index: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DroppedTable:
    """Remove a table with its index, for good. Call it again after an interruption: it finishes.

    Args:
        path: folder of the table, local or a URI.
        index: store URL of the index, in place of the stored one.
        force: also while writers are at work, which fail then, and may leave empty folders, and where the index's store does not
            answer, which keeps the index.
        dry_run: only tell what would be removed now, or why nothing would. Nothing is changed.
        storage_options: of an object store, as for ``create_table``.

    Example:
        >>> import rli
        >>> created = rli.create_table("old", record_key="id")
        >>> rli.drop_table("old").index == created.settings.index_url
        True

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedTableError: rli has no index of the table: another engine made it, and is to drop it.
        ConflictError, LeaseBusyError: writers are at work; nothing was removed.
        StoreUnavailableError: the index's store does not answer; nothing was removed.
    """
    storage = Storage(os.fspath(path), storage_options or {})
    if dry_run:
        return _foretold(storage, index, force=force)
    # An announcement beside the properties: a drop was interrupted, or refused, before the table was gone.
    if storage.exists(PROPERTIES_PATH) or not storage.exists(paths.DROPPING):
        _end_table(storage, index, force=force)
    return _remove_rest(storage, index, force=force)


def require_table(path: str | os.PathLike[str]) -> None:
    """Raise what ``drop_table`` raises at a path where nothing is to be dropped; an interrupted drop passes."""
    storage = Storage(os.fspath(path))
    if not storage.exists(paths.DROPPING):
        load_definition(storage)


def require_unused(index: RecordIndex) -> None:
    """Raise ``InvalidInputError`` if a table uses an index, as far as this process reaches the table."""
    stored = stored_index(index)
    for location in known_locations(stored):
        try:
            definition = load_definition(Storage(location))
            if definition.settings is None or definition.settings.table_id != index.settings.table_id:
                continue
            with closing(index_kind(definition.index_url).open(definition)) as used:
                is_used = isinstance(used, KeptInStore) and used.identity == identity_of(stored.store)
        except (RliError, OSError):
            continue
        if is_used:
            raise InvalidInputError(
                f"a table uses this index: index={index.url} table={location}",
                remedy=(
                    f"give the table another one first (rli index migrate {location} --to URL), or drop the index of "
                    f"the table (rli index drop {location})"
                ),
            )


def _foretold(storage: Storage, index: str | None, *, force: bool) -> DroppedTable:
    """What a drop would remove; raises as it would."""
    found = [file.path for file in storage.list_files(recursive=True)]
    left = tuple(path for path in found if not _is_ours(path))
    if storage.exists(paths.DROPPING) and not storage.exists(PROPERTIES_PATH):
        # An interrupted drop may have dropped the index already.
        return DroppedTable(storage.location, None, len(found) - len(left), left, dry_run=True)
    table = _own_definition(storage, index)
    url = None
    try:
        with closing(OpenTable(table).index) as opened:
            url = without_password(opened.url)
            if not force:
                _require_no_writers(table, opened)
    except (IndexNotReadyError, IndexMismatchError):
        # There is none of the table.
        pass
    except StoreUnavailableError:
        if not force:
            raise
    return DroppedTable(storage.location, url, len(found) - len(left), left, dry_run=True)


def _own_definition(storage: Storage, index: str | None) -> TableDefinition:
    """The table, with an index that is given in place of the stored one; refuses tables of other engines."""
    definition = load_definition(storage)
    if definition.settings is None:
        raise UnsupportedTableError(
            f"rli has no index of this table, so it may be another engine's: table={storage.location}",
            remedy="drop it with that engine, or delete its folder",
        )
    return definition if index is None else with_index_at(definition, index)


def _end_table(storage: Storage, index: str | None, *, force: bool) -> None:
    """From here on nobody can open the table."""
    table = _own_definition(storage, index)
    if force:
        _mark(table)
        return
    try:
        opened = OpenTable(table).index
    except (IndexNotReadyError, IndexMismatchError):
        # Writers need the index, so there are none.
        _mark(table)
        return
    with closing(opened):
        _require_no_writers(table, opened)
        with exclusive(table, opened, f"drop at {datetime.now(UTC).isoformat()}", patience=0.0) as lease:
            _require_no_writers(table, opened, but_lease=True)
            lease.require_held()
            _mark(table)


def _require_no_writers(table: TableDefinition, index: TableIndex, *, but_lease: bool = False) -> None:
    coordination, now = coordination_of(table, index), datetime.now(UTC).timestamp()
    living = [instant for instant, sign in coordination.liveness.signs().items() if not sign.is_over(now)]
    if living:
        raise ConflictError(
            f"writers are at work: table={table.location} instants={living}",
            instants=tuple(living),
            remedy="wait for them, or force the drop (--force)",
        )
    holder = None if but_lease else coordination.exclusion.holder()
    if holder is not None and holder.damage is None and not coordination.exclusion.seems_left_behind():
        raise LeaseBusyError(
            f"somebody holds the lease: table={table.location} writer={holder.writer!r} host={holder.host} "
            f"pid={holder.pid}",
            remedy="wait for it, or force the drop (--force)",
        )


def _mark(table: TableDefinition) -> None:
    storage = table.durable().storage
    storage.write_bytes(paths.DROPPING, b"{}")
    storage.flush(folders=[posixpath.dirname(paths.DROPPING)])
    storage.delete_files([PROPERTIES_BACKUP_PATH, PROPERTIES_PATH])
    storage.flush(folders=[posixpath.dirname(PROPERTIES_PATH)])


def _remove_rest(storage: Storage, index: str | None, *, force: bool) -> DroppedTable:
    # The announcement may have been there before the properties went.
    storage.delete_files([PROPERTIES_BACKUP_PATH, PROPERTIES_PATH])
    dropped = None
    content = storage.read_bytes(paths.SETTINGS)
    if content is not None:
        try:
            settings, url = from_stored(storage, content)
            opens = url if index is None else index
            kind = index_kind(opens)
            if isinstance(kind, KeptKind) and kind.drop_own(opens, settings.table_id, storage):
                dropped = without_password(opens)
        except (SettingsError, StoreUnavailableError):
            if not force:
                raise
    files, left = _delete_files(storage)
    return DroppedTable(storage.location, dropped, files, left)


def _delete_files(storage: Storage) -> tuple[int, tuple[str, ...]]:
    found = [file.path for file in storage.list_files(recursive=True)]
    last = [path for path in (paths.SETTINGS, paths.DROPPING) if path in found]
    ours = [path for path in found if _is_ours(path) and path not in last]
    storage.discard_files(ours)
    # Folders go from the innermost one outwards; those with other files stay.
    for folder in sorted({*_folders_above(found)}, key=lambda name: -name.count("/")):
        if not folder.startswith(posixpath.dirname(paths.DROPPING)) and folder != _META.rstrip("/"):
            storage.delete_empty_folder(folder)
    storage.delete_files(last)
    storage.delete_folder(posixpath.dirname(_META))
    storage.delete_empty_folder("")
    return len(ours) + len(last), tuple(path for path in found if not _is_ours(path))


def _is_ours(path: str) -> bool:
    if path.startswith(_META):
        return True
    name = posixpath.basename(path)
    checked = _CHECKSUM.fullmatch(name)
    return _OURS.fullmatch(name if checked is None else checked["name"]) is not None


def _folders_above(found: list[str]) -> Iterator[str]:
    for path in found:
        folder = posixpath.dirname(path)
        while folder:
            yield folder
            folder = posixpath.dirname(folder)
