"""Methods of a table in groups, and the flat names that stay."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from rli import (
    IndexOfTable,
    InvalidInputError,
    Maintenance,
    SyncResult,
    Table,
    TableMaintenance,
    TableVersions,
    create_table,
)
from tests.support.tables import records

ALIASES: dict[str, Any] = {
    "cluster": TableMaintenance.cluster,
    "clean": TableMaintenance.clean,
    "archive": TableMaintenance.archive,
    "set_maintenance": TableMaintenance.set,
    "set_tombstones": TableMaintenance.set_tombstones,
    "rollback": TableVersions.rollback,
    "savepoint": TableVersions.savepoint,
    "delete_savepoint": TableVersions.delete_savepoint,
    "restore": TableVersions.restore,
    "bootstrap_index": IndexOfTable.bootstrap,
    "migrate_index": IndexOfTable.migrate,
    "sync_index": IndexOfTable.sync,
    "verify_index": IndexOfTable.verify,
    "repair_index": IndexOfTable.repair,
    "relocate": IndexOfTable.relocate,
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    created = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    created.upsert(records(("a", "x", 1, 1.0)))
    return created


@pytest.mark.parametrize("name", ALIASES)
def test_a_flat_name_takes_the_same(name: str) -> None:
    flat, grouped = inspect.signature(getattr(Table, name)), inspect.signature(ALIASES[name])
    assert [(one.name, one.kind, one.annotation) for one in flat.parameters.values()] == [
        (one.name, one.kind, one.annotation) for one in grouped.parameters.values()
    ]
    assert [one.default for one in flat.parameters.values() if one.name != "on_step"] == [
        one.default for one in grouped.parameters.values() if one.name != "on_step"
    ]
    assert flat.return_annotation == grouped.return_annotation


def test_the_groups_work_on_the_table(table: Table) -> None:
    saved = table.versions.savepoint()
    table.upsert(records(("b", "x", 2, 2.0)))
    assert table.index.verify().agrees
    assert table.index.sync() == SyncResult((), table.index.stats().applied_sequence)
    table.maintenance.set(Maintenance.off(), timeout=1)
    assert table.settings.maintenance.is_off
    assert table.versions.restore(saved).restored_to == saved
    assert (table.index.url, table.index.scope) == (table.settings.index_url, "global")


def test_every_group_checks_timeout(table: Table) -> None:
    for call in (
        lambda: table.maintenance.set_tombstones("1d", timeout=-1),
        lambda: table.versions.savepoint(timeout=-1),
        lambda: table.index.repair(timeout=-1),
    ):
        with pytest.raises(InvalidInputError, match="timeout must be 0 or more"):
            call()
