"""The table's disk is full from one change of an operation on: the operation fails, and holds nobody up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from pathlib import Path
from typing import Final

import pytest

from rli import LeasePlace, Table, create_table, open_table
from rli.coordination.lease import LEASE
from rli.coordination.shared_records import shared_records
from rli.coordination.signs import WRITERS
from rli.settings import MOST_LEASE_SECONDS
from rli.table.table import opened_table
from tests.crash.writes import pointed
from tests.support.full_disk import SmallDisk, small_disk
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

_POINTS: Final = 1 if EVERY_POINT else 11
"""The disk is full from one of so many changes on."""


class FillFrom:
    """Fills the disk at the n-th point, counted from 1, and again at all later ones: deletions make room."""

    def __init__(self, disk: SmallDisk, number: int) -> None:
        self._disk, self._number = disk, number
        self.passed = 0

    def __call__(self, _point: str) -> None:
        self.passed += 1
        if self.passed >= self._number:
            self._disk.fill()


OPERATIONS: Final[dict[str, Callable[[Table], object]]] = {
    "archive": lambda table: table.archive(keep_commits=1),
    "clean": lambda table: table.clean(keep_commits=1),
    "upsert": lambda table: table.upsert(records(("a", "x", 9, 9.0), ("n", "y", 9, 9.0))),
}


@pytest.mark.parametrize(
    ("operation", "index"),
    in_ci(
        [("archive", "lmdb"), ("clean", "global-simple:"), ("upsert", "lmdb")],
        of=[*product(OPERATIONS, ("global-simple:", "lmdb"))],
    ),
)
def test_a_full_disk_keeps_no_lease(tmp_path: Path, operation: str, index: str) -> None:
    """A process that goes on living would hold the lease for as long as a lease may last."""
    with small_disk(tmp_path / "disk") as disk:
        # An index elsewhere: its own disk has space.
        url = f"lmdb://{tmp_path}/index" if index == "lmdb" else index
        with create_table(
            disk.folder / "t",
            record_key="id",
            partition_by="city",
            ordering="ts",
            index=url,
            lease_seconds=MOST_LEASE_SECONDS,
            lease=LeasePlace.TABLE,
        ) as table:
            table.upsert(records(("a", "x", 0, 0.0)))
            for number in count(1, _POINTS):
                for stamp in range(3):
                    table.upsert(records(("a", "x", 10 * number + stamp, 0.0)))
                fill = FillFrom(disk, number)
                before = table.read()
                try:
                    with pointed(open_table(table.location), fill) as full:
                        OPERATIONS[operation](full)
                except OSError:
                    assert fill.passed >= number
                disk.free()
                kept = shared_records(opened_table(table).definition, opened_table(table).index)
                assert kept.read_control(LEASE) is None
                assert [name for name, _ in kept.scan_control(WRITERS)] == []
                if operation != "upsert":
                    assert table.read() == before
                assert table.upsert(records((f"k{number}", "y", 1, 0.0))).inserted == 1
                check_stored(table)
                if fill.passed < number:
                    break
            assert number > _POINTS
