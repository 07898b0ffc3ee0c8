"""The changes of a range of commits as a stream, and the commits that follow, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Final

import pyarrow as pa

from rli.errors import InvalidInputError
from rli.model import ChangeImages, Scope
from rli.reads.changes.completions import CompletedWrite
from rli.reads.changes.images import ChangeRequest
from rli.reads.changes.moves import with_moves
from rli.reads.changes.planning import CommitDelta, GroupDelta, RangePlan, plan_range
from rli.view.definition import TableDefinition

POSITION: Final = b"rli.position"
"""Entry of the metadata of a schema of changes: the instant from which a reader goes on, as ``since``. Absent if the range
holds no commit."""


@dataclass(frozen=True, slots=True)
class ChangeChoices:
    """What a caller wants of changes; see ``Table.changes``.

    Attributes:
        scope: where a record key of the table is unique.
        images: "after" or "both".
        columns: names; None for all but the meta columns.
        filters: which images; None for all.
    """

    scope: Scope
    images: ChangeImages | str = ChangeImages.AFTER
    columns: Sequence[str] | None = None
    filters: object = None

    def request(self, plan: RangePlan) -> ChangeRequest:
        """The same for a planned range; raises as ``ChangeRequest.of``."""
        return ChangeRequest.of(plan.snapshot, self.images, self.columns, self.filters)


@dataclass(frozen=True)
class CommitChanges:
    """The changes of one commit: what ``Table.follow_changes`` gives.

    Nothing is read before it is asked for. DuckDB, Polars and others read it itself, as a stream of Arrow batches.

    Attributes:
        instant: of the commit. When all its changes are handled, this is the position to go on from: ``since=instant``.
        completion_time: when the commit completed, 17 digits.
    """

    instant: str
    completion_time: str
    _commit: CommitDelta
    _request: ChangeRequest
    _scope: Scope

    @property
    def schema(self) -> pa.Schema:
        """Of the changes."""
        return self._request.result_schema

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes batch by batch.

        Raises:
            InstantNotFoundError: others have removed a file of them: read from the last position again.
            CorruptTableError: a file is lost or damaged. The reader raises both, too.
        """
        return pa.RecordBatchReader.from_batches(self.schema, commit_rows(self._request, self._commit, self._scope))

    def to_table(self) -> pa.Table:
        """All changes of the commit; raises as ``to_batches``."""
        return self.to_batches().read_all()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The changes for other libraries; each call gives a new stream."""
        return self.to_batches().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class PlannedChanges:
    """The changes of a range of commits, of which no record has been read.

    Attributes:
        plan: the commits.
        request: which of their changes are given.
        scope: where a record key of the table is unique.
    """

    plan: RangePlan
    request: ChangeRequest
    scope: Scope

    @classmethod
    def of(cls, table: TableDefinition, since: object, until: object, choices: ChangeChoices) -> PlannedChanges:
        """Plan a range; see ``Table.changes``."""
        plan = plan_range(table, since, until)
        return cls(plan, choices.request(plan), choices.scope)

    @property
    def schema(self) -> pa.Schema:
        """Of the changes, with the position of their reader."""
        schema, position = self.request.result_schema, self.plan.position
        return schema if position is None else schema.with_metadata({POSITION: position.encode()})

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes, batch by batch."""
        schema = self.schema
        batches = (batch for commit in self.plan.commits for batch in commit_rows(self.request, commit, self.scope))
        return pa.RecordBatchReader.from_batches(
            schema, (batch.replace_schema_metadata(schema.metadata) for batch in batches)
        )

    def pieces(self) -> list[ChangePiece]:
        """The changes in pieces that may be read side by side, in any order."""
        snapshot = self.request.snapshot
        return [
            ChangePiece(commit.write, group)
            for commit in self.plan.commits
            for group in with_moves(snapshot, commit, self.scope)
        ]


@dataclass(frozen=True, slots=True)
class ChangePiece:
    """What one commit did to one file group. Picklable.

    Attributes:
        write: the commit.
        group: the file group.
    """

    write: CompletedWrite
    group: GroupDelta

    @property
    def size(self) -> int:
        """Bytes of the slices that are compared, or of the log files that name the keys."""
        if self.group.appended:
            return sum(log.size for log in self.group.appended)
        return sum(one.size for one in (self.group.before, self.group.after) if one is not None)

    def rows(self, request: ChangeRequest) -> Iterator[pa.RecordBatch]:
        """The changes; raises as ``ChangeRequest.rows``."""
        for group in request.wanted([self.group]):
            yield from request.rows(self.write, group)


def follow_changes(
    table: Callable[[], TableDefinition],
    since: object,
    choices: ChangeChoices,
    *,
    poll_seconds: float,
    stop: Event,
) -> Iterator[CommitChanges]:
    """The commits behind a position, as they complete; see ``Table.follow_changes``."""
    if not poll_seconds > 0:
        raise InvalidInputError(
            f"the pause between two looks is not positive: poll_seconds={poll_seconds}", remedy="give seconds"
        )
    while not stop.is_set():
        plan = plan_range(table(), since, None)
        request = choices.request(plan)
        for commit in plan.commits:
            if stop.is_set():
                return
            write = commit.write
            yield CommitChanges(write.time, write.completed, commit, request, choices.scope)
        since = plan.position or since
        if plan.position is None:
            stop.wait(poll_seconds)


def commit_rows(request: ChangeRequest, commit: CommitDelta, scope: Scope) -> Iterator[pa.RecordBatch]:
    """The changes of one commit, file group by file group; raises as ``ChangeRequest.rows``.

    The former values of a record come before its new ones, also if it moves.
    """
    groups = request.wanted(with_moves(request.snapshot, commit, scope))
    moving = [group for group in groups if len(group.moved)] if request.images is ChangeImages.BOTH else []
    for group in moving:
        yield from request.rows(commit.write, group, new=False)
    for group in groups:
        yield from request.rows(commit.write, group, former=not (moving and len(group.moved)))
