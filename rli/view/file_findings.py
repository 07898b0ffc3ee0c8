"""What a look at the files of a table finds: are they those that its commits have written, and does every reader see them?"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from rli.findings import Finding, Verdict
from rli.hudi.avro_schema import from_avro
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.view import paths
from rli.view.file_slice_reader import FileSliceReader, only_base_file
from rli.view.file_slices import PARTITION_METADATA, FileSlice
from rli.view.lost_files import lost_files, still_lost
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange

_NAMED: Final = 5

_PLAIN_TYPES: Final = frozenset(
    [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()]
)
"""They are the same in the schema of a commit and in its files, of all engines."""

_METADATA_EXTENSIONS: Final = ("", ".parquet", ".orc")
"""Hudi may write the metadata of a partition in the format of its base files."""

Commits = Mapping[str, TableChange]
"""Instant → the change of the completed write."""


def commits_of(snapshot: Snapshot) -> Commits:
    """The completed writes of the active timeline; raises ``CorruptTableError`` for one that cannot be read."""
    return {instant.time: snapshot.change(instant) for instant in snapshot.timeline.completed_writes}


def file_findings(snapshot: Snapshot, commits: Commits) -> Iterator[Finding]:
    """What is wrong with the set of files, as far as names and sizes tell.

    Args:
        snapshot: the present state, whose files have been listed.
        commits: of the state.
    """
    yield from _lost(snapshot)
    yield from _unlike_commits(snapshot, commits)
    yield from _without_metadata(snapshot)
    yield from _of_no_commit(snapshot)
    yield from _without_journals(snapshot, commits)


def unlike_its_commit(reader: FileSliceReader, file_slice: FileSlice, commits: Commits) -> str | None:
    """How an opened base file differs from what its commit says of it; None if it does not.

    Args:
        reader: of the file slice.
        file_slice: the slice.
        commits: of the active timeline.
    """
    commit = commits.get(file_slice.instant)
    stat = None if commit is None else _stat_of(commit, file_slice)
    if commit is None or stat is None:
        return None
    if stat.writes != reader.rows:
        return f"a base file has another number of records than its commit wrote: file={stat.path} records={reader.rows} written={stat.writes}"
    if commit.avro_schema is None:
        return None
    schema, stored = from_avro(commit.avro_schema), reader.schema
    for field in schema:
        if field.name in stored.names and {field.type, stored.field(field.name).type} <= _PLAIN_TYPES:
            kind = stored.field(field.name).type
            if kind != field.type:
                return (
                    f"a column of a base file has another type than in its commit: file={stat.path} column={field.name} "
                    f"type={kind} committed={field.type}"
                )
    return None


def _lost(snapshot: Snapshot) -> Iterator[Finding]:
    lost = lost_files(snapshot)
    # Others may have undone a commit while its files were listed.
    if lost and (lost := still_lost(snapshot, lost)):
        files = sorted(file.path for of_group in lost.values() for file in of_group)
        yield _problem(
            f"files of completed commits are missing: count={len(files)} files={files[:_NAMED]}",
            "restore them from a backup, or go back to before the first of their commits: rli restore TABLE INSTANT",
        )


def _unlike_commits(snapshot: Snapshot, commits: Commits) -> Iterator[Finding]:
    """Live files whose size is not that which their commit says."""
    unlike: list[str] = []
    for file_slice in (one.without_logs() for one in snapshot.slices.values() if one.base is not None):
        commit = commits.get(file_slice.instant)
        stat = None if commit is None else _stat_of(commit, file_slice)
        if stat is not None and stat.file_size and stat.file_size != only_base_file(file_slice).size:
            unlike.append(stat.path)
    if unlike:
        yield _problem(
            f"base files have another size than their commits wrote: count={len(unlike)} files={sorted(unlike)[:_NAMED]}",
            "something else has changed them: restore them from a backup; rli index verify TABLE --deep tells what they hold",
        )


def _stat_of(commit: TableChange, file_slice: FileSlice) -> WriteStat | None:
    path = only_base_file(file_slice).path
    return next((stat for stat in commit.written if stat.path == path), None)


def _without_metadata(snapshot: Snapshot) -> Iterator[Finding]:
    """Partitions without the metadata file that Hudi's Spark reader looks for."""
    storage = snapshot.table.storage
    lacking = []
    for partition_path in sorted({group.partition_path for group in snapshot.slices}):
        names = (f"{PARTITION_METADATA}{extension}" for extension in _METADATA_EXTENSIONS)
        files = [storage.full_path(posixpath.join(partition_path, name)) for name in names]
        if not any(found.size for found in storage.filesystem.get_file_info(files)):
            lacking.append(partition_path)
    if lacking:
        yield _problem(
            f"partitions have no {PARTITION_METADATA}, so Hudi's readers pass over their records: count={len(lacking)} "
            f"partitions={lacking[:_NAMED]}",
            "write a record of each of these partitions: the write makes the file again",
        )


def _of_no_commit(snapshot: Snapshot) -> Iterator[Finding]:
    """Base files whose instant no timeline has had, as far as the active one tells."""
    if snapshot.table.has_archive():
        return
    stored = snapshot.slices.all_versions()
    # Loaded after the files were listed: writers name their instant before they write.
    timeline = snapshot.table.load_timeline()
    known = {instant.time for instant in timeline.instants} | timeline.rolled_back
    strange = sorted(file.path for found in stored if found.instant not in known for file in found.files)
    if strange:
        yield Finding(
            "base files",
            Verdict.WARNING,
            f"base files are of no commit of the timeline: count={len(strange)} files={strange[:_NAMED]}",
            "if a commit was removed from the timeline, restore it from a backup; otherwise move the files away",
        )


def _without_journals(snapshot: Snapshot, commits: Commits) -> Iterator[Finding]:
    """Commits of rli whose journals are gone, though those of an older commit are there, or those of the last one are gone."""
    storage = snapshot.table.storage
    kept = {posixpath.basename(folder) for folder in storage.list_folders(paths.JOURNAL)}
    own = sorted(time for time, commit in commits.items() if commit.is_native)
    oldest = min([*(time for time in own if time in kept), *own[-1:]], default="")
    # A commit that has just been undone has none.
    gone = [time for time in own if time >= oldest and time not in kept]
    if gone and not {instant.time for instant in snapshot.table.load_timeline().completed}.isdisjoint(gone):
        yield Finding(
            "journals",
            Verdict.WARNING,
            f"journals of commits are missing: count={len(gone)} instants={gone[:_NAMED]}",
            "nothing, while the index has applied all commits. An index that is behind, or restored from a backup, needs a "
            "bootstrap: rli index bootstrap TABLE",
        )


def _problem(detail: str, advice: str) -> Finding:
    return Finding("base files", Verdict.PROBLEM, detail, advice)
