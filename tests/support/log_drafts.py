"""Drafts of records for the commit log of an index."""

from __future__ import annotations

from collections.abc import Sequence

from rli.index.record.log.record import RecordDraft
from rli.model import FileGroupId


def commit_draft(instant: str, *file_groups: FileGroupId, undoes: tuple[str, ...] = ()) -> RecordDraft:
    """The record of a commit of a table."""
    return RecordDraft(
        instant=instant,
        action="commit",
        writer=instant,
        located_at=(instant,),
        file_groups=tuple(file_groups),
        undoes=undoes,
    )


def repair_draft(writer: str, located_at: Sequence[str], file_groups: Sequence[FileGroupId]) -> RecordDraft:
    """The record of a repair."""
    return RecordDraft(
        instant=None, action="repair", writer=writer, located_at=tuple(located_at), file_groups=tuple(file_groups)
    )
