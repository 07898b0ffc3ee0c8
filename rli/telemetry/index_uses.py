"""Counts, for each index on a column, the reads of this process that used it and the file groups that they skipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock
from typing import Final

from rli.telemetry import metrics


@dataclass(frozen=True, slots=True)
class IndexUses:
    """Counts of one index.

    Attributes:
        uses: reads that the index has answered.
        files_skipped: file groups that these reads left out because of the index.
    """

    uses: int = 0
    files_skipped: int = 0


_uses: Final = Counter[tuple[str, str]]()
_skipped: Final = Counter[tuple[str, str]]()
_counting: Final = Lock()


def count_use(table: str, place: str, skipped: int) -> None:
    """Count a read that an index has answered.

    Args:
        table: location of the table.
        place: of the index in the table; see ``ColumnIndex.places``.
        skipped: file groups that the read leaves out because of it.
    """
    with _counting:
        _uses[table, place] += 1
        _skipped[table, place] += skipped
    metrics.COLUMN_INDEX_USES.add(1, table=table, index=place)
    metrics.COLUMN_INDEX_SKIPPED.add(skipped, table=table, index=place)


def uses_of(table: str, place: str) -> IndexUses:
    """The counts of an index since the process began; arguments as ``count_use``."""
    with _counting:
        return IndexUses(_uses[table, place], _skipped[table, place])
