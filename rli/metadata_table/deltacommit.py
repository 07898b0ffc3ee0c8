"""A deltacommit of the metadata table: its log files, and its instant on the timeline of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import Action, InstantState
from rli.hudi.timeline.layouts import TimelineLayout
from rli.metadata_table.group_logs import GroupLog

_OPERATION: Final = "UPSERT_PREPPED"


@dataclass(frozen=True)
class Deltacommit:
    """A deltacommit that is not written yet.

    Attributes:
        instant: that of the commit or table service which it belongs to.
        logs: its log files.
        layout: of the table's timeline.
        completion_time: after all times of both timelines.
        schema: Avro schema of the values in its log files.
    """

    instant: str
    logs: Sequence[GroupLog]
    layout: TimelineLayout
    completion_time: str
    schema: str

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The files that come before its completion, in this order: path in the table → content."""
        layout, states = metadata_layout(self.layout), (InstantState.REQUESTED, InstantState.INFLIGHT)
        begun = layout.encode(CommitMetadata((), operation=_OPERATION))
        pending = (layout.pending_path(self.instant, Action.DELTA_COMMIT, state) for state in states)
        return {**dict(zip(pending, (b"", begun), strict=True)), **{log.path: log.content for log in self.logs}}

    @property
    def content(self) -> bytes:
        """Of its completed instant."""
        stats = tuple(log.stat for log in self.logs)
        metadata = CommitMetadata(stats, avro_schema=self.schema, operation=_OPERATION)
        return metadata_layout(self.layout).encode(metadata)
