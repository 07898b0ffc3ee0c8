"""What a process of Hudi leaves on the table if it dies between the deltacommit of the metadata table and the commit."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa

from rli import create_table, open_table
from rli.view.paths import JOURNAL
from tests.support.tables import turn_into_version_9


def table_with_dead_deltacommit(folder: Path) -> tuple[Path, str]:
    """A table of version 9 with the record index of Hudi, keys a and b, and a dead write of a and c; with its instant."""
    made = create_table(folder / "t", record_key="id", partition_by="city", ordering="ts", lock="filesystem")
    turn_into_version_9(made)
    with open_table(made.location) as table:
        table.index.migrate("record-index:")
        table.upsert(pa.table({"id": ["a", "b"], "city": ["Rome", "Oslo"], "ts": [1, 1]}))
        table.upsert(pa.table({"id": ["a", "c"], "city": ["Rome", "Rome"], "ts": [2, 2]}))
        dead = table.timeline()[-1].time
    # A process of Hudi leaves no journals.
    shutil.rmtree(Path(made.location, JOURNAL, dead))
    hoodie = Path(made.location, ".hoodie")
    for file in (hoodie / "timeline").glob(f"{dead}_*.commit"):
        file.unlink()
    Path(hoodie, ".temp", dead).mkdir(parents=True, exist_ok=True)
    heartbeat = hoodie / ".heartbeat" / dead
    heartbeat.touch()
    os.utime(heartbeat, (time.time() - 130,) * 2)
    return Path(made.location), dead
