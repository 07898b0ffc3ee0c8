"""The place of a table: an index serves the table in one folder, and no copy of it (docs/protocol.md, P27).

A copy has the identity of its original, and may name the original's index. Were it to write, that index would follow the
copy, and the original would have lost its own. So the index keeps the locations of its table. At another location, a
table is taken for the same one only if a file that is made there appears at a known location.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote, urlsplit

from rli.errors import CorruptIndexError, IndexMismatchError, RliError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.json_text import parse_json
from rli.settings import TableSettings
from rli.storage import Storage
from rli.storage.local_files import temporary_name
from rli.store.contract import Store
from rli.store.home import SupportsHome, SupportsReadOnlyMedia
from rli.view import paths
from rli.view.definition import TableDefinition

_PLACE: Final = "place"
_VERSION: Final = 1
_S3: Final = frozenset({"s3a", "s3n"})


class _Seen(Enum):
    """What is at a known location of a table."""

    SAME = auto()
    """The table that was opened, by another path."""
    OTHER = auto()
    """Another folder with the table's identity: one of the two is a copy."""
    NOTHING = auto()
    """Not the table, as far as this process can see."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What an index keeps.

    Attributes:
        locations: of the table.
        index_path: of the index, if it is a folder on one machine; None for others.
    """

    locations: tuple[str, ...]
    index_path: str | None

    def to_json(self) -> bytes:
        fields = {"version": _VERSION, "locations": self.locations, "index_path": self.index_path}
        return json.dumps(fields).encode()

    @classmethod
    def from_json(cls, content: bytes, url: str) -> _Place:
        try:
            fields = parse_json(content)
            if fields["version"] == _VERSION:
                return cls(tuple(fields["locations"]), fields["index_path"])
            problem, remedy = f"version={fields['version']}", "use the version of rli that wrote it"
        except (ValueError, TypeError, KeyError) as error:
            problem, remedy = f"({error})", "bootstrap the index again: rli index bootstrap TABLE"
        raise CorruptIndexError(
            f"the record of the table's location cannot be read: index={url} {problem}", remedy=remedy
        )


def require_known_location(table: TableDefinition, index: StoredEntries) -> None:
    """Pass a table that is where its index knows it to be; an index that knows no place learns this one.

    Raises:
        IndexMismatchError: the table is a copy, or at a location that the index does not know; says what to do.
    """
    here, stored = location_of(table.storage), index.store.read_control(_PLACE)
    place = None if stored is None else _Place.from_json(stored, index.url)
    if place is not None and here in place.locations:
        return
    if place is None or (_is_elsewhere(index.store, place) and not _probe_old_home(table, index.store, place)):
        # An index that was moved or copied together with its table serves it where it is now.
        if isinstance(index.store, SupportsReadOnlyMedia) and index.store.is_read_only:
            return
        if not _set(index, stored, (here,)):
            require_known_location(table, index)
        return
    if not _probe_known_locations(table, index, place):
        raise IndexMismatchError(
            f"the index serves this table at another location: table={here} known={list(place.locations)} "
            f"index={index.url}",
            remedy=f"if the table was moved: rli relocate {here}; if hosts see it under different paths: "
            f"rli relocate {here} --also; if it is a copy, give it an index of its own: "
            f"rli index bootstrap {here} --index URL",
        )


def relocate(table: TableDefinition, index: StoredEntries, *, also: bool) -> tuple[str, ...]:
    """Let an index serve its table where it is now; returns the locations that the index knows from now on.

    Args:
        table: the table.
        index: its index.
        also: keep the locations that are known.

    Raises:
        IndexMismatchError: the table is a copy of one that is still there.
    """
    here = location_of(table.storage)
    while True:
        stored = index.store.read_control(_PLACE)
        known = _Place.from_json(stored, index.url) if stored is not None else _Place((), None)
        if here not in known.locations:
            _probe_known_locations(table, index, known)
        others = tuple(location for location in known.locations if also and location != here)
        if _set(index, stored, (*others, here)):
            return (*others, here)


def serves_another_copy(storage: Storage, table_id: str, index: StoredEntries) -> bool:
    """Whether an index serves another folder with a table's identity, which is still there, and not the table's own folder.

    Args:
        storage: of the table; its settings may be all that is left of it.
        table_id: identity of the table, and of its copies.
        index: with this identity.
    """
    stored = index.store.read_control(_PLACE)
    if stored is None:
        return False
    place = _Place.from_json(stored, index.url)
    if location_of(storage) in place.locations or _is_elsewhere(index.store, place):
        return False
    seen = {_look(storage, table_id, known) for known in place.locations}
    return _Seen.OTHER in seen and _Seen.SAME not in seen


def known_locations(index: StoredEntries) -> tuple[str, ...]:
    """Where the table of an index is, as far as the index knows; none for an index that is used on its own."""
    stored = index.store.read_control(_PLACE)
    return () if stored is None else _Place.from_json(stored, index.url).locations


def location_of(storage: Storage) -> str:
    """The location of a table's folder, the same for every way to write it down."""
    if storage.is_local:
        return os.path.realpath(storage.root)
    scheme = urlsplit(storage.location).scheme
    return f"{'s3' if scheme in _S3 else scheme}://{storage.root.rstrip('/')}"


def _probe_known_locations(table: TableDefinition, index: StoredEntries, place: _Place) -> bool:
    """Look whether a known location is the folder of the table; raises ``IndexMismatchError`` if it is another folder."""
    for known in place.locations:
        seen = _look(table.storage, table.require_settings().table_id, known)
        if seen is _Seen.SAME:
            return True
        if seen is _Seen.OTHER:
            here = location_of(table.storage)
            raise IndexMismatchError(
                f"the index serves another copy of this table: table={here} known={known} index={index.url}",
                remedy=f"give this copy an index of its own: rli index bootstrap {here} --index URL",
            )
    return False


def _look(storage: Storage, table_id: str, known: str) -> _Seen:
    """Compare the table's folder with a known location of the table: a file that is made in one appears in the other."""
    there = Storage(known, storage.options if "://" in known else {})
    probe = f"{paths.PROBES}/{temporary_name('place')}"
    try:
        content = there.read_bytes(paths.SETTINGS)
        if content is None or TableSettings.from_json(content).table_id != table_id:
            return _Seen.NOTHING
        if there.is_local and storage.is_local and os.path.samefile(there.root, storage.root):
            return _Seen.SAME
        storage.write_bytes(probe, b"")
        try:
            return _Seen.SAME if there.exists(probe) else _Seen.OTHER
        finally:
            storage.delete_files([probe])
    except (OSError, RliError):
        return _Seen.NOTHING


def _is_elsewhere(store: Store, place: _Place) -> bool:
    """Whether an index on one machine is not where it knows itself to be: it was moved or copied."""
    path = _index_path(store)
    if path is None or place.index_path is None or path == place.index_path:
        return False
    return not (os.path.exists(place.index_path) and os.path.samefile(path, place.index_path))


def _probe_old_home(table: TableDefinition, store: Store, place: _Place) -> bool:
    """Look whether an index was moved alone: another folder of the table is where it was, and has no index any more."""
    root, path = os.path.realpath(table.storage.root), _index_path(store)
    is_inside = table.storage.is_local and path is not None and path.startswith(f"{root.rstrip('/')}/")
    if is_inside or (place.index_path is not None and os.path.exists(place.index_path)):
        return False
    table_id = table.require_settings().table_id
    return any(_look(table.storage, table_id, known) is _Seen.OTHER for known in place.locations)


def _set(index: StoredEntries, stored: bytes | None, locations: tuple[str, ...]) -> bool:
    place = _Place(locations, _index_path(index.store))
    return index.store.compare_and_set(_PLACE, stored, place.to_json())


def _index_path(store: Store) -> str | None:
    """Path of an index in a folder of this machine."""
    parts = urlsplit(store.url)
    is_folder = isinstance(store, SupportsHome) and not parts.netloc and parts.path.startswith("/")
    return os.path.realpath(unquote(parts.path)) if is_folder else None
