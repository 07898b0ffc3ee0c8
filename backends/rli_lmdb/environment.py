"""One LMDB environment, shared by all stores of this process that have it open.

LMDB asks three things of a process, and this module keeps them: an environment is opened once and not used after
a fork; the map is resized, and databases are opened, while no transaction is under way.

A process that may not write the lock file reads by an ``UnlistedEnvironment``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

import lmdb

from rli.errors import StoreUnavailableError
from rli_lmdb.access import DATA_FILE, identity_of, may_write, refusal_to_write
from rli_lmdb.data_file import DataFile
from rli_lmdb.entries import Database, Transaction
from rli_lmdb.errors import translated_errors
from rli_lmdb.guard import SharedGuard
from rli_lmdb.keyspace import MAX_DATABASES

T = TypeVar("T")

_MIN_MAP_BYTES: Final = 64 << 20
_MAX_READERS: Final = 1024
_ATTEMPTS: Final = 64


class Environment:
    """Transactions on the environment in the folder ``path``, with a map that grows by itself.

    Attributes:
        path: the folder.
        is_read_only: whether this process may write the list of readers, but not the data.
        identity: device and inode of the data file, which tell it from one that took its place.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_read_only = not may_write(path, DATA_FILE)
        self._guard = SharedGuard()
        self._writer = Lock()
        self._growths = 0
        self._databases: dict[bytes, Database] = {}
        self._data_file: DataFile | None = None
        with translated_errors(path):
            self._lmdb = lmdb.open(
                path,
                map_size=max(_MIN_MAP_BYTES, 2 * _size(path)),
                max_dbs=MAX_DATABASES,
                max_readers=_MAX_READERS,
                # A transaction is in the file when it commits, but the page that makes it the newest is flushed by
                # the next one, or by `flush`. A crash of the machine takes the file back to an earlier commit.
                metasync=False,
                readonly=self.is_read_only,
            )
            self._lmdb.reader_check()
            self._page_size = int(self._lmdb.stat()["psize"])
        self.identity = identity_of(path)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """The result of ``work`` in a read transaction; ``work`` may be called more than once."""
        return self._run(self._attempt_read, work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """The result of ``work`` in a write transaction, committed; ``work`` may be called more than once.

        Raises:
            StoreReadOnlyError: this process may not write the files.
        """
        if self.is_read_only:
            raise refusal_to_write(self.path)
        return self._run(self._attempt_write, work)

    def flush(self) -> None:
        """Make everything that was committed survive a crash of the machine."""
        with self._guard.shared(), translated_errors(self.path):
            self._lmdb.sync(True)  # noqa: FBT003  (positional only)

    def database(self, name: bytes, *, create: bool, duplicates: bool = False) -> Database | None:
        """A named database; None where it is not there and ``create`` is false."""
        found = self._databases.get(name)
        if found is not None:
            return found
        if not create and self.read(lambda transaction: transaction.get(name)) is None:
            return None
        # The binding keeps handles that were opened in a write transaction only.
        for _ in range(_ATTEMPTS):
            growths = self._growths
            try:
                with self._guard.alone(), translated_errors(self.path):
                    found = self._open_database(name, duplicates=duplicates)
            except lmdb.MapFullError:
                # The map grows outside of the transaction that ran full: it cannot be resized while one is under way.
                self._grow(growths)
            else:
                self._databases[name] = found
                return found
        raise self._no_room()

    def data_file(self) -> DataFile | None:
        """The file with all pages that a read transaction under way sees; None where its layout is not known.

        A write transaction has pages that are not in the file yet.
        """
        # Two threads may map the file at once. Each gets a whole mapping, and one of them is kept.
        mapped = self._data_file
        if mapped is None or not mapped.is_whole:
            mapped = self._data_file = DataFile.open(os.path.join(self.path, DATA_FILE), self.identity, self._page_size)
        return mapped

    def close(self) -> None:
        """Close the environment once the transactions under way have ended."""
        with self._guard.alone():
            self._data_file = None
            self._lmdb.close()

    def _open_database(self, name: bytes, *, duplicates: bool) -> Database:
        if self.is_read_only:
            return self._lmdb.open_db(name, create=False, dupsort=duplicates, dupfixed=duplicates)
        with self._begin_alone() as transaction:
            return self._lmdb.open_db(name, transaction, dupsort=duplicates, dupfixed=duplicates)

    def _begin_alone(self) -> Transaction:
        try:
            return self._lmdb.begin(write=True)
        except lmdb.MapResizedError:
            self._lmdb.set_mapsize(0)
            return self._lmdb.begin(write=True)

    def _run(self, attempt: Callable[[Callable[[Transaction], T]], T], work: Callable[[Transaction], T]) -> T:
        for _ in range(_ATTEMPTS):
            growths = self._growths
            try:
                return attempt(work)
            except lmdb.MapFullError:
                self._grow(growths)
            except lmdb.MapResizedError:
                # Another process has enlarged the map. Nothing of the attempt took effect: ``work`` runs again, so it
                # must be repeatable.
                self._adopt_size()
            except lmdb.ReadersFullError as error:
                self._free_readers(error)
        raise self._no_room()

    def _attempt_read(self, work: Callable[[Transaction], T]) -> T:
        # Shared by all transactions of this process, so that nobody resizes the map under them.
        with self._guard.shared(), translated_errors(self.path), self._lmdb.begin() as transaction:
            return work(transaction)

    def _attempt_write(self, work: Callable[[Transaction], T]) -> T:
        # The binding's abort waits until no other thread is inside any of its calls. A thread that waits for LMDB's
        # own writer lock is inside one, and busy readers always are: so writers queue here, and readers are held
        # back for the moment of an abort.
        with self._writer, self._guard.shared(), translated_errors(self.path):
            transaction = self._lmdb.begin(write=True)
            try:
                result = work(transaction)
            except BaseException:
                with self._guard.holding_back():
                    transaction.abort()
                raise
            # Durable only after the caller's ``flush``, once for all of its transactions. Until then a crash of the
            # machine may take the last of them back, and no watermark counts their entries yet.
            transaction.commit()
            return result

    def _grow(self, growths: int) -> None:
        """Enlarge the map, unless another thread has since it had grown ``growths`` times."""
        with self._guard.alone(), translated_errors(self.path):
            # Several threads run full at once. The first one doubles the map for all of them.
            if self._growths != growths:
                return
            self._growths += 1
            # A dead reader holds pages back that are free otherwise: without it, the larger map lasts longer.
            self._lmdb.reader_check()
            before = self._map_size()
            # Another process may have given the file a larger map already.
            self._lmdb.set_mapsize(0)
            # Only if the other processes have not grown it: else each process in turn would double it.
            if self._map_size() <= before:
                self._lmdb.set_mapsize(2 * before)

    def _adopt_size(self) -> None:
        with self._guard.alone(), translated_errors(self.path):
            self._lmdb.set_mapsize(0)

    def _free_readers(self, error: lmdb.Error) -> None:
        with self._guard.shared(), translated_errors(self.path):
            # Places of dead readers were freed: there may be room for this one now.
            if self._lmdb.reader_check():
                return
        raise StoreUnavailableError(
            f"too many readers at once: path={self.path} limit={_MAX_READERS}",
            remedy="let fewer processes and threads read, then try again",
        ) from error

    def _map_size(self) -> int:
        return int(self._lmdb.info()["map_size"])

    def _no_room(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the index file's map cannot grow: path={self.path} bytes={self._map_size()}",
            remedy="check the limit of address space of this process",
        )


def _size(path: str) -> int:
    try:
        return os.stat(os.path.join(path, DATA_FILE)).st_size
    except FileNotFoundError:
        return 0
