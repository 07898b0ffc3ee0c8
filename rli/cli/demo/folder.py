"""The folder of the demo's table: only an earlier demo table is replaced."""

from __future__ import annotations

import os
import shutil
from typing import Final

from rli.errors import TableExistsError

_MARK: Final = os.path.join(".hoodie", ".rli", "made-by-demo")


def make_room(folder: str) -> None:
    """Remove the table of an earlier demo.

    Raises:
        TableExistsError: the folder holds something that no demo made.
    """
    if not os.path.isdir(folder) or not os.listdir(folder):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise TableExistsError(f"the demo's folder is a file: path={folder}", remedy="give --dir")
        return
    if not os.path.exists(os.path.join(folder, _MARK)):
        raise TableExistsError(
            f"the folder has files that the demo did not write: path={folder}", remedy="name another folder with --dir"
        )
    shutil.rmtree(folder)


def mark_as_made_here(folder: str) -> None:
    """Let a later demo know that it may remove the folder."""
    with open(os.path.join(folder, _MARK), "w", encoding="utf-8"):
        pass
