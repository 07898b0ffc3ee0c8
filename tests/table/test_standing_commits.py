"""Commits that stand although a rollback names them: Hudi rolled a clustering back whose writer was alive and completed it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rli import Table, open_table
from rli.hudi.timeline.rollback_metadata import RollbackMetadata
from rli.table.table import opened_table
from tests.support.index_kinds import KINDS, Kind
from tests.support.tables import records, rows_of

pytestmark = pytest.mark.invariant("P64")

STORED = (KINDS["record"], Kind("lmdb://{folder}/index", KINDS["record"].scope, version=9))


def clustered(kind: Kind, folder: Path) -> tuple[Table, str]:
    """A table of two partitions, each of which a clustering has rewritten, and the instant of the clustering."""
    table = kind.create(folder, maintenance=False, small_file_size=0)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    table.upsert(records(("c", "x", 2, 1.0), ("d", "y", 2, 1.0)))
    instant = table.cluster().instant
    assert instant is not None
    return table, instant


def name_as_rolled_back(table: Table, instant: str) -> None:
    """Complete a rollback of an instant that has found nothing to remove, as Hudi does."""
    definition = opened_table(table).definition
    timeline = definition.load_timeline()
    time = timeline.next_time(datetime.now(UTC))
    content = RollbackMetadata(time, instant, "replacecommit", 1).to_avro()
    path = timeline.layout.completed_path(time, "rollback", timeline.next_time(datetime.now(UTC)))
    assert definition.storage.create(path, content)


@pytest.mark.parametrize("kind", STORED, ids=["6", "9"])
@pytest.mark.parametrize("is_followed", [False, True])
def test_index_keeps_standing_commits(kind: Kind, *, is_followed: bool, tmp_path: Path) -> None:
    table, instant = clustered(kind, tmp_path)
    if is_followed:
        table.sync_index()
    name_as_rolled_back(table, instant)
    table.sync_index()
    assert table.verify_index(deep=True).agrees
    table.upsert(records(("a", "y", 3, 2.0), ("e", "x", 3, 2.0)))
    assert table.verify_index(deep=True).agrees
    assert sorted(table.read()["id"].to_pylist()) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("kind", STORED, ids=["6", "9"])
def test_archived_commits_keep_their_files(kind: Kind, tmp_path: Path) -> None:
    table, instant = clustered(kind, tmp_path)
    for number in range(3):
        table.upsert(records(("other", "z", number + 3, 2.0)))
    rows = rows_of(table.read())
    # An archive leaves a clustering whose replaced files are there.
    table.clean(keep_commits=1)
    # It stays when the commits leave: Hudi archives rollbacks by a count of their own.
    name_as_rolled_back(table, instant)
    table.archive(keep_commits=2)
    timeline = table.timeline()
    assert instant not in {one.time for one in timeline}
    assert "rollback" in {one.action for one in timeline}
    with open_table(table.location) as other:
        assert rows_of(other.read()) == rows
        other.clean(keep_commits=1)
        assert rows_of(other.read()) == rows
        assert other.verify_index(deep=True).agrees


@pytest.mark.parametrize("kind", STORED, ids=["6", "9"])
def test_clean_leaves_files_of_plans(kind: Kind, tmp_path: Path) -> None:
    table, instant = clustered(kind, tmp_path)
    rows = rows_of(table.read())
    folder = Path(table.location, ".hoodie", "timeline" if kind.version == 9 else "")
    [completed] = [file for file in folder.glob(f"{instant}*.replacecommit") if file.is_file()]
    content = completed.read_bytes()
    # Its writer is about to complete it.
    completed.unlink()
    name_as_rolled_back(table, instant)
    with open_table(table.location) as other:
        other.clean(keep_commits=1)
    completed.write_bytes(content)
    with open_table(table.location) as other:
        assert rows_of(other.read()) == rows
