"""Is everything of a commit there that it refers to, as far as names, sizes and ends of files tell?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rli.errors import CorruptTableError
from rli.hudi.timeline.commit_metadata import COMMIT_MARK, WriteStat
from rli.hudi.timeline.instant import Instant
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.snapshot import Snapshot

_MAGIC: Final = b"PAR1"
"""Ends every Parquet file."""


def broken_part(snapshot: Snapshot, instant: Instant) -> str | None:
    """The first file that a completed write needs and that is missing or cut short; None if the write is whole.

    Args:
        snapshot: a state of the table that shows the write.
        instant: of the write; no clean has removed files of it.

    Raises:
        InstantNotFoundError: the write is not there any more.
    """
    try:
        commit = snapshot.commit(instant)
    except CorruptTableError:
        return snapshot.timeline.layout.path(instant.file_name)
    storage = snapshot.table.storage
    return next((stat.path for stat in commit.write_stats if not _is_whole(storage, stat)), None)


def require_last_files(snapshot: Snapshot, groups: Collection[FileGroupId] | None = None) -> None:
    """Pass a state of the table if the base files of its last commit are there.

    Without this check an older version would count in the place of a file that is gone.

    Args:
        snapshot: the state. No file of its last commit has been removed by a clean, or by what undoes the commit.
        groups: the file groups to look at; all of them by default.

    Raises:
        CorruptTableError: a base file is missing; names it. Commits of other engines are passed over.
    """
    latest = snapshot.timeline.latest_write
    if latest is None or COMMIT_MARK not in (commit := snapshot.commit(latest)).extra:
        return
    written = {FileGroupId(stat.partition_path, stat.file_id): stat.path for stat in commit.write_stats}
    asked = [group for group in written if (groups is None or group in groups) and group not in snapshot.replaced]
    held = snapshot.slices.of_groups(asked)
    for group in asked:
        if group not in held or held[group].instant < latest.time:
            raise CorruptTableError(
                f"a base file of the last commit is missing: file={written[group]} instant={latest.time}; restore it from a "
                "backup, or roll the commit back: rli rollback TABLE INSTANT. If the power went off, write to the table: "
                "the next write rolls a torn commit back"
            )


def _is_whole(storage: Storage, stat: WriteStat) -> bool:
    try:
        with storage.filesystem.open_input_file(storage.full_path(stat.path)) as file:
            if file.size() != stat.file_size or stat.file_size < len(_MAGIC):
                return False
            file.seek(stat.file_size - len(_MAGIC))
            return bool(file.read() == _MAGIC)
    except FileNotFoundError:
        return False
