"""Files on this machine: what survives a power cut, and Hadoop's checksums beside them."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Final
from uuid import uuid4

from rli.storage.contract import FileVersion

_MOST_THREADS: Final = 16
"""File systems put flushes together that wait for the disk at the same time."""

_TEMPORARY: Final = re.compile(r"\..*\.[0-9a-f]{32}\.tmp", re.DOTALL)
TEMPORARY_SECONDS: Final = 3600.0
"""A temporary file that is older belongs to no process."""

_NO_SUCH_CALL: Final = frozenset({errno.EINVAL, errno.ENOTSUP})


def flush(paths: Collection[str]) -> None:
    """Wait until the content of files, and the names in folders, are on disk; side by side.

    Files and folders that are gone are passed over, and so are folders on file systems that cannot flush them.

    Args:
        paths: full paths.

    Raises:
        OSError: the disk did not take something; whether the rest is there is not known.
    """
    left = list(paths)
    count = min(len(left), _MOST_THREADS)
    if count <= 1:
        _flush_all(left)
        return
    # To hand each path over by itself would take as long as to flush it.
    for _ in _threads().map(_flush_all, (left[number::count] for number in range(count))):
        pass


def flush_folders_above(path: str) -> None:
    """Wait until the names of all folders that lead to a path are on disk, as far as this process may read them."""
    for folder in ancestors(os.path.dirname(os.path.abspath(path)), "/"):
        with suppress(PermissionError):
            _flush_one(folder)


def ancestors(folder: str, root: str) -> Iterator[str]:
    """A folder and those that it is in, up to ``root``; the innermost one first. All are full paths."""
    yield folder
    # POSIX leaves the meaning of two slashes at the beginning open, so "//" is a root, too.
    while folder != root and (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def temporary_name(name: str) -> str:
    """A name that no other file has, for a file that is about to get the name ``name``."""
    return f".{name}.{uuid4().hex}.tmp"


def is_temporary(name: str) -> bool:
    """Whether ``temporary_name`` has made a name."""
    return _TEMPORARY.fullmatch(name) is not None


def clock(folder: str) -> float:
    """Seconds since the epoch, by the clock that files of a folder have their times from: that of a file server may be another."""
    probe = os.path.join(folder, temporary_name("clock"))
    try:
        with open(probe, "xb") as file:
            return os.fstat(file.fileno()).st_mtime
    finally:
        with suppress(OSError):
            os.unlink(probe)


def has_passed(folder: str, moment: float) -> bool:
    """Whether a moment is over (seconds since the epoch) by the clock of this machine, and by that of the files of a folder.

    Either may be ahead of the other. A moment that is reckoned from the time of a file is surely over only if both say so.
    """
    return time.time() > moment and clock(folder) > moment


def remove_temporaries(root: str, now: float) -> None:
    """Remove temporary files below a folder that are so old that their writers have died.

    A writer that lives after all writes its file again (``LocalChanges``).

    Args:
        root: full path; links to other folders are not followed.
        now: seconds since the epoch, by the clock that the files have their times from.
    """
    for folder, _, names in os.walk(root):
        for name in filter(is_temporary, names):
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                if os.stat(path, follow_symlinks=False).st_mtime < now - TEMPORARY_SECONDS:
                    os.unlink(path)


def file_version(path: str) -> FileVersion | None:
    """What tells a file from any other one at its path, also from one of the same size and time; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def forget_checksum(path: str) -> None:
    """Remove the checksum that Hadoop keeps beside a file, before the file is changed.

    Without a checksum Hadoop reads any content; with that of another content it reads none. So it goes first, also from
    the disk.
    """
    folder, name = os.path.split(path)
    try:
        os.unlink(os.path.join(folder, f".{name}.crc"))
    except (FileNotFoundError, NotADirectoryError):
        return
    _flush_one(folder)


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads that wait for the disk. They are kept: to start them takes longer than many a disk does."""
    return ThreadPoolExecutor(_MOST_THREADS, "rli flush")


# A forked process has none of its parent's threads.
os.register_at_fork(after_in_child=_threads.cache_clear)


def _flush_all(paths: Iterable[str]) -> None:
    for path in paths:
        _flush_one(path)


def _flush_one(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SUCH_CALL or not os.path.isdir(path):
            raise
    finally:
        os.close(descriptor)
