"""Changes of objects: folders are a part of their names, and a name is given by conditional writes."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

import obstore

from rli.storage.buckets import ObjectStores, key_of
from rli.storage.conditional_writes import ConditionalWrites
from rli.storage.contract import Draft, FileChanges, Versioned
from rli.storage.object_deletions import delete_objects
from rli.storage.object_errors import as_os_errors
from rli.storage.probes import Probes
from rli.storage.publications import Publications

_DIRECTORY_BUCKET: Final = "--x-s3"
"""At the end of their names."""


class ObjectChanges(FileChanges):
    """Changes the objects of one bucket; paths begin with the bucket's name.

    Args:
        stores: the clients of the bucket.
        location: of the table, for errors.
        folder: of the table, as a key.
    """

    def __init__(self, stores: ObjectStores, location: str, folder: str) -> None:
        self._store = stores.store
        self._location = location
        self._probes = Probes(stores, folder)
        self._writes = ConditionalWrites(stores, location, self._probes)
        self._publications = Publications(stores, self._writes, folder)

    @property
    def lists_by_name(self) -> bool:
        """True for all stores but directory buckets of S3."""
        return _DIRECTORY_BUCKET not in self._location

    def write(self, path: str, content: bytes) -> None:
        with as_os_errors(path):
            obstore.put(self._store, key_of(path), content)

    def create(self, path: str, content: bytes) -> bool:
        return self._writes.create(key_of(path), content)

    def read_versioned(self, path: str) -> Versioned | None:
        return self._writes.read(key_of(path))

    def write_versioned(self, path: str, content: bytes, replaced: Versioned | None) -> Versioned | None:
        return self._writes.write(key_of(path), content, replaced)

    def draft(self, path: str, content: bytes) -> Draft:
        return self._publications.draft(key_of(path), content)

    def publish(self, draft: Draft, target: str) -> bool:
        return self._publications.publish(draft, key_of(target))

    def replace(self, draft: Draft, target: str) -> None:
        self._publications.replace(draft, key_of(target))

    def retract(self, draft: str) -> bool:
        return self._publications.retract(key_of(draft))

    def settle(self, draft: str) -> None:
        self._publications.settle(key_of(draft))

    def move(self, source: str, target: str) -> None:
        self.promote(source, target)
        self.delete_file(source)

    def promote(self, source: str, target: str) -> None:
        # A copy of an object that is gone fails; of one that is there the answer may be lost, and the copy repeated.
        with as_os_errors(source):
            obstore.copy(self._store, key_of(source), key_of(target))

    def make_folder(self, path: str) -> None:
        """Nothing: it is there with its first object."""

    def delete_file(self, path: str) -> None:
        delete_objects(self._store, [key_of(path)])

    def discard_files(self, paths: Collection[str]) -> None:
        delete_objects(self._store, [*map(key_of, paths)])

    def delete_folder(self, path: str) -> None:
        with as_os_errors(path):
            for found in obstore.list(self._store, key_of(path)):
                delete_objects(self._store, [each["path"] for each in found])

    def delete_empty_folder(self, path: str) -> None:
        """Nothing: it goes with its last object."""

    def changed_at(self, path: str) -> float | None:
        with as_os_errors(path):
            try:
                return obstore.head(self._store, key_of(path))["last_modified"].timestamp()
            except FileNotFoundError:
                return None

    def has_passed(self, folder: str, moment: float) -> bool:  # noqa: ARG002  (all have the same clocks)
        return time.time() > moment and self._probes.now() > moment

    def remove_temporaries(self, root: str) -> None:  # noqa: ARG002  (probes are in one folder of the table)
        self._probes.remove_old()

    def is_within(self, folder: str, root: str) -> bool:  # noqa: ARG002
        """Always: there are no links."""
        return True
