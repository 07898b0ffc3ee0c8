"""Whether a past state of the table can still be told, or its files were cleaned or its commits archived."""

from __future__ import annotations

from typing import Final

from rli.errors import InstantNotFoundError
from rli.model import FileGroupId
from rli.table.snapshot import Snapshot

_UNNAMED: Final = ""
"""Stands for the version of a file group that was replaced, and none of whose files is left."""


def require_files_as_of(current: Snapshot, past: Snapshot) -> None:
    """Pass a past state whose files are all there, as far as the later commits of the timeline tell.

    Args:
        current: the table as it is now.
        past: the table as of an instant.

    Raises:
        InstantNotFoundError: files of that state were cleaned, of which one is named; or its commits were archived.
    """
    first, as_of = past.timeline.first, past.timeline.as_of
    is_older = first is not None and as_of is not None and as_of < first
    if is_older and all(as_of != saved.time for saved in current.timeline.savepoints) and past.table.has_archive():
        raise InstantNotFoundError(
            f"the commits of this time have left the active timeline: instant={as_of} first={first}; choose a later "
            "instant"
        )
    # Before the active timeline nobody can tell whether a file group was there already when it was replaced.
    unnamed = _UNNAMED if first is not None and as_of is not None and as_of >= first else None
    seen = frozenset(instant.time for instant in past.timeline.completed_writes)
    # Each file group that a later commit touched, with the version that the first of them found.
    found: dict[FileGroupId, str | None] = {}
    for instant in current.timeline.completed_writes:
        if instant.time in seen:
            continue
        commit = current.commit(instant)
        for stat in commit.write_stats:
            found.setdefault(FileGroupId(stat.partition_path, stat.file_id), stat.previous_instant)
        for partition_path, file_ids in commit.replaced_file_ids.items():
            for file_id in file_ids:
                group = FileGroupId(partition_path, file_id)
                held = past.slices.get(group)
                found.setdefault(group, held.instant if held else unnamed)
    for group, version in sorted(found.items()):
        was_there = version is not None and (version == _UNNAMED or past.timeline.is_visible(version))
        held = past.slices.get(group)
        if was_there and (held is None or held.instant != version):
            raise InstantNotFoundError(
                f"the files of this instant were cleaned: instant={past.timeline.as_of} "
                f"partition={group.partition_path} file_id={group.file_id}; choose a later instant"
            )
