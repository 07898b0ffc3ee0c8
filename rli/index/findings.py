"""What a comparison of an index with its table finds, as far as counts tell."""

from __future__ import annotations

from collections.abc import Iterator

from rli.findings import Finding, Verdict
from rli.index.contract import PointIndex, TableIndex


def count_findings(index: TableIndex, records: int) -> Iterator[Finding]:
    """Whether an index that keeps entries has as many as the table has records.

    Args:
        index: that has applied all commits.
        records: of the table, counted in the same state.
    """
    if isinstance(index, PointIndex) and (entries := index.count()) != records:
        yield Finding(
            "counts",
            Verdict.PROBLEM,
            f"index and table hold different numbers of records: entries={entries} records={records}",
            "run: rli index verify TABLE. If it finds keys in several files: rli deduplicate TABLE, else rli index repair TABLE",
        )
