"""Commits that another engine archives before an index could follow them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import IndexNotReadyError, Table, open_table
from tests.support.foreign_archives import archive_before
from tests.support.index_kinds import KINDS
from tests.support.tables import records, rows_of
from tests.support.unshared_commits import commit_to_bring

pytestmark = pytest.mark.invariant("P65")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = KINDS["record-partition"].create(tmp_path, maintenance=False)
    made.upsert(records(("a", "x", 1, 1.0)))
    return made


def commits(table: Table) -> str:
    """Some commits that change the same record; returns the instant of the last one."""
    instants = [table.upsert(records(("a", "x", number, 2.0))).instant for number in range(2, 6)]
    assert instants[-1] is not None
    return instants[-1]


def test_unknown_archived_commit_is_told(table: Table) -> None:
    bring = commit_to_bring(table, records(("new", "y", 2, 2.0)))
    last = commits(table)
    bring()
    archive_before(table.location, last)
    with open_table(table.location) as other:
        for verb in (
            other.sync_index,
            lambda: other.upsert(records(("new", "y", 9, 9.0))),
            lambda: other.lookup(["new"]),
        ):
            with pytest.raises(IndexNotReadyError, match="archived before the index could follow"):
                verb()
        other.bootstrap_index()
        other.upsert(records(("new", "y", 9, 9.0)))
        assert [row["id"] for row in rows_of(other)] == ["a", "new"]
        assert other.verify_index(deep=True).agrees


def test_slow_commit_may_become_oldest(table: Table) -> None:
    bring = commit_to_bring(table, records(("new", "y", 2, 2.0)))
    last = commits(table)
    archive_before(table.location, last)
    bring()
    with open_table(table.location) as other:
        assert other.upsert(records(("new", "y", 9, 9.0))).updated == 1
        assert other.verify_index(deep=True).agrees


def test_followed_commits_may_be_archived(table: Table) -> None:
    bring = commit_to_bring(table, records(("new", "y", 2, 2.0)))
    bring()
    last = commits(table)
    archive_before(table.location, last)
    for handle in (table, open_table(table.location)):
        handle.upsert(records(("new", "y", 9, 9.0)))
        assert handle.verify_index(deep=True).agrees
