"""Spares Spark's Python workers from reading the directory of each zip file on their path again for every task.

A worker calls ``importlib.invalidate_caches`` at the start of each task, and up to Python 3.12 zip files answer by
reading their whole directory at once (https://github.com/python/cpython/issues/103200). PySpark itself is on the path
as such a file, so that the shortest task takes a tenth of a second and more.
"""

from __future__ import annotations

import os
import sys
from zipimport import zipimporter


class _WatchedZip(zipimporter):
    """Reads the directory again only if the file has changed since."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._read_as = self._state()

    def invalidate_caches(self) -> None:
        state = self._state()
        if state is None or state != self._read_as:
            super().invalidate_caches()
            self._read_as = state

    def _state(self) -> tuple[int, int, int] | None:
        """Changes with the file; None if it is not there."""
        try:
            status = os.stat(self.archive)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def watch_zip_directories() -> None:
    """Have this process read the directories of zip files again only when they have changed."""
    if zipimporter not in sys.path_hooks:
        return
    sys.path_hooks[sys.path_hooks.index(zipimporter)] = _WatchedZip
    for path, finder in list(sys.path_importer_cache.items()):
        if type(finder) is zipimporter:
            sys.path_importer_cache[path] = _WatchedZip(path)
