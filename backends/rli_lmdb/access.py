"""What this process may do with the files of an environment.

LMDB keeps its list of readers in the lock file, so a reader must write that file.
"""

from __future__ import annotations

import os
from typing import Final

from rli.errors import StoreReadOnlyError

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"


def may_write(folder: str, name: str) -> bool:
    """Whether a file can be opened for writing, or made where it is missing."""
    file = os.path.join(folder, name)
    return os.access(file if os.path.exists(file) else folder, os.W_OK, effective_ids=True)


def refusal_to_write(path: str) -> StoreReadOnlyError:
    """Why the environment in a folder cannot be written."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return StoreReadOnlyError(
            f"the index lies on read-only media: path={path}",
            remedy="look-ups and reads work there, writes where it can be written",
        )
    return StoreReadOnlyError(
        f"this user may only read the index: path={path} uid={os.geteuid()}",
        remedy="look-ups and reads work; write as a user who may write its files",
    )


def identity_of(path: str) -> tuple[int, int] | None:
    """Device and inode of the data file in a folder, None where there is none."""
    try:
        status = os.stat(os.path.join(path, DATA_FILE))
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
