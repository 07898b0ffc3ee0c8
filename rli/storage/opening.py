"""Opening a location: which kind of storage it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from rli.errors import SettingsError
from rli.storage.contract import OpenedStorage
from rli.storage.local import LocalChanges
from rli.storage.object_stores import SCHEMES, open_object_store
from rli.storage.read_only import NoChanges
from rli.urls import without_password


def open_location(location: str, options: Mapping[str, str], *, is_durable: bool) -> OpenedStorage:
    """Open a folder.

    Args:
        location: a local path, or a URI.
        options: of an object store.
        is_durable: whether changes of files on this machine, or on a mounted file system, wait for the disk.

    Raises:
        SettingsError: there is no such kind of storage, an option is wrong, or a library is missing.
    """
    scheme, separator, _ = location.partition("://")
    if separator and scheme in SCHEMES:
        return open_object_store(location, options)
    if options:
        raise SettingsError(
            f"only object stores have options: location={location} storage_options={sorted(options)}",
            remedy="leave them out",
        )
    if not separator:
        return OpenedStorage(fs.LocalFileSystem(), os.path.abspath(location), LocalChanges(is_durable=is_durable))
    return _open_uri(location, is_durable=is_durable)


def _open_uri(location: str, *, is_durable: bool) -> OpenedStorage:
    _require_no_password(location)
    try:
        filesystem, root = fs.FileSystem.from_uri(location)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        filesystem, root = _fsspec_filesystem(location, error)
    is_local = isinstance(filesystem, fs.LocalFileSystem)
    return OpenedStorage(filesystem, root, LocalChanges(is_durable=is_durable) if is_local else NoChanges(location))


def _require_no_password(location: str) -> None:
    """Raise ``SettingsError`` for a location with a password: locations are shown, and kept in the index."""
    try:
        parts = urlsplit(location)
        # A port that is no number is an error here: it may be a password, too.
        has_password = (parts.password, parts.port)[0] is not None
    except ValueError:
        has_password = True
    if has_password:
        raise SettingsError(
            f"the location of a table has a password in it: location={without_password(location)}",
            remedy="give it to fsspec's own configuration instead",
        )


def _fsspec_filesystem(location: str, error: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415  (an optional dependency)

        # A listing that was kept would be older than the table.
        filesystem, path = fsspec.core.url_to_fs(location, use_listings_cache=False, skip_instance_cache=True)
    except (ImportError, ValueError) as cause:
        raise SettingsError(
            f"no file system for this location: location={without_password(location)} ({error})",
            remedy="use a local path, or install fsspec with the package for this protocol",
        ) from cause
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path
