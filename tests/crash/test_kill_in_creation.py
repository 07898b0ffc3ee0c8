"""A process that dies while it creates a table: the next creation succeeds, or the table is there."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import rli.index.record.opening
import rli.table.catalog
from rli import IndexNotFoundError, Table, TableExistsError, create_table, open_table
from rli.settings import TableSettings
from rli.storage import Storage
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.table.creation import claimed
from tests.support.children import was_killed
from tests.support.docker import free_ports
from tests.support.faults import KillAt, PointedStorage, PointedStore
from tests.support.stored_indexes import create_index, open_index
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash


def create(folder: Path, index: str) -> Table:
    url = f"lmdb://{folder}/{index}"
    return create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", index=url)


def create_and_die(folder: Path, point: int) -> None:
    """A child's work: a creation whose process dies at the n-th change."""
    kill = KillAt(point)

    def open_pointed(url: str, **options: Any) -> Store:
        return PointedStore(open_store(url, **options), kill)

    rli.table.catalog.Storage = partial(PointedStorage, at_point=kill)  # type: ignore[assignment,attr-defined]
    rli.index.record.opening.open_store = open_pointed  # type: ignore[attr-defined]
    create(folder, "first")


@pytest.mark.invariant("P11")
@pytest.mark.parametrize("index", ["first", "second"])
def test_kill_at_every_change_of_creation(tmp_path: Path, index: str) -> None:
    for point in count(1):
        folder = tmp_path / str(point)
        folder.mkdir()
        killed = was_killed(create_and_die, folder, point)
        try:
            table = create(folder, index)
        except TableExistsError:
            table = open_table(folder / "t")
        table.upsert(records(("a", "x", 1, 1.0)))
        check_stored(table)
        if table.settings.index_url.endswith("second"):
            # What a dead process began at another URL is left there, without a commit.
            with suppress(IndexNotFoundError), open_index(f"lmdb://{folder}/first") as left:
                assert not left.applied_sequence()
        table.drop_index()
        if not killed:
            break
    assert point > 8


def test_concurrent_creation_names_living_creator(tmp_path: Path) -> None:
    settings = TableSettings(table_id="1", index_url=f"lmdb://{tmp_path}/i")
    with (
        pytest.raises(TableExistsError, match=r"pid=.* wait for it\. If it no longer runs, "),
        claimed(Storage(str(tmp_path / "t")), settings, settings.index_url),
    ):
        create(tmp_path, "i")
    create(tmp_path, "i").drop_index()


def test_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    settings = TableSettings(table_id="1", index_url=f"lmdb://{tmp_path}/i")
    with pytest.raises(ZeroDivisionError), claimed(Storage(str(tmp_path / "t")), settings, settings.index_url):  # noqa: PT012
        create_index(settings.index_url, table_id="1").close()
        raise ZeroDivisionError
    create(tmp_path, "i").drop_index()


def test_creation_error_precedes_removal_error(tmp_path: Path) -> None:
    [port] = free_ports(1)
    settings = TableSettings(table_id="1", index_url=f"redis://localhost:{port}/0?timeout=0.1")
    with (
        pytest.raises(ZeroDivisionError) as raised,
        claimed(Storage(str(tmp_path / "t")), settings, settings.index_url),
    ):
        raise ZeroDivisionError
    assert "could not be removed" in raised.value.__notes__[0]
