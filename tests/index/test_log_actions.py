"""The kinds of records in the commit log of a table's index."""

from __future__ import annotations

import pytest

from rli.hudi.timeline.instant import UNDOING_ACTIONS, WRITE_ACTIONS
from rli.index.record.log import actions
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.actions import FOLLOWED, RecordActions
from rli.index.record.sync.following import Evidence, LogAction
from rli.index.record.sync.foreign_commits import ForeignCommits
from rli.index.record.sync.own_commits import OwnCommit, OwnReplacement
from rli.index.record.sync.read_from_files import Expiry, ReadFromFiles, UnknownAction
from rli.index.record.sync.undoing import Rereading, Undoing
from tests.support.log_drafts import commit_draft

KINDS = {
    "commit": OwnCommit,
    "deltacommit": OwnCommit,
    "replacecommit": OwnReplacement,
    "rollback": Undoing,
    "restore": Undoing,
    actions.FOREIGN: ForeignCommits,
    actions.REREAD: Rereading,
    actions.BOOTSTRAP: ReadFromFiles,
    actions.REPAIR: ReadFromFiles,
    actions.EXPIRE: Expiry,
    "of a newer version": UnknownAction,
}


def kind_of(action: str) -> LogAction:
    draft = commit_draft("1")
    record = LogRecord(
        instant="1",
        action=action,
        writer=draft.writer,
        located_at=draft.located_at,
        first_sequence=1,
        first_file_group=0,
    )
    return RecordActions().of(record)


@pytest.mark.parametrize("action", KINDS)
def test_each_action_has_one_class(action: str) -> None:
    assert type(kind_of(action)) is KINDS[action]


def test_the_timeline_keeps_followed_instants() -> None:
    assert {*WRITE_ACTIONS, *UNDOING_ACTIONS, actions.FOREIGN, actions.REREAD} == FOLLOWED


def test_commits_of_rli_are_evidence() -> None:
    assert {action for action in KINDS if kind_of(action).evidence is Evidence.COMMIT} == WRITE_ACTIONS
    assert {action for action in KINDS if kind_of(action).evidence is Evidence.NONE} == {
        *UNDOING_ACTIONS,
        actions.EXPIRE,
    }
