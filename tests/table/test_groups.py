"""Methods of a table in groups, and the flat names that stay."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rli import (
    IndexOfTable,
    InvalidInputError,
    Maintenance,
    MetadataOfTable,
    SyncResult,
    Table,
    TableMaintenance,
    TableVersions,
    create_table,
)
from rli.cli.app import app
from tests.support.tables import records


def public_methods(group: type) -> list[Callable[..., Any]]:
    return [method for name, method in inspect.getmembers(group, inspect.isfunction) if not name.startswith("_")]


ALIASES: dict[str, Any] = {
    "cluster": TableMaintenance.cluster,
    "compact": TableMaintenance.compact,
    "schedule_compaction": TableMaintenance.schedule_compaction,
    "deduplicate": TableMaintenance.deduplicate,
    "set_lock": TableMaintenance.set_lock,
    "set_table_type": TableMaintenance.set_table_type,
    "set_log_inserts": TableMaintenance.set_log_inserts,
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

SERVICES: list[Callable[..., Any]] = [
    *(method for group in (TableMaintenance, TableVersions) for method in public_methods(group)),
    *(IndexOfTable.bootstrap, IndexOfTable.migrate, IndexOfTable.repair, IndexOfTable.sync),
    *(MetadataOfTable.compact, MetadataOfTable.disable, MetadataOfTable.enable),
    *(Table.create_index, Table.build_indexes),
]
COMMANDS = [
    *("archive", "clean", "cluster", "compact", "deduplicate", "maintenance", "tombstones", "table-type"),
    *("savepoint", "rollback", "restore"),
    *("index bootstrap", "index create", "index migrate", "index repair", "index run", "index sync"),
    *("metadata compact", "metadata disable", "metadata enable"),
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    created = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    created.upsert(records(("a", "x", 1, 1.0)))
    return created


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.__qualname__)
def test_a_service_has_a_timeout(service: Callable[..., Any]) -> None:
    timeout = inspect.signature(service).parameters["timeout"]
    assert (timeout.annotation, timeout.default) == ("float | None", None)


def test_their_commands_have_timeouts() -> None:
    root: Any = get_command(app)
    without = []
    for name in COMMANDS:
        command = root
        for part in name.split():
            command = command.commands[part]
        if not any("--timeout" in parameter.opts for parameter in command.params):
            without.append(name)
    assert without == []


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
