"""Names of processes, across hosts, containers and restarts; and whether such a process has ended."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

_UNKNOWN: Final = ""

_PROCESS: Final = uuid4().hex
"""This process and those that it forks."""

_PROC: Final = Path("/proc")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Names a process across hosts and restarts.

    Attributes:
        host: this boot of this host, and the name space of its process numbers.
        pid: process number.
        started: when the process started, in the host's own measure, so that a reused number is told apart.
    """

    host: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> ProcessId:
        return cls(_host(), os.getpid(), _started(os.getpid()))

    @property
    def is_on_this_host(self) -> bool:
        """Whether the process runs, or ran, on this host since its last boot."""
        return self.host == _host()

    @property
    def is_known_dead(self) -> bool:
        """Whether the process ran on this host and has ended; False if it cannot be known."""
        if not self.is_on_this_host:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        # The kernel may hide other users' processes (hidepid): then only their signs of life tell.
        return _UNKNOWN not in (times := {self.started, _started(self.pid)}) and len(times) > 1


def _host() -> str:
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.readlink(_PID_NAMESPACE)}"
    except OSError:
        # Without /proc nobody can tell whether two containers of one host share the numbers of their processes.
        return f"{platform.node()}/{_PROCESS}" if sys.platform == "linux" else platform.node()


def _started(pid: int) -> str:
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):
            # The folder is that of another name space: there the number is another process's.
            return _UNKNOWN
        # The command name, in brackets, may hold spaces; the start time is the 20th field behind it.
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return _UNKNOWN
