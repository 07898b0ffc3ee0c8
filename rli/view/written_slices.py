"""What a write has written into file groups, read before it is published."""

from __future__ import annotations

from rli.hudi.timeline.commit_metadata import WriteStat
from rli.view import paths
from rli.view.file_slices import DataFile, FileSlice, SeenInstants


def written_file(instant: str, stat: WriteStat) -> DataFile:
    """A file of a write, where it is before it is in the table."""
    return DataFile(paths.unpublished_file(instant, stat.path), stat.file_size)


def written_slice(instant: str, stat: WriteStat) -> FileSlice:
    """The base file that a write has written, or its log file alone.

    Args:
        instant: of the write.
        stat: of the file.
    """
    file = written_file(instant, stat)
    if stat.appended_to is None:
        return FileSlice(stat.group, instant, file)
    return FileSlice(stat.group, instant, None, (file,), SeenInstants(frozenset([instant]), None, None, frozenset()))
