"""What must be left of the batches of writers that write one table at the same moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Self

import pyarrow as pa

from rli import Table
from tests.support.histories import Row
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows


class Outcome(Enum):
    """Of a write."""

    COMMITTED = "committed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Written:
    """The outcome of a writer's batch.

    Attributes:
        rows: of the batch; the last one is of a key that no other batch has.
        outcome: what the writer said in the end; None if it was killed, or failed in a way that leaves the outcome open.
        instant: of the commit, of a writer of rli.
        conflicts: for which a writer of rli wrote again.
        error: what the writer said if it did not commit.
    """

    rows: list[Row]
    outcome: Outcome | None = None
    instant: str | None = None
    conflicts: int = 0
    error: str = ""

    @property
    def own(self) -> str:
        """The key that no other batch has."""
        key: str = self.rows[-1]["id"]
        return key


@dataclass(frozen=True)
class Seen:
    """What a reader saw of a table while others wrote it.

    Attributes:
        reader: its name.
        versions: key → ordering value of each record.
    """

    reader: str
    versions: Mapping[str, int]

    @classmethod
    def of(cls, reader: str, records: pa.Table) -> Self:
        """Raises ``AssertionError`` if it saw a key twice."""
        seen = cls(reader, dict(zip(records["id"].to_pylist(), records["ts"].to_pylist(), strict=True)))
        assert len(seen.versions) == len(records), f"{reader} saw a key twice"
        return seen

    def require_whole(self, batches: Iterable[Written]) -> None:
        """Raise ``AssertionError`` if it saw a part of a batch."""
        for one in batches:
            ts = one.rows[-1]["ts"]
            if one.own in self.versions:
                older = [row["id"] for row in one.rows if self.versions.get(row["id"], 0) < ts]
                assert older == [], f"{self.reader} saw a part of a batch"
            else:
                part = [row["id"] for row in one.rows if self.versions.get(row["id"]) == ts]
                assert part == [], f"{self.reader} saw a part of a batch"


def require_serial(
    table: Table, first: list[Row], batches: list[Written], readers: Mapping[str, Callable[[], pa.Table]]
) -> list[Written]:
    """Each batch stands as a whole and once, or not at all, as its writer said; returns those that stand.

    Args:
        table: after all writers have ended.
        first: the records before they began.
        batches: of all writers.
        readers: other engines that read the table, each by its name.

    Raises:
        AssertionError: a commit is lost, doubled or mixed, or metadata table, index and readers do not agree.
    """
    found = table.read()
    held = Counter(row["id"] for row in found.to_pylist())
    doubled = [key for key, records in held.items() if records > 1]
    assert doubled == [], "keys are doubled"
    lost = [one for one in batches if one.outcome is Outcome.COMMITTED and one.own not in held]
    assert lost == [], "acknowledged commits are lost"
    undead = [one for one in batches if one.outcome is Outcome.REFUSED and one.own in held]
    assert undead == [], "refused writes are in the table"
    # The batch of a writer that was killed stands as a whole or not at all; its own new record tells.
    standing = [one for one in batches if one.own in held]
    newest: dict[str, Row] = {}
    for row in sorted([*first, *(row for one in standing for row in one.rows)], key=lambda row: row["ts"]):
        newest[row["id"]] = row
    expected = sorted_rows(newest.values())
    assert sorted_rows(found) == expected, "no serial order of the batches gives these records"
    for name, read in readers.items():
        assert sorted_rows(without_meta_columns(read())) == expected, f"{name} reads other records"
    acknowledged = Counter(one.instant for one in standing if one.instant is not None)
    assert max(acknowledged.values(), default=1) == 1, "two batches have one commit"
    report = table.verify_index()
    assert report.agrees, f"the index does not agree with the table: {report}"
    assert report.records == len(newest)
    if table.metadata.status().partitions:
        assert table.metadata.verify() == (), "the metadata table does not agree with the table"
    return standing
