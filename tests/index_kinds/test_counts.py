"""The counts of a write add up to the rows it was given, with every kind of index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli import CommitResult, HistoryEntry, InvalidInputError, InvalidKeyError, OnPartitionChange, Scope
from tests.support.index_kinds import Kind, every_kind
from tests.support.soak import cases
from tests.support.table_model import Version
from tests.support.tables import records

KEYS = ["a", "7", "007", "x,y:z"]
ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from([0.5, 1.5])),
    min_size=1,
    max_size=12,
)


def rows_told(told: CommitResult | HistoryEntry) -> int:
    counts = told.inserted, told.updated, told.moved, told.deleted, told.unchanged, told.duplicates
    return sum(count or 0 for count in counts)


def duplicates_in(rows: Sequence[Version], scope: Scope) -> int:
    keys = Counter(row[0] if scope is Scope.GLOBAL else row[:2] for row in rows)
    return sum(keys.values()) - len(keys)


@every_kind
@pytest.mark.parametrize("on_change", OnPartitionChange)
def test_counts_of_records_add_up(kind: Kind, on_change: OnPartitionChange) -> None:
    @settings(max_examples=cases(3), deadline=None)
    @given(batches=st.lists(st.tuples(st.booleans(), ROWS), min_size=1, max_size=3))
    def check(batches: list[tuple[bool, list[Version]]]) -> None:
        with TemporaryDirectory(prefix="rli-counts-") as folder, kind.create(Path(folder)) as table:
            for inserts, rows in batches:
                try:
                    result = (
                        table.insert(records(*rows))
                        if inserts
                        else table.upsert(records(*rows), on_partition_change=on_change)
                    )
                except InvalidInputError:
                    assert on_change is OnPartitionChange.FAIL
                    continue
                assert rows_told(result) == len(rows)
                assert result.duplicates == duplicates_in(rows, kind.scope)
                if result.instant is not None:
                    assert rows_told(table.history()[-1]) == len(rows)

    check()


@every_kind
@settings(max_examples=cases(3), deadline=None)
@given(rows=ROWS, keys=st.lists(st.sampled_from([*KEYS, "nobody"]), min_size=1, max_size=8))
def test_counts_of_deletes_add_up(kind: Kind, rows: list[Version], keys: list[str]) -> None:
    with TemporaryDirectory(prefix="rli-counts-") as folder, kind.create(Path(folder)) as table:
        table.upsert(records(*rows))
        stored = table.read(columns=["id"])["id"].to_pylist()
        result = table.delete(keys)
        gone = set(keys) & set(stored)
        assert result.deleted == sum(key in gone for key in stored)
        assert result.duplicates == len(keys) - len(set(keys))
        # With partition scope, a key may remove a record of each partition.
        assert len(gone) + result.unchanged + result.duplicates == len(keys)
        if kind.scope is Scope.GLOBAL:
            assert rows_told(result) == len(keys)


@every_kind
def test_repeated_keys_are_refused(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        again = records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("a", "x", 2, 2.0))
        for write in (table.upsert, table.insert):
            with pytest.raises(InvalidKeyError, match=r"keys=\['a'\]"):
                write(again, on_duplicates="fail")
        assert table.timeline() == ()
        elsewhere = records(("a", "x", 1, 1.0), ("a", "y", 2, 2.0))
        if kind.scope is Scope.PARTITION:
            assert table.upsert(elsewhere, on_duplicates="fail").inserted == 2
        else:
            with pytest.raises(InvalidKeyError, match=r"keys=\['a'\]"):
                table.upsert(elsewhere, on_duplicates="fail")
        assert table.upsert(records(("c", "x", 1, 1.0)), on_duplicates="fail").inserted == 1
        with pytest.raises(InvalidInputError, match="on_duplicates='never'"):
            table.upsert(elsewhere, on_duplicates="never")


@every_kind
def test_rows_of_one_key_count(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        three = records(("k", "x", 1, 1.0), ("k", "x", 3, 3.0), ("k", "x", 2, 2.0))
        first = table.upsert(three)
        assert (first.inserted, first.unchanged, first.duplicates) == (1, 0, 2)
        again = table.upsert(three)
        assert (again.inserted, again.unchanged, again.duplicates) == (0, 1, 2)
        empty = table.upsert(pa.table(three).slice(0, 0))
        assert rows_told(empty) == 0
