"""The log files that belong to the newest base file of a file group."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rli.hudi.file_names import LogFileName
from rli.hudi.timeline.archive_history import ArchivedInstant, History, file_name, to_parquet
from rli.hudi.timeline.instant import Instant, InstantState
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice, latest_slices

GROUP: Final = FileGroupId("", "f-0")


def time(second: int) -> str:
    return f"202501010000{second:02}000"


def completed(requested: int, done: int | None) -> Instant:
    completion = None if done is None else time(done)
    return Instant(time(requested), "deltacommit", InstantState.COMPLETED, completion, str(requested), 1)


def timeline(folder: Path, version: int, *instants: Instant) -> Timeline:
    layout = TimelineLayout.of(version)
    return Timeline(instants, layout, Storage(str(folder)), (), min(one.time for one in instants))


def base(second: int) -> FileSlice:
    return FileSlice(GROUP, time(second), DataFile(f"f-0_0-0-0_{time(second)}.parquet", 1))


def log(second: int, number: int = 1) -> FileSlice:
    return FileSlice(GROUP, time(second), None, (DataFile(str(LogFileName("f-0", time(second), number, "0-0-0")), 1),))


def log_times(slices: dict[FileGroupId, FileSlice]) -> list[str]:
    return [LogFileName.parse(file.path).instant for file in slices[GROUP].logs]


@pytest.mark.invariant("P56")
@pytest.mark.parametrize(("done", "is_over"), [(40, True), (30, True), (29, False)])
def test_archive_tells_when_logs_completed(tmp_path: Path, done: int, is_over: bool) -> None:  # noqa: FBT001
    """A deltacommit that a compaction overtook, and that was archived since, is behind the compaction's base file."""
    storage = Storage(str(tmp_path))
    now = timeline(tmp_path, 2, completed(30, 35), completed(50, 51))
    archived = [ArchivedInstant(time(20), time(done), "deltacommit", b"", None)]
    folder, name = now.layout.archive_folder, file_name(archived)
    storage.make_folder(folder)
    storage.create(f"{folder}/{name}", to_parquet(archived))
    History(storage, folder).add(name, 1, storage.create)
    found = latest_slices([base(10), base(30), log(20)], now, {})
    assert log_times(found) == ([time(20)] if is_over else [])


@pytest.mark.parametrize("version", [1, 2])
def test_pending_compactions_split_no_slice(tmp_path: Path, version: int) -> None:
    """Its base file does not count yet; the logs that have its instant count over the base file before."""
    done = None if version == 1 else 11
    now = timeline(tmp_path, version, completed(10, done), completed(20, done and 21), completed(40, done and 41))
    # Version 6 names logs after the compaction that is pending, later versions after their own commit.
    logs = [log(10), log(30)] if version == 1 else [log(20), log(40)]
    found = latest_slices([base(10), base(30), *reversed(logs)], now, {})
    assert found[GROUP].base == base(10).base
    assert log_times(found) == [one.instant for one in logs]
    assert (found[GROUP].seen is None) == (version == 2)


def test_pending_commits_add_no_logs(tmp_path: Path) -> None:
    now = timeline(tmp_path, 2, completed(10, 11))
    assert log_times(latest_slices([base(10), log(20)], now, {})) == []
    assert latest_slices([log(20)], now, {}) == {}
