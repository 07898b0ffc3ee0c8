"""Commits of Apache Hudi among ours: their changes are told as ours are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from tests.support.change_readers import ChangeReader
from tests.support.histories import SCHEMA, History, Layout, trip, write_history
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, write_options

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))


def changed(history: History, reader: ChangeReader) -> list[tuple[str, str]]:
    """The changes since the reader's position, which goes on."""
    rows = history.table.changes(since=reader.position).read_all().to_pylist()
    reader.follow(history.table)
    assert reader.rows == {row["id"]: row for row in history.table.read().to_pylist()}
    assert reader.reloads == 0
    return sorted((row["_change_type"], row["id"]) for row in rows)


@newest_only
def test_hudi_commits_are_told(engine: HudiEngine, tmp_path: Path) -> None:
    history = write_history(BY_CITY, tmp_path, steps=2)
    reader = ChangeReader()
    changed(history, reader)

    def write(rows: list[dict[str, object]], operation: str) -> list[tuple[str, str]]:
        options = write_options(engine, BY_CITY, operation)
        engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), options)
        return changed(history, reader)

    batch = [trip("plain", ts=20, fare=7.5), trip("hudi's", city="Rome", ts=20), trip("-7", city="Lima", ts=20)]
    assert write(batch, "upsert") == [("insert", "hudi's"), ("update_after", "-7"), ("update_after", "plain")]
    history.table.upsert(pa.Table.from_pylist([trip("hudi's", city="Oslo", ts=21)], SCHEMA))
    assert changed(history, reader) == [("update_after", "hudi's")]
    assert write([trip("hudi's", city="Oslo", ts=22)], "delete") == [("delete", "hudi's")]
    in_lima = {row["id"] for row in history.table.read(filters="city = 'Lima'").to_pylist()}
    overwritten = write([trip("-7", city="Lima", ts=30), trip("other", city="Lima", ts=30)], "insert_overwrite")
    assert overwritten == sorted(
        [("insert", "other"), ("update_after", "-7"), *(("delete", key) for key in in_lima - {"-7"})]
    )
    history.table.close()
