"""How often this process has used each index on a column, and how many files it has skipped by it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock
from typing import Final

from rli.telemetry import metrics


@dataclass(frozen=True, slots=True)
class IndexUses:
    """What an index was good for.

    Attributes:
        uses: reads that asked it and got an answer.
        files_skipped: file groups that these reads left out because of it.
    """

    uses: int = 0
    files_skipped: int = 0


_uses: Final = Counter[tuple[str, str]]()
_skipped: Final = Counter[tuple[str, str]]()
_counting: Final = Lock()


def count_use(table: str, place: str, skipped: int) -> None:
    """Count a read that has asked an index.

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
    """What was counted of an index since the process began."""
    with _counting:
        return IndexUses(_uses[table, place], _skipped[table, place])
