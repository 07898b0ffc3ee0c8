"""What a look at the disk of a table finds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

from rli.findings import Finding, Verdict
from rli.sizes import human_bytes
from rli.storage.storage import Storage

_LEAST_FREE_BYTES: Final = 1 << 30


def disk_findings(storage: Storage) -> Iterator[Finding]:
    """How much room a local disk has; nothing of an object store."""
    if not storage.is_local:
        return
    free = shutil.disk_usage(storage.root).free
    if free < _LEAST_FREE_BYTES:
        yield Finding("disk", Verdict.WARNING, f"little room: free={human_bytes(free)}", "free space on this disk")
    else:
        yield Finding("disk", Verdict.OK, f"free={human_bytes(free)}")
