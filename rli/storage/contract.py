"""What a kind of storage must be able to do to files, so that tables can be written to it.

Reading needs no contract: ``pyarrow.fs`` reads all kinds in one way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import fs

from rli.errors import UnsupportedTableError

_DELETED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Draft:
    """A finished file that can be given its name, once.

    Attributes:
        path: of the draft.
        version: by which the storage tells this draft from any other one at the path.
    """

    path: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Versioned:
    """The content of a file, with the version by which the storage tells it from any other content.

    Attributes:
        content: of the file.
        version: for a write in its place; of use to the storage alone.
    """

    content: bytes
    version: object


FileVersion: TypeAlias = tuple[str | int, ...]
"""Tells the content of a file from any other content at its path."""


class FileChanges(ABC):
    """Changes files. All paths are full: as the file system names them.

    Every method raises ``OSError`` where the storage does not answer.
    """

    is_local: ClassVar[bool] = False

    @property
    def lists_by_name(self) -> bool:
        """Whether a recursive listing asks the storage for the names in ascending order, page by page."""
        return False

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Write a file so that readers see the old content or all of the new."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one exists, in one step; returns whether it was written."""

    def read_versioned(self, path: str) -> Versioned | None:
        """A file with its version; None if there is no file. By default, a storage has no versions."""
        raise no_versions(path)

    def write_versioned(self, path: str, content: bytes, replaced: Versioned | None) -> Versioned | None:
        """Write a file in place of that version, or where there is none; see ``Storage.write_versioned``."""
        del content, replaced
        raise no_versions(path)

    @abstractmethod
    def draft(self, path: str, content: bytes) -> Draft:
        """Write a file that ``publish`` can give a name. There is no file at the path yet."""

    @abstractmethod
    def publish(self, draft: Draft, target: str) -> bool:
        """Give a draft the name ``target``, in one step; False if another file has that name.

        Raises:
            FileNotFoundError: the draft was taken back.
        """

    @abstractmethod
    def replace(self, draft: Draft, target: str) -> None:
        """Give a draft the name ``target``, in one step, in place of the file that has that name.

        Raises:
            FileNotFoundError: the draft was taken back.
        """

    @abstractmethod
    def retract(self, draft: str) -> bool:
        """Take a draft back, by its path, so that nobody can publish it any more.

        Returns:
            False if its publication is decided: then ``settle`` finishes it, under the lease.
        """

    @abstractmethod
    def settle(self, draft: str) -> None:
        """Take a draft back, by its path, or finish its publication if that is decided. The caller has the lease."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Move a file; a file at the target is replaced."""

    def promote(self, source: str, target: str) -> None:
        """Let a file have another name; see ``Storage.promote``. By default, it is moved."""
        self.move(source, target)

    @abstractmethod
    def make_folder(self, path: str) -> None:
        """Make a folder, where folders are more than a part of files' names."""

    @abstractmethod
    def delete_file(self, path: str) -> None:
        """Delete a file, if it is there."""

    def empty(self, path: str, content: bytes) -> None:
        """Take the content of a small file away in place, if it is ``content`` still; where the storage can do so.

        This needs no space on a full disk. By default nothing is done: object stores take new objects at any time.
        """
        del path, content

    def discard_files(self, paths: Collection[str]) -> None:
        """Delete files, those that are there, in any order; by default, some at a time."""
        with ThreadPoolExecutor(_DELETED_AT_ONCE) as threads:
            for _ in threads.map(self.delete_file, paths):
                pass

    @abstractmethod
    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if it is there."""

    @abstractmethod
    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if nothing is in it, where folders are more than a part of files' names."""

    def flush(self, paths: Collection[str]) -> None:
        """Wait until the content of files and the names in folders survive a power cut; what is gone is passed over.

        By default nothing is done: object stores keep what they have taken.
        """
        del paths

    def flush_folders_above(self, root: str) -> None:
        """Wait until the folders that lead to the root survive a power cut, where there are such folders."""
        del root

    def remove_temporaries(self, root: str) -> None:
        """Remove what ``write`` and ``create`` of dead processes left below a folder; by default, nothing is left.

        A living process that is slow must not lose a file by it.
        """
        del root

    def changed_at(self, path: str) -> float | None:
        """When a file was last changed; see ``Storage.changed_at``. By default, nobody knows."""
        del path
        return None

    def has_passed(self, folder: str, moment: float) -> bool:
        """Whether a moment is over; see ``Storage.has_passed``. By default, nobody knows."""
        del folder, moment
        return False

    @abstractmethod
    def is_within(self, folder: str, root: str) -> bool:
        """Whether a folder lies below the root when all links are followed."""


class OpenedStorage(NamedTuple):
    """A folder that was opened.

    Attributes:
        filesystem: reads it.
        root: the folder, as ``filesystem`` names it.
        changes: changes it.
        read_ranges: reads ranges of a file by its full path; None if the file must be opened for it. See ``Storage.read_ranges``.
        open_versioned: opens a file by its full path; None if the storage has no versions of its own. See ``Storage.open_versioned``.
    """

    filesystem: fs.FileSystem
    root: str
    changes: FileChanges
    read_ranges: Callable[[str, Sequence[range]], list[pa.Buffer]] | None = None
    open_versioned: Callable[[str], tuple[pa.NativeFile, FileVersion | None]] | None = None


def no_versions(path: str) -> UnsupportedTableError:
    """The error of a storage that gives files no versions."""
    return UnsupportedTableError(
        f"files have no versions here: path={path}",
        remedy="only object stores write a file in place of a version of it",
    )
