"""Which writers are alive: leases and writers' records expire, and the death of a process on this host shows at once."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    def is_known_dead(self) -> bool:
        """Whether the process ran on this host and has ended; False if it cannot be known."""
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return _started(self.pid) != self.started


@dataclass(frozen=True, slots=True)
class Holding:
    """What a process holds until it expires or dies: a lease, or an instant that it is writing.

    Attributes:
        writer: identity of the write.
        process: who writes.
        expires_at: seconds since the epoch; moved on while the process lives.
    """

    writer: str
    process: ProcessId
    expires_at: float

    def is_over(self, now: float) -> bool:
        """Whether nobody holds it any more."""
        return now >= self.expires_at or self.process.is_known_dead

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "writer": self.writer,
                "host": self.process.host,
                "pid": self.process.pid,
                "started": self.process.started,
                "expiresAt": self.expires_at,
            }
        ).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Holding:
        fields = json.loads(content)
        process = ProcessId(fields["host"], fields["pid"], fields["started"])
        return cls(fields["writer"], process, fields["expiresAt"])


def _host() -> str:
    try:
        return f"{_BOOT_ID.read_text().strip()}/{os.readlink(_PID_NAMESPACE)}"
    except OSError:
        return platform.node()


def _started(pid: int) -> str:
    try:
        # The command name, in brackets, may hold spaces; the start time is the 20th field behind it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
