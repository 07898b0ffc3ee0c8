"""The commit log follows its store, also back to an earlier state."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pytest

from rli.index.commit_log import CommitLog
from rli.index.log_record import record_name
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
    assert (
        log.append(log.refresh(), instant, "commit", file_groups=groups, writer=instant, located_at=[instant])
        is not None
    )


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
    known.last_read.instants_of(np.array([3]))
    for sequence in (2, 3):
        lose(store, sequence)
    for instant in others:
        append(fresh, instant, C)
    log = known.refresh()
    assert log == fresh.refresh()
    assert log.instants_of(np.arange(1, log.head + 1)).to_pylist() == ["first", *others]
    assert (log.number_of(C) is not None) == bool(others)
    assert log.number_of(B) is None
    append(known, "next", B)
    assert fresh.refresh() == known.last_read


def test_a_log_that_lost_nothing_is_read_where_it_has_grown(store: Store) -> None:
    known, other = CommitLog(store), CommitLog(store)
    append(known, "first", A)
    before = known.last_read
    append(other, "second", B)
    log = known.refresh()
    assert log.records[0] is before.records[0]
    assert [record.instant for record in log.records] == ["first", "second"]
    assert [record.instant for record in before.records] == ["first"]
