"""Merging work rows into several file groups at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rli import CorruptIndexError
from rli.file_group.merge import Comparison, MergePlan, merge_all, numbers_of, plan_merge
from rli.file_group.work_rows import CHANGE, RECORD_KEY, Change
from rli.model import FileGroupId, WriteCounts

_GROUPS = [FileGroupId("x", "1"), FileGroupId("y", "2"), FileGroupId("z", "3")]


def plan(stored: list[list[str]], rows: list[list[tuple[str, Change]]]) -> MergePlan:
    """Of file groups with some keys and some work rows each."""
    of_all = [row for some in rows for row in some]
    changes = pa.array([int(change) for _, change in of_all], pa.int8())
    return plan_merge(
        _GROUPS,
        pa.table({RECORD_KEY: pa.array([key for key, _ in of_all], pa.string()), CHANGE: changes}),
        numbers_of([*map(len, rows)]),
        pa.array([key for some in stored for key in some], pa.string()),
        numbers_of([*map(len, stored)]),
        comparison=Comparison(),
    )


def test_record_moves_between_file_groups() -> None:
    moves = [[("a", Change.MOVE_OUT)], [("a", Change.MOVE_IN), ("c", Change.DELETE)], []]
    planned = plan([["b", "a"], ["c", "d"], ["e"]], moves)
    assert planned.counts == [WriteCounts(), WriteCounts(moved=1, deleted=1), WriteCounts()]
    assert planned.changes_nothing.tolist() == [False, False, True]
    stored, rows = pa.table({RECORD_KEY: ["b", "a", "c", "d", "e"]}), planned.rows.select([RECORD_KEY])
    merged, counts = merge_all(stored, rows, planned)
    assert merged.column(RECORD_KEY).to_pylist() == ["b", "d", "a", "e"]
    assert counts.tolist() == [1, 2, 1]


def test_file_groups_decide_by_own_keys() -> None:
    skipped = [("a", Change.INSERT_OR_SKIP), ("b", Change.UPSERT)]
    planned = plan([["a"], ["b"], []], [skipped, skipped, skipped])
    assert planned.counts == [
        WriteCounts(inserted=1, unchanged=1),
        WriteCounts(inserted=1, updated=1),
        WriteCounts(inserted=2),
    ]
    assert planned.rows_of.tolist() == [1, 2, 2]
    assert [rows.tolist() for rows in planned.replaced_rows] == [[], [1], []]
    assert planned.added_to.tolist() == [1, 1, 2]
    np.testing.assert_array_equal(planned.may_change_nothing, [False, False, False])


def test_wrong_index_names_file_group() -> None:
    absent = [[("a", Change.UPDATE)], [("a", Change.UPDATE), ("b", Change.UPDATE)], [("q", Change.UPDATE)]]
    with pytest.raises(CorruptIndexError, match=r"does not hold keys.*partition=y file_id=2 count=1 keys=\['a'\]"):
        plan([["a"], ["b"], ["q"]], absent)
    with pytest.raises(CorruptIndexError, match=r"holds keys.*partition=z file_id=3 count=1 keys=\['q'\]"):
        plan([["a"], ["b"], ["q"]], [[], [], [("q", Change.INSERT)]])
