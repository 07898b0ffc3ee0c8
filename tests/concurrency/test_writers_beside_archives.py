"""Each write beside an engine that does not know of it, and archives commits that the write has not read yet."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from rli import CommitResult, Step, Table, open_table
from tests.support.foreign_archives import archive_before
from tests.support.index_kinds import ALL_KINDS, MERGE_ON_READ
from tests.support.interleaving import Intruder, watched_table
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import records, rows_of

FEW_POINTS: Final = 2
"""Of the requests of a write, the other engine archives before so many in CI; before each in a soak."""

KINDS: Final = ALL_KINDS | MERGE_ON_READ

WRITES: Final[dict[str, Callable[[Table], CommitResult]]] = {
    "upsert": lambda table: table.upsert(records(("a", "x", 9, 9.0), ("new", "y", 9, 1.0), ("d", "x", 9, 9.0))),
    "delete": lambda table: table.delete(["a"]),
    "overwrite": lambda table: table.overwrite_partitions(records(("o", "x", 9, 9.0))),
    "clustering": lambda table: table.cluster(),
    "condition": lambda table: table.delete_where("ts > 1"),
}


def write_all(table: Table) -> str:
    """Commits of which a write reads what they replaced; returns the instant of the last one."""
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    table.overwrite_partitions(records(("e", "y", 2, 1.0)))
    table.upsert(records(("a", "x", 3, 1.0), ("d", "x", 3, 1.0)))
    table.delete(["b"])
    last = table.upsert(records(("f", "z", 4, 1.0))).instant
    table.clean(keep_commits=1)
    assert last is not None
    return last


@pytest.mark.parametrize(
    ("kind", "write"),
    in_ci(
        [("record", "upsert"), ("global-simple", "delete"), ("metadata", "overwrite"), ("record-logs", "condition")],
        of=[*product(KINDS, WRITES)],
    ),
)
def test_write_beside_foreign_archives(kind: str, write: str, tmp_path: Path) -> None:
    table = KINDS[kind].create(tmp_path / "now", maintenance=False, durability="os")
    last, location = write_all(table), table.location
    table.close()
    shutil.copytree(tmp_path / "now", tmp_path / "kept")

    def written(intruder: Intruder) -> object:
        shutil.rmtree(tmp_path / "now")
        shutil.copytree(tmp_path / "kept", tmp_path / "now")
        # The handle remembers nothing of the commits.
        with watched_table(location, intruder) as table:
            WRITES[write](table)
        with open_table(location) as table:
            assert table.verify_index(deep=True).agrees
            return rows_of(table.read())

    undisturbed = Intruder()
    rows = written(undisturbed)
    stride = 1 if EVERY_POINT else undisturbed.requests // FEW_POINTS
    for number in range(zlib.crc32(kind.encode()) % stride, undisturbed.requests, stride):
        assert written(Intruder(number, lambda: archive_before(location, last))) == rows, number


@pytest.mark.parametrize("step", [Step.REQUESTED, Step.INFLIGHT])
def test_write_is_repeated_behind_archive(step: Step, tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path, maintenance=False)
    last = write_all(table)

    def archive(reached: Step) -> None:
        if reached is step:
            archive_before(table.location, last)

    with open_table(table.location) as other:
        assert other.upsert(records(("new", "x", 9, 1.0)), on_step=archive).attempts == 2
    assert sorted(table.read()["id"].to_pylist()) == ["a", "d", "e", "f", "new"]
