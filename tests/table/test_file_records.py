"""Shared records in files: a compare-and-set, whatever processes do at once and however long one is paused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rli.coordination.file_records import FileRecords
from rli.storage import Storage
from tests.support.children import start_child
from tests.support.faults import PointedStorage

INCREMENTS = 40


@pytest.fixture
def records(tmp_path: Path) -> FileRecords:
    return FileRecords(Storage(str(tmp_path)))


def files(folder: Path) -> list[str]:
    root = folder / ".hoodie/.rli/records"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("stray", ["writer/notes.txt", "writer/README", "lease.bak", ".DS_Store", "writer/.a.1.tmp"])
def test_stray_files_are_no_records(records: FileRecords, tmp_path: Path, stray: str) -> None:
    assert records.compare_and_set("writer/a", None, b"one")
    assert records.compare_and_set("lease", None, b"two")
    Path(tmp_path, ".hoodie/.rli/records", stray).write_text("x")
    assert records.scan_control("writer/") == [("writer/a", b"one")]
    assert records.compare_and_set("writer/a", b"one", None)
    assert records.read_control("lease") == b"two"


def test_compare_and_set_requires_expected_value(records: FileRecords) -> None:
    assert records.read_control("lease") is None
    assert not records.compare_and_set("lease", b"one", b"two")
    assert records.compare_and_set("lease", None, b"one")
    assert not records.compare_and_set("lease", None, b"two")
    assert not records.compare_and_set("lease", b"on", b"two")
    assert records.read_control("lease") == b"one"
    assert records.compare_and_set("lease", b"one", b"two")
    assert records.read_control("lease") == b"two"
    assert not records.compare_and_set("lease", b"one", None)
    assert records.compare_and_set("lease", b"two", None)
    assert records.read_control("lease") is None
    assert records.compare_and_set("lease", None, None)
    assert records.compare_and_set("lease", None, b"three")
    assert records.read_control("lease") == b"three"


def test_records_do_not_touch_each_other(records: FileRecords) -> None:
    names = ["lease", "writer/2", "writer/1", "writer/10"]
    for name in names:
        assert records.compare_and_set(name, None, name.encode())
    assert records.scan_control("writer/") == [(name, name.encode()) for name in ("writer/1", "writer/10", "writer/2")]
    assert records.compare_and_set("writer/1", b"writer/1", None)
    assert [name for name, _ in records.scan_control("writer/")] == ["writer/10", "writer/2"]
    assert records.read_control("lease") == b"lease"


def test_removed_records_leave_only_lease_file(records: FileRecords, tmp_path: Path) -> None:
    """One empty file for the lease, so that its versions go on; nothing of any writer."""
    for name in ("lease", "writer/1"):
        for number in range(5):
            assert records.compare_and_set(name, b"%d" % number if number else None, b"%d" % (number + 1))
        assert records.compare_and_set(name, b"5", None)
    assert files(tmp_path) == ["lease.6"]


def replaced(records: FileRecords) -> bytes | None:
    assert records.compare_and_set("lease", b"seen", b"theirs")
    return b"theirs"


def replaced_often(records: FileRecords) -> bytes | None:
    for number in range(4):
        assert records.compare_and_set("lease", records.read_control("lease"), b"%d" % number)
    return b"3"


def removed(records: FileRecords) -> bytes | None:
    assert records.compare_and_set("lease", b"seen", None)
    return None


def removed_and_made_again(records: FileRecords) -> bytes | None:
    assert records.compare_and_set("lease", b"seen", None)
    assert records.compare_and_set("lease", None, b"theirs")
    return b"theirs"


def removed_and_made_again_as_it_was(records: FileRecords) -> bytes | None:
    assert records.compare_and_set("lease", b"seen", None)
    assert records.compare_and_set("lease", None, b"seen")
    return b"seen"


@pytest.mark.invariant("P15")
@pytest.mark.parametrize("value", [b"late", None])
@pytest.mark.parametrize(
    "meanwhile", [replaced, replaced_often, removed, removed_and_made_again, removed_and_made_again_as_it_was]
)
def test_paused_replacement_comes_too_late(
    records: FileRecords, tmp_path: Path, meanwhile: Callable[[FileRecords], bytes | None], value: bytes | None
) -> None:
    """The versions that it knows of are deleted by then, and the one that it wants to make may be, too."""
    expected: list[bytes | None] = []

    def at_point(point: str) -> None:
        if point.startswith("before create"):
            expected.append(meanwhile(records))

    assert records.compare_and_set("lease", None, b"seen")
    paused = FileRecords(PointedStorage(str(tmp_path), at_point=at_point))
    assert not paused.compare_and_set("lease", b"seen", value)
    assert [records.read_control("lease")] == expected
    assert records.compare_and_set("lease", expected[0], b"next")
    assert records.read_control("lease") == b"next"
    assert len(files(tmp_path)) == 1


def test_a_record_outlasts_its_temporary_file(records: FileRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease would be held by a process that does not know so."""
    unlink = os.unlink

    def failing(path: str) -> None:
        if path.endswith(".tmp"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", failing)
    assert records.compare_and_set("lease", None, b"held")
    assert records.compare_and_set("lease", b"held", None)
    assert records.read_control("lease") is None


class FullDisk(PointedStorage):
    """A storage whose disk has no space for another file."""

    def create(self, path: str, content: bytes) -> bool:
        self.at_point(f"before create {path}")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{path}, {len(content)} bytes")


@pytest.mark.invariant("P15")
@pytest.mark.parametrize("name", ["lease", "writer/1"])
def test_a_full_disk_lets_records_go(records: FileRecords, tmp_path: Path, name: str) -> None:
    assert records.compare_and_set(name, None, b"held")
    full = FileRecords(FullDisk(str(tmp_path)))
    with pytest.raises(OSError, match="No space"):
        full.compare_and_set(name, b"held", b"renewed")
    assert not full.compare_and_set(name, b"other", None)
    assert records.read_control(name) == b"held"
    assert full.compare_and_set(name, b"held", None)
    assert [reading.read_control(name) for reading in (full, records)] == [None, None]
    assert full.compare_and_set(name, None, None)
    with pytest.raises(OSError, match="No space"):
        full.compare_and_set(name, None, b"again")
    assert records.compare_and_set(name, None, b"next")
    assert records.read_control(name) == b"next"
    assert len(files(tmp_path)) == 1


@pytest.mark.invariant("P15")
@pytest.mark.parametrize("point", ["before create", "before empty", "after empty"])
@pytest.mark.parametrize(
    "meanwhile", [replaced, replaced_often, removed, removed_and_made_again, removed_and_made_again_as_it_was]
)
def test_full_disk_release_tolerates_rivals(
    records: FileRecords, tmp_path: Path, meanwhile: Callable[[FileRecords], bytes | None], point: str
) -> None:
    """Whatever they hold by then is left alone."""
    expected: list[bytes | None] = []

    def at_point(reached: str) -> None:
        if reached.startswith(point):
            # They looked before the version was emptied, or find the record removed.
            if point == "after empty":
                assert records.compare_and_set("lease", None, b"seen")
            expected.append(meanwhile(records))

    assert records.compare_and_set("lease", None, b"seen")
    paused = FileRecords(FullDisk(str(tmp_path), at_point=at_point))
    assert not paused.compare_and_set("lease", b"seen", None)
    assert [records.read_control("lease")] == expected
    assert len(files(tmp_path)) == 1


@pytest.mark.invariant("P15")
@pytest.mark.parametrize("name", ["lease", "writer/1"])
def test_takers_of_an_emptied_version_hold(records: FileRecords, tmp_path: Path, name: str) -> None:
    """A process that read the content before it was emptied takes the record over afterwards, and so keeps it."""

    def die(point: str) -> None:
        if point.startswith("after empty"):
            raise KeyboardInterrupt

    def release(point: str) -> None:
        if point.startswith("before create"):
            with pytest.raises(KeyboardInterrupt):
                FileRecords(FullDisk(str(tmp_path), at_point=die)).compare_and_set(name, b"lapsed", None)

    class Keeping(PointedStorage):
        def delete_files(self, paths: Iterable[str]) -> None:
            """The emptied version stays beside the one of the taker."""

    assert records.compare_and_set(name, None, b"lapsed")
    taker = FileRecords(Keeping(str(tmp_path), at_point=release))
    assert taker.compare_and_set(name, b"lapsed", b"taken")
    assert records.compare_and_set("writer/2", None, b"other")
    assert records.compare_and_set("writer/2", b"other", None)
    assert records.read_control(name) == b"taken"


def test_replaced_version_is_read_again(records: FileRecords, tmp_path: Path) -> None:
    class Paused(Storage):
        def read_bytes(self, path: str) -> bytes | None:
            if records.read_control("lease") == b"one":
                assert records.compare_and_set("lease", b"one", b"two")
            return super().read_bytes(path)

    assert records.compare_and_set("lease", None, b"one")
    assert FileRecords(Paused(str(tmp_path))).read_control("lease") == b"two"


def count_up(folder: str, number: int) -> None:
    """A child's work: add one to the number in a file, so many times, each time as the holder of a record."""
    records = FileRecords(Storage(folder))
    counter = Path(folder, "counter")
    for _ in range(INCREMENTS):
        while not records.compare_and_set("lease", None, b"%d" % number):
            pass
        counter.write_text(str(int(counter.read_text()) + 1))
        # A process that takes it at once makes this one miss that it let go.
        records.compare_and_set("lease", b"%d" % number, None)


def test_single_process_holds_record(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    children = [start_child(count_up, str(tmp_path), number) for number in range(3)]
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert (tmp_path / "counter").read_text() == str(3 * INCREMENTS)
    assert len(files(tmp_path)) == 1


def test_leftovers_of_dead_remover_are_removed(records: FileRecords, tmp_path: Path) -> None:
    class Dying(Storage):
        def delete_files(self, paths: Iterable[str]) -> None:
            _ = paths
            raise KeyboardInterrupt

    assert records.compare_and_set("writer/1", None, b"one")
    with pytest.raises(KeyboardInterrupt):
        FileRecords(Dying(str(tmp_path))).compare_and_set("writer/1", b"one", None)
    assert records.scan_control("writer/") == []
    assert records.compare_and_set("writer/2", None, b"two")
    assert files(tmp_path) == ["writer/2.1"]


def test_creation_without_answer_counts(records: FileRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a network, a link that was made is asked for again, and is there."""
    link = os.link

    def link_twice(source: Any, target: Any) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert records.compare_and_set("lease", None, b"one")
    assert records.read_control("lease") == b"one"
    monkeypatch.undo()
    assert not Storage(str(tmp_path)).create(".hoodie/.rli/records/lease.1", b"two")


def test_versions_are_numbers(records: FileRecords) -> None:
    for number in count(1):
        assert records.compare_and_set("lease", b"%d" % (number - 1) if number > 1 else None, b"%d" % number)
        if number == 12:
            break
    assert records.read_control("lease") == b"12"
