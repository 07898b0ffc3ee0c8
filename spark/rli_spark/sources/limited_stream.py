"""The changes of a table as a stream whose batches have a limit. PySpark before 4.2 cannot import this module."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.streaming.datasource import (  # type: ignore[import-not-found]
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

import rli
from rli.reads.changes.completions import CompletedWrite
from rli.reads.changes.ranges import first_writes, writes_after
from rli.table.table import opened_table
from rli_spark.sources.stream import SINCE, ChangesStream


class LimitedStream(ChangesStream, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream that has no more commits in a batch than the caller wants.

    With the trigger ``availableNow``, the batches have all commits that were there when the query started.
    """

    _available: frozenset[str] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """The caller's limit; Spark has no unit for commits, and gives the number back as it is."""
        most = self._options.max_commits_per_batch
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Note the commits that are there."""
        self._available = frozenset(write.time for write in self._writes_after(""))

    def latestOffset(  # type: ignore[override]  # noqa: N802  (Spark's name, which takes more since 4.2)
        self, start: dict[str, str], limit: ReadLimit
    ) -> dict[str, str]:
        """The last commit of the next batch; ``start`` if there is none. Raises as ``Table.changes``."""
        writes = self._writes_after(start[SINCE])
        if self._available is not None:
            writes = [write for write in writes if write.time in self._available]
        if isinstance(limit, ReadMaxFiles):
            writes = first_writes(writes, limit.max_files)
        return {SINCE: writes[-1].time} if writes else start

    def _writes_after(self, position: str) -> Sequence[CompletedWrite]:
        with rli.open_table(self._options.path) as table:
            return writes_after(opened_table(table).reloaded(), position)
