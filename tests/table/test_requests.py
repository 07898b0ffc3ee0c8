"""Folders of requests go with their process: removed when it ends, or by the next write when it dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import rli
from rli import LeaseLostError, LeasePlace
from rli.coordination.liveness import Holding
from rli.coordination.requests import RequestFolder, remove_abandoned_requests, request_folder
from rli.coordination.shared_records import SharedRecords, shared_records
from rli.coordination.signs import signs_of_requests
from rli.processes import ProcessId
from rli.table.table import opened_table
from rli.view import paths
from tests.support.children import was_killed
from tests.support.indexes import record_index
from tests.support.tables import assert_nothing_left_over, records

pytestmark = pytest.mark.parametrize("lease", list(LeasePlace))


def new_table(folder: Path, lease: LeasePlace) -> rli.Table:
    return rli.create_table(
        folder / "trips", record_key="id", partition_by="city", index=f"lmdb://{folder / 'index'}", lease=lease
    )


def records_of(table: rli.Table) -> SharedRecords:
    return shared_records(opened_table(table).definition, opened_table(table).index)


def write_request(table: rli.Table, folder: RequestFolder) -> str:
    path = f"{folder.path}/0.arrow"
    opened_table(table).definition.storage.write_bytes(path, b"rows")
    return path


def request_and_die(location: str) -> None:
    table = rli.open_table(location)
    with request_folder(opened_table(table).definition.storage, signs_of_requests(records_of(table))) as folder:
        write_request(table, folder)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.invariant("P19")
def test_next_write_removes_dead_request(tmp_path: Path, lease: LeasePlace) -> None:
    table = new_table(tmp_path, lease)
    table.close()
    assert was_killed(request_and_die, table.location)
    assert opened_table(table).definition.storage.list_folders(paths.REQUESTS)
    table.upsert(records(("a", "x", 1, 1.0)))
    assert_nothing_left_over(table)


def test_write_keeps_request_of_living_process(tmp_path: Path, lease: LeasePlace) -> None:
    table = new_table(tmp_path, lease)
    storage = opened_table(table).definition.storage
    with request_folder(storage, signs_of_requests(records_of(table))) as folder:
        path = write_request(table, folder)
        rli.open_table(table.location).upsert(records(("a", "x", 1, 1.0)))
        folder.require_kept()
        assert storage.read_bytes(path) == b"rows"
    assert_nothing_left_over(table)


@pytest.mark.invariant("P19")
def test_presumed_dead_process_is_told(tmp_path: Path, lease: LeasePlace) -> None:
    table = new_table(tmp_path, lease)
    storage, shared = opened_table(table).definition.storage, records_of(table)
    with request_folder(storage, signs_of_requests(shared)) as folder:
        path = write_request(table, folder)
        for name, holder in shared.scan_control("request/"):
            assert shared.compare_and_set(name, holder, None)
        remove_abandoned_requests(storage, signs_of_requests(shared))
        assert storage.read_bytes(path) is None
        with pytest.raises(LeaseLostError, match="removed its request"):
            folder.require_kept()
    assert_nothing_left_over(table)


def test_a_record_names_no_folder_elsewhere(tmp_path: Path, lease: LeasePlace) -> None:
    table = new_table(tmp_path, lease)
    storage, store = opened_table(table).definition.storage, record_index(table).store
    storage.make_folder(".hoodie/.rli/kept")
    lapsed = Holding("writer", ProcessId.current(), expires_at=0.0, seconds=30.0).to_json()
    assert store.compare_and_set("request/../kept", None, lapsed)
    remove_abandoned_requests(storage, signs_of_requests(store))
    assert storage.exists(".hoodie/.rli/kept")
