"""Writers of Hudi that give no heartbeats: with the policy ``EAGER``, each of them rolls back the pending writes of all others.

Their options are known to their own jobs alone. But a writer with the policy ``LAZY`` makes its heartbeat before its instant, and a
failed one removes the heartbeat after its last change. So a pending instant without a heartbeat whose files were changed after
the last removal of any heartbeat is of a writer with ``EAGER``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from rli.coordination.heartbeats import FOLDER, Heartbeats
from rli.errors import UnsupportedTableError
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.layouts import marker_folder
from rli.view import paths
from rli.view.definition import TableDefinition

_WITH_HEARTBEATS: Final = (Action.COMMIT, Action.DELTA_COMMIT)


def require_no_eager(table: TableDefinition, heartbeats: Heartbeats) -> None:
    """Refuse a table on a file system that a writer of Hudi without heartbeats is changing, as far as its files tell.

    Args:
        table: the table, which names a lock of Hudi.
        heartbeats: of the table.

    Raises:
        UnsupportedTableError: there is such a writer; names its instant.
    """
    if not table.storage.is_local:
        return
    for instant in table.load_timeline().pending:
        if instant.action in _WITH_HEARTBEATS and not _is_of_rli(table, instant.time):
            changed = _changed_without_heartbeat(table, heartbeats, instant)
            if changed is not None and heartbeats.is_recent(time.time() - changed):
                raise UnsupportedTableError(
                    f"a writer of Hudi without heartbeats is at work, and such a writer rolls back the pending writes of others: "
                    f"table={table.location} instant={instant.time} action={instant.action}",
                    remedy="let its job end, and start it again with hoodie.clean.failed.writes.policy=LAZY, "
                    "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL and the lock of the table "
                    "(docs/how-to/beside-hudi-writers.md). If the job was killed, write again in some minutes",
                )


def _is_of_rli(table: TableDefinition, instant: str) -> bool:
    # The journals tell of a commit of rli that lost its completed file.
    return any(table.storage.exists(folder(instant)) for folder in (paths.work_folder, paths.journal_folder))


def _changed_without_heartbeat(table: TableDefinition, heartbeats: Heartbeats, instant: Instant) -> float | None:
    """When the writer of an instant last changed a file, if that was after the last removal of a heartbeat; in seconds since the epoch."""
    root = Path(table.storage.root)
    files = [
        *(root / table.timeline_layout.folder).glob(f"{instant.time}.*"),
        *(root / marker_folder(instant.time)).rglob("*"),
    ]
    changed = max((at for file in files if (at := _time_of(file)) is not None), default=None)
    removed = _time_of(root / FOLDER)
    # Asked last: a writer that ends removes its heartbeat after its instant has completed.
    if (
        changed is None
        or (removed is not None and changed <= removed)
        or heartbeats.seconds_since(instant.time) is not None
    ):
        return None
    is_pending = any(found.time == instant.time for found in table.load_timeline().pending)
    return changed if is_pending else None


def _time_of(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None
