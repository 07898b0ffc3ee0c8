"""Look-ups in the table's files show a whole state of the table, whatever others delete meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rli import Table, open_table
from rli.index.locators import FileLocator
from rli.index.table_files.state import TableState
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import whole_snapshot
from tests.support.index_kinds import KINDS, Kind
from tests.support.tables import records

KEYS = [f"k{number}" for number in range(40)]

of_files = pytest.mark.parametrize(
    "kind", [kind for name, kind in KINDS.items() if not name.startswith("record")], ids=lambda kind: kind.url
)


def _write(table: Table, ts: int) -> None:
    table.upsert(records(*((key, "x", ts, 0.0) for key in KEYS)))


def _write_and_clean(table: Table) -> None:
    for ts in (4, 5, 6):
        _write(table, ts)
    assert table.clean(keep_commits=1).files_deleted


def _roll_back(table: Table) -> None:
    table.rollback("last")


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Table, Callable[[Table], None]], None]:
    """Lets others work between the moment when a reader has its snapshot and that when it looks keys up."""
    locator = TableState.locator

    def arrange(table: Table, work: Callable[[Table], None]) -> None:
        waiting = [work]

        def others_work() -> None:
            if waiting:
                with open_table(table.location) as other:
                    waiting.pop()(other)

        def delayed_locator(state: TableState) -> FileLocator:
            others_work()
            return locator(state)

        def delayed_snapshot(table: TableDefinition) -> Snapshot:
            snapshot = whole_snapshot(table)
            others_work()
            return snapshot

        monkeypatch.setattr(TableState, "locator", delayed_locator)
        monkeypatch.setattr("rli.index.any_index.whole_snapshot", delayed_snapshot)

    return arrange


@pytest.mark.invariant("P16")
@of_files
@pytest.mark.parametrize("work", [_write_and_clean, _roll_back])
@pytest.mark.parametrize("use", ["get", "lookup", "verify"])
def test_readers_miss_no_key_or_file(
    kind: Kind,
    work: Callable[[Table], None],
    use: str,
    tmp_path: Path,
    beside: Callable[[Table, Callable[[Table], None]], None],
) -> None:
    table = kind.create(tmp_path, maintenance=False)
    for ts in (1, 2, 3):
        _write(table, ts)
    beside(table, work)
    with open_table(table.location) as reader:
        if use == "get":
            assert set(reader.get(KEYS)["ts"].to_pylist()) == {6 if work is _write_and_clean else 2}
        elif use == "lookup":
            assert reader.lookup(KEYS)["file_id"].null_count == 0
        else:
            assert reader.verify_index().records == len(KEYS)
