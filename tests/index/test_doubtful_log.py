"""A server went back and gave numbers out again: no thread names entries by the log that was read before."""

from __future__ import annotations

from threading import Thread
from uuid import uuid4

import numpy as np
import pytest

from rli.codec import entries as codec
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.record import RecordDraft
from rli.model import FileGroupId
from tests.support.stored_indexes import create_index

pytestmark = pytest.mark.invariant("P25")


def _draft(instant: str, file_id: str) -> RecordDraft:
    groups = (FileGroupId("p", file_id),)
    return RecordDraft(instant=instant, action="commit", writer=instant, located_at=(instant,), file_groups=groups)


def test_refresh_between_looks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with create_index(f"memory:{uuid4().hex}") as index:
        first = index.log.append(index.log.refresh(), _draft("20260101000000000", "old"))
        assert first is not None
        name = next(name for name, _ in index.store.scan_control("commit/"))
        index.store.compare_and_set(name, index.store.read_control(name), None)
        others = CommitLog(index.store)
        others.append(others.refresh(), _draft("20260102000000000", "new"))
        monkeypatch.setattr(type(index.store), "setbacks", 1, raising=False)
        doubt = CommitLog.is_doubtful

        def refreshed_by_another_thread(log: CommitLog) -> bool:
            monkeypatch.setattr(CommitLog, "is_doubtful", doubt)
            thread = Thread(target=log.refresh)
            thread.start()
            thread.join()
            return log.is_doubtful

        monkeypatch.setattr(CommitLog, "is_doubtful", property(refreshed_by_another_thread))
        entries = codec.pack(first.head, np.array([0], np.uint64))
        named = index.log_of(entries).dictionary.groups_of(codec.file_groups(entries))
        assert [column.to_pylist() for column in named][-1] == ["new"]
