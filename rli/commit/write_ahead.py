"""Files of a write that are on the disk before its commit refers to them (docs/protocol.md, P17).

The commit's own content is not among them: ``rli.publication.fence`` writes it, under the lease.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from rli.commit.begun_write import BegunWrite
from rli.commit.manifest import manifest_of
from rli.file_group.journal import Journal
from rli.file_group.journal_list import save_journals
from rli.storage import Storage
from rli.view import paths


def write_ahead(
    begun: BegunWrite, storage: Storage, files: Sequence[str], journals: Sequence[Journal], *, is_flushed: bool
) -> None:
    """Bring to the disk what the commit will refer to: manifest, journals, and the files that are promoted.

    Args:
        begun: the write, as it began.
        storage: of the table; whether it waits for the disk decides what survives a power cut.
        files: unpublished files that are to be promoted, by their paths in the table.
        journals: of the write.
        is_flushed: whether the tasks have brought files and journals to the disk.
    """
    instant, unflushed = begun.instant, storage.unflushed()
    manifest = paths.manifest(instant)
    unflushed.write_bytes(manifest, manifest_of(instant, files))
    listed = save_journals(unflushed, instant, journals, tell_updates=begun.expired_before is not None)
    by_tasks = [
        *(paths.unpublished_file(instant, path) for path in files),
        *(journal.path for journal in journals),
    ]
    storage.flush(
        # The requested and inflight files are flushed with the rest: after a power cut, promoted files of an instant
        # that the timeline does not name could pass for archived data (P13).
        files=[manifest, listed, *([] if is_flushed else by_tasks), *begun.announced.on_timeline.pending_paths],
        folders=[posixpath.dirname(manifest), posixpath.dirname(listed)],
    )
