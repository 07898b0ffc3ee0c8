"""What may be wrong with the folder of an LMDB index: its file system and the room that is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from rli.store import Finding, Verdict
from rli_lmdb.access import DATA_FILE
from rli_lmdb.errors import translated_errors

_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.s3fs", "9p", "ceph", "lustre"})
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_LEAST_FREE_BYTES: Final = 256 << 20
_MEBIBYTE: Final = 1 << 20


def folder_health(path: str) -> list[Finding]:
    """Findings about the folder of an index."""
    return [_room(path), _file_system(path)]


def _room(path: str) -> Finding:
    with translated_errors(path):
        size = os.stat(os.path.join(path, DATA_FILE)).st_size
        free = shutil.disk_usage(path).free
    detail = f"file={size / _MEBIBYTE:,.1f} MiB free={free / _MEBIBYTE:,.0f} MiB path={path}"
    # The map doubles when it is full, and pages in use by readers are not written over.
    if free < max(size, _LEAST_FREE_BYTES):
        return Finding(
            "disk space", Verdict.WARNING, f"little room for the index to grow: {detail}", "free space on this disk"
        )
    return Finding("disk space", Verdict.OK, detail)


def _file_system(path: str) -> Finding:
    kind = _file_system_kind(os.path.realpath(path))
    if kind in _NETWORK:
        return Finding(
            "file system",
            Verdict.PROBLEM,
            f"the index is on a network file system, whose locks and memory maps LMDB cannot rely on: kind={kind}",
            "move the index to a disk of this machine, or keep it in a store with a server",
        )
    if kind in _IN_MEMORY:
        return Finding(
            "file system",
            Verdict.WARNING,
            f"the index is on a file system in memory and is lost when the machine restarts: kind={kind}",
            "move the index to a disk",
        )
    return Finding("file system", Verdict.OK, f"kind={kind or 'unknown'}")


def _file_system_kind(path: str) -> str | None:
    """The kind of the file system that a path is on, as Linux names it; None where it cannot be known."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        mount, _, rest = line.partition(" - ")
        point = mount.split(" ")[4].replace("\\040", " ")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, rest.split(" ")[0]
    return kind
