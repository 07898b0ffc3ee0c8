"""The file slices of a table whose keys are in its index."""

from __future__ import annotations

from rli.index.record.entries.stored_entries import StoredEntries
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


def known_slices(snapshot: Snapshot, index: StoredEntries) -> list[FileSlice]:
    """The live file slices of the partitions that an index knows, ordered by file group."""
    slices = (file_slice for group, file_slice in snapshot.slices.items() if group.partition_path in index.partitions)
    return sorted(slices, key=lambda file_slice: file_slice.group)
