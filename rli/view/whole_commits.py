"""Is everything of a commit there that it refers to, as far as names, sizes and ends of files tell?"""

from __future__ import annotations

from typing import Final

from rli.errors import CorruptTableError
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.hudi.timeline.instant import Instant
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


def _is_whole(storage: Storage, stat: WriteStat) -> bool:
    try:
        with storage.filesystem.open_input_file(storage.full_path(stat.path)) as file:
            if file.size() != stat.file_size or stat.file_size < len(_MAGIC):
                return False
            file.seek(stat.file_size - len(_MAGIC))
            return bool(file.read() == _MAGIC)
    except FileNotFoundError:
        return False
