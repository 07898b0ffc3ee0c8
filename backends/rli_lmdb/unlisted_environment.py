"""An environment whose lock file this process may not write: another user's index, or read-only media.

Writers do not know of its reads. A read that writers overtake is made again; see ``page_transaction``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar, cast

from rli.errors import CorruptIndexError, IndexNotFoundError, StoreUnavailableError
from rli_lmdb.access import DATA_FILE, LOCK_FILE, identity_of, refusal_to_write
from rli_lmdb.data_file import DataFile
from rli_lmdb.entries import Database, Transaction
from rli_lmdb.errors import translated_errors
from rli_lmdb.page_transaction import CommittedState, NamedDatabase, OvertakenError, PageTransaction

T = TypeVar("T")

_ATTEMPTS: Final = 64


class UnlistedEnvironment:
    """Read transactions on the environment in the folder ``path``. Threads may share it.

    Attributes:
        path: the folder.
        is_read_only: always.
        identity: device and inode of the data file, which tell it from one that took its place.
    """

    is_read_only: Final = True

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = identity_of(path)
        self._opening = Lock()
        self._file = self._open()

    def read(self, work: Callable[[Transaction], T]) -> T:
        """The result of ``work`` in a read transaction; ``work`` may be called more than once."""
        for _ in range(_ATTEMPTS):
            transaction = self._begin()
            try:
                # It has all methods of LMDB's transaction that a read calls.
                result = work(cast("Transaction", transaction))
                # Once more behind the work: a look-up of many keys reads the mapped file without copies, and only this
                # tells whether a writer used those pages meanwhile.
                transaction.require_current()
            except OvertakenError:
                continue
            except (IndexError, ValueError, struct.error) as error:
                raise self._damage(error) from error
            return result
        raise StoreUnavailableError(
            f"the index changes too fast to be read without locks: path={self.path}",
            remedy=f"let this process write {LOCK_FILE} there, or read fewer keys at once",
        )

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Raises ``StoreReadOnlyError``."""
        del work
        raise refusal_to_write(self.path)

    def flush(self) -> None:
        """Raises ``StoreReadOnlyError``."""
        raise refusal_to_write(self.path)

    def database(self, name: bytes, *, create: bool, duplicates: bool = False) -> Database | None:
        """A named database; None where it is not there."""
        del duplicates
        if create:
            raise refusal_to_write(self.path)
        is_there = self.read(lambda transaction: transaction.get(name)) is not None
        return cast("Database", NamedDatabase(name)) if is_there else None

    def data_file(self) -> DataFile | None:
        """The file with all pages that a read transaction under way sees."""
        return self._file

    def close(self) -> None:
        """Nothing is held that a collected object would not give back."""

    def _begin(self) -> PageTransaction:
        while True:
            file = self._file
            state = CommittedState.newest(file)
            # The mapping ends where the file ended when it was made. A state with later pages needs a new one.
            if (state.last_page + 1) * file.page_size <= file.size:
                return PageTransaction(file, state)
            with self._opening:
                if self._file is file:
                    self._file = self._open()
                    if self._file.size <= file.size:
                        raise self._damage("it is shorter than its last page")

    def _open(self) -> DataFile:
        path = os.path.join(self.path, DATA_FILE)
        with translated_errors(self.path), open(path, "rb") as file:
            head = file.read(4096)
        page_size = int.from_bytes(head[40:44], "little")
        found = DataFile.open(path, self.identity, page_size) if page_size else None
        if found is None:
            if identity_of(self.path) != self.identity:
                raise IndexNotFoundError(
                    f"the files of the index were replaced: path={self.path}", remedy="open it again"
                )
            raise self._damage("it has not the layout of LMDB 0.9")
        return found

    def _damage(self, reason: object) -> CorruptIndexError:
        return CorruptIndexError(
            f"the index file is damaged or not an LMDB file ({reason}): path={self.path}",
            remedy="remove the folder and bootstrap the index from its table",
        )
