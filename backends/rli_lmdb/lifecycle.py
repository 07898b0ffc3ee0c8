"""When there is an index in a folder: making it, finding it, and removing it.

There is an index where the data file's ``meta`` database has a ``generation``. The record is made last and removed
first, and every transaction looks at it, so an index that was dropped, or dropped and created again, takes nothing
from stores that were opened before. Opening is done under a shared lock on the folder, making and removing under
an exclusive one; the files are removed with the index.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4
from weakref import finalize

from rli.errors import IndexMismatchError, IndexNotFoundError, SettingsError
from rli.storage.local_files import flush, flush_folders_above
from rli.store import home_of_file
from rli_lmdb.access import DATA_FILE, LOCK_FILE, identity_of
from rli_lmdb.entries import Database, Transaction
from rli_lmdb.errors import translated_errors
from rli_lmdb.keyspace import CONTROL, GENERATION, META, VERSION, is_ours
from rli_lmdb.registry import AnyEnvironment, abandon, acquire, release

T = TypeVar("T")


def _not_found(path: str) -> IndexNotFoundError:
    return IndexNotFoundError(f"there is no index in this folder: path={path}", remedy="create it first")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OpenIndex:
    """An index whose environment is open; to be given back with ``close``.

    One that nobody refers to any more gives its environment back, too: a process that forgets to close its tables must not
    run out of file descriptors.

    Attributes:
        environment: where it is kept.
        generation: what tells this index from any other one that was in the same place.
        meta: the database of the format's own records.
        control: the database of the control records.
    """

    environment: AnyEnvironment
    generation: bytes
    meta: Database
    control: Database
    _abandoning: finalize[..., OpenIndex] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        abandoning = finalize(self, abandon, self.environment)
        abandoning.atexit = False
        object.__setattr__(self, "_abandoning", abandoning)

    @property
    def path(self) -> str:
        return self.environment.path

    @property
    def home(self) -> str:
        """Names the data file; raises ``IndexNotFoundError`` if it is gone."""
        identity = self.environment.identity
        if identity is None:
            raise _not_found(self.path)
        return home_of_file(identity)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """The result of ``work`` in a read transaction.

        Raises:
            IndexNotFoundError: the index was dropped.
        """
        return self.environment.read(lambda transaction: self._checked(work, transaction))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """The result of ``work`` in a write transaction; raises like ``read``."""
        return self.environment.write(lambda transaction: self._checked(work, transaction))

    def require_in_place(self) -> None:
        """Raise ``IndexNotFoundError`` if the files were removed, or others took their place, under this process.

        LMDB goes on with the removed files, which no other process opens any more.
        """
        if identity_of(self.path) != self.environment.identity:
            raise IndexNotFoundError(
                f"the files of the index were removed while it was open: path={self.path}",
                remedy="open it again, or create it if there is none",
            )

    def database_names(self) -> list[bytes]:
        """Names of all databases, in order."""
        return self.read(_names)

    def drop(self) -> None:
        """Remove the index and its files; the folder stays. Raises like ``read``."""
        with _locked(self.path, fcntl.LOCK_EX):
            self.write(lambda transaction: transaction.delete(GENERATION, db=self.meta))
            if identity_of(self.path) == self.environment.identity:
                _remove_files(self.path)

    def close(self) -> None:
        if self._abandoning.detach() is not None:
            release(self.environment)

    def _checked(self, work: Callable[[Transaction], T], transaction: Transaction) -> T:
        if transaction.get(GENERATION, db=self.meta) != self.generation:
            raise IndexNotFoundError(
                f"the index was dropped: path={self.path}", remedy="open it again, or create it if there is none"
            )
        return work(transaction)


def open_index(path: str, *, create: bool) -> OpenIndex:
    """The index in a folder; makes the folder and the index where ``create`` is true and there is none.

    Raises:
        IndexNotFoundError: there is no index and ``create`` is false.
        IndexMismatchError: the index has a format that this version does not know.
        SettingsError: the path is not a folder, or the folder holds an LMDB database of something else.
        CorruptIndexError: the data file is not one of LMDB.
        StoreUnavailableError: the folder cannot be read or written.
    """
    if os.path.exists(path) and not os.path.isdir(path):
        raise SettingsError(f"not a folder: path={path}", remedy="name the folder of the index")
    if create:
        with translated_errors(path):
            os.makedirs(path, exist_ok=True)
    _require_file(path, create=create)
    with _locked(path, fcntl.LOCK_EX if create else fcntl.LOCK_SH):
        _require_file(path, create=create)
        if create:
            _remove_leftovers(path)
        environment = acquire(path)
        try:
            opened = _opened(environment, create=create)
            if create:
                _sync(path, environment)
        except BaseException:
            release(environment)
            raise
        return opened


def _sync(path: str, environment: AnyEnvironment) -> None:
    """Make a new index survive a power cut, with the folders that lead to it."""
    environment.flush()
    flush([path])
    flush_folders_above(path)


def _require_file(path: str, *, create: bool) -> None:
    if not create and identity_of(path) is None:
        raise _not_found(path)


def _remove_leftovers(path: str) -> None:
    """Remove what a crash has left of an index between the removal of its record and that of its files."""
    if identity_of(path) is None:
        return
    environment = acquire(path)
    try:
        if _generation(environment) is not None:
            return
        names = environment.read(_names)
    finally:
        release(environment)
    if not all(is_ours(name) for name in names):
        raise SettingsError(f"another database is in this folder: path={path}", remedy="name an empty folder")
    _remove_files(path)


def _opened(environment: AnyEnvironment, *, create: bool) -> OpenIndex:
    generation = _generation(environment)
    is_new = generation is None and create
    control = environment.database(CONTROL, create=is_new)
    meta = environment.database(META, create=is_new)
    if is_new and meta is not None:
        generation = _write_generation(environment, meta)
    if generation is None or control is None or meta is None:
        raise _not_found(environment.path)
    return OpenIndex(environment, generation, meta, control)


def _write_generation(environment: AnyEnvironment, meta: Database) -> bytes:
    generation = bytes([VERSION]) + uuid4().bytes
    environment.write(lambda transaction: transaction.put(GENERATION, generation, db=meta))
    environment.flush()
    return generation


def _names(transaction: Transaction) -> list[bytes]:
    return list(transaction.cursor().iternext(values=False))


def _generation(environment: AnyEnvironment) -> bytes | None:
    meta = environment.database(META, create=False)
    if meta is None:
        return None
    generation = environment.read(lambda transaction: transaction.get(GENERATION, db=meta))
    if generation is not None and generation[0] != VERSION:
        raise IndexMismatchError(
            f"the index has a format of another version: path={environment.path} version={generation[0]} "
            f"known={VERSION}",
            remedy="open it with the version of rli that made it",
        )
    return generation


def _remove_files(path: str) -> None:
    with translated_errors(path):
        for name in (DATA_FILE, LOCK_FILE):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))


@contextmanager
def _locked(path: str, kind: int) -> Iterator[None]:
    with translated_errors(path):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with translated_errors(path):
            fcntl.flock(folder, kind)
        yield
    finally:
        os.close(folder)
