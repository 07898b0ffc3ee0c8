"""Shared records kept as files of the table, for hosts that share its file system and no store.

A record is a register with versions: version ``n`` is the file ``<name>.<n>``, the greatest one counts, and an empty one
says that the record was removed. A process that has read version ``n`` replaces it by creating ``n + 1``, which the file
system lets one process do. Older versions are deleted afterwards.

Why this is a compare-and-set, wherever a process is paused:

1. The greatest version is never deleted, so numbers only grow. Who creates ``n + 1`` while ``n`` is the greatest has
   replaced what it had read.
2. A process that was paused after it had read ``n`` may create ``n + 1`` when that was made and deleted long ago. But
   then a greater version is there. So it looks once more, and has failed if its version is not the greatest. What it
   made is never taken for the record's value, and goes with the older versions.
3. It may fail by that rule although its version did count for a moment, if another process has replaced it already. To
   its caller that is the same: the record is another one's now.

4. On a full disk no version can be created. There a process removes its record by emptying the version ``n`` that it has read,
   if the file has that content still. Another process that has read ``n`` before may create ``n + 1`` at any time, and has
   replaced the record: the emptied version counts only while it is the greatest. To the process that emptied it, the record
   is gone in both cases. After a power cut, the file may have its content again, and names a dead process.

Of a writer's record (``writer/<instant>``) nothing stays once it was removed, or the next writer removes what did, so
its numbers may begin again. Only the writer itself ever makes it: all that can come of it is that a writer which was
paused, and taken for dead, makes its record once more. It cannot publish (P4), and the record expires.

A power cut may bring deleted names back. Without a journal, the file system may then show the content of another file under such
a name. The processes of that machine are dead, so an unreadable file older than the start of the machine counts as the record of
a dead process. The record does not tell its writers, so all writers at work count as displaced. If one of them lives on
another host, the successor settles its draft before it looks whether it has published (P4).
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from rli.coordination.liveness import Holding, is_older_than_machine
from rli.coordination.work_folders import writers_at_work
from rli.errors import CorruptIndexError
from rli.storage import Storage
from rli.view import paths

_VERSION: Final = re.compile(r"(?P<name>[^.].*)\.(?P<version>[0-9]+)")
_REMOVED: Final = b""
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileRecords:
    """The shared records in a table's folder; ``rli.coordination.shared_records.SharedRecords`` says what they promise.

    Every method raises ``OSError`` where the file system does not answer.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read_control(self, name: str) -> bytes | None:
        """The value of a record, None where there is none."""
        return self._latest(name)[1]

    def scan_control(self, prefix: str) -> list[tuple[str, bytes]]:
        """The records whose name begins with ``prefix``, ordered by name; a prefix is a whole folder: ``writer/``."""
        names = sorted({name for name, _, _ in self._found(prefix)})
        found = [(prefix + name, self.read_control(prefix + name)) for name in names]
        return [(name, value) for name, value in found if value is not None]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a record to ``value`` (None removes it) if it is ``expected`` (None: absent); whether it was set.

        A value is not empty.
        """
        version, stored = self._latest(name)
        if stored != expected:
            return False
        if value is None and stored is None:
            return True
        greatest = self._replace(name, version, stored, value)
        # Listed again after the creation (2 above): the version that this process created may be an old number, made
        # and deleted long ago.
        versions = self._versions(name)
        if greatest is None or max(versions, default=0) != greatest:
            return False
        # It is replaced, whatever fails from here on: the next process that replaces it deletes what stays.
        with suppress(OSError):
            self._storage.delete_files(_path(name, older) for older in versions if older < greatest)
            # Records in folders are one for each write or request, and would pile up. The lease and its like keep one
            # file.
            if "/" in name:
                self._remove_traces(posixpath.dirname(name))
        return True

    def _replace(self, name: str, version: int, stored: bytes | None, value: bytes | None) -> int | None:
        """Give a record its next value; the version that holds it, or None if another process was first."""
        try:
            created = self._storage.create(_path(name, version + 1), _REMOVED if value is None else value)
        except OSError as error:
            # Only a removal may go on without space. To empty a file for a new value would leave neither the old one
            # nor the new one.
            if value is not None or stored is None or error.errno not in _NO_SPACE or not self._storage.is_local:
                raise
            self._storage.empty(_path(name, version), stored)
            # Another process may have created the next version meanwhile: then the emptied one does not count (4
            # above).
            return version if self._latest(name) == (version, None) else None
        return version + 1 if created else None

    def _remove_traces(self, folder: str) -> None:
        """Delete what is left of removed records of a folder; the process that removed one may have died half way."""
        sizes = sorted(self._found(folder))
        greatest = {name: size for name, _, size in sizes}
        # The greatest version goes last, so that no older one is taken for the value.
        for name, version, _ in sizes:
            if not greatest[name]:
                self._storage.delete_files([_path(f"{folder}/{name}", version)])

    def _latest(self, name: str) -> tuple[int, bytes | None]:
        """The greatest version and its value; 0 and None where there is none."""
        while versions := self._versions(name):
            path = _path(name, max(versions))
            content = self._storage.read_bytes(path)
            if content is not None:
                return max(versions), None if content == _REMOVED else self._whole(path, content)
            # It was replaced, and deleted, since they were listed.
        return 0, None

    def _whole(self, path: str, content: bytes) -> bytes:
        """The content of a record; in place of a torn record, the content of a dead process's record."""
        try:
            Holding.from_json(content)
        except CorruptIndexError:
            # Only then: a younger unreadable record is of a process that may live, and to take it for dead is for an
            # operator to decide.
            if self._storage.is_local and is_older_than_machine(self._storage, path):
                return Holding.unknown(displaced=writers_at_work(self._storage)).to_json()
        return content

    def _versions(self, name: str) -> list[int]:
        folder, base = posixpath.split(name)
        return sorted(version for found_name, version, _ in self._found(folder) if found_name == base)

    def _found(self, folder: str) -> Iterator[tuple[str, int, int]]:
        """Name, version and size of each version of the records in a folder; files of other names are passed over."""
        for file in self._storage.list_files(f"{paths.RECORDS}/{folder}"):
            if found := _VERSION.fullmatch(file.name):
                yield found["name"], int(found["version"]), file.size


def _path(name: str, version: int) -> str:
    return f"{paths.RECORDS}/{name}.{version}"
