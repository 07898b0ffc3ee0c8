"""Probes: empty objects that tell what an object store does, and what its clocks say. A killed process may leave one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import obstore

from rli.storage.local_files import TEMPORARY_SECONDS, is_temporary, temporary_name
from rli.storage.object_deletions import delete_objects
from rli.storage.object_errors import as_os_errors

if TYPE_CHECKING:
    from rli.storage.buckets import ObjectStores

FOLDER: Final = ".hoodie/.rli"
"""Of probes, in a table's folder: writers and readers of Hudi pass over it."""


class Probes:
    """Probes of one table.

    Args:
        stores: the clients of the bucket.
        folder: of the table, as a key.
    """

    def __init__(self, stores: ObjectStores, folder: str) -> None:
        self._store = stores.store
        self._folder = f"{folder}/{FOLDER}".lstrip("/")

    @contextmanager
    def written(self) -> Iterator[str]:
        """A new probe; gives its key."""
        path = f"{self._folder}/{temporary_name('probe')}"
        with as_os_errors(path):
            obstore.put(self._store, path, b"")
        try:
            yield path
        finally:
            delete_objects(self._store, [path])

    def now(self) -> float:
        """Seconds since the epoch, by the clocks of the store; whole seconds."""
        with self.written() as path, as_os_errors(path):
            return obstore.head(self._store, path)["last_modified"].timestamp()

    def remove_old(self) -> None:
        """Remove the probes that killed processes left more than an hour ago."""
        with as_os_errors(self._folder):
            listed = obstore.list_with_delimiter(self._store, self._folder)["objects"]
        left = [found for found in listed if is_temporary(posixpath.basename(found["path"]))]
        if left:
            oldest = self.now() - TEMPORARY_SECONDS
            delete_objects(
                self._store, [found["path"] for found in left if found["last_modified"].timestamp() < oldest]
            )
