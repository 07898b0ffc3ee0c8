"""Deltacommits on the timeline of the metadata table. Nothing else writes that timeline."""

from __future__ import annotations

from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.metadata.reader import metadata_layout
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.writing import TimelineWriter
from rli.metadata_table.deltacommit import Deltacommit
from rli.metadata_table.group_logs import token_begin
from rli.storage import Draft, Storage


def publish_deltacommit(storage: Storage, deltacommit: Deltacommit, content: Draft) -> None:
    """Complete a deltacommit, unless it is completed; that survives a power cut when this returns.

    Args:
        storage: of the table.
        deltacommit: its files are in the table.
        content: draft of its content.

    Raises:
        FileNotFoundError: a successor in the lease has retracted the draft.
    """
    # Durable before the commit of the table has its name: without it, the commit's files are missing in the lists.
    writer = _writer(storage.flushed(), deltacommit.layout)
    writer.publish(content, deltacommit.instant, Action.DELTA_COMMIT, deltacommit.completion_time)
    writer.flush()


def withdraw_deltacommit(storage: Storage, layout: TimelineLayout, instant: str) -> None:
    """Take the completion of a deltacommit back, if it completed: readers no longer use its log files."""
    _writer(storage, layout).withdraw(instant, Action.DELTA_COMMIT)


def is_deltacommit_completed(storage: Storage, layout: TimelineLayout, instant: str) -> bool:
    """Whether a deltacommit is published."""
    return _writer(storage, layout).is_completed(instant, Action.DELTA_COMMIT)


def files_of_deltacommit(storage: Storage, instant: str) -> list[str]:
    """The files in the folder of the metadata table that name an instant, its own or as the writer of a log file."""
    names = (instant, token_begin(instant))
    files = storage.list_files(METADATA_FOLDER, recursive=True)
    return [file.path for file in files if any(name in file.name for name in names)]


def _writer(storage: Storage, layout: TimelineLayout) -> TimelineWriter:
    return TimelineWriter(storage, metadata_layout(layout))
