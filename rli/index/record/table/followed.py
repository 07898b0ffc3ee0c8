"""What a recovery learns from the commit log of a table's index."""

from __future__ import annotations

from collections.abc import Iterable

from rli.index.record.sync.actions import RecordActions
from rli.index.record.sync.following import Evidence
from rli.index.record.table_record_index import TableRecordIndex
from rli.index.roles import RemembersCommits


class FollowedCommits(TableRecordIndex, RemembersCommits):
    """The index of a table with its commit log."""

    @property
    def is_built(self) -> bool:
        return self.applied_sequence() is not None

    def standing(self, instants: Iterable[str]) -> list[str]:
        return self.log.refresh().instants.standing(instants)

    def knows(self, instant: str) -> bool:
        return instant in self.log.last_read.instants or instant in self.log.refresh().instants

    def last_followed(self) -> list[tuple[str, str]]:
        log, found = self.log.refresh(), []
        for record in reversed(log.records):
            evidence = RecordActions().of(record).evidence
            if evidence is Evidence.COMMIT and record.instant:
                found.append((record.instant, record.action))
            elif evidence is not Evidence.NONE:
                break
        standing = set(log.instants.standing(instant for instant, _ in found))
        return [(instant, action) for instant, action in found if instant in standing]
