"""Files of a table: the few operations that rli needs of a file system or an object store."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from rli.errors import CorruptTableError
from rli.storage.contract import Draft, FileChanges, FileVersion, OpenedStorage, Versioned
from rli.storage.local_files import ancestors, file_version, is_temporary
from rli.storage.opening import open_location

_UNTIL_LISTED: Final = Retrying(
    stop=stop_after_attempt(10), retry=retry_if_exception_type(FileNotFoundError), reraise=True
)
_STEPS_ASIDE: Final = frozenset({".", ".."})


class StoredFile(NamedTuple):
    """A file below the root of a storage.

    Attributes:
        path: relative to the root, with ``/``.
        size: bytes.
    """

    path: str
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_temporary(self) -> bool:
        """Whether it was about to get another name."""
        return is_temporary(self.name)


@dataclass(frozen=True)
class Storage:
    """A folder on a file system or in an object store; all paths are relative to it and use ``/``. Picklable.

    A change that the storage cannot make safely raises ``UnsupportedTableError``.

    Attributes:
        location: a local path, or a URI such as ``s3://bucket/table``.
        options: of the object store, credentials among them (docs/object-stores.md); what is not there comes from the
            environment. They are kept nowhere.
        is_durable: whether changes of files on this machine, or on a mounted file system, wait for the disk.
    """

    location: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    _opened: OpenedStorage | None = field(default=None, repr=False, compare=False)
    is_durable: bool = True

    @cached_property
    def _resolved(self) -> OpenedStorage:
        if self._opened is not None:
            return self._opened
        return open_location(self.location, self.options, is_durable=self.is_durable)

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system, for pyarrow's own readers and writers."""
        return self._resolved.filesystem

    @property
    def root(self) -> str:
        """The folder, as ``filesystem`` names it."""
        return self._resolved.root

    @property
    def is_local(self) -> bool:
        return self._changes.is_local

    @property
    def lists_by_name(self) -> bool:
        """Whether a recursive listing asks the storage for the names in ascending order, page by page."""
        return self._changes.lists_by_name

    @property
    def _changes(self) -> FileChanges:
        return self._resolved.changes

    def unflushed(self) -> Storage:
        """The same storage, whose changes do not wait for the disk: the caller flushes them together."""
        return self.durable(wanted=False) if self.is_local and self.is_durable else self

    def flushed(self) -> Storage:
        """The same storage, whose changes wait for the disk; not opened again if they do."""
        return self.durable(wanted=True) if self.is_local and not self.is_durable else self

    def durable(self, *, wanted: bool) -> Storage:
        """The same storage, whose changes wait for the disk, or do not."""
        return replace(self, location=self._lasting_location, is_durable=wanted)

    @property
    def _lasting_location(self) -> str:
        """The location, whatever the working folder will be."""
        return self.location if "://" in self.location else self.root

    def full_path(self, path: str) -> str:
        """The path as ``filesystem`` names it.

        Raises:
            CorruptTableError: the path leads out of the folder. Files of the table and records of its index name
                paths, and neither may reach files elsewhere.
        """
        if path.startswith("/") or "\0" in path or not _STEPS_ASIDE.isdisjoint(path.split("/")):
            raise CorruptTableError(
                f"a name leads out of the table's folder: table={self.location} path={path!r}",
                remedy=(
                    "find the file of the table or the record of the index that holds it: neither was written by a "
                    "table writer"
                ),
            )
        return posixpath.join(self.root, path) if path else self.root

    def planned_path(self, path: str) -> str:
        """The path as plans on the timeline name it, for engines on Hadoop's file systems.

        In an object store it has no scheme and no bucket: engines name the same store by ``s3``, ``s3a`` and others, and Hadoop takes a
        path without either for one on the table's own file system.
        """
        full = self.full_path(path)
        return full if self.is_local else f"/{full.partition('/')[2]}"

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
        if not self._changes.is_within(folder, self.root):
            raise CorruptTableError(
                f"a folder of the table links to a location outside it: table={self.location} folder={path}",
                remedy="rli changes nothing there: replace the link by a folder",
            )

    def read_bytes(self, path: str) -> bytes | None:
        """Content of a file, None where there is none."""
        try:
            with self.filesystem.open_input_stream(self.full_path(path)) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_ranges(self, path: str, ranges: Sequence[range]) -> list[pa.Buffer]:
        """Ranges of bytes of an existing file. A range beyond its end gives fewer bytes, or is an error of the storage.

        An object store is asked once for each range, or for several that lie close together.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if self._resolved.read_ranges is not None:
            return self._resolved.read_ranges(self.full_path(path), ranges)
        with self.filesystem.open_input_file(self.full_path(path)) as source:
            return [pa.py_buffer(source.read_at(len(found), found.start)) for found in ranges]

    def open_versioned(self, path: str) -> tuple[pa.NativeFile, FileVersion | None]:
        """Open a file to read it, with its version.

        Returns:
            The file, and what tells its content from any other one at the path: the ETag of an object, which takes no request of its
            own. On a local or mounted file system, inode, size and times, asked before the file is opened: content that is written
            over an open file is not told apart. None where the storage has no versions.

        Raises:
            FileNotFoundError: there is no such file.
        """
        full = self.full_path(path)
        if self._resolved.open_versioned is not None:
            return self._resolved.open_versioned(full)
        version = file_version(full) if self.is_local else None
        return self.filesystem.open_input_file(full), version

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file so that readers see the old content or all of the new."""
        self._changes.write(self._own_file(path), content)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one exists, in one step; returns whether it was written."""
        return self._changes.create(self._own_file(path), content)

    def read_versioned(self, path: str) -> Versioned | None:
        """A file of an object store with its version; None if there is no file."""
        return self._changes.read_versioned(self._own_file(path))

    def write_versioned(self, path: str, content: bytes, replaced: Versioned | None) -> Versioned | None:
        """Write a file of an object store in place of the version that was read.

        Args:
            path: of the file.
            content: that no other write has: by it, a write is found whose answer was lost.
            replaced: what was read; None where there was no file.

        Returns:
            The new version; None if another write came first.
        """
        return self._changes.write_versioned(self._own_file(path), content, replaced)

    def draft(self, path: str, content: bytes) -> Draft:
        """Write a file that ``publish`` can give its name. There is no file at the path yet."""
        return self._changes.draft(self._own_file(path), content)

    def publish(self, draft: Draft, target: str) -> bool:
        """Give a draft the name ``target`` unless a file has that name; returns whether it was given.

        One step decides whether the draft gets its name, or was taken back before (docs/protocol.md, P1 and P4).

        Raises:
            FileNotFoundError: the draft was taken back.
        """
        return self._changes.publish(draft, self._own_file(target))

    def replace(self, draft: Draft, target: str) -> None:
        """Give a draft the name ``target`` in place of the file that has it; decided as ``publish`` is.

        Raises:
            FileNotFoundError: the draft was taken back.
        """
        self._changes.replace(draft, self._own_file(target))

    def retract(self, path: str) -> bool:
        """Take a draft back, so that nobody can publish it any more.

        Returns:
            False if it is decided already that it gets its name: who holds the lease settles that.
        """
        return self._changes.retract(self._own_file(path))

    def settle(self, path: str) -> None:
        """Take a draft back, or finish its publication if that is decided. The caller holds the lease."""
        self._changes.settle(self._own_file(path))

    def exists(self, path: str) -> bool:
        return self.filesystem.get_file_info(self.full_path(path)).type is not fs.FileType.NotFound

    def list_files(self, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        """Files below a folder, ordered by path; empty where there is no such folder."""
        found = self._select(path, recursive=recursive)
        if isinstance(self.filesystem, fs.LocalFileSystem):
            # It gives a size to files alone. To ask for the type takes ten times as long, and each read lists the timeline.
            found = [info for info in found if info.size is not None]
        else:
            found = [info for info in found if info.type is fs.FileType.File]
        if recursive:
            return sorted(StoredFile(self._relative(info.path), info.size or 0) for info in found)
        folder = f"{path}/" if path else ""
        return sorted(StoredFile(folder + info.base_name, info.size or 0) for info in found)

    def modification_times(self, path: str) -> dict[str, datetime]:
        """The name of each file in a folder → when it was written, by the clock of the file server.

        Files whose time the storage does not tell are left out.
        """
        files = (info for info in self._select(path, recursive=False) if info.type is fs.FileType.File)
        return {info.base_name: info.mtime for info in files if info.mtime is not None}

    def changed_at(self, path: str) -> float | None:
        """When a file was last changed, in seconds since the epoch by the clock of the storage; object stores tell whole seconds.

        Returns:
            None if there is no file.
        """
        return self._changes.changed_at(self.full_path(path))

    def has_passed(self, folder: str, moment: float) -> bool:
        """Whether a moment is over (seconds since the epoch) by the clock of this machine, and by that of the storage.

        Either may be ahead of the other. A moment that is reckoned from the time of a file is surely over only if both say so.

        Args:
            folder: in which a file may be made, to tell the time of the storage.
            moment: seconds since the epoch.
        """
        return self._changes.has_passed(self._own_folder(folder), moment)

    def list_folders(self, path: str = "") -> list[str]:
        """Folders directly below a folder, ordered."""
        return sorted(
            self._relative(info.path)
            for info in self._select(path, recursive=False)
            if info.type is fs.FileType.Directory
        )

    def move(self, source: str, target: str) -> None:
        """Move a file; the target's folder is made if needed, a file at the target is replaced."""
        self._name(self._changes.move, source, target)

    def promote(self, source: str, target: str) -> None:
        """Move a file whose folder is about to be deleted: in an object store, which copies, the source goes with this folder.

        Raises:
            FileNotFoundError: the source is gone.
        """
        self._name(self._changes.promote, source, target)

    def _name(self, give: Callable[[str, str], None], source: str, target: str) -> None:
        full_source, full_target = self._own_file(source), self._own_file(target)
        try:
            give(full_source, full_target)
        except FileNotFoundError:
            # Most folders are there: it takes longer to make sure of that than to move the file.
            self.make_folder(posixpath.dirname(target))
            give(full_source, full_target)

    def make_folder(self, path: str) -> None:
        self._changes.make_folder(self._own_folder(path))

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files, one after the other; those that are gone already are passed over."""
        for path in paths:
            self._changes.delete_file(self._own_file(path))

    def empty(self, path: str, content: bytes) -> None:
        """Take the content of a small file away in place if it is ``content`` still: that needs no space on a full disk.

        A reader at the same time finds the old content, or none. In an object store nothing is done.
        """
        self._changes.empty(self._own_file(path), content)

    def discard_files(self, paths: Iterable[str]) -> None:
        """Delete files as ``delete_files`` does, but many at once and in any order."""
        self._changes.discard_files([self._own_file(path) for path in paths])

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if it is there."""
        self._changes.delete_folder(self._own_folder(path))

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if nothing is in it; where folders are only a part of files' names, nothing is done."""
        self._changes.delete_empty_folder(self._own_folder(path))

    def remove_temporaries(self) -> None:
        """Remove temporary files that killed processes left more than an hour ago."""
        self._changes.remove_temporaries(self.root)

    def flush(self, files: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
        """Wait until files' contents, and the names in folders, survive a power cut.

        ``write_bytes``, ``create`` and ``draft`` do so for contents. What an object store has taken, it keeps.

        Args:
            files: those that were written in another way, and empty ones; those that are gone are passed over. A folder among
                them stands for the names in it alone.
            folders: in which names were given or removed; the folders that lead there from the root are among them.
        """
        leading = (ancestors(self.full_path(folder), self.root) for folder in folders)
        self._changes.flush({*map(self.full_path, files), *(folder for line in leading for folder in line)})

    def flush_folders_above(self) -> None:
        """Wait until the folders that lead to the root survive a power cut."""
        self._changes.flush_folders_above(self.root)

    def _select(self, path: str, *, recursive: bool) -> list[fs.FileInfo]:
        selector = fs.FileSelector(self.full_path(path), allow_not_found=True, recursive=recursive)
        try:
            return self.filesystem.get_file_info(selector)
        except FileNotFoundError:
            # Arrow lists a folder, and asks whether it is there if that fails. It may have been made in between.
            return _UNTIL_LISTED(self.filesystem.get_file_info, selector)

    def _relative(self, full_path: str) -> str:
        prefix = f"{self.root.rstrip('/')}/"
        if full_path.startswith(prefix):
            return full_path[len(prefix) :]
        # Some file systems of fsspec write the root in another way than they were given it.
        return posixpath.relpath(full_path, self.root)

    def __getstate__(self) -> dict[str, object]:
        # Another process may have another working folder.
        return {
            "location": self._lasting_location,
            "options": self.options,
            "_opened": self._opened,
            "is_durable": self.is_durable,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
