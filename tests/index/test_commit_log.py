"""The commit log follows its store, also back to an earlier state."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from rli.index.commit_log import CommitLog, record_name
from rli.model import FileGroupId
from rli.store.contract import Store
from rli.store.registry import open_store

A, B, C = (FileGroupId("p", f"{name}-0") for name in "abc")


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory:{uuid4().hex}", create=True) as store:
        yield store
        store.drop()


def append(log: CommitLog, instant: str, *groups: FileGroupId) -> None:
    log.refresh()
    assert log.append(instant, "commit", file_groups=groups, writer=instant, located_at=[instant]) is not None


def lose(store: Store, sequence: int) -> None:
    """As a server does that comes back from an old snapshot."""
    name = record_name(sequence)
    assert store.compare_and_set(name, store.read_control(name), None)


@pytest.mark.parametrize("others", [[], ["other"], ["other", "another"], ["other", "another", "third"]])
def test_a_log_forgets_what_its_store_has_lost(store: Store, others: list[str]) -> None:
    known, fresh = CommitLog(store), CommitLog(store)
    append(known, "first", A)
    append(known, "second", B)
    append(known, "third")
    known.dictionaries()
    for sequence in (2, 3):
        lose(store, sequence)
    for instant in others:
        append(fresh, instant, C)
    known.refresh()
    fresh.refresh()
    assert known.records == fresh.records
    assert known.dictionaries().instants.to_pylist() == [None, "first", *others]
    assert known.knows_group(C) == bool(others)
    assert not known.knows_group(B)
    append(known, "next", B)
    fresh.refresh()
    assert fresh.records == known.records


def test_a_log_that_lost_nothing_is_read_where_it_has_grown(store: Store) -> None:
    known, other = CommitLog(store), CommitLog(store)
    append(known, "first", A)
    before = known.records[0]
    append(other, "second", B)
    known.refresh()
    assert known.records[0] is before
    assert [record.instant for record in known.records] == ["first", "second"]
