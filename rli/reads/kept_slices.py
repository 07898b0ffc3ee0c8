"""File slices that a process keeps in memory: look-ups of a few keys come again and again to the same partitions.

The timeline tells which slices of a partition are live: their files are there before the commit that shows them, and go only after a
commit, a rollback or a clean that is on the timeline. So what was listed under one timeline, and lacked no file, is what a listing would
show for as long as the timeline stays the same. A file that is lost meanwhile is missed when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from rli.byte_cache import ByteCache
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_MOST_BYTES: Final = 64 * 1024 * 1024
_MEMORY_OF_ENTRY: Final = 4_096
_MEMORY_OF_SLICE: Final = 1_024
_MEMORY_OF_INSTANT: Final = 256


@dataclass(frozen=True, slots=True)
class _KeptPartition:
    timeline: Timeline
    slices: Mapping[FileGroupId, FileSlice]

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        slices, instants = len(self.slices), len(self.timeline.instants)
        return _MEMORY_OF_ENTRY + slices * _MEMORY_OF_SLICE + instants * _MEMORY_OF_INSTANT


class KeptSlices:
    """The live slices of the partitions that were needed last, up to an amount of memory. Threads may share it.

    Args:
        most_bytes: of memory.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept = ByteCache[_KeptPartition](most_bytes, lambda kept: kept.memory)

    def recall(self, snapshot: Snapshot, partition_paths: Collection[str]) -> bool:
        """Give a state the slices of those of some partitions that are kept, so that it lists the others alone.

        Args:
            snapshot: the state.
            partition_paths: the partitions.

        Returns:
            Whether all of them are kept: then none of them lacked a file when it was listed.
        """
        found = 0
        for path in partition_paths:
            kept = self._kept.get(_name(snapshot, path))
            if kept is not None and kept.timeline == snapshot.timeline:
                snapshot.slices.take(path, kept.slices)
                found += 1
        return found == len(partition_paths)

    def keep(self, snapshot: Snapshot, partition_paths: Collection[str]) -> None:
        """Keep the slices of some partitions.

        Args:
            snapshot: a state that was that of the table before they were listed, and still was behind that.
            partition_paths: the partitions, which lacked no file.
        """
        for path in partition_paths:
            slices = {one.group: one for one in snapshot.slices.of_partitions([path])}
            self._kept.keep(_name(snapshot, path), _KeptPartition(snapshot.timeline, slices))


SLICES: Final = KeptSlices()
"""The slices that this process keeps."""


def _name(snapshot: Snapshot, partition_path: str) -> tuple[str, str]:
    return snapshot.table.storage.location, partition_path
