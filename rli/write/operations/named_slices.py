"""The live file slices of file groups that an index names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rli.errors import CorruptIndexError
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.file_system_view import FileSystemView


def require_slice(slices: Mapping[FileGroupId, FileSlice], group: FileGroupId) -> FileSlice:
    """The live slice of a file group that the index names; raises ``CorruptIndexError`` if there is none."""
    try:
        return slices[group]
    except KeyError:
        raise CorruptIndexError(
            f"the index names a file group that is not in the table: partition={group.partition_path} "
            f"file_id={group.file_id}",
            remedy="verify the index, then repair or bootstrap it",
        ) from None


def require_slices(live: FileSystemView, groups: Collection[FileGroupId]) -> dict[FileGroupId, FileSlice]:
    """The live slices of file groups that the index names; raises ``CorruptIndexError`` if one has none."""
    found = live.of_groups(groups)
    return {group: require_slice(found, group) for group in groups}
