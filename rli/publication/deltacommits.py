"""Deltacommits on the timeline of the metadata table. Nothing else writes that timeline."""

from __future__ import annotations

import posixpath

from rli.hudi.file_names import token_begin
from rli.hudi.log_file.form import Header
from rli.hudi.log_file.reader import LogFileReader
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import load_timeline
from rli.hudi.timeline.writing import TimelineWriter
from rli.metadata_table.deltacommit import Deltacommit
from rli.storage import Draft, Storage, StoredFile


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


def drop_dead_deltacommit(storage: Storage, layout: TimelineLayout, instant: str) -> None:
    """Remove the deltacommit of a write of another engine that never completed in the table, and whose process is dead.

    Readers pass over what it wrote, now as before. But as long as it is pending, nobody compacts the metadata table; and once its instant is
    older than the timeline, its log files would count. One that is completed stays in table version 6, where names of log files do not tell
    their commit, and where a compaction has merged it.
    """
    writer = _writer(storage, layout)
    if is_deltacommit_completed(storage, layout, instant):
        if not layout.keeps_completion_times or _is_merged(storage, layout, instant):
            return
        # First: a deltacommit without its log files would be damage.
        writer.withdraw(instant, Action.DELTA_COMMIT)
    if layout.keeps_completion_times:
        timeline_folder = metadata_layout(layout).folder
        written = files_of_deltacommit(storage, instant)
        storage.delete_files(path for path in written if posixpath.dirname(path) != timeline_folder)
    writer.remove_pending(instant, Action.DELTA_COMMIT)
    writer.flush()


def _is_merged(storage: Storage, layout: TimelineLayout, instant: str) -> bool:
    """Whether a compaction may have merged a completed deltacommit; none should, as long as its instant is pending in the table."""
    completed = load_timeline(storage, metadata_layout(layout)).completed
    ends = [change.completion_time or change.time for change in completed if change.time == instant]
    return any(change.action == Action.COMMIT and change.time > end for change in completed for end in ends)


def is_deltacommit_completed(storage: Storage, layout: TimelineLayout, instant: str) -> bool:
    """Whether a deltacommit is published."""
    return _writer(storage, layout).is_completed(instant, Action.DELTA_COMMIT)


def is_deltacommit_pending(storage: Storage, layout: TimelineLayout, instant: str) -> bool:
    """Whether a deltacommit was requested, and is not published."""
    writer = _writer(storage, layout)
    is_requested = writer.requested(instant, Action.DELTA_COMMIT) is not None
    return is_requested and not writer.is_completed(instant, Action.DELTA_COMMIT)


def files_of_deltacommit(storage: Storage, instant: str) -> list[str]:
    """The files in the folder of the metadata table that name an instant, and log files that begin with its blocks."""
    files = storage.list_files(METADATA_FOLDER, recursive=True)
    token = token_begin(instant)
    return [
        file.path
        for file in files
        if instant in file.name or (token in file.name and _first_instant(storage, file) == instant)
    ]


def _first_instant(storage: Storage, file: StoredFile) -> str | None:
    """The instant of a log file's first block: Hudi gives its next log file of a file group the token of ours."""
    try:
        with storage.filesystem.open_input_file(storage.full_path(file.path)) as source:
            return next(
                (block.headers.get(Header.INSTANT) for block in LogFileReader(source, file.size).blocks()), None
            )
    except FileNotFoundError:
        # Another process clears up, too.
        return None


def _writer(storage: Storage, layout: TimelineLayout) -> TimelineWriter:
    return TimelineWriter(storage, metadata_layout(layout))
