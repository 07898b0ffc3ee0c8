"""Making commits survive a power cut whose writers did not wait for the disk (docs/protocol.md, P17)."""

from __future__ import annotations

import posixpath

from rli.view import paths
from rli.view.file_slices import PARTITION_METADATA
from rli.view.snapshot import Snapshot


def flush_commits(snapshot: Snapshot) -> None:
    """Wait until the timeline, and the files of the commits on it, are on the disk."""
    writes = snapshot.timeline.completed_writes
    changes = [snapshot.change(instant) for instant in writes]
    journals = (paths.journal_folder(instant.time) for instant in writes)
    kept = (file.path for folder in journals for file in snapshot.table.storage.list_files(folder))
    files = {path for change in changes for path in change.files}
    _sync(snapshot, {*files, *kept}, {path for change in changes for path in change.partition_paths})


def sync_table(snapshot: Snapshot) -> None:
    """Wait until the table is on the disk, as it is at present, and the folders that lead to it."""
    slices = snapshot.slices.values()
    partitions = {file_slice.group.partition_path for file_slice in slices}
    _sync(snapshot, {file.path for file_slice in slices for file in file_slice.files}, partitions)
    snapshot.table.storage.flush_folders_above()


def _sync(snapshot: Snapshot, files: set[str], partitions: set[str]) -> None:
    storage, timeline = snapshot.table.storage, snapshot.timeline.layout.folder
    described = {file.path for folder in (".hoodie", timeline) for file in storage.list_files(folder)}
    partitions_metadata = {posixpath.join(partition, PARTITION_METADATA) for partition in partitions}
    everything = files | described | partitions_metadata
    storage.flush(everything, {posixpath.dirname(path) for path in everything})
