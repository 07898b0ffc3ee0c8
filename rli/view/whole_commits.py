"""Is everything of a commit there that it refers to, as far as names, sizes and ends of files tell?"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, Final

from rli.errors import CorruptTableError
from rli.hudi.file_names import is_log_file
from rli.hudi.timeline.instant import Instant
from rli.storage import Storage
from rli.view.snapshot import Snapshot

_PARQUET: Final = b"PAR1"
"""Ends every Parquet file."""

_BLOCK: Final = b"#HUDI#"
"""Begins every block of a log file. The block's last eight bytes tell how far it begins before them."""
_POINTER: Final = struct.Struct(">q")


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
    needed: dict[str, int | None] = {stat.path: stat.file_size for stat in change.stats}
    needed |= dict.fromkeys(change.deleted_keys)
    return next((path for path, size in needed.items() if not _is_whole(storage, path, size)), None)


def _is_whole(storage: Storage, path: str, size: int | None) -> bool:
    """Whether a Parquet file or a log file has its end; None for a size that is not known."""
    ends = _ends_with_block if is_log_file(path) else _ends_as_parquet
    try:
        with storage.filesystem.open_input_file(storage.full_path(path)) as file:
            return size in {None, file.size()} and ends(file)
    except FileNotFoundError:
        return False


def _ends_as_parquet(file: BinaryIO) -> bool:
    return _read(file, file.seek(0, os.SEEK_END) - len(_PARQUET), len(_PARQUET)) == _PARQUET


def _ends_with_block(file: BinaryIO) -> bool:
    last = file.seek(0, os.SEEK_END) - _POINTER.size
    pointer = _read(file, last, _POINTER.size)
    return bool(pointer) and _read(file, last - _POINTER.unpack(pointer)[0], len(_BLOCK)) == _BLOCK


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    """Bytes of a file; none before its begin or behind its end."""
    if start < 0:
        return b""
    file.seek(start)
    found = file.read(size)
    return found if len(found) == size else b""
