"""Checking an index by itself: do its entries make sense to its own commit log?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from rli.codec import entries as codec
from rli.index.record.entries.stored_entries import StoredEntries

_BATCH: Final = 65_536


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What a look at all entries of an index has found.

    Attributes:
        entries: record keys with a location.
        tombstones: deleted record keys whose sequence is still kept.
        unknown_file_groups: entries with a file group that the commit log does not name.
        unknown_commits: entries of commits that the commit log does not name.
        miscounted: how far the store's own count of entries is off; 0 where the store does not count, or where
            writers changed the index meanwhile.
        url: where the index is.
    """

    entries: int
    tombstones: int
    unknown_file_groups: int
    unknown_commits: int
    miscounted: int
    url: str

    @property
    def agrees(self) -> bool:
        """Whether all entries make sense."""
        return not (self.unknown_file_groups or self.unknown_commits or self.miscounted)


def check_index(index: StoredEntries) -> IndexCheck:
    """Read all entries of an index and compare them with its commit log; writers may go on.

    Raises:
        CorruptIndexError: the commit log is damaged.
        StoreUnavailableError: the store does not answer.
    """
    before = index.log.refresh().head
    counted = index.store.stats() if index.store.counts else None
    kept = live = unknown_groups = unknown_commits = 0
    for shard in range(index.settings.shard_count):
        for _, entries in index.store.scan(shard, _BATCH):
            # After the entries: the log names their commits before their writers bring them into the store.
            log = index.log.refresh()
            is_live = codec.is_live(entries)
            kept += len(entries)
            live += int(np.count_nonzero(is_live))
            unknown_groups += int(np.count_nonzero(is_live & (codec.file_groups(entries) >= log.group_count)))
            unknown_commits += int(np.count_nonzero(codec.sequences(entries) > log.head))
    is_quiet = index.log.refresh().head == before
    return IndexCheck(
        entries=live,
        tombstones=kept - live,
        unknown_file_groups=unknown_groups,
        unknown_commits=unknown_commits,
        miscounted=abs(counted.live_entries - live) if counted is not None and is_quiet else 0,
        url=index.url,
    )
