"""Merges of many writers on the same keys: in whatever order they commit, the newest change of each key counts."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rli import CommitResult, open_table
from tests.support.change_batches import Change, MergeModel, in_columns
from tests.support.index_kinds import Kind, every_kind, stored_rows
from tests.support.soak import cases
from tests.support.tables import assert_nothing_left_over, check_stored

pytestmark = pytest.mark.invariant("P46", "P42", "P36")

WRITERS = 3


@every_kind
def test_the_newest_of_all_writers_counts(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path, target_file_size=1024, small_file_size=0)
    chance, batches = random.Random(str(kind)), WRITERS * cases(4)
    times = chance.sample(range(10_000), batches * 6)
    # A record stays in its partition, so that with any scope the same changes meet.
    changes = [
        Change(f"k{key}", "xyz"[key % 3], ts, float(ts), chance.choice("cudd"))
        for ts in times
        for key in [chance.randrange(12)]
    ]
    sent = [changes[start::batches] for start in range(batches)]

    def write(number: int) -> list[CommitResult]:
        with open_table(table.location) as own:
            return [own.merge(in_columns(batch), "op", attempts=200) for batch in sent[number::WRITERS]]

    with ThreadPoolExecutor(WRITERS) as threads:
        results = [result for done in threads.map(write, range(WRITERS)) for result in done]
    model = MergeModel(kind.scope)
    model.merge(changes)
    assert stored_rows(table) == model.stored()
    assert sum(result.inserted - result.deleted for result in results) == len(model.rows)
    assert table.index.verify().agrees
    check_stored(table)
    assert_nothing_left_over(table)
    table.close()
