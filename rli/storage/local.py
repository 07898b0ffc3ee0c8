"""Changes of files on a local file system, or on one that several hosts have mounted."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import ClassVar, Final, TypeVar

from pyarrow import fs
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from rli.storage import local_files
from rli.storage.contract import Draft, FileChanges

T = TypeVar("T")

_DELETIONS: Final = 10


class LocalChanges(FileChanges):
    """Every step is one of the file system's own, and atomic: a link fails if the target is there or the source gone.

    Content is on the disk before it has its name, and a checksum of Hadoop's beside a file goes before the file changes. After a
    power cut, the name of a removed file may lead to a folder, and that of a folder to a file: either is removed as the other.

    Args:
        is_durable: whether to wait for the disk; if not, the operating system writes when it likes to.
    """

    is_local: ClassVar[bool] = True

    def __init__(self, *, is_durable: bool) -> None:
        self._filesystem = fs.LocalFileSystem()
        self._is_durable = is_durable

    def write(self, path: str, content: bytes) -> None:
        def replace(temporary: str) -> None:
            local_files.forget_checksum(path)
            os.replace(temporary, path)

        self._from_temporary(path, content, replace)

    def create(self, path: str, content: bytes) -> bool:
        def link(temporary: str) -> bool:
            try:
                local_files.forget_checksum(path)
                os.link(temporary, path)
            except FileExistsError:
                # Over a network the answer to a first attempt may have been lost: then it is this file that is there.
                return os.stat(temporary).st_nlink > 1
            finally:
                # The link has decided. A clean removes what stays here.
                with suppress(OSError):
                    os.unlink(temporary)
            return True

        return self._from_temporary(path, content, link)

    def draft(self, path: str, content: bytes) -> Draft:
        self.write(path, content)
        return Draft(path)

    def publish(self, draft: Draft, target: str) -> bool:
        local_files.forget_checksum(target)
        try:
            os.link(draft.path, target)
        except FileExistsError:
            return False
        return True

    def replace(self, draft: Draft, target: str) -> None:
        local_files.forget_checksum(target)
        os.replace(draft.path, target)

    def retract(self, draft: str) -> bool:
        self.delete_file(draft)
        return True

    def settle(self, draft: str) -> None:
        self.delete_file(draft)

    def move(self, source: str, target: str) -> None:
        local_files.forget_checksum(target)
        self._filesystem.move(source, target)

    def make_folder(self, path: str) -> None:
        self._filesystem.create_dir(path, recursive=True)

    def delete_file(self, path: str) -> None:
        local_files.forget_checksum(path)
        try:
            self._filesystem.delete_file(path)
        except IsADirectoryError:
            self.delete_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            pass

    def empty(self, path: str, content: bytes) -> None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            # By the descriptor: the name may have become that of another file.
            if os.read(descriptor, len(content) + 1) == content:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def delete_folder(self, path: str) -> None:
        # Another process may be deleting it too, or still be adding to it.
        for attempt in Retrying(
            stop=stop_after_attempt(_DELETIONS), retry=retry_if_exception_type(OSError), reraise=True
        ):
            with attempt:
                if os.path.isfile(path):
                    self._filesystem.delete_file(path)
                elif os.path.lexists(path):
                    self._filesystem.delete_dir(path)

    def delete_empty_folder(self, path: str) -> None:
        with suppress(OSError):
            os.rmdir(path)

    def flush(self, paths: Collection[str]) -> None:
        if self._is_durable:
            local_files.flush(paths)

    def flush_folders_above(self, root: str) -> None:
        if self._is_durable:
            local_files.flush_folders_above(root)

    def changed_at(self, path: str) -> float | None:
        try:
            return os.stat(path).st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has_passed(self, folder: str, moment: float) -> bool:
        return local_files.has_passed(folder, moment)

    def is_within(self, folder: str, root: str) -> bool:
        # Where no link is on the way, names tell; to follow those above the root, too, takes three times as long.
        is_below = f"{folder}/".startswith(f"{root.rstrip('/')}/")
        if is_below and not any(map(os.path.islink, local_files.ancestors(folder, root))):
            return True
        real_root = os.path.realpath(root)
        return os.path.commonpath([os.path.realpath(folder), real_root]) == real_root

    def remove_temporaries(self, root: str) -> None:
        probe = self._write_beside(posixpath.join(root, "probe"), b"")
        try:
            # By the clock of the file server, which gives other files their times, too.
            local_files.remove_temporaries(root, os.stat(probe).st_mtime)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(probe)

    def _from_temporary(self, path: str, content: bytes, give_name: Callable[[str], T]) -> T:
        """Write a temporary file and give it its name; again if a clean took the file for one of a dead writer."""
        while True:
            temporary = self._write_beside(path, content)
            try:
                return give_name(temporary)
            except FileNotFoundError:
                # With its folder gone, this writer has been displaced.
                if not os.path.isdir(posixpath.dirname(path)):
                    raise

    def _write_beside(self, path: str, content: bytes) -> str:
        folder, name = posixpath.split(path)
        temporary = posixpath.join(folder, local_files.temporary_name(name))
        self.make_folder(folder)
        try:
            with self._filesystem.open_output_stream(temporary) as stream:
                stream.write(content)
            if content:
                self.flush([temporary])
        except OSError:
            # A full disk needs the room, and a creation that fails here leaves no folder behind.
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary
