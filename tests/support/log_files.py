"""States of tables in which file groups have log files, as their names tell: nothing reads or writes such files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rli import Table
from rli.hudi.file_names import LogFileName
from rli.hudi.timeline.commit_metadata import AppendedTo, CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action
from rli.model import FileGroupId
from rli.table.table import opened_table
from rli.view.file_slices import DataFile, FileSlice
from rli.view.snapshot import Snapshot

DELTA: Final = "99990101000000000"
"""The instant of the deltacommit of ``append_log``."""

COMPLETED: Final = "99990101000000001"


@dataclass(frozen=True)
class Listed:
    """A listing from elsewhere than the table's folders."""

    slices: tuple[FileSlice, ...]

    def all_slices(self) -> list[FileSlice]:
        return [*self.slices]

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        return [found for found in self.slices if found.group.partition_path == partition_path]

    def requests_of_all(self) -> float:
        return 1.0


class Stated(Snapshot):
    """A state whose listing tells the live slices, log files included."""

    def live_slices(self, slices: Sequence[FileSlice]) -> dict[FileGroupId, FileSlice]:
        return {found.group: found for found in slices}


def log_name(group: FileGroupId, instant: str, version: int = 1) -> str:
    """The name of a log file of a file group."""
    return str(LogFileName(group.file_id, instant, version, "0-0-0"))


def log_stat(group: FileGroupId, name: str, size: int = 10) -> WriteStat:
    """What a commit says of a log file."""
    path = f"{group.partition_path}/{name}"
    return WriteStat(group.file_id, path, group.partition_path, None, 1, 0, 1, 0, size, size, AppendedTo("", (name,)))


def append_log(table: Table, partition_path: str, size: int = 10) -> WriteStat:
    """Complete a deltacommit, the table's last write, that names a log file; there is no such file.

    Args:
        table: the table.
        partition_path: of its only file group, which gets the log file.
        size: bytes of the log file.
    """
    before = opened_table(table).snapshot()
    group, layout = group_in(before, partition_path), before.timeline.layout
    # Table version 6 names the base file's instant.
    named = DELTA if layout.keeps_completion_times else before.slices[group].instant
    stat = log_stat(group, log_name(group, named), size)
    path = layout.completed_path(DELTA, Action.DELTA_COMMIT, COMPLETED)
    Path(table.location, path).write_bytes(layout.encode(CommitMetadata((stat,))))
    return stat


def with_slice(snapshot: Snapshot, changed: FileSlice) -> Snapshot:
    """The state with another slice of a file group."""
    others = (found for found in snapshot.slices.values() if found.group != changed.group)
    return Stated(snapshot.table, snapshot.timeline, Listed((*others, changed)))


def with_logs(snapshot: Snapshot, group: FileGroupId, *names: str) -> Snapshot:
    """The state with log files of a file group."""
    logs = tuple(DataFile(f"{group.partition_path}/{name}", 10) for name in names)
    return with_slice(snapshot, replace(snapshot.slices[group], logs=logs))


def group_in(snapshot: Snapshot, partition_path: str) -> FileGroupId:
    """The only file group of a partition."""
    (found,) = snapshot.slices.of_partitions([partition_path])
    return found.group
