"""A disk that is full when a test wants it to be: a file system in memory with a bounded number of files. Needs root on Linux."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_FILES: Final = 2000


@dataclass(frozen=True)
class SmallDisk:
    """A mounted disk.

    Attributes:
        folder: where it is mounted.
    """

    folder: Path

    def fill(self) -> None:
        """Leave no space for another file, and none for the content of one; may be called again."""
        filling = self.folder / "filling"
        filling.mkdir(exist_ok=True)
        number = len(os.listdir(filling))
        while True:
            try:
                (filling / str(number)).touch(exist_ok=False)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    return
                raise
            number += 1

    def free(self) -> None:
        """Make room again."""
        for name in os.listdir(self.folder / "filling"):
            (self.folder / "filling" / name).unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A disk that is mounted at a folder; skips the test where this process may not mount one."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"nr_inodes={_FILES}", "small", folder], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        # A test that failed may have files open.
        subprocess.run(["umount", "--lazy", folder], check=True)
