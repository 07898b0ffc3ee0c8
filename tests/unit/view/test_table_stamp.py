"""A stamp of a table changes with what a write was checked against, and with its own instant, and not with beginning writes of others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import Table, create_table
from rli.table.table import opened_table
from rli.view.table_stamp import TableStamp

pytestmark = pytest.mark.invariant("P55")

OWN = "20990101000000000"
OTHER = "20990101000000001"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    table = create_table(tmp_path_factory.mktemp("t"), record_key="id", lock="filesystem", metadata=["files"])
    table.upsert(pa.table({"id": ["a"]}))
    for state in ("commit.requested", "inflight"):
        Path(table.location, f".hoodie/{OWN}.{state}").touch()
    return table


def is_changed_by(table: Table, file: str, content: str = "1") -> bool:
    """Whether a file makes the stamp another one; then the file is removed."""
    definition, path = opened_table(table).definition, Path(table.location, ".hoodie", file)
    before = TableStamp.of(definition, OWN)
    path.write_text(content)
    is_changed = TableStamp.of(definition, OWN) != before
    path.unlink()
    assert TableStamp.of(definition, OWN) == before
    return is_changed


@pytest.mark.parametrize(
    "ending",
    [
        *("commit", "replacecommit", "replacecommit.requested", "clustering.inflight", "compaction.requested"),
        *("logcompaction.requested", "indexing.requested", "rollback.requested", "restore.inflight", "clean.requested"),
        "savepoint",
    ],
)
def test_changes_and_plans_change_it(table: Table, ending: str) -> None:
    assert is_changed_by(table, f"{OTHER}.{ending}")


@pytest.mark.parametrize("ending", ["commit.requested", "inflight", "deltacommit.requested", "deltacommit.inflight"])
def test_beginning_writes_leave_it(table: Table, ending: str) -> None:
    assert not is_changed_by(table, f"{OTHER}.{ending}", "")
    assert not is_changed_by(table, "lock", "")


def test_metadata_table_counts(table: Table) -> None:
    assert is_changed_by(table, f"metadata/.hoodie/{OTHER}.deltacommit.requested")
    assert not is_changed_by(table, f"metadata/.hoodie/{OWN}.deltacommit")


def test_the_own_instant_counts(table: Table) -> None:
    definition = opened_table(table).definition
    before = TableStamp.of(definition, OWN)
    Path(table.location, f".hoodie/{OWN}.inflight").unlink()
    assert TableStamp.of(definition, OWN) != before
