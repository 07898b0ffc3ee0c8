"""A process dies at every change of a write on a table of each kind of index: the next one finds all or nothing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from rli import Table, open_table
from tests.crash.writes import BATCH, FIRST, GONE, KEYS_TO_DELETE, SECOND, do_write, pointed
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt
from tests.support.index_kinds import ALL_KINDS, KINDS, LOG_INSERTS, MERGE_ON_READ, TableModel, stored_rows
from tests.support.soak import EVERY_POINT
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

_EVERY: Final = 11

_ONES_ALONE: Final = ("delete", "merge", "delete_where")
"""Verbs that CI kills with each third kind, in turn; ``test_kill_at_every_step`` kills each of them with the record index."""

_KINDS: Final = ALL_KINDS | MERGE_ON_READ | LOG_INSERTS

FOLLOW_UP = [("a", "z", 9, 9.0), ("h", "new", 9, 9.0), ("next", "y", 9, 9.0)]


def write_and_die(folder: Path, write: str, at_point: AtPoint) -> None:
    """A child's work: a write that reports each change of a file before it makes it."""
    do_write(pointed(_open(folder), at_point), write)


def _open(folder: Path) -> Table:
    return open_table(folder / "table")


@pytest.mark.invariant("P36")
@pytest.mark.parametrize(
    ("name", "write"),
    [
        (name, write)
        for turn, (name, kind) in enumerate(KINDS.items())
        for write in ("upsert", "delete", "merge", "delete_where", "rollback", "cluster")
        if name != "record" and (write != "cluster" or kind.can_cluster)
        if EVERY_POINT or write not in _ONES_ALONE or _ONES_ALONE[turn % len(_ONES_ALONE)] == write
    ]
    + [("metadata", "upsert"), ("metadata-partition", "rollback")]
    # Tables of version 9 and of version 6 with log files.
    + [("metadata-partition-logs", "upsert"), ("simple-logs", "delete_where"), ("metadata-logs", "rollback")]
    + [("record-partition-inserts", "merge")]
    + [
        ("metadata-inserts", write)
        for write in (("upsert", "delete_where", "rollback", "cluster") if EVERY_POINT else ())
    ]
    + [(f"{name}-logs", "merge") for name in (KINDS if EVERY_POINT else ())],
)
def test_a_kill_at_every_change(tmp_path: Path, name: str, write: str) -> None:
    template = tmp_path / "template"
    template.mkdir()
    kind = _KINDS[name]
    # New records go to log files of small file groups.
    table = kind.create(template, small_file_size=1 << 20 if kind.log_inserts else 0)
    first, _ = kind.model().upserted(FIRST)
    before, _ = first.upserted(SECOND)
    table.upsert(records(*FIRST))
    table.upsert(records(*SECOND))
    after: dict[str, TableModel] = {
        "upsert": before.upserted(BATCH)[0],
        "delete": before.deleted(KEYS_TO_DELETE)[0],
        "merge": before.upserted([version for version in BATCH if version[0] not in GONE])[0].deleted(GONE)[0],
        "delete_where": replace(
            before, rows=frozenset(row for row in before.rows if row[1] != "x" and row[3] * 2 <= 3)
        ),
        "rollback": first,
        "cluster": before,
    }
    points: list[str] = []
    do_write(pointed(_open(_copy(template, tmp_path / "whole")), points.append), write)
    changes = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    # Each kind begins at another change, so together they die at most changes.
    for number in changes if EVERY_POINT else changes[[*_KINDS].index(name) % _EVERY :: _EVERY]:
        folder = _copy(template, tmp_path / str(number))
        assert was_killed(write_and_die, folder, write, KillAt(number)), points[number - 1]
        found = _open(folder)
        rows = stored_rows(found)
        assert rows in (before.rows, after[write].rows), points[number - 1]
        found.upsert(records(*FOLLOW_UP))
        # A rollback that was announced is finished by the next writer.
        expected = [TableModel(before.scope, rows).upserted(FOLLOW_UP)[0].rows]
        expected += [first.upserted(FOLLOW_UP)[0].rows] if write == "rollback" else []
        assert stored_rows(found) in expected, points[number - 1]
        check_stored(found)
        shutil.rmtree(folder)


def _copy(template: Path, target: Path) -> Path:
    return Path(shutil.copytree(template, target))
