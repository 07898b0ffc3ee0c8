"""Is each file there that the commits of the active timeline have written last?

Where the newest file of a file group is lost, the version before it would count in its place, and the next merge would make
the loss permanent. Every claim that a file is lost is made here, and made only if a second look says the same: others may
have undone the commit, or removed what it replaced, while a reader listed the files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.file_names import BaseFileName, LogFileName
from rli.hudi.timeline.instant import Instant
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice, is_behind
from rli.view.kept_instants import broken_saved_commit
from rli.view.slice_sums import SliceSum, SliceSums, WrittenAt, sums_by_partition
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file of the newest slice of a file group, which is not there.

    Attributes:
        group: the file group.
        instant: of the commit that wrote the file.
        path: relative to the table.
        newest_base: of a base file, its instant. A log file belongs to the newest base file up to this instant.
        is_log: whether it is a log file.
    """

    group: FileGroupId
    instant: str
    path: str
    newest_base: str
    is_log: bool

    @property
    def part(self) -> str:
        """As ``FileSlice.parts`` has it."""
        return posixpath.basename(self.path) if self.is_log else self.newest_base


LostFiles = Mapping[FileGroupId, tuple[LostFile, ...]]
"""File group → its lost files, the base file first."""


def require_files(
    snapshot: Snapshot,
    groups: Collection[FileGroupId] | None = None,
    partition_paths: Collection[str] | None = None,
) -> bool:
    """Pass a state of the table if no file of it is lost. No commit is read but the last one, unless a file seems to be lost.

    Where another engine made the last commit, or an earlier version of rli, only the files of the last commit are checked,
    if rli made it.

    Args:
        snapshot: the state.
        groups: the file groups that matter; by default all.
        partition_paths: the partitions that matter; by default those of the file groups, or all.

    Returns:
        Whether commits tell that no file of these partitions is lost. They do not if another engine made the last commit, or an earlier
        version of rli, nor of partitions that no commit of the active timeline has written.

    Raises:
        CorruptTableError: a file is lost; names it.
        InstantNotFoundError: the table has changed meanwhile, and shows no loss any more; look again.
    """
    if groups is not None:
        partition_paths = {group.partition_path for group in groups}
    sums = recorded_sums(snapshot)
    if sums is None:
        _claim(snapshot, _lost_of_last(snapshot, partition_paths), groups)
        return False
    expected = {} if partition_paths is None else _expected(snapshot, sums, partition_paths)
    is_whole = _agrees(snapshot, sums) if partition_paths is None else _agree(snapshot, expected)
    if not is_whole:
        _claim(snapshot, lost_files(snapshot, partition_paths), groups)
    return is_whole and None not in expected.values()


def require_all_files(snapshot: Snapshot) -> None:
    """Pass a state of the table if no file is lost that a commit of the active timeline has written, of any engine.

    It reads every commit. Raises as ``require_files``.
    """
    _claim(snapshot, lost_files(snapshot), None)


def lost_files(
    snapshot: Snapshot, partition_paths: Collection[str] | None = None
) -> dict[FileGroupId, tuple[LostFile, ...]]:
    """The lost files of some partitions, by default of all, told by every commit of the active timeline.

    Raises:
        CorruptTableError: a commit cannot be read.
        InstantNotFoundError: a commit was undone or archived meanwhile.
    """
    first, latest = snapshot.timeline.first, snapshot.timeline.latest_write
    newest: dict[FileGroupId, LostFile] = {}
    logs: list[LostFile] = []
    for instant in snapshot.timeline.completed_writes:
        # What a savepoint keeps behind commits that were archived may have been replaced by those.
        if first is None or instant.time >= first or instant is latest:
            change = snapshot.change(instant)
            for file in _written(change, partition_paths):
                newest[file.group] = max(newest.get(file.group, file), file, key=_instant_of)
            logs += _appended(instant, change, partition_paths)
    return _missing(snapshot, newest, logs)


def still_lost(snapshot: Snapshot, lost: LostFiles) -> dict[FileGroupId, tuple[LostFile, ...]]:
    """Those of some lost files of a state that a second look finds lost, too; none where others have changed the table.

    An undoing hides a commit before it removes the files. So a file that was not there when it was listed, and whose commit
    a later timeline shows, is lost.
    """
    again = Snapshot.now(snapshot.table)
    if snapshot.timeline.as_of is not None:
        again = again.as_of(snapshot.timeline.as_of)
    try:
        found = lost_files(again, {group.partition_path for group in lost})
    except InstantNotFoundError:
        return {}
    both = {group: tuple(file for file in files if file in found.get(group, ())) for group, files in lost.items()}
    return {group: files for group, files in both.items() if files}


def recorded_sums(snapshot: Snapshot) -> SliceSums | None:
    """The sums that the commit published last has kept; None if they do not describe the state.

    Args:
        snapshot: the state.
    """
    writes = {write.time: write for write in snapshot.timeline.completed_writes}
    found: dict[str, SliceSums] = {}
    asked = [snapshot.timeline.latest_write]
    while asked:
        instant = asked.pop()
        sums = None if instant is None else _sums_of(snapshot, instant)
        if sums is None:
            return None
        found[sums.instant] = sums
        # Of two overlapping writes, the one with the smaller instant may have been published last.
        asked += [writes[time] for time in sums.pending if time in writes and time not in found]
    # By the number, which is given out under the lease. Instants follow the beginnings of writes, not their
    # publications.
    last = max(found.values(), key=lambda sums: sums.number)
    # A commit that was undone since, or that a view of the past does not show, is counted in.
    return last if all(time in writes for time in last.later) else None


def sums_after(
    snapshot: Snapshot,
    timeline: Timeline,
    instant: str,
    change: TableChange,
) -> SliceSums:
    """The sums that a commit keeps.

    Args:
        snapshot: the state before the commit; the caller holds the lease.
        timeline: as it is now.
        instant: of the commit.
        change: of the commit.

    Raises:
        CorruptTableError: a file of these file groups is lost.
        InstantNotFoundError: as ``require_files``.
    """
    groups = change.groups
    partition_paths = {group.partition_path for group in groups}
    sums = recorded_sums(snapshot)
    # The sums begin again here, on a table whose last commit has none. All commits are read once, so that no loss is
    # taken into the new sums unnoticed.
    lost: LostFiles = lost_files(snapshot) if sums is None else {}
    sums = sums or _first_sums(snapshot, lost)
    expected = _expected(snapshot, sums, partition_paths)
    if not lost and not _agree(snapshot, expected):
        lost = lost_files(snapshot, partition_paths)
    _claim(snapshot, lost, groups)
    ended = (_ended(one, instant, timeline) for one in snapshot.slices.of_groups(change.superseded).values())
    gone = _sums_of_slices(ended, {})
    came = sums_by_partition(
        [
            *((stat.group, instant) for stat in change.written),
            *((stat.group, posixpath.basename(stat.path)) for stat in change.appended),
        ]
    )
    before = _sums_of_slices(snapshot.slices.of_partitions(partition_paths), lost)
    after = {path: _of(before, path) - _of(gone, path) + _of(came, path) for path in partition_paths}
    # What no lost file explains is put right, or each reader would look for its cause again.
    changes = (after[path] - (_of(before, path) if told is None else told) for path, told in expected.items())
    return replace(
        sums.after(instant, sum(changes, sums.whole), after),
        pending=tuple(i.time for i in timeline.pending if i.is_write and i.time != instant),
        later=tuple(write.time for write in timeline.completed_writes if write.time > instant),
    )


def _ended(file_slice: FileSlice, instant: str, timeline: Timeline) -> FileSlice:
    """What ends of a slice with the next base file of its file group: log files of later commits stay, behind a compaction."""
    return replace(file_slice, logs=tuple(log for log in file_slice.logs if not is_behind(log, instant, timeline)))


def _of(sums: Mapping[str, SliceSum], partition_path: str) -> SliceSum:
    return sums.get(partition_path, SliceSum())


def _first_sums(snapshot: Snapshot, lost: LostFiles) -> SliceSums:
    """The sums of a state whose last commit keeps none."""
    by_partition = _sums_of_slices(snapshot.slices.values(), lost)
    partitions = {path: (found, WrittenAt(0, "")) for path, found in by_partition.items()}
    return SliceSums("", 0, sum(by_partition.values(), SliceSum()), partitions)


def _sums_of_slices(slices: Iterable[FileSlice], lost: LostFiles) -> dict[str, SliceSum]:
    """The sums by partition as they would be if no file were lost."""
    parts = {file_slice.group: file_slice.parts for file_slice in slices}
    for group, files in lost.items():
        # Behind a lost base file is an older version of the file group, or none.
        held = parts.get(group, ()) if files[0].is_log else ()
        parts[group] = (*held, *(file.part for file in files))
    return sums_by_partition((group, part) for group, of_one in parts.items() for part in of_one)


def _agrees(snapshot: Snapshot, sums: SliceSums) -> bool:
    """Whether all slices are those that commits have recorded."""
    return sums.whole == SliceSum.of((held.group, part) for held in snapshot.slices.values() for part in held.parts)


def _agree(snapshot: Snapshot, expected: Mapping[str, SliceSum | None]) -> bool:
    """Whether the slices of some partitions are those that were recorded, as far as any were."""
    found = _sums_of_slices(snapshot.slices.of_partitions(expected.keys()), {})
    return all(told is None or told == _of(found, path) for path, told in expected.items())


def _expected(snapshot: Snapshot, sums: SliceSums, partition_paths: Collection[str]) -> dict[str, SliceSum | None]:
    """The recorded sum of each of some partitions; None where no commit of the active timeline wrote into it."""
    writes = {write.time: write for write in snapshot.timeline.completed_writes}
    found: dict[str, SliceSum | None] = {}
    known: dict[str, SliceSums | None] = {sums.instant: sums}
    for path in partition_paths:
        last: SliceSums | None = sums
        while last is not None and path not in last.partitions and last.others is not None:
            time = last.others.instant
            if time not in known:
                known[time] = _sums_of(snapshot, writes[time]) if time in writes else None
            last = known[time]
        found[path] = None if last is None else last.partitions.get(path, (SliceSum(), None))[0]
    return found


def _sums_of(snapshot: Snapshot, instant: Instant) -> SliceSums | None:
    """The sums that a commit keeps; None if it keeps none, as those of other engines."""
    sums = snapshot.change(instant).slice_sums
    # Another engine may copy the extra metadata of an earlier commit.
    return None if sums is None or sums.instant != instant.time else sums


def _lost_of_last(snapshot: Snapshot, partition_paths: Collection[str] | None) -> LostFiles:
    """The lost files of the last commit if rli made it."""
    change = snapshot.last_change
    if change is None or not change.is_native:
        return {}
    last = snapshot.timeline.latest_write
    logs = [] if last is None else [*_appended(last, change, partition_paths)]
    return _missing(snapshot, {file.group: file for file in _written(change, partition_paths)}, logs)


def _written(change: TableChange, partition_paths: Collection[str] | None) -> Iterator[LostFile]:
    """The base files of a commit in some partitions, each of which may be lost."""
    for stat in change.written:
        if partition_paths is None or stat.partition_path in partition_paths:
            name = BaseFileName.parse(posixpath.basename(stat.path))
            group = FileGroupId(stat.partition_path, name.file_id)
            yield LostFile(group, name.instant, stat.path, name.instant, is_log=False)


def _appended(instant: Instant, change: TableChange, partition_paths: Collection[str] | None) -> Iterator[LostFile]:
    """The log files of a commit in some partitions, each of which may be lost."""
    for stat in change.appended:
        if partition_paths is None or stat.partition_path in partition_paths:
            # Table version 6 keeps no completion times, and names the base file's instant in the log file's name.
            until = instant.completion_time or LogFileName.parse(posixpath.basename(stat.path)).instant
            yield LostFile(stat.group, instant.time, stat.path, until, is_log=True)


def _missing(
    snapshot: Snapshot, newest: Mapping[FileGroupId, LostFile], logs: Iterable[LostFile]
) -> dict[FileGroupId, tuple[LostFile, ...]]:
    """Those of some files that the live slices lack.

    Args:
        snapshot: the state.
        newest: the newest base files.
        logs: log files, also of older slices.
    """
    asked = {group: [file] for group, file in newest.items() if group not in snapshot.replaced}
    for file in logs:
        if file.group not in snapshot.replaced:
            asked.setdefault(file.group, []).append(file)
    held = snapshot.slices.of_groups(asked)
    lacking = {group: tuple(_lacking(held.get(group), files)) for group, files in asked.items()}
    return {group: files for group, files in lacking.items() if files}


def _lacking(held: FileSlice | None, files: Sequence[LostFile]) -> Iterator[LostFile]:
    """Those of some files, of which a base file is the first, that the live slice of their file group lacks."""
    base = "" if held is None or held.base is None else held.instant
    newest = max(base, "" if files[0].is_log else files[0].newest_base)
    for file in files:
        if file.is_log:
            # A newer base file has its records.
            is_missed = file.newest_base >= newest and (held is None or file.part not in held.parts)
        else:
            is_missed = base < file.newest_base
        if is_missed:
            yield file


def _claim(snapshot: Snapshot, lost: LostFiles, groups: Collection[FileGroupId] | None) -> None:
    """Raise ``CorruptTableError`` for the first of some lost files that matters, after a second look; see ``require_files``."""
    matters = {group: files for group, files in lost.items() if groups is None or group in groups}
    if not matters:
        return
    still = still_lost(snapshot, matters)
    first = min((file for files in (still or matters).values() for file in files), key=_path_of)
    if not still:
        raise InstantNotFoundError(
            f"the table was changed while its files were listed: file={first.path} instant={first.instant}",
            remedy="read again",
        )
    if any(saved.time == first.instant for saved in snapshot.timeline.savepoints):
        # No write rolls such a commit back (P49).
        raise broken_saved_commit(first.instant, first.path)
    last = snapshot.timeline.latest_write
    kind = "log" if first.is_log else "base"
    which = "the last commit" if last is not None and last.time == first.instant else "a commit"
    raise CorruptTableError(
        f"a {kind} file of {which} is missing: file={first.path} instant={first.instant}",
        remedy=(
            "restore it from a backup, or go back to before that commit: rli rollback TABLE INSTANT undoes the last "
            "one, rli restore TABLE INSTANT several. If the power went off, write to the table: the next write rolls a "
            "torn commit back"
        ),
    )


def _instant_of(file: LostFile) -> str:
    return file.instant


def _path_of(file: LostFile) -> str:
    return file.path
