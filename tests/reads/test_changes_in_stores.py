"""Changes of tables in an object store, whose times are coarse, and beside a rollback that its process has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import InstantNotFoundError, create_table
from tests.support.change_readers import ChangeReader
from tests.support.object_store import ObjectStore
from tests.support.rollbacks import roll_back_in_part
from tests.support.tables import records

pytestmark = pytest.mark.invariant("P48")


def test_coarse_times_skip_nothing(object_store: ObjectStore, tmp_path: Path) -> None:
    table = create_table(
        f"s3://{object_store.new_bucket()}/t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/index",
        storage_options=object_store.options,
    )
    reader, by_times = ChangeReader(), ChangeReader()
    for number in range(4):
        table.upsert(records((f"k{number % 2}", "x", number, float(number)), ("m", "xy"[number % 2], number, 0.0)))
        reader.follow(table)
        found = table.changes(since=by_times.position).read_all()
        by_times.replay(found)
        by_times.position = found.column("_completion_time")[-1].as_py()
        assert reader.rows == by_times.rows == {row["id"]: row for row in table.read().to_pylist()}
    assert reader.reloads == 0
    assert table.changes(since=reader.position).read_all().num_rows == 0


def test_commits_being_undone_are_no_position(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", ordering="ts", index="global-simple:")
    first, second = (table.upsert(records(("a", "x", number, 0.0))).instant or "" for number in (1, 2))
    roll_back_in_part(table, second)
    with pytest.raises(InstantNotFoundError, match="being undone"):
        table.changes(since=second)
    assert table.changes(since=first).read_all().num_rows == 0
    table.upsert(records(("a", "x", 3, 0.0)))
    assert table.changes(since=first).read_all().column("ts").to_pylist() == [3]
