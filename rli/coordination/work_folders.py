"""The work folders of writes, by which a write is found whatever else is left of it.

Each notes which index of the table the write goes by. A writer's record is where the writers of that index agree. After the
table was given another index, the next writer finds the folder and no record, and would take a living writer for dead.
"""

from __future__ import annotations

import posixpath

from rli.storage import Storage
from rli.view import paths


def writers_at_work(storage: Storage) -> tuple[str, ...]:
    """The writers that have a work folder, living and dead ones: all that may still publish are among them."""
    return tuple(posixpath.basename(folder) for folder in storage.list_folders(paths.WORK))


def note_beginning(storage: Storage, instant: str, generation: int) -> None:
    """Note the generation of the index that a write goes by. In an object store, this makes the work folder."""
    # It may be lost in a power cut: then the writer is dead.
    storage.unflushed().write_bytes(paths.begun(instant), str(generation).encode())


def began_with_former_index(storage: Storage, instant: str, generation: int) -> bool:
    """Whether a write goes by an index that the table had before the one of a generation; False if nobody knows."""
    noted = storage.read_bytes(paths.begun(instant))
    return noted is not None and noted.isdigit() and int(noted) < generation
