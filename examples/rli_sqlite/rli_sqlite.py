"""A store of rli in an SQLite file: the example of docs/stores/your-own.md. It is simple, not fast.

``sqlite:///path/to/file`` names a store. SQLite lets one process write at a time and any number read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Lock
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import numpy as np

from rli import IndexNotFoundError, SettingsError, StoreUnavailableError
from rli.store import EncodedKeys, Entries, Store, StoreStats, file_groups, home_of_file, is_live, sequences

_BUSY_SECONDS = 30.0

_TABLES = """
CREATE TABLE IF NOT EXISTS entry (
    shard INTEGER, width INTEGER, key BLOB, sequence INTEGER, file_group INTEGER,
    PRIMARY KEY (shard, width, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS control (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS generation (id TEXT);
"""

# The rule that makes writes idempotent and commutative: only a greater sequence replaces.
_PUT = """
INSERT INTO entry VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET sequence = excluded.sequence, file_group = excluded.file_group
WHERE excluded.sequence > sequence
"""

_GET = "SELECT sequence << 32 | file_group FROM entry WHERE shard = ? AND width = ? AND key = ?"

_PAGE = """
SELECT key, sequence, file_group FROM entry WHERE shard = ? AND width = ? AND key > ? ORDER BY key LIMIT ?
"""


class SqliteStore(Store):
    """An index in one SQLite file."""

    def __init__(self, url: str, path: str, generation: str) -> None:
        self._url = url
        self._path = path
        self._generation = generation
        self._process = os.getpid()
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = _connect(url, path)

    @property
    def url(self) -> str:
        return self._url

    @property
    def home(self) -> str:
        status = os.stat(self._path)
        return home_of_file((status.st_dev, status.st_ino))

    def get(self, keys: EncodedKeys) -> Entries:
        addresses = zip(keys.shards.tolist(), keys.to_bytes(), strict=True)
        with self._transaction() as connection:
            rows = [connection.execute(_GET, (shard, keys.width, key)).fetchone() for shard, key in addresses]
        # SQLite's integers have a sign.
        return np.array([row[0] if row else 0 for row in rows], dtype=np.int64).view(np.uint64)

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        rows = zip(
            keys.shards.tolist(),
            [keys.width] * len(keys),
            keys.to_bytes(),
            sequences(entries).tolist(),
            file_groups(entries).tolist(),
            strict=True,
        )
        with self._transaction("IMMEDIATE") as connection:
            connection.executemany(_PUT, rows)

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        with self._transaction() as connection:
            found = connection.execute("SELECT DISTINCT width FROM entry WHERE shard = ?", (shard,)).fetchall()
        for (width,) in found:
            after = b""
            while rows := self._page(shard, width, after, batch_size):
                after = rows[-1][0]
                keys = np.frombuffer(b"".join([key for key, _, _ in rows]), dtype=f"V{width}")
                shards = np.full(len(rows), shard, dtype=np.uint16)
                versions = np.array([(sequence << 32) | group for _, sequence, group in rows], dtype=np.uint64)
                yield EncodedKeys(keys, shards), versions

    def read_control(self, name: str) -> bytes | None:
        with self._transaction() as connection:
            row = connection.execute("SELECT value FROM control WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT name, value FROM control WHERE name >= ? AND name < ? ORDER BY name",
                (max(prefix, start), prefix + "\x7f"),
            ).fetchall()
        return [(name, bytes(value)) for name, value in rows]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        with self._transaction("IMMEDIATE") as connection:
            row = connection.execute("SELECT value FROM control WHERE name = ?", (name,)).fetchone()
            if (None if row is None else bytes(row[0])) != expected:
                return False
            if value is None:
                connection.execute("DELETE FROM control WHERE name = ?", (name,))
            else:
                connection.execute("INSERT OR REPLACE INTO control VALUES (?, ?)", (name, value))
            return True

    def drop(self) -> None:
        with self._transaction("IMMEDIATE") as connection:
            for table in ("entry", "control", "generation"):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608  (the names are ours)

    def stats(self) -> StoreStats:
        with self._transaction() as connection:
            rows = connection.execute("SELECT sequence, file_group FROM entry").fetchall()
        entries = np.array([(sequence << 32) | group for sequence, group in rows], dtype=np.uint64)
        live = int(np.count_nonzero(is_live(entries)))
        files = [path for path in (self._path, f"{self._path}-wal") if os.path.exists(path)]
        return StoreStats(live, len(entries) - live, sum(os.stat(path).st_size for path in files))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _page(self, shard: int, width: int, after: bytes, limit: int) -> list[tuple[bytes, int, int]]:
        with self._transaction() as connection:
            return connection.execute(_PAGE, (shard, width, after, limit)).fetchall()

    @contextmanager
    def _transaction(self, kind: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        """A transaction on an index that is still the one that was opened."""
        connection = self._connection
        if connection is None:
            raise StoreUnavailableError(f"the store was closed: url={self._url}", remedy="open it again")
        if self._process != os.getpid():
            raise StoreUnavailableError(
                f"the store was opened before a fork: url={self._url}", remedy="open it in each process"
            )
        with self._lock, _translated_errors(self._url):
            connection.execute(f"BEGIN {kind}")
            try:
                self._require_index(connection)
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def _require_index(self, connection: sqlite3.Connection) -> None:
        if _generation(connection) != self._generation:
            raise IndexNotFoundError(f"the index was dropped: url={self._url}", remedy="create it again")

    def __reduce__(self) -> tuple[object, ...]:
        return _open_copy, (self._url,)


def open_sqlite_store(url: str, *, create: bool) -> SqliteStore:
    """Open the store that ``sqlite:///path`` names: what the entry point of this package says."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or not parts.path:
        raise SettingsError(f"not a URL of an SQLite store: url={url}", remedy="use sqlite:///path/to/file")
    path = unquote(parts.path)
    if not create and not os.path.exists(path):
        raise IndexNotFoundError(f"there is no index: url={url}", remedy="create it first")
    with closing(_connect(url, path)) as connection, _translated_errors(url):
        connection.executescript(_TABLES)
        connection.execute("BEGIN IMMEDIATE")
        generation = _generation(connection)
        if generation is None and create:
            generation = uuid4().hex
            connection.execute("INSERT INTO generation VALUES (?)", (generation,))
        connection.commit()
    if generation is None:
        raise IndexNotFoundError(f"there is no index: url={url}", remedy="create it first")
    return SqliteStore(url, path, generation)


def _connect(url: str, path: str) -> sqlite3.Connection:
    with _translated_errors(url):
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection


def _generation(connection: sqlite3.Connection) -> str | None:
    row = connection.execute("SELECT id FROM generation").fetchone()
    return None if row is None else row[0]


@contextmanager
def _translated_errors(url: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailableError(
            f"SQLite cannot use the file ({error}): url={url}",
            remedy="check its folder, its rights and the free space, then try again",
        ) from error


def _open_copy(url: str) -> SqliteStore:
    return open_sqlite_store(url, create=False)
