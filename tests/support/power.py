"""A disk whose power can be cut: a file system of its own in a file, mounted over a loop device.

What the kernel has not written to the device is not in the file. So a copy of the file, taken at any moment, is what the
disk would hold if the power went off at that moment. Needs root on Linux.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

import pytest

_BYTES: Final = 24 << 20
_MOST_CORRECTED: Final = 3
"""Exit statuses of ``e2fsck`` up to this one say that the file system is in order now."""


class Journal(Enum):
    """Whether the file system has a journal: how to make it, and how to mount it.

    Nothing may be written in the background while a test runs: the journal only when something is synced.
    """

    ON = ((), "loop,commit=600")
    """As disks are today: what a sync of one file makes durable, it makes durable of the folders too."""

    OFF = (("-O", "^has_journal"), "loop")
    """A sync makes durable what it names, and little else."""


@dataclass(frozen=True)
class Disk:
    """An ext4 file system in a file. Picklable.

    Attributes:
        image: the file.
        mounted_at: the folder where it is mounted, now and after each cut.
        journal: whether it has one.
    """

    image: Path
    mounted_at: Path
    journal: Journal

    @classmethod
    def made_in(cls, folder: Path, journal: Journal) -> Disk:
        """A new disk; skips the test where this process may not mount one."""
        if os.geteuid() != 0:
            pytest.skip("only root can mount a disk")
        disk = cls(folder / "disk.img", folder / "disk", journal)
        disk.mounted_at.mkdir()
        with disk.image.open("wb") as image:
            image.truncate(_BYTES)
        features, _ = journal.value
        _run("mkfs.ext4", "-q", "-F", *features, str(disk.image))
        return disk

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        """The folder of the disk, while it is in use."""
        _, options = self.journal.value
        _run("mount", "-o", options, str(self.image), str(self.mounted_at))
        try:
            yield self.mounted_at
        finally:
            # A test that failed may have files open.
            _run("umount", "--lazy", str(self.mounted_at))

    def cut(self, name: str) -> Disk:
        """The disk as it would be if the power went off now; it is mounted at the same place, later."""
        image = self.image.with_name(f"{name}.img")
        _run("cp", "--sparse=always", str(self.image), str(image))
        return replace(self, image=image)

    def repair(self) -> None:
        """Check the file system, as a machine does when it starts."""
        done = subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True, text=True, check=False)
        assert done.returncode <= _MOST_CORRECTED, done.stdout + done.stderr


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
