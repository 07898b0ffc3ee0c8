"""An index that follows another engine's commit too late: a file is gone that tells which keys went."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rli import IndexNotReadyError, create_table, open_table
from rli.table.table import opened_table
from tests.support.tables import records, turn_into_foreign_commit


def test_older_versions_stand_in_for_none(tmp_path: Path) -> None:
    index, behind = tmp_path / "index", tmp_path / "behind"
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{index}")
    table.upsert(records(("a", "x", 1, 1.0)))
    table.upsert(records(("b", "x", 1, 1.0)))
    [before] = opened_table(table).snapshot().slices.values()
    table.close()
    shutil.copytree(index, behind)
    with open_table(table.location) as opened:
        deleted = opened.delete(["b"])
        turn_into_foreign_commit(opened, deleted.instant or "")
    shutil.rmtree(index)
    shutil.copytree(behind, index)
    # A savepoint of another engine has kept the first version, and its clean has removed the second one.
    assert before.base is not None
    Path(table.location, before.base.path).unlink()
    with (
        open_table(table.location) as follower,
        pytest.raises(IndexNotReadyError, match="removed before the index could follow"),
    ):
        follower.upsert(records(("c", "x", 1, 1.0)))
