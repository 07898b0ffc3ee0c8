"""The record-level index: where does the record of a key live?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self

import pyarrow as pa

from rli.errors import InvalidInputError
from rli.index.contract import LOOKUP_SECONDS
from rli.index.record.alone.commits import IndexCommit, PendingTransaction
from rli.index.record.alone.sweeping import SILENT_SECONDS
from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.entries.self_check import IndexCheck
from rli.index.reports import IndexStats
from rli.model import Scope
from rli.settings import IndexSettings


class RecordIndex(ABC):
    """A record-level index of one table, global unless its URL says otherwise. Use ``open_index`` or ``create_index`` to get one.

    It is either used alone, for a table that rli does not write, or it follows the timeline of a table.

    Threads may share it; ``close`` it when none of them uses it any more. A transaction belongs to one thread. Pickled,
    it is its URL and settings, with a snapshot: another process that opens it fails with ``IndexNotReadyError`` where it
    finds another index at the URL, or one that is behind (P20).

    Attributes:
        settings: of the index.
        scope: where a record key is unique.
        ttl: seconds for which a key is known after the last commit that wrote its record; None: for ever.
    """

    settings: IndexSettings
    scope: Scope
    ttl: int | None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the index is; a password is not shown."""

    @abstractmethod
    def lookup(
        self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray, *, timeout: float = LOOKUP_SECONDS
    ) -> pa.Table:
        """Where each record key lives.

        Args:
            record_keys: strings without nulls; they may repeat.
            timeout: seconds; for how long to wait for a commit that is in the index in part, or to apply a transaction.

        Returns:
            A table with ``LOCATION_SCHEMA``, a row for each key in input order, nulls where the key is absent. It
            shows every commit whole or not at all. If keys are unique in their partition only, a key has a row for each
            partition that holds it; it is looked up in every partition of the table.

        Raises:
            InvalidKeyError: a key is null or no string.
            IndexNotReadyError: a commit of a table is in the index in part, and nobody completed it in that time. The
                index alone cannot: look up through the table (``rli.open_table``), or sync that.
            StoreUnavailableError: the store does not answer.
        """

    @abstractmethod
    def begin(self) -> IndexTransaction:
        """Begin a transaction on the index alone, for a table that rli does not write.

        Raises:
            IndexMismatchError: the index belongs to a table, whose commits alone may change it.
        """

    @abstractmethod
    def pending(self) -> list[PendingTransaction]:
        """The transactions that were prepared, and neither committed nor aborted; the oldest first.

        Each holds its keys until it is decided. If its writer died, ask the table whether it has the commit of this
        transaction, then commit or abort it.

        Example:
            >>> with index.begin() as txn:
            ...     txn.stage(pa.table({"record_key": ["k1"], "partition_path": ["p"], "file_id": ["f-0"]}))
            ...     txn.prepare({"delta.version": "17"})
            >>> [left] = index.pending()
            >>> left.metadata, left.placed
            ({'delta.version': '17'}, 1)
            >>> left.abort()
        """

    def history(self, limit: int | None = None) -> list[IndexCommit]:
        """The commits of transactions, the newest first.

        Args:
            limit: how many to return at most; all by default.

        Raises:
            IndexMismatchError: the index belongs to a table, whose timeline has its commits.
        """
        if limit is not None and limit < 1:
            raise InvalidInputError(f"a limit is 1 or more: limit={limit}", remedy="give a greater one, or none")
        return list(islice(self._commits(), limit))

    def last_commit(self, having: str | None = None) -> IndexCommit | None:
        """The newest commit of a transaction; None if there is none.

        Args:
            having: a name of metadata; commits without it are passed over. By its value a caller knows up to which version of
                its own table the index is.

        Raises:
            IndexMismatchError: the index belongs to a table, whose timeline has its commits.
        """
        return next((commit for commit in self._commits() if having is None or having in commit.metadata), None)

    @abstractmethod
    def _commits(self) -> Iterator[IndexCommit]:
        """The commits of transactions, the newest first."""

    @abstractmethod
    def sweep(self, *, silent_seconds: float = SILENT_SECONDS) -> int:
        """Remove the staged changes of transactions whose processes died before the commit.

        Each process does so before it stages changes, and then once an hour. Only an index that is used on its own has
        such changes.

        Args:
            silent_seconds: for how long a process of another host may show no sign of life. Should it live, its
                transaction fails with ``LeaseLostError``.

        Returns:
            How many transactions were removed.
        """

    @abstractmethod
    def purge(self) -> int:
        """Remove the tombstones of deleted keys, in an index that is used on its own and a store that can (LMDB).

        A transaction that began before fails with ``ConflictError``, unless it has not looked any key up. Cleans remove
        those of a table's index.

        Returns:
            How many were removed.
        """

    @abstractmethod
    def stats(self) -> IndexStats:
        """Size and state; reads the whole index where its store does not count, or its keys expire."""

    @abstractmethod
    def verify(self) -> IndexCheck:
        """Read all entries and compare them with the index's own commit log; writers may go on.

        It needs no table, so it cannot tell whether an entry is right: ``Table.verify_index`` does.

        Raises:
            CorruptIndexError: the commit log is damaged.
            StoreUnavailableError: the store does not answer.
        """

    @abstractmethod
    def drop(self) -> None:
        """Remove the index with all its entries; the table is not touched."""

    @abstractmethod
    def close(self) -> None:
        """Give the connections back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
