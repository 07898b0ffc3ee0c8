"""A real process dies while it rolls back a dead write of Hudi, whose deltacommit is in the metadata table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from rli import open_table
from tests.crash.writes import pointed
from tests.support.children import was_killed
from tests.support.dead_writers import table_with_dead_deltacommit
from tests.support.faults import AtPoint, KillAt
from tests.support.soak import EVERY_POINT

pytestmark = pytest.mark.crash


def _clean(table: Path, at_point: AtPoint) -> None:
    pointed(open_table(table), at_point).clean()


@pytest.mark.invariant("P52")
def test_kill_in_rollback_of_dead_deltacommit(tmp_path: Path) -> None:
    template, dead = table_with_dead_deltacommit(tmp_path)
    points: list[str] = []
    _clean(Path(shutil.copytree(template, tmp_path / "whole")), points.append)
    announced = next(n for n, point in enumerate(points, 1) if point.startswith("after publish"))
    numbers = [n for n, point in enumerate(points, 1) if n >= announced and point.startswith("before")]
    decisive = (dead, ".rollback")
    some = [n for n in numbers if EVERY_POINT or any(part in points[n - 1] for part in decisive)]
    for number in (announced, *some):
        table = Path(shutil.copytree(template, tmp_path / str(number)))
        assert was_killed(_clean, table, KillAt(number)), points[number - 1]
        with open_table(table) as later:
            rows = pa.table({"id": ["a", "b", "c"], "city": ["Rome", "Oslo", "Rome"], "ts": [3, 3, 3]})
            result = later.upsert(rows)
            assert (result.updated, result.inserted) == (2, 1), points[number - 1]
            assert later.metadata.verify() == (), points[number - 1]
            assert later.verify_index().agrees
            assert all(instant.is_completed for instant in later.timeline())
        for folder in ("metadata", ".temp"):
            assert list((table / ".hoodie" / folder).rglob(f"*{dead}*")) == [], points[number - 1]
        shutil.rmtree(table)
