"""The power goes off at steps of a write: what was acknowledged is there, once, and the next write finds all or nothing.

Where table and index are on two disks, the other disk keeps everything: so the one with the table has only what was
synced there, and an index that is ahead of its table shows.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import pytest

import rli
from rli.table.table import opened_table
from rli.view import paths
from tests.crash.writes import (
    AFTER,
    BATCH,
    BEFORE,
    do_write,
    open_copy,
    place_index,
    pointed,
    read_rows,
    require_recovery,
)
from tests.support.children import start_child
from tests.support.power import Disk, Journal
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

_POINTS: Final = 1 if EVERY_POINT else 23
"""The power goes off at one of so many changes, beside those that matter most."""

_ACKNOWLEDGED: Final = "acknowledged"

PLACES: Final = ("beside the table", "elsewhere")
IN_TURN: Final = [(Journal.ON, PLACES[0]), (Journal.OFF, PLACES[1])]


@dataclass(frozen=True)
class Place:
    """Where a table and its index are.

    Attributes:
        disk: whose power goes off; the table is on it.
        index: folder of an index on another disk, None if it is beside the table.
    """

    disk: Disk
    index: Path | None

    def fill(self, template: Path) -> None:
        """Put a copy of the template there; the disk is mounted."""
        folder = self.disk.mounted_at
        shutil.copytree(template, folder, dirs_exist_ok=True)
        if self.index is not None:
            shutil.move(folder / "index", self.index)
            place_index(folder, f"lmdb://{self.index}")
        os.sync()

    def cut(self, number: int, point: str) -> None:
        """Keep the disk as it is at a point of a write, and the index that is elsewhere."""
        image = self.disk.cut(f"cut-{number:04d}").image
        image.with_suffix(".point").write_text(point)
        if self.index is not None:
            shutil.copytree(self.index, image.with_suffix(".index"))

    def cuts(self) -> list[tuple[Disk, str]]:
        """The disk at each of the points, and their names."""
        images = sorted(self.disk.image.parent.glob("cut-*.img"))
        return [
            (Disk(image, self.disk.mounted_at, self.disk.journal), image.with_suffix(".point").read_text())
            for image in images
        ]

    def go_back(self, disk: Disk) -> None:
        """Start the machine again after a cut: check the disk, and let the other index be as it was then."""
        disk.repair()
        if self.index is not None:
            shutil.rmtree(self.index)
            shutil.copytree(disk.image.with_suffix(".index"), self.index)


def let_machine_start_after(table: Path) -> None:
    """Make all files of a table older than the start of this machine."""
    for path in table.rglob("*"):
        os.utime(path, (0, 0))


class CutNowAndThen:
    """Cuts the power at some of the points of a write, and goes on with it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._passed = 0

    def __call__(self, point: str) -> None:
        self._passed += 1
        if self._passed % _POINTS == 0 or point.startswith(("after publish", "after delete .hoodie/2", _ACKNOWLEDGED)):
            self._place.cut(self._passed, point)


def write_and_cut(place: Place, write: str) -> None:
    """A child's work: a write during which the power goes off again and again."""
    cut = CutNowAndThen(place)
    table = pointed(open_copy(place.disk.mounted_at), cut)
    if write == "clean and archive":
        table.clean(keep_commits=1)
        table.archive(keep_commits=1)
    elif write == "savepoint":
        table.savepoint()
    else:
        do_write(table, write)
    cut(_ACKNOWLEDGED)


@pytest.mark.invariant("P17")
@pytest.mark.parametrize(
    ("write", "journal", "index", "kind"),
    [
        ("upsert", Journal.ON, "beside the table", "template"),
        ("upsert", Journal.OFF, "elsewhere", "template"),
        ("rollback", Journal.OFF, "elsewhere", "template"),
        ("restore", Journal.OFF, "elsewhere", "template"),
        ("cluster", Journal.OFF, "elsewhere", "template"),
        ("clean and archive", Journal.ON, "elsewhere", "template"),
        ("savepoint", Journal.OFF, "elsewhere", "template"),
        ("upsert", Journal.ON, "elsewhere", "template_leased"),
        ("upsert", Journal.OFF, "elsewhere", "template_with_logs"),
        *in_ci(
            (),
            of=[
                ("rollback", Journal.ON, "beside the table", "template_with_logs"),
                ("rollback", Journal.ON, "elsewhere", "template_leased"),
                ("upsert", Journal.ON, "elsewhere", "template"),
                ("upsert", Journal.OFF, "beside the table", "template"),
            ],
        ),
    ],
)
def test_the_power_goes_off(  # noqa: PLR0917
    tmp_path: Path, request: pytest.FixtureRequest, write: str, journal: Journal, index: str, kind: str
) -> None:
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index" if index == "elsewhere" else None)
    with place.disk.mounted():
        place.fill(request.getfixturevalue(kind))
        child = start_child(write_and_cut, place, write)
        child.join()
        assert child.exitcode == 0
    cuts = place.cuts()
    assert cuts[-1][1] == _ACKNOWLEDGED
    leaves_rows = write in {"cluster", "clean and archive", "savepoint"}
    for disk, point in cuts:
        place.go_back(disk)
        with disk.mounted() as folder:
            let_machine_start_after(folder / "table")
            took_effect = require_recovery(folder, "cluster" if leaves_rows else write, "upsert", drop=False)
            assert took_effect or point != _ACKNOWLEDGED
            if (write, point) == ("savepoint", _ACKNOWLEDGED):
                assert any(instant.action == "savepoint" for instant in open_copy(folder).timeline())


def create_and_cut(place: Place) -> None:
    """A child's work: each step of a new table is acknowledged before the power goes off."""
    location = place.disk.mounted_at / "new/folder/table"
    table = rli.create_table(location, record_key="id", partition_by="city", ordering="ts")
    place.cut(0, "")
    for number in range(1, 4):
        table.upsert(records(("a", "x", number, 0.0), (f"b{number}", f"y{number}", 1, 0.0)))
        place.cut(number, "")


@pytest.mark.parametrize("journal", Journal)
def test_acknowledged_writes_of_new_table_survive(tmp_path: Path, journal: Journal) -> None:
    place = Place(Disk.made_in(tmp_path, journal), None)
    with place.disk.mounted():
        child = start_child(create_and_cut, place)
        child.join()
        assert child.exitcode == 0
    for number, (disk, _) in enumerate(place.cuts()):
        place.go_back(disk)
        with disk.mounted() as folder, rli.open_table(folder / "new/folder/table") as table:
            assert len(table.timeline()) == number
            expected = {"a": number, **{f"b{upsert}": 1 for upsert in range(1, number + 1)}} if number else {}
            assert {row["id"]: row["ts"] for row in table.read().to_pylist()} == expected
            table.upsert(records(("a", "z", 9, 9.0)))
            check_stored(table)


def bootstrap_and_cut(place: Place, template: Path) -> None:
    """A child's work: nothing of the table was synced, as engines do that leave it to the system."""
    folder = place.disk.mounted_at
    shutil.copytree(template / "table", folder / "table", ignore=shutil.ignore_patterns(".rli"))
    url = f"lmdb://{place.index or folder / 'new/index'}"
    table = rli.open_table(folder / "table")
    table.bootstrap_index(url, shards=3)
    place.cut(0, "")


@pytest.mark.parametrize(("journal", "index"), in_ci(IN_TURN, of=[*product(Journal, PLACES)]))
def test_bootstrapped_entries_survive(tmp_path: Path, template: Path, journal: Journal, index: str) -> None:
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index" if index == "elsewhere" else None)
    with place.disk.mounted():
        child = start_child(bootstrap_and_cut, place, template)
        child.join()
        assert child.exitcode == 0
    ((disk, _),) = place.cuts()
    place.go_back(disk)
    with disk.mounted() as folder, rli.open_table(folder / "table") as table:
        assert read_rows(table) == BEFORE
        check_stored(table)
        table.upsert(records(*BATCH))
        assert read_rows(table) == AFTER["upsert"]
        check_stored(table)


def write_unsynced_and_cut(place: Place) -> None:
    """A child's work: commits of which the disk gets what it happens to get."""
    folder = place.disk.mounted_at
    url = None if place.index is None else f"lmdb://{place.index}"
    table = rli.create_table(
        folder / "table", record_key="id", partition_by="city", ordering="ts", durability="os", index=url
    )
    os.sync()
    for number in range(1, 5):
        table.upsert(records(("a", "xyzw"[number - 1], number, 0.0), (f"b{number}", "x", 1, 0.0)))
        place.cut(number, "")
        if number == 2:
            os.sync()


@pytest.mark.parametrize(("journal", "index"), in_ci(IN_TURN, of=[*product(Journal, PLACES)]))
def test_next_write_completes_unsynced_table(tmp_path: Path, journal: Journal, index: str) -> None:
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index" if index == "elsewhere" else None)
    with place.disk.mounted():
        child = start_child(write_unsynced_and_cut, place)
        child.join()
        assert child.exitcode == 0
    for number, (disk, _) in enumerate(place.cuts(), start=1):
        place.go_back(disk)
        with disk.mounted() as folder, rli.open_table(folder / "table") as table:
            let_machine_start_after(folder / "table")
            table.upsert(records(("new", "x", 1, 0.0)))
            found = {row["id"]: row["ts"] for row in table.read().to_pylist()}
            kept = found.get("a", 0)
            assert kept >= (2 if number > 2 else 0)
            assert found == {"new": 1, **({"a": kept} if kept else {}), **{f"b{i}": 1 for i in range(1, kept + 1)}}
            check_stored(table)


def write_beside_metadata_and_cut(place: Place, durability: str) -> None:
    """A child's work: a write on a table with a metadata table; the power goes off again and again."""
    table = rli.create_table(
        place.disk.mounted_at / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        durability=durability,
        index=f"lmdb://{place.index}",
        metadata=["files", "column_stats", "record_index"],
    )
    table.upsert(records(("a", "x", 1, 0.0), ("b", "y", 1, 0.0), ("c", "y", 1, 0.0)))
    os.sync()
    cut = CutNowAndThen(place)
    table = pointed(table, cut)
    table.upsert(records(("a", "x", 2, 0.0), ("b", "z", 2, 0.0), ("d", "y", 2, 0.0)))
    cut(_ACKNOWLEDGED)
    table.delete(["c"])
    cut(_ACKNOWLEDGED)


@pytest.mark.invariant("P52")
@pytest.mark.parametrize(("durability", "journal"), [("disk", Journal.OFF), ("os", Journal.ON)])
def test_power_cut_beside_metadata_table(tmp_path: Path, durability: str, journal: Journal) -> None:
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index")
    with place.disk.mounted():
        child = start_child(write_beside_metadata_and_cut, place, durability)
        child.join()
        assert child.exitcode == 0
    for disk, _ in place.cuts():
        place.go_back(disk)
        with disk.mounted() as folder, rli.open_table(folder / "table") as table:
            let_machine_start_after(folder / "table")
            table.upsert(records(("new", "x", 1, 0.0)))
            found = {row["id"]: row["ts"] for row in table.read().to_pylist()}
            assert found.pop("new") == 1
            assert found in ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1, "d": 2}, {"a": 2, "b": 2, "d": 2})
            check_stored(table)


def save_unsynced_and_cut(place: Place) -> None:
    """A child's work: a savepoint on a commit that nobody has synced, and a later commit."""
    url = f"lmdb://{place.index}"
    table = rli.create_table(
        place.disk.mounted_at / "table", record_key="id", partition_by="city", ordering="ts", durability="os", index=url
    )
    os.sync()
    table.upsert(records(("a", "x", 1, 0.0), ("b", "y", 1, 0.0), ("c", "y", 1, 0.0)))
    table.upsert(records(("a", "x", 2, 0.0)))
    table.delete(["c"], ordering=[7])
    saved = table.savepoint()
    place.cut(0, saved)
    table.upsert(records(("a", "x", 3, 0.0)))
    place.cut(1, saved)


@pytest.mark.invariant("P49")
@pytest.mark.parametrize("journal", Journal)
def test_saved_commit_of_unsynced_table_survives(tmp_path: Path, journal: Journal) -> None:
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index")
    with place.disk.mounted():
        child = start_child(save_unsynced_and_cut, place)
        child.join()
        assert child.exitcode == 0
    for disk, saved in place.cuts():
        place.go_back(disk)
        with disk.mounted() as folder, rli.open_table(folder / "table") as table:
            let_machine_start_after(folder / "table")
            table.upsert(records(("c", "y", 5, 0.0)))
            assert {row["id"]: row["ts"] for row in table.read(as_of=saved).to_pylist()} == {"a": 2, "b": 1}
            assert saved not in opened_table(table).snapshot().timeline.rolled_back
            check_stored(table)
            assert "c" not in {row["id"] for row in table.read().to_pylist()}


def write_often_and_cut(place: Place) -> None:
    """A child's work: upserts, some of which fail and remove what they promoted; the power goes off now and then."""
    now, number = 0, 0

    def at_point(_: str) -> None:
        nonlocal now
        now += 1
        if now % 35 == 0:
            place.cut(now, str(number))

    def fail(step: rli.Step) -> None:
        if step is rli.Step.PROMOTED:
            raise RuntimeError

    table = pointed(open_copy(place.disk.mounted_at), at_point)
    for upsert in range(1, 9):
        batch = records(("a", "x", 10 + upsert, 0.0), (f"b{upsert}", "y", 1, 0.0))
        with suppress(RuntimeError):
            table.upsert(batch, on_step=fail)
        table.upsert(batch)
        number = upsert


@pytest.mark.invariant("P17")
@pytest.mark.parametrize(
    ("journal", "kind"),
    in_ci(
        [(Journal.OFF, "template_leased"), (Journal.ON, "template")],
        of=[*product(Journal, ("template", "template_leased"))],
    ),
)
def test_resurrected_names_are_harmless(
    tmp_path: Path, request: pytest.FixtureRequest, journal: Journal, kind: str
) -> None:
    """Without a journal, the record of a lease may hold a commit, and a work folder be that of another write."""
    place = Place(Disk.made_in(tmp_path, journal), tmp_path / "index")
    with place.disk.mounted():
        place.fill(request.getfixturevalue(kind))
        child = start_child(write_often_and_cut, place)
        child.join()
        assert child.exitcode == 0
    cuts = place.cuts()
    assert len(cuts) > 8
    lost = 0
    for disk, acknowledged in cuts:
        place.go_back(disk)
        with disk.mounted() as folder:
            if journal is Journal.OFF and not (folder / "table" / paths.SETTINGS).exists():
                # Without a journal, the check of the file system may move folders away (docs/protocol.md, P17).
                lost += 1
                continue
            let_machine_start_after(folder / "table")
            with open_copy(folder) as table:
                assert table.upsert(records(("new", "x", 1, 0.0))).inserted == 1
                found = {row["id"]: row["ts"] for row in table.read().to_pylist()}
                written = sum(len(key) == 2 for key in found)
                # Behind its publication, the next one may be there as well.
                assert written in {int(acknowledged), int(acknowledged) + 1}
                assert not written or found["a"] == 10 + written
                assert table.verify_index().agrees
    assert lost < len(cuts) / 2
