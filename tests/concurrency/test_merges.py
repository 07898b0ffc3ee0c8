"""Merges of many writers on the same keys: in whatever order they commit, the newest change of each key counts."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rli import CommitResult, Table, open_table
from tests.support.change_batches import Change, MergeModel, in_columns
from tests.support.index_kinds import Kind, every_kind, stored_rows
from tests.support.soak import cases
from tests.support.tables import assert_nothing_left_over, check_stored

pytestmark = pytest.mark.invariant("P46", "P42", "P36")

WRITERS = 3


def merged_by_all(table: Table, sent: list[list[Change]], when: str | None = None) -> list[CommitResult]:
    """What writers are told that merge batches at the same time, each with a table of its own."""

    def write(number: int) -> list[CommitResult]:
        with open_table(table.location) as own:
            return [own.merge(in_columns(batch), "op", when, attempts=200) for batch in sent[number::WRITERS]]

    with ThreadPoolExecutor(WRITERS) as threads:
        return [result for done in threads.map(write, range(WRITERS)) for result in done]


@every_kind
def test_the_newest_of_all_writers_counts(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path, target_file_size=1024, small_file_size=0)
    chance, batches = random.Random(str(kind)), WRITERS * cases(2)
    times = chance.sample(range(10_000), batches * 6)
    # A record stays in its partition, so that with any scope the same changes meet.
    changes = [
        Change(f"k{key}", "xyz"[key % 3], ts, float(ts), chance.choice("cudd"))
        for ts in times
        for key in [chance.randrange(12)]
    ]
    sent = [changes[start::batches] for start in range(batches)]
    results = merged_by_all(table, sent)
    model = MergeModel(kind.scope)
    model.merge(changes)
    assert stored_rows(table) == model.stored()
    assert sum(result.inserted - result.deleted for result in results) == len(model.rows)
    assert table.index.verify().agrees
    check_stored(table)
    assert_nothing_left_over(table)
    table.close()


@every_kind
def test_conditions_hold_beside_writers(kind: Kind, tmp_path: Path) -> None:
    """Whichever record a writer has seen: the greatest value of each key is the one that stays."""
    table = kind.create(tmp_path, target_file_size=1024, small_file_size=0)
    chance = random.Random(str(kind))
    sent = [
        [
            Change(f"k{key}", "xyz"[key % 3], 1, float(chance.randrange(10_000)), "u")
            for key in chance.sample(range(8), 4)
        ]
        for _ in range(WRITERS * cases(2))
    ]
    results = merged_by_all(table, sent, "source.v > target.v")
    greatest: dict[str, float] = {}
    for change in (change for batch in sent for change in batch):
        greatest[change.id] = max(change.v or 0, greatest.get(change.id, 0))
    assert {row[0]: row[3] for row in stored_rows(table)} == greatest
    assert sum(result.inserted for result in results) == len(greatest)
    check_stored(table)
    table.close()
