"""Files of a table: the few operations that rli needs of a file system, over ``pyarrow.fs``."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from rli.errors import CorruptTableError, SettingsError

_DELETIONS: Final = 10
_STEPS_ASIDE: Final = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below the root of a storage.

    Attributes:
        path: relative to the root, with ``/``.
        size: bytes.
    """

    path: str
    size: int

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


@dataclass(frozen=True)
class Storage:
    """A folder on a file system; all paths are relative to it and use ``/``. Picklable.

    Attributes:
        location: a local path, or a URI that ``pyarrow.fs`` or fsspec understands (``s3://bucket/table``).
    """

    location: str
    _opened: tuple[fs.FileSystem, str] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _resolved(self) -> tuple[fs.FileSystem, str]:
        if self._opened is not None:
            return self._opened
        if "://" not in self.location:
            return fs.LocalFileSystem(), os.path.abspath(self.location)
        try:
            return fs.FileSystem.from_uri(self.location)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            return _fsspec_filesystem(self.location, error)

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system, for pyarrow's own readers and writers."""
        return self._resolved[0]

    @property
    def root(self) -> str:
        """The folder, as ``filesystem`` names it."""
        return self._resolved[1]

    @property
    def is_local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def full_path(self, path: str) -> str:
        """The path as ``filesystem`` names it.

        Raises:
            CorruptTableError: the path leads out of the folder. Files of the table and records of its index name
                paths, and neither may reach files elsewhere.
        """
        if path.startswith("/") or "\0" in path or not _STEPS_ASIDE.isdisjoint(path.split("/")):
            raise CorruptTableError(
                f"a name leads out of the table's folder: table={self.location} path={path!r}; "
                "find the file of the table or the record of the index that holds it: neither was written by a table writer"
            )
        return posixpath.join(self.root, path) if path else self.root

    def _own_file(self, path: str) -> str:
        """The full path of a file that is about to change; its folder must not be a link to another place."""
        self._require_own_folder(posixpath.dirname(path))
        return self.full_path(path)

    def _own_folder(self, path: str) -> str:
        self._require_own_folder(path)
        return self.full_path(path)

    def _require_own_folder(self, path: str) -> None:
        """Raise ``CorruptTableError`` if a link leads from the table to a folder outside: that one is another's."""
        folder = self.full_path(path)
        if self.is_local and not _is_within(os.path.realpath(folder), os.path.realpath(self.root)):
            raise CorruptTableError(
                f"a folder of the table is a link to a place outside it: table={self.location} folder={path}; "
                "rli changes nothing there: replace the link by a folder"
            )

    def read_bytes(self, path: str) -> bytes | None:
        """Content of a file, None where there is none."""
        try:
            with self.filesystem.open_input_stream(self.full_path(path)) as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file so that readers see the old content or all of the new."""
        if not self.is_local:
            self._write(self.full_path(path), content)
            return
        target = self._own_file(path)
        temporary = self._write_beside(path, content)
        os.replace(temporary, target)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one exists; returns whether it was written.

        Atomic on a local file system, and on one that several hosts have mounted. Elsewhere it is a check followed by
        a write, so callers that race hold the table's lease.
        """
        if not self.is_local:
            if self.exists(path):
                return False
            self._write(self.full_path(path), content)
            return True
        target = self._own_file(path)
        temporary = self._write_beside(path, content)
        try:
            os.link(temporary, target)
        except FileExistsError:
            # Over a network the answer to a first attempt may have been lost: then it is this file that is there.
            return os.stat(temporary).st_nlink > 1
        finally:
            os.unlink(temporary)
        return True

    def publish(self, source: str, target: str) -> bool:
        """Give a finished file a second name unless a file has that name; returns whether it was given.

        Atomic on a local file system, where it fails if ``source`` is removed at the same moment. Elsewhere it is a
        check followed by a copy, so callers that race hold the table's lease.

        Raises:
            FileNotFoundError: there is no ``source``.
        """
        if self.is_local:
            try:
                os.link(self.full_path(source), self._own_file(target))
            except FileExistsError:
                return False
            return True
        content = self.read_bytes(source)
        if content is None:
            raise FileNotFoundError(source)
        return self.create(target, content)

    def exists(self, path: str) -> bool:
        return self.filesystem.get_file_info(self.full_path(path)).type is not fs.FileType.NotFound

    def list_files(self, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        """Files below a folder, ordered by path; empty where there is no such folder."""
        return sorted(
            (
                StoredFile(self._relative(info.path), info.size or 0)
                for info in self._select(path, recursive=recursive)
                if info.type is fs.FileType.File
            ),
            key=lambda file: file.path,
        )

    def list_folders(self, path: str = "") -> list[str]:
        """Folders directly below a folder, ordered."""
        return sorted(
            self._relative(info.path)
            for info in self._select(path, recursive=False)
            if info.type is fs.FileType.Directory
        )

    def move(self, source: str, target: str) -> None:
        """Move a file; the target's folder is made if needed, a file at the target is replaced."""
        self.make_folder(posixpath.dirname(target))
        self.filesystem.move(self._own_file(source), self.full_path(target))

    def make_folder(self, path: str) -> None:
        self.filesystem.create_dir(self._own_folder(path), recursive=True)

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files; those that are gone already are passed over."""
        for path in paths:
            try:
                self.filesystem.delete_file(self._own_file(path))
            except FileNotFoundError:
                continue

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if it is there."""
        # Another process may be deleting it too, or still be adding to it.
        for attempt in Retrying(
            stop=stop_after_attempt(_DELETIONS), retry=retry_if_exception_type(OSError), reraise=True
        ):
            with attempt:
                if self.exists(path):
                    self.filesystem.delete_dir(self._own_folder(path))

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if nothing is in it; where folders are only a part of files' names, nothing is done."""
        if self.is_local:
            with suppress(OSError):
                os.rmdir(self._own_folder(path))

    def _select(self, path: str, *, recursive: bool) -> list[fs.FileInfo]:
        return self.filesystem.get_file_info(
            fs.FileSelector(self.full_path(path), allow_not_found=True, recursive=recursive)
        )

    def _relative(self, full_path: str) -> str:
        return posixpath.relpath(full_path, self.root)

    def _write(self, full_path: str, content: bytes) -> None:
        self.filesystem.create_dir(posixpath.dirname(full_path), recursive=True)
        with self.filesystem.open_output_stream(full_path) as stream:
            stream.write(content)

    def _write_beside(self, path: str, content: bytes) -> str:
        folder, name = posixpath.split(self.full_path(path))
        temporary = posixpath.join(folder, f".{name}.{uuid4().hex}.tmp")
        self._write(temporary, content)
        return temporary

    def __getstate__(self) -> dict[str, object]:
        return {"location": self.location, "_opened": self._opened}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def _is_within(folder: str, root: str) -> bool:
    return os.path.commonpath([folder, root]) == root


def _fsspec_filesystem(location: str, error: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415  (an optional dependency)

        filesystem, path = fsspec.core.url_to_fs(location)
    except (ImportError, ValueError) as cause:
        raise SettingsError(
            f"no file system for this location: location={location} ({error}); use a local path, "
            "or install fsspec with the package for this protocol"
        ) from cause
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path
