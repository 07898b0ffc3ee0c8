"""Merge-on-read tables that Apache Hudi writes, and what rli must read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

import rli
from rli import Query
from tests.support.histories import Layout
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, table_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.soak import FACTOR

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("value", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def options(engine: HudiEngine, *, metadata: bool) -> dict[str, str]:
    """Of a writer; ordering values count."""
    ordered = (
        {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
        if engine.version == NEWEST
        else {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    )
    return {
        **table_options(Layout(partition_by=("city",))),
        **ordered,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.index.type": "SIMPLE",
        "hoodie.compact.inline": "false",
        "hoodie.metadata.enable": str(metadata).lower(),
    }


def has_metadata(engine: HudiEngine) -> bool:
    """Whether a long test keeps a metadata table: of older releases in ``make soak`` alone, as it doubles the work of a write."""
    return engine.version == NEWEST or FACTOR > 1


def rows(*given: tuple[str, int, str, bool]) -> pa.Table:
    names = ("id", "ts", "value", "_hoodie_is_deleted")
    return pa.Table.from_pylist([{**dict(zip(names, row, strict=True)), "city": "Oslo"} for row in given], SCHEMA)


def versions(records: pa.Table) -> list[tuple[str, int, str]]:
    found = zip(*(records[name].to_pylist() for name in ("id", "ts", "value")), strict=True)
    return sorted(found)


class Follower:
    """A copy of a table that takes the changes behind its last position.

    Args:
        path: of the table.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copy = rli.create_table(f"{path}-copy", record_key="id", partition_by="city")
        self._copy.upsert(self._follow())

    def _follow(self) -> pa.Table:
        table = rli.open_table(self._path)
        self._position = max(instant.time for instant in table.timeline() if instant.is_completed)
        return table.read()

    def require_equal(self) -> None:
        """The changes since the last call, taken over, give the table as it is."""
        self._copy.merge(rli.open_table(self._path).changes(since=self._position))
        assert versions(self._copy.read()) == versions(self._follow())


def require_equal(engine: HudiEngine, path: Path, *, is_read_by_rust: bool = True) -> None:
    """Both queries, and filters whatever the metadata table says.

    Args:
        engine: of Hudi.
        path: of the table.
        is_read_by_rust: whether hudi-rs reads all records: in table version 6, it passes over log files behind a pending compaction.
    """
    table = rli.open_table(path)
    for query in Query:
        mine = table.read(query=query)
        assert versions(mine) == versions(engine.read(path, {"hoodie.datasource.query.type": query}))
        for limit in {4, 10, 20, *mine["ts"].to_pylist()[:3]}:
            expected = [version for version in versions(mine) if version[1] >= limit]
            assert versions(table.read(filters=f"ts >= {limit}", query=query)) == expected
    if is_read_by_rust:
        assert versions(table.read()) == versions(read_with_hudi_rs(path))
