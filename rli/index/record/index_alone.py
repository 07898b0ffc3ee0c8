"""The record index without a table of rli: its transactions are its commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.commits import IndexCommit, PendingTransaction, commits_in, pending_in
from rli.index.record.alone.sweeping import SILENT_SECONDS, sweep
from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.entries.purging import purge
from rli.index.record.entries.self_check import IndexCheck
from rli.index.record.record_index import RecordIndex


class IndexAlone(RecordIndex):
    """The index of a table that rli does not write."""

    def begin(self) -> IndexTransaction:
        return IndexTransaction.begin(self)

    def pending(self) -> list[PendingTransaction]:
        return pending_in(self)

    def sweep(self, *, silent_seconds: float = SILENT_SECONDS) -> int:
        return sweep(self, silent_seconds)

    def purge(self) -> int:
        return purge(self, apply_transactions(self).head)

    def verify(self) -> IndexCheck:
        apply_transactions(self)
        return super().verify()

    def _commits(self) -> Iterator[IndexCommit]:
        return commits_in(self.log.refresh())

    def _complete_commits(
        self,
        deadline: float,  # noqa: ARG002  (``require_time_left`` knows it)
        require_time_left: Callable[[], None],
        complete: Callable[[float], object] | None,  # noqa: ARG002  (there is no table)
    ) -> None:
        apply_transactions(self, require_time_left)

    @property
    def _advice(self) -> str:
        return "look up again with a longer timeout, or begin a transaction: it first applies all others"

    @property
    def _owner(self) -> str:
        return "alone"
