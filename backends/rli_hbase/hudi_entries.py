"""Entries as rows of Apache Hudi's own HBase index.

What decides between two versions of a row is their timestamp, as in every table of HBase (see ``rli_hbase.hudi_log``).
A record that went is a delete with the timestamp of its commit: no row, but older writes that come late stay hidden
until HBase's next major compaction removes the delete.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from rli.store import TOMBSTONE, EncodedKeys, Entries
from rli_hbase.hudi_log import HudiLog
from rli_hbase.hudi_rows import COLUMNS, Version, keys_of, removing, rows_of, versions, writing
from rli_hbase.rows import Rows
from rli_hbase.thrift import BatchMutation

_ABSENT = (0, 0)


class HudiEntries:
    """The entries of one index.

    Args:
        rows: of the table that Hudi's writers share.
        log: what the rows mean.
        batch: rows that a request reads or writes at most.
    """

    def __init__(self, rows: Rows, log: HudiLog, batch: int) -> None:
        self._rows = rows
        self._log = log
        self._batch = batch

    def get(self, keys: EncodedKeys) -> Entries:
        """The entry of each key, in order, 0 where absent or deleted; keys may repeat."""
        rows = rows_of(keys)
        found = self._stored(rows)
        return np.fromiter((found.get(row, _ABSENT)[0] for row in rows), dtype=np.uint64, count=len(rows))

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """Write the entries (shape (n,)) that supersede the stored ones; ``keys`` are distinct.

        Raises:
            CorruptIndexError: the commit log has not given out their numbers.
        """
        rows = rows_of(keys)
        self._log.require_known(entries)
        # Unlike entries in our own schema, these are compared first: Hudi's writers take timestamps from a clock that
        # may be ahead of the commit log's, and the new version must have the greater one.
        stored = self._stored(rows)
        by_time: defaultdict[int, list[BatchMutation]] = defaultdict(list)
        for row, entry in zip(rows, entries.tolist(), strict=True):
            before, time = stored.get(row, _ABSENT)
            newer_by = (entry >> 32) - (before >> 32)
            if newer_by > 0:
                # Region servers' clocks may differ: the stored version is passed by as much in every process.
                at = max(self._log.time_of(entry >> 32), time + newer_by if before else 0)
                by_time[at].append(self._mutation(row, entry))
        for time, mutations in by_time.items():
            self._rows.write(mutations, time, self._batch)

    def scan(self, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        """All entries, in batches of one width."""
        for page in self._rows.pages(COLUMNS, b"", None, min(batch_size, self._batch)):
            found = self._counting(versions(iter(page)))
            entries = np.array([entry for entry, _ in found.values()], dtype=np.uint64)
            for positions, keys in keys_of(list(found)):
                yield keys, entries[positions]

    def _mutation(self, row: bytes, entry: int) -> BatchMutation:
        return removing(row) if entry & TOMBSTONE == TOMBSTONE else writing(row, *self._log.row_of(entry))

    def _stored(self, rows: list[bytes]) -> dict[bytes, tuple[int, int]]:
        return self._counting(versions(self._rows.read(list(dict.fromkeys(rows)), COLUMNS, self._batch)))

    def _counting(self, newest: Mapping[bytes, Version]) -> dict[bytes, tuple[int, int]]:
        """Entry and timestamp of rows, given their newest versions; of the newest one whose commit the index knows."""
        found: dict[bytes, tuple[int, int]] = {}
        # A version of an unknown commit hides the one before it from us, and that one counts until the log takes the
        # commit up. So older versions are asked for, further and further back.
        unknown = self._sort_out(newest, found)
        if unknown:
            # Their commits may have been added to the log since it was read.
            self._log.refresh()
            unknown = self._sort_out(unknown, found)
        while unknown:
            unknown = self._sort_out(self._versions_before(unknown), found)
        # In the order of the rows, which a scan keeps.
        return {row: found[row] for row in newest if row in found}

    def _sort_out(
        self, candidates: Mapping[bytes, Version], found: dict[bytes, tuple[int, int]]
    ) -> dict[bytes, Version]:
        """Add to ``found`` what counts; returns what does not, as far as an older version may be one of the index."""
        unknown: dict[bytes, Version] = {}
        for row, version in candidates.items():
            entry = self._log.entry_of(version)
            if entry:
                found[row] = entry, version.time
            elif not self._log.is_older(version):
                unknown[row] = version
        return unknown

    def _versions_before(self, passed_over: Mapping[bytes, Version]) -> dict[bytes, Version]:
        # A batch of Hudi's has one timestamp, so there are few of them.
        by_time: defaultdict[int, list[bytes]] = defaultdict(list)
        for row, version in passed_over.items():
            by_time[version.time].append(row)
        before: dict[bytes, Version] = {}
        for time, rows in by_time.items():
            before |= versions(self._rows.read_before(rows, COLUMNS, time, self._batch))
        return before
