"""Where the data of a store lie, if they lie on one machine.

Any machine may have a folder of the same name: with nothing in it, or with a copy that was true some time ago.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@runtime_checkable
class SupportsHome(Protocol):
    """A store whose data lie on one machine, where other machines do not see them."""

    @property
    def home(self) -> str:
        """Names the data, all over the world: two processes read the same data exactly if this is the same."""
        ...


@runtime_checkable
class SupportsReadOnlyMedia(Protocol):
    """A store whose data may lie on media that cannot be written; look-ups work there."""

    @property
    def is_read_only(self) -> bool:
        """Whether they do."""
        ...


def machine() -> str:
    """Names this machine since its last boot; containers on it have the same name."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return platform.node()


def home_of_file(identity: tuple[int, int]) -> str:
    """The home of a store in a file of this machine, given the device and the inode of the file.

    >>> home_of_file((2049, 77)).endswith("/2049/77")
    True
    """
    device, inode = identity
    return f"{machine()}/{device}/{inode}"
