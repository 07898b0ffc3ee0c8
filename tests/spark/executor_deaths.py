"""Tables on which an executor dies in the middle of its work, once."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pyspark import TaskContext

from rli import Table
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.index.record.table.index import RecordTableIndex
from rli.table.table import opened_table
from tests.support.faults import PointedStorage, PointedStore
from tests.support.indexes import record_index


class Death(StrEnum):
    """What the executor was doing, by the change of the store or the storage that it made last or was about to make."""

    IN_APPLY = "after put"
    IN_TAG = "before get"
    IN_WRITE = "before folder"

    def mark(self, folder: Path) -> Path:
        """The file that is there once the death took place."""
        return folder / f"died {self.value}"


@dataclass(frozen=True)
class KillExecutor:
    """Kills the executor, and all that it has computed, when its task is at a point; only the first that comes there."""

    death: Death
    folder: Path

    def __call__(self, point: str) -> None:
        if not point.startswith(self.death) or TaskContext.get() is None:
            return
        try:
            self.death.mark(self.folder).touch(exist_ok=False)
        except FileExistsError:
            return
        # A task's Python worker is a child of a daemon, which is one of the executor.
        os.kill(_parent(os.getppid()), signal.SIGKILL)
        signal.pause()


class _Store(PointedStore):
    """Reports also what is looked up."""

    def get(self, keys: EncodedKeys) -> Entries:
        self._at_point("before get")
        return super().get(keys)


def under(death: Death, table: Table, folder: Path) -> Table:
    """The same table, on which an executor dies."""
    kill = KillExecutor(death, folder)
    dangerous = Table(replace(opened_table(table).definition, storage=PointedStorage(table.location, at_point=kill)))
    index = record_index(table)
    dangerous._opened._index = RecordTableIndex(_Store(index.store, kill), index.settings, index.limits)  # noqa: SLF001
    return dangerous


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
