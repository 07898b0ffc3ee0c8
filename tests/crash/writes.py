"""The writes that are killed, and what a table has to look like afterwards."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rli import IndexNotReadyError, Step, Table, open_table
from rli.hudi.timeline.instant import UNDOING_ACTIONS
from rli.index.record.table.index import RecordTableIndex
from rli.table.table import opened_table
from rli.tasks import Item, Result
from tests.support.change_batches import Change, in_columns
from tests.support.faults import AtPoint, PointedStorage, PointedStore
from tests.support.table_model import Rows, Version, deleted, upserted
from tests.support.tables import check_stored, records

FIRST: Final[list[Version]] = [
    ("a", "x", 1, 1.0),
    ("b", "x", 1, 1.0),
    ("c", "x", 1, 1.0),
    ("d", "y", 1, 1.0),
    ("e", "y", 1, 1.0),
]
SECOND: Final[list[Version]] = [("a", "x", 2, 2.0), ("b", "y", 2, 2.0), ("f", "z", 2, 2.0)]
BATCH: Final[list[Version]] = [
    ("a", "x", 3, 3.0),
    ("c", "y", 3, 3.0),
    ("d", "new", 3, 3.0),
    ("b", "x", 1, 3.0),
    ("e", "x", 0, 3.0),
    ("g", "y", 3, 3.0),
    ("h", "new", 3, 3.0),
]
KEYS_TO_DELETE: Final = ["a", "d", "f", "nobody"]
GONE: Final = ["a", "f"]
CHANGES: Final = [
    *(Change(*version, "u") for version in BATCH if version[0] not in GONE),
    Change("a", "x", 3, None, "d"),
    Change("f", "z", 3, None, "d"),
    Change("nobody", "x", 3, None, "d"),
    Change("e", "y", 0, None, "d"),
]
"""Writes of a merge, some of them late, and deletes: of known keys, of an unknown key, and a late one."""

GONE_WHERE: Final = "city = 'x' or v * 2 > 3"
CHANGED_WHERE: Final = ("city != 'z'", {"v": "v + 10"})

OVERWRITING: Final[list[Version]] = [("a", "x", 0, 3.0), ("d", "new", 0, 3.0), ("h", "x", 3, 3.0), ("i", "x", 3, 3.0)]
"""Replaces x, with a known key that is older than the stored record, and new, which is empty; takes a key from y."""

DROPPED: Final = ("x", "z")

BEFORE_SECOND: Final[Rows] = upserted({}, FIRST).rows
BEFORE: Final[Rows] = upserted(BEFORE_SECOND, SECOND).rows
AFTER: Final[dict[str, Rows]] = {
    "upsert": upserted(BEFORE, BATCH).rows,
    "delete": deleted(BEFORE, KEYS_TO_DELETE).rows,
    "merge": deleted(upserted(BEFORE, BATCH).rows, GONE).rows,
    "delete_where": deleted(BEFORE, [key for key, row in BEFORE.items() if row[1] == "x" or row[3] * 2 > 3]).rows,
    "update_where": {key: (*row[:3], row[3] + 10) if row[1] != "z" else row for key, row in BEFORE.items()},
    "overwrite": {
        **{key: row for key, row in BEFORE.items() if row[1] not in ("x", "new")},
        **{row[0]: row for row in OVERWRITING},
    },
    "drop": {key: row for key, row in BEFORE.items() if row[1] not in DROPPED},
    "rollback": BEFORE_SECOND,
    "restore": BEFORE_SECOND,
    "cluster": BEFORE,
    "bootstrap": BEFORE,
}
"""Rows after each write, if it takes effect."""

_PLACED: Final = "index-url"
_TABLE_PLACED: Final = "table-location"

STEPS_BEFORE_PUBLICATION: Final = tuple(Step)[: tuple(Step).index(Step.PUBLISHED)]


def index_url(folder: Path) -> str:
    """Where the index of a copy is: what ``place_index`` said, or beside the table."""
    placed = folder / _PLACED
    return placed.read_text() if placed.exists() else f"lmdb://{folder}/index"


def other_index_url(folder: Path) -> str:
    """Where a copy has a second index, if it has one."""
    return f"lmdb://{folder}/other"


def place_index(folder: Path, url: str) -> None:
    """Say where the index of a copy is, for every process that opens it."""
    (folder / _PLACED).write_text(url)


def place_table(folder: Path, location: str, options: Mapping[str, str]) -> None:
    """Say where the table of a copy is, in an object store, for every process that opens it."""
    (folder / _TABLE_PLACED).write_text(json.dumps([location, dict(options)]))


def open_copy(folder: Path) -> Table:
    placed = folder / _TABLE_PLACED
    location, options = json.loads(placed.read_text()) if placed.exists() else (folder / "table", None)
    return open_table(location, index=index_url(folder), storage_options=options)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_and_die_at_step(folder: Path, write: str, step: Step, occurrence: int) -> None:
    """A child's work: a write whose process dies when a step has been reported so many times."""
    left = occurrence

    def on_step(reported: Step) -> None:
        nonlocal left
        left -= reported is step
        if reported is step and left == 0:
            die()

    table = open_copy(folder)
    if write == "upsert":
        table.upsert(records(*BATCH), on_step=on_step)
    elif write == "merge":
        table.merge(in_columns(CHANGES), "op", on_step=on_step)
    elif write == "delete_where":
        table.delete_where(GONE_WHERE, on_step=on_step)
    elif write == "update_where":
        table.update_where(*CHANGED_WHERE, on_step=on_step)
    elif write == "overwrite":
        table.overwrite_partitions(records(*OVERWRITING), on_step=on_step)
    elif write == "cluster":
        table.cluster(on_step=on_step)
    else:
        table.delete(KEYS_TO_DELETE, on_step=on_step)


def write_and_die_at_point(folder: Path, write: str, at_point: AtPoint) -> None:
    """A child's work: a write that reports each change of a file or of the store before it makes it."""
    do_write(pointed(open_copy(folder), at_point), write)


def bootstrap_and_die(folder: Path) -> None:
    """A child's work: a bootstrap whose process dies before it reads a base file."""
    open_copy(folder).bootstrap_index(shards=3, tasks=_DyingTasks())


class _DyingTasks:
    """Dies at the first task."""

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:  # noqa: ARG002
        for _ in items:
            die()
        return []


def do_write(table: Table, write: str) -> None:
    if write == "upsert":
        table.upsert(records(*BATCH))
    elif write == "merge":
        table.merge(in_columns(CHANGES), "op")
    elif write == "delete":
        table.delete(KEYS_TO_DELETE)
    elif write == "delete_where":
        table.delete_where(GONE_WHERE)
    elif write == "update_where":
        table.update_where(*CHANGED_WHERE)
    elif write == "overwrite":
        table.overwrite_partitions(records(*OVERWRITING))
    elif write == "drop":
        table.drop_partitions(DROPPED)
    elif write == "restore":
        table.restore(opened_table(table).snapshot().timeline.completed_writes[0].time)
    elif write == "cluster":
        table.cluster()
    else:
        latest = opened_table(table).snapshot().timeline.latest_write
        assert latest is not None
        table.rollback(latest.time)


def pointed(table: Table, at_point: AtPoint) -> Table:
    """The same table over a storage and a store that report their changes."""
    options = opened_table(table).definition.storage.options
    definition = replace(
        opened_table(table).definition, storage=PointedStorage(table.location, options, at_point=at_point)
    )
    index, reporting = opened_table(table).index, Table(definition)
    if isinstance(index, RecordTableIndex):
        reporting._opened._index = RecordTableIndex(PointedStore(index.store, at_point), index.settings)  # noqa: SLF001
    return reporting


def read_rows(table: Table) -> Rows:
    found = [tuple(row.values()) for row in table.read().to_pylist()]
    assert len({row[0] for row in found}) == len(found), "a record key occurs twice"
    return {row[0]: row for row in found}


def require_honest_lookups(table: Table, rows: Rows) -> None:
    """The index answers what the table holds, or says that it is not ready.

    A look-up may finish a rollback or restore that its process did not; then the table holds what it held after that.
    """
    keys = sorted({key for key, *_ in (*FIRST, *SECOND, *BATCH)})
    try:
        found = table.lookup(keys).column("partition_path").to_pylist()
    except IndexNotReadyError:
        return
    assert found in [[held[key][1] if key in held else None for key in keys] for held in (rows, read_rows(table))]


def require_recovery(folder: Path, write: str, follow_up: str, *, drop: bool = True) -> bool:
    """Check a table whose writer was killed, before and after the next write; whether the killed write took effect.

    Args:
        folder: of the copy.
        write: what was interrupted.
        follow_up: the next write.
        drop: whether to drop the index in the end.
    """
    table = open_copy(folder)
    rows = read_rows(table)
    assert rows in (BEFORE, AFTER[write])
    require_honest_lookups(table, rows)
    # A rollback or restore that was announced is finished by the next writer, whatever that came for.
    announced = any(instant.action in UNDOING_ACTIONS for instant in opened_table(table).snapshot().timeline.pending)
    settled = AFTER[write] if announced else rows
    if follow_up == "upsert":
        batch = [("a", "z", 9, 9.0), ("e", "y", 9, 9.0), ("g", "x", 9, 9.0), ("next", "y", 9, 9.0)]
        table.upsert(records(*batch))
        expected = upserted(settled, batch).rows
    elif follow_up == "delete":
        table.delete(["a", "e", "g"])
        expected = deleted(settled, ["a", "e", "g"]).rows
    elif follow_up == "rollback":
        do_write(table, "rollback")
        states = [{}, BEFORE_SECOND, BEFORE, AFTER[write]]
        expected = states[states.index(rows) - 1]
    else:
        table.sync_index()
        expected = settled
    assert read_rows(table) == expected
    check_stored(table)
    if drop:
        table.drop_index()
    table.close()
    return rows == AFTER[write]
