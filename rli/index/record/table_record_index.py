"""The record index that follows the timeline of a table: it has no transactions of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from rli.errors import IndexMismatchError
from rli.index.record.alone.commits import IndexCommit, PendingTransaction
from rli.index.record.alone.transaction import IndexTransaction
from rli.index.record.stored_index import StoredIndex
from rli.index.record.time_left import TimeLeft

_PAUSE_SECONDS: Final = 0.02


class TableRecordIndex(StoredIndex):
    """The index of a table of rli, as whoever opens it by its own URL sees it."""

    def begin(self) -> IndexTransaction:
        raise IndexMismatchError(
            f"this index follows the timeline of a table: url={self.url}",
            remedy="write through rli.open_table, or create a separate index for other data",
        )

    def pending(self) -> list[PendingTransaction]:
        return []

    def purge(self) -> int:
        return 0

    def _commits(self) -> Iterator[IndexCommit]:
        raise IndexMismatchError(
            f"this index follows the timeline of a table: url={self.url}",
            remedy="see the commits of the table: rli timeline TABLE",
        )

    def _complete_commits(self, left: TimeLeft) -> None:
        time.sleep(min(_PAUSE_SECONDS, left.seconds))

    @property
    def _advice(self) -> str:
        return "its writer died, or is slow: run rli index sync TABLE, or look up through rli.open_table"

    @property
    def _owner(self) -> str:
        return f"table_id={self.settings.table_id!r}"
