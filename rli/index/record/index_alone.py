"""The record index without a table of rli: its transactions are its commits."""

from __future__ import annotations

from collections.abc import Iterator

from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.commits import IndexCommit, PendingTransaction, commits_in, pending_in
from rli.index.record.alone.transaction import IndexTransaction, begin_transaction
from rli.index.record.entries.purging import purge
from rli.index.record.entries.self_check import IndexCheck
from rli.index.record.stored_index import StoredIndex
from rli.index.record.time_left import TimeLeft


class IndexAlone(StoredIndex):
    """The index of a table that rli does not write."""

    def begin(self) -> IndexTransaction:
        return begin_transaction(self)

    def pending(self) -> list[PendingTransaction]:
        return pending_in(self)

    def purge(self) -> int:
        return purge(self, apply_transactions(self).head)

    def verify(self) -> IndexCheck:
        apply_transactions(self)
        return super().verify()

    def _commits(self) -> Iterator[IndexCommit]:
        return commits_in(self.log.refresh())

    def _complete_commits(self, left: TimeLeft) -> None:
        apply_transactions(self, left.require)

    @property
    def _advice(self) -> str:
        return "look up again with a longer timeout, or begin a transaction: it first applies all others"

    @property
    def _owner(self) -> str:
        return "alone"
