"""Is everything of a commit there that it refers to, as far as names, sizes and ends of files tell?"""

from __future__ import annotations

from typing import Final

from rli.errors import CorruptTableError
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
        change = snapshot.change(instant)
    except CorruptTableError:
        return snapshot.timeline.layout.path(instant.file_name)
    storage = snapshot.table.storage
    needed: dict[str, int | None] = {stat.path: stat.file_size for stat in change.written}
    needed |= dict.fromkeys(change.deleted_keys)
    return next((path for path, size in needed.items() if not _is_whole(storage, path, size)), None)


def _is_whole(storage: Storage, path: str, size: int | None) -> bool:
    """Whether a Parquet file has its end; None for a size that is not known."""
    try:
        with storage.filesystem.open_input_file(storage.full_path(path)) as file:
            found = file.size()
            if size not in {None, found} or found < len(_MAGIC):
                return False
            file.seek(found - len(_MAGIC))
            return bool(file.read() == _MAGIC)
    except FileNotFoundError:
        return False
